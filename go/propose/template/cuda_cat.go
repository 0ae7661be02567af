package template

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaCat is cuda/cat.cu: tensors of one type.
type cudaCat struct{}

func (cudaCat) Name() string { return "cat" }

func (cudaCat) Applies(c *card.Card) bool {
	if !(cat{}).Applies(c) {
		return false
	}
	s, _, _ := catSignature(c, 2)
	return len(s.args) <= maxArgs
}

// joined is how a card's inputs meet the output: a walk that holds for all of them, in which `@` stands for an input's number.
func joined(c *card.Card) (w walk, dim, inputs int) {
	call := c.Variants[0].Call
	dims := len(call.Outputs[0].Sizes)
	dim, _ = dimOf(call, "dim", dims)
	var all []numbers
	for _, variant := range c.Variants {
		items := argument(variant.Call, "tensors").Items
		inputs = len(items)
		for _, item := range items {
			all = append(all, numbers{sizes: item.Sizes, strides: [][]int64{variant.Call.Outputs[0].Strides, item.Strides}})
		}
	}
	return join(all, texts(sizesOf("tensors_@", dims)), [][]string{texts(stridesOf("out0", dims)), texts(stridesOf("tensors_@", dims))}), dim, inputs
}

func (cudaCat) Params(c *card.Card, f propose.Facts) []Param {
	size := itemSizes[c.Variants[0].Call.Outputs[0].DType]
	w, dim, _ := joined(c)
	vector := vectors(&w, size)
	most := vector.Values[len(vector.Values)-1]
	for _, variant := range c.Variants { // slices must begin at whole vectors
		at := int64(0)
		for _, item := range argument(variant.Call, "tensors").Items {
			for at%int64(most) != 0 {
				most /= 2
			}
			at += item.Sizes[dim] * variant.Call.Outputs[0].Strides[dim]
		}
	}
	vector = Param{"VEC", nil, min(most, 16/size)}
	for v := max(1, vector.Default/4); v <= most; v *= 2 {
		vector.Values = append(vector.Values, v)
	}
	return append([]Param{vector}, tiles(c, f)...)
}

// catSignature has an input's slot, its slice's beginning, its count and its walk, one input after the other. lines is the text that picks the walk
// of a block's input, largest the elements of the largest one.
func catSignature(c *card.Card, vector int) (s signature, lines, largest string) {
	w, dim, inputs := joined(c)
	s = signatureOf(c)
	s.out("OUT", "out", "out0")
	before, counts := "0", []string{}
	for k := range inputs {
		name := fmt.Sprintf("tensors_%d", k)
		mine := w.named(strconv.Itoa(k))
		s.in("IN0", fmt.Sprintf("in%d", k), name)
		s.size(fmt.Sprintf("start%d", k), fmt.Sprintf("(%s) * out0_stride%d", before, dim))
		s.size(fmt.Sprintf("count%d", k), name+"_numel")
		lines += fmt.Sprintf("  case %d: {\n%s    on.out = out + start%d;\n    on.a = in%d;\n    vectors = i%d_vectors;\n    elements = i%d_elements;\n    count = count%d;\n    break;\n  }\n",
			k, mine.declare(&s, fmt.Sprintf("i%d_", k), vector), k, k, k, k, k)
		before += fmt.Sprintf(" + %s_size%d", name, dim)
		counts = append(counts, name+"_numel")
	}
	return s, strings.TrimSuffix(lines, "\n"), maximum(counts)
}

// maximum is the largest of some expressions, in halves: expressions must not nest deeply.
func maximum(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("max(%s, %s)", maximum(list[:len(list)/2]), maximum(list[len(list)/2:]))
}

func (cudaCat) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	w, _, inputs := joined(c)
	s, lines, largest := catSignature(c, p["VEC"])
	element := bitsType(c.Variants[0].Call.Outputs[0].DType)
	constants := map[string]string{
		"OUT": element, "IN0": element, "RESULT": element, "ARITY": "1", "WHOLE": "0", "UNIT": strconv.Itoa(w.units()), "DIMS": strconv.Itoa(len(w.sizes)), "INDEX": s.index(),
	}
	kernel := launch("kf_main", waves(fmt.Sprintf("ceildiv(%s, %d)", largest, p["VEC"]*p["THREADS"]*p["UNROLL"]), p), p["THREADS"], s)
	kernel.Grid[1] = strconv.Itoa(inputs)
	return card.Candidate{
		Source: cudaPage("cat", map[string]string{"parameters": s.parameters(), "walks": lines}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{kernel}),
	}, nil
}

// named puts a name in the place of `@` in all expressions.
func (w walk) named(name string) walk {
	swap := func(list []string) []string {
		named := make([]string, len(list))
		for i, text := range list {
			named[i] = strings.ReplaceAll(text, "@", name)
		}
		return named
	}
	strides := make([][]string, len(w.strides))
	for k := range w.strides {
		strides[k] = swap(w.strides[k])
	}
	w.sizes, w.strides = swap(w.sizes), strides
	return w
}
