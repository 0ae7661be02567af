package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaPointwise is cuda/pointwise.cu: the operators of the host's pointwise and element families.
type cudaPointwise struct{}

func (cudaPointwise) Name() string { return "pointwise" }

func (cudaPointwise) Applies(c *card.Card) bool {
	first, ok := formulaOf(c, c.Variants[0].Call)
	return ok && everyVariant(c, func(call card.Call) bool {
		f, ok := formulaOf(c, call)
		return ok && f.text == first.text && slices.Equal(f.types, first.types) // one text serves all variants
	})
}

// walkOfOutput visits an output and tensors that are broadcast to it.
func walkOfOutput(c *card.Card, tensors []card.Arg) walk {
	dims := len(c.Variants[0].Call.Outputs[0].Sizes)
	operands := []operand{{exprs: texts(stridesOf("out0", dims)), strides: func(call card.Call) []int64 { return call.Outputs[0].Strides }}}
	for _, t := range tensors {
		operands = append(operands, operand{
			exprs:   texts(broadcast(t.Name, len(t.Sizes), dims)),
			strides: func(call card.Call) []int64 { return broadcastStrides(argument(call, t.Name), dims) },
		})
	}
	return walkOf(c, texts(sizesOf("out0", dims)), func(call card.Call) []int64 { return call.Outputs[0].Sizes }, operands)
}

func texts(args []card.SpecArg) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = arg.Int
	}
	return list
}

// broadcastStrides are the numbers of `broadcast`.
func broadcastStrides(t card.Arg, dims int) []int64 {
	strides := make([]int64, dims)
	for i := range strides {
		if j := i - (dims - len(t.Sizes)); j >= 0 && t.Sizes[j] != 1 {
			strides[i] = t.Strides[j]
		}
	}
	return strides
}

// sizeOf are the bytes of a C++ element type.
var sizeOf = map[string]int{
	"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8,
	"kf_f16": 2, "kf_bf16": 2, "float": 4, "double": 8,
}

func (cudaPointwise) Params(c *card.Card, f propose.Facts) []Param {
	form, _ := formulaOf(c, c.Variants[0].Call)
	w := walkOfOutput(c, form.tensors)
	widest := sizeOf[form.out]
	for _, t := range form.types {
		widest = max(widest, sizeOf[t])
	}
	params := append([]Param{vectors(&w, widest)}, tiles(c, f)...)
	if form.heavy && sizeOf[form.out] == 2 {
		params = append(params, Param{"FAST", []int{0, 1}, 1})
	}
	return params
}

// vectors offers vectors of 16 bytes of the widest type, and half and twice as many elements, where rows allow it.
func vectors(w *walk, widest int) Param {
	most := w.vector(32 / widest)
	best := min(most, 16/widest)
	var values []int
	for v := max(1, best/4); v <= most; v *= 2 {
		values = append(values, v)
	}
	return Param{"VEC", values, best}
}

// tiles offers blocks and what a thread does at a time. Few bytes want many blocks, many bytes want loads in flight.
func tiles(c *card.Card, f propose.Facts) []Param {
	unroll := 4
	switch most := largestBytes(c); {
	case most < 4<<20:
		unroll = 1
	case most < 32<<20:
		unroll = 2
	}
	return []Param{{"THREADS", []int{128, 256, 512}, 256}, {"UNROLL", []int{1, 2, 4, 8}, unroll}, {"WAVES", []int{0, 1, 4}, 0}, {"ONCE", []int{0, 1}, 0}}
}

func (cudaPointwise) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	form, ok := formulaOf(c, c.Variants[0].Call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its operands are not the family's", c.Overload)
	}
	w := walkOfOutput(c, form.tensors)
	s := signatureOf(c)
	s.out("OUT", "out", "out0")
	fill := "  on.out = out;\n"
	constants := map[string]string{
		"C": form.via, "OUT": form.out, "RESULT": form.result, "DIMS": strconv.Itoa(len(w.sizes)), "ARITY": strconv.Itoa(len(form.tensors)),
		"UNIT": strconv.Itoa(w.units()), "INDEX": s.index(),
	}
	for i, t := range form.tensors {
		name := letterOf(i)
		constants["IN"+strconv.Itoa(i)] = form.types[i]
		s.in("IN"+strconv.Itoa(i), name, t.Name)
		fill += fmt.Sprintf("  on.%s = %s;\n", name, name)
	}
	if _, ok := p["FAST"]; !ok {
		constants["FAST"] = "0"
	}
	s.size("count", "out0_numel")
	walks := w.declare(&s, "", p["VEC"])
	tile := p["VEC"] * p["THREADS"] * p["UNROLL"]
	constants["WHOLE"] = boolean(everyVariant(c, func(call card.Call) bool { return numelOf(call.Outputs[0].Sizes)%int64(tile) == 0 }))
	work := fmt.Sprintf("ceildiv(out0_numel, %d)", tile)
	return card.Candidate{
		Source: cudaPage("pointwise", map[string]string{"operation": form.text, "parameters": s.parameters(), "walks": fill + walks}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", waves(work, p), p["THREADS"], s)}),
	}, nil
}
