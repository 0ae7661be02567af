package template

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var softmaxes = overloads("_softmax _softmax.out _log_softmax _log_softmax.out")

// softmaxDim is the dim of a call, counted from the front; false where the call is not for these families: a contiguous tensor with elements
// and a dense output.
func softmaxDim(call card.Call) (int, bool) {
	self := argument(call, "self")
	var dim int
	arg := argument(call, "dim")
	if arg.Kind != "int" || json.Unmarshal(arg.Value, &dim) != nil || self.Kind != "tensor" || len(self.Sizes) == 0 || len(call.Outputs) != 1 {
		return 0, false
	}
	if dim < 0 {
		dim += len(self.Sizes)
	}
	out := call.Outputs[0]
	ok := dim >= 0 && dim < len(self.Sizes) && slices.Min(self.Sizes) > 0 && contiguous(self) && denseFrom(out.Sizes, out.Strides, 0)
	half := self.DType == "float16" && out.DType == "float32" // half_to_float
	return dim, ok && isFloat(self.DType) && (out.DType == self.DType || half)
}

// softmaxApplies says whether the dim of every variant is followed by one column (rows) or by more.
func softmaxApplies(c *card.Card, rows bool) bool {
	if _, ok := callOf(c, softmaxes); !ok {
		return false
	}
	return everyVariant(c, func(call card.Call) bool {
		dim, ok := softmaxDim(call)
		if !ok {
			return false
		}
		inner := int64(1)
		for _, size := range argument(call, "self").Sizes[dim+1:] {
			inner *= size
		}
		return (inner == 1) == rows
	})
}

// longest is the longest dim of the variants.
func longest(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		if dim, ok := softmaxDim(variant.Call); ok {
			most = max(most, argument(variant.Call, "self").Sizes[dim])
		}
	}
	return most
}

// keeping offers to keep exponentials; half types need a buffer for them on the stack, at most 64 KiB.
func keeping(c *card.Card, buffer int64) []Param {
	call := c.Variants[0].Call
	half := call.Outputs[0].DType != "float32" && call.Outputs[0].DType != "float64"
	switch {
	case strings.Contains(c.Overload, "_log_softmax"):
		return nil
	case half && buffer > 64<<10:
		return []Param{{"KEEP", []int{0}, 0}}
	}
	return []Param{{"KEEP", []int{0, 1}, 1}}
}

// softmaxTypes are the constants of every softmax page: types, and whether it is the logarithm.
func softmaxTypes(c *card.Card) map[string]string {
	call := c.Variants[0].Call
	return map[string]string{
		"IN": ctypes[argument(call, "self").DType], "OUT": ctypes[call.Outputs[0].DType],
		"LOG": boolean(strings.Contains(c.Overload, "_log_softmax")),
	}
}

func softmaxConstants(c *card.Card, p Point) map[string]string {
	constants := softmaxTypes(c)
	if _, ok := p["KEEP"]; !ok {
		constants["KEEP"] = "0"
	}
	return constants
}

// softmaxRows is host/softmax_rows.cc: along the innermost dim.
type softmaxRows struct{}

func (softmaxRows) Name() string { return "softmax_rows" }

func (softmaxRows) Applies(c *card.Card) bool { return softmaxApplies(c, true) }

func (softmaxRows) Params(c *card.Card, f propose.Facts) []Param {
	unroll := Param{"UNROLL", []int{1, 2, 4}, 2}
	if longest(c) <= 64 {
		unroll.Default = 1
	}
	return append([]Param{lanes(f), unroll, grain()}, keeping(c, longest(c)*4)...)
}

func (softmaxRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	dim, ok := softmaxDim(c.Variants[0].Call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim is not constant", c.Overload)
	}
	constants := softmaxConstants(c, p)
	constants["WIDTH"] = "1"
	if constants["OUT"] != "float" && constants["OUT"] != "double" && p["KEEP"] == 1 {
		constants["WIDTH"] = strconv.FormatInt(longest(c), 10)
	}
	length := fmt.Sprintf("self_size%d", dim)
	args := []card.SpecArg{slot("self"), slot("out0"), integer(length)}
	return card.Candidate{
		Source: hostPage("softmax_rows", nil),
		Spec:   single(p, constants, "self_numel / "+length, share(p, length), args),
	}, nil
}

// softmaxColumns is host/softmax_columns.cc: along any other dim.
type softmaxColumns struct{}

func (softmaxColumns) Name() string { return "softmax_columns" }

func (softmaxColumns) Applies(c *card.Card) bool { return softmaxApplies(c, false) }

func (softmaxColumns) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, grain()}
	return append(params, keeping(c, longest(c)*4*16*4)...)
}

func (softmaxColumns) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	constants := softmaxConstants(c, p)
	constants["LENGTH"] = "1"
	if constants["OUT"] != "float" && constants["OUT"] != "double" && p["KEEP"] == 1 {
		constants["LENGTH"] = strconv.FormatInt(longest(c), 10)
	}
	return downColumns(c, p, "softmax_columns", constants, p["UNROLL"]*int(laneCount(p, constants["IN"])))
}

// downColumns is a candidate of a page that goes down `dim`, of which one piece of the work is `step` neighbouring columns.
func downColumns(c *card.Card, p Point, page string, constants map[string]string, step int) (card.Candidate, error) {
	call := c.Variants[0].Call
	dim, ok := softmaxDim(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim is not constant", c.Overload)
	}
	inner := product("self", dim+1, len(argument(call, "self").Sizes))
	args := []card.SpecArg{slot("self"), slot("out0"), integer(fmt.Sprintf("self_size%d", dim)), integer(inner)}
	work := fmt.Sprintf("%s * ceildiv(%s, %d)", product("self", 0, dim), inner, step)
	return card.Candidate{Source: hostPage(page, nil), Spec: single(p, constants, work, share(p, fmt.Sprintf("self_size%d * %d", dim, step)), args)}, nil
}

// softmaxSweep is host/softmax_sweep.cc: along any other dim, whole rows of many columns.
type softmaxSweep struct{}

func (softmaxSweep) Name() string { return "softmax_sweep" }

// Applies where one column with its line does not stay in the second cache; below that softmaxColumns reads it once from memory.
func (softmaxSweep) Applies(c *card.Card) bool {
	return softmaxApplies(c, false) && longest(c) >= sweptRows
}

// sweptRows is how long a dim is whose columns are not found in the second cache again: lines a power of two apart share a few sets.
const sweptRows = 256

func (softmaxSweep) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"WIDE", []int{32, 64, 128}, 64}, {"ROWS", []int{2, 4, 8}, 8}, {"AHEAD", []int{0, 2, 4, 8}, 8}, grain()}
	return append(params, streaming(c, f)...)
}

func (softmaxSweep) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	constants := softmaxTypes(c)
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	return downColumns(c, p, "softmax_sweep", constants, int(laneCount(p, constants["IN"])))
}

// laneCount is the number of lanes of the arithmetic vector of a C type.
func laneCount(p Point, ctype string) int64 {
	if ctype == "double" {
		return int64(p["KF_LANES"]) / 2
	}
	return int64(p["KF_LANES"])
}
