package template

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// topk is host/topk.cc: the best elements along a dim, with their places.
type topk struct{}

func (topk) Name() string { return "topk" }

var topks = overloads("topk topk.values")

// mostRanked bounds the list of a row, which pages keep sorted by insertion: beyond it another algorithm is better.
const mostRanked = 128

// ranking is a call of topk: which dim, how many, and whether the largest.
type ranking struct {
	dim, k  int
	largest bool
}

// rankingOf reads a card's call; false where it is not one that pages serve. A result that may have any order gets one that is sorted.
func rankingOf(c *card.Card) (r ranking, ok bool) {
	call, ok := callOf(c, topks)
	if !ok || len(call.Outputs) != 2 {
		return r, false
	}
	self := argument(call, "self")
	r.dim, ok = dimOf(call, "dim", len(self.Sizes))
	k, known := constant(argument(call, "k"))
	largest := argument(call, "largest")
	if !ok || self.Kind != "tensor" || !known || !k.whole || k.int < 1 || k.int > mostRanked || largest.Kind != "bool" || json.Unmarshal(largest.Value, &r.largest) != nil {
		return r, false
	}
	r.k = int(k.int)
	return r, isFloat(self.DType) && call.Outputs[0].DType == self.DType && call.Outputs[1].DType == "int64" &&
		everyVariant(c, func(call card.Call) bool { return argument(call, "self").Sizes[r.dim] >= k.int })
}

func (topk) Applies(c *card.Card) bool {
	_, ok := rankingOf(c)
	return ok
}

func (topk) Params(_ *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, {"GRAIN", []int{1024, 8192, 32768}, 8192}}
}

func (topk) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	r, ok := rankingOf(c)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim and count are not constant", c.Overload)
	}
	self := argument(c.Variants[0].Call, "self")
	dims := len(self.Sizes)
	constants := map[string]string{"IN": ctypes[self.DType], "DIMS": strconv.Itoa(dims), "DIM": strconv.Itoa(r.dim), "K": strconv.Itoa(r.k), "LARGEST": boolean(r.largest)}
	args := append([]card.SpecArg{slot("out0"), slot("out1"), slot("self")}, sizesOf("self", dims)...)
	for _, tensor := range []string{"out0", "out1", "self"} {
		args = append(args, stridesOf(tensor, dims)...)
	}
	length := fmt.Sprintf("self_size%d", r.dim)
	return card.Candidate{
		Source: hostPage("topk", nil),
		Spec:   single(p, constants, "self_numel / "+length, fmt.Sprintf("max(1, %d / %s)", p["GRAIN"], length), args),
	}, nil
}
