package template

import (
	"fmt"
	"slices"
	"strconv"

	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// reduceRows is host/reduce_rows.cc, reduceColumns host/reduce_columns.cc: sum, mean and amax of floating-point tensors over any dims. Which
// of them applies depends on whether the dim of the smallest stride is reduced or kept.
type (
	reduceRows    struct{}
	reduceColumns struct{}
)

var (
	sums     = overloads("sum.dim_IntList sum.IntList_out")
	means    = overloads("mean.dim mean.out")
	maximums = overloads("amax amax.out")
	folds    = overloads("sum.dim_IntList sum.IntList_out mean.dim mean.out amax amax.out")
)

func (reduceRows) Name() string    { return "reduce_rows" }
func (reduceColumns) Name() string { return "reduce_columns" }

func (reduceRows) Applies(c *card.Card) bool    { return reduces(c, true) }
func (reduceColumns) Applies(c *card.Card) bool { return reduces(c, false) }

// reduces says whether a card is a reduction in which the dim of the smallest stride is reduced (inner) or kept, in one variant at least.
func reduces(c *card.Card, inner bool) bool {
	call, ok := callOf(c, folds)
	if !ok || len(call.Outputs) != 1 {
		return false
	}
	self, to := argument(call, "self"), call.Outputs[0].DType
	mask, ok := reducedDims(call)
	if !ok || self.Kind != "tensor" || !isFloat(self.DType) || !isFloat(to) || (self.DType == "float64") != (to == "float64") {
		return false
	}
	if self.DType != to && (!sums[c.Overload] || to != "float32") {
		return false // with another dtype eager converts first; only a wider sum is the same
	}
	for _, v := range c.Variants {
		d := innermost(argument(v.Call, "self"))
		if (d < 0 || mask>>d&1 == 1) == inner {
			return true
		}
	}
	return false
}

// innermost is the dim of the smallest stride; -1 where all sizes are 1.
func innermost(t card.Arg) int {
	best := -1
	for d := range t.Sizes {
		if t.Sizes[d] > 1 && (best < 0 || t.Strides[d] < t.Strides[best]) {
			best = d
		}
	}
	return best
}

// reducedDims are the dims of a reduction as bits; no dims mean all.
func reducedDims(call card.Call) (int, bool) {
	dims := len(argument(call, "self").Sizes)
	arg := argument(call, "dim")
	var list []int
	if arg.Kind == "ints" && json.Unmarshal(arg.Value, &list) != nil || arg.Kind != "ints" && arg.Kind != "none" {
		return 0, false
	}
	mask := 0
	for _, d := range list {
		if d < 0 {
			d += dims
		}
		if d < 0 || d >= dims {
			return 0, false
		}
		mask |= 1 << d
	}
	if len(list) == 0 {
		mask = 1<<dims - 1
	}
	return mask, dims > 0
}

func (reduceRows) Params(c *card.Card, f propose.Facts) []Param {
	return append([]Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, {"GRAIN", []int{4096, 16384, 65536}, 16384}}, partsOf(c, 4)...)
}

func (reduceColumns) Params(c *card.Card, f propose.Facts) []Param {
	return append([]Param{lanes(f), {"COLS", []int{1, 2, 4, 8}, 4}, {"GRAIN", []int{4096, 16384, 65536}, 16384}}, partsOf(c, 128)...)
}

// partsOf offers to split each output's elements where a variant has fewer outputs than `enough` a thread.
func partsOf(c *card.Card, enough int) []Param {
	fewest, most := int64(1)<<62, int64(0)
	for _, v := range c.Variants {
		fewest, most = min(fewest, numelOf(v.Call.Outputs[0].Sizes)), max(most, numel(argument(v.Call, "self")))
	}
	if fewest >= int64(enough*c.Threads) || most < 8192 {
		return nil
	}
	values := []int{1, 2, 8, 32}
	values = slices.Compact(append(values, 4*c.Threads))
	slices.Sort(values)
	values = slices.Compact(values)
	if most < 65536 {
		return []Param{{"PARTS", values, 1}}
	}
	return []Param{{"PARTS", values, 4 * c.Threads}}
}

func (reduceRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	return reduction(c, p, "reduce_rows")
}

func (reduceColumns) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	return reduction(c, p, "reduce_columns")
}

func reduction(c *card.Card, p Point, page string) (card.Candidate, error) {
	call := c.Variants[0].Call
	mask, ok := reducedDims(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dims are not a list", c.Overload)
	}
	self := argument(call, "self")
	dims, out := len(self.Sizes), len(call.Outputs[0].Sizes)
	parts := max(1, p["PARTS"])
	constants := map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[call.Outputs[0].DType], "C": "float", "DIMS": strconv.Itoa(dims), "REDUCED": strconv.Itoa(mask),
		"PARTS": strconv.Itoa(parts), "MEAN": flag(means[c.Overload]), "MAXIMUM": flag(maximums[c.Overload]),
	}
	size := 4
	if self.DType == "float64" {
		constants["C"], size = "double", 8
	}
	args := []card.SpecArg{slot("out0"), slot("self")}
	if parts > 1 {
		args = append(args, slot("ws0"))
	}
	args = append(append(args, sizesOf("self", dims)...), stridesOf("self", dims)...)
	for d, at := 0, 0; d < dims; d++ {
		reduced := mask>>d&1 == 1
		if reduced {
			args = append(args, integer("0"))
		} else {
			args = append(args, integer(fmt.Sprintf("out0_stride%d", at)))
		}
		if !reduced || out == dims { // out == dims: keepdim
			at++
		}
	}
	// An item of the work is an output's part; a thread takes at least GRAIN elements.
	work, grain := "out0_numel", fmt.Sprintf("max(1, %d * out0_numel / self_numel)", p["GRAIN"]*parts)
	if parts == 1 {
		return card.Candidate{Source: hostPage(page, nil), Spec: single(p, constants, work, grain, args)}, nil
	}
	spec := single(p, constants, fmt.Sprintf("out0_numel * %d", parts), grain, args, card.Workspace{Bytes: fmt.Sprintf("out0_numel * %d", parts*size)})
	spec.Kernels = append(spec.Kernels, card.Kernel{Entry: "kf_join", Work: work, Grain: "4096", Args: args})
	return card.Candidate{Source: hostPage(page, nil), Spec: spec}, nil
}

// flag is a constant that is 1 or 0.
func flag(b bool) string { return map[bool]string{true: "1", false: "0"}[b] }

func numelOf(sizes []int64) int64 { return numel(card.Arg{Sizes: sizes}) }
