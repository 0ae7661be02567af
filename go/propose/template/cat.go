package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// maxArgs bounds the arguments of a kernel (csrc): each joined tensor brings its sizes and strides.
const maxArgs = 256

// cat is host/cat.cc: tensors of one type; conversions are left to eager.
type cat struct{}

func (cat) Name() string { return "cat" }

func (cat) Applies(c *card.Card) bool {
	call, ok := callOf(c, overloads("cat cat.out"))
	tensors := argument(call, "tensors").Items
	if !ok || len(call.Outputs) != 1 || len(tensors) == 0 || 1+len(tensors)+len(call.Outputs[0].Sizes)*(1+2*len(tensors)) > maxArgs {
		return false
	}
	for _, t := range tensors {
		if t.DType != call.Outputs[0].DType || len(t.Sizes) == 0 || len(t.Sizes) != len(call.Outputs[0].Sizes) {
			return false
		}
	}
	_, ok = dimOf(call, "dim", len(call.Outputs[0].Sizes))
	return ok
}

// dimOf is an int argument that names a dim, counted from the front.
func dimOf(call card.Call, name string, dims int) (int, bool) {
	v, ok := constant(argument(call, name))
	if v.int < 0 {
		v.int += int64(dims)
	}
	return int(v.int), ok && v.whole && v.int >= 0 && v.int < int64(dims)
}

func (cat) Params(c *card.Card, f propose.Facts) []Param {
	// A row is what lies from the joined dim inwards in one input; memcpy pays for rows of some lines.
	call, move := c.Variants[0].Call, 1
	if first := argument(call, "tensors").Items[0]; contiguous(first) {
		dim, _ := dimOf(call, "dim", len(first.Sizes))
		if numelOf(first.Sizes[dim:])*int64(itemSizes[first.DType]) > 4*f.CacheLine {
			move = 0
		}
	}
	return []Param{{"MOVE", []int{0, 1}, move}, {"GRAIN", []int{4096, 16384, 65536}, 16384}}
}

func (cat) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	dims, tensors := len(call.Outputs[0].Sizes), argument(call, "tensors").Items
	dim, ok := dimOf(call, "dim", dims)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim is not one of %d", c.Overload, dims)
	}
	constants := map[string]string{
		"ELEMENT": bitsType(call.Outputs[0].DType), "DIMS": strconv.Itoa(dims), "DIM": strconv.Itoa(dim), "COUNT": strconv.Itoa(len(tensors)),
	}
	args := []card.SpecArg{slot("out0")}
	for k := range tensors {
		args = append(args, slot(fmt.Sprintf("tensors_%d", k)))
	}
	args = append(args, stridesOf("out0", dims)...)
	for k := range tensors {
		name := fmt.Sprintf("tensors_%d", k)
		args = append(append(args, sizesOf(name, dims)...), stridesOf(name, dims)...)
	}
	return card.Candidate{Source: hostPage("cat", nil), Spec: single(p, constants, "out0_numel", strconv.Itoa(p["GRAIN"]), args)}, nil
}
