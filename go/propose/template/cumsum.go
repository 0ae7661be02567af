package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cumsumRows is host/cumsum_rows.cc, cumsumColumns host/cumsum_columns.cc. Which of them applies depends on whether the dim of the smallest
// stride is the one that is summed along.
type (
	cumsumRows    struct{}
	cumsumColumns struct{}
)

func (cumsumRows) Name() string    { return "cumsum_rows" }
func (cumsumColumns) Name() string { return "cumsum_columns" }

func (cumsumRows) Applies(c *card.Card) bool    { return accumulates(c, true) }
func (cumsumColumns) Applies(c *card.Card) bool { return accumulates(c, false) }

func accumulates(c *card.Card, along bool) bool {
	call, ok := callOf(c, overloads("cumsum cumsum_ cumsum.out"))
	if !ok || len(call.Outputs) != 1 {
		return false
	}
	self, to := argument(call, "self"), call.Outputs[0].DType
	dim, ok := dimOf(call, "dim", len(self.Sizes))
	whole := to == "int64" && !isFloat(self.DType)
	if !ok || self.Kind != "tensor" || !(whole || isFloat(to) && isFloat(self.DType) && promoteTypes(self.DType, to) == to) {
		return false
	}
	for _, v := range c.Variants {
		d := innermost(argument(v.Call, "self"))
		if (d < 0 || d == dim) == along {
			return true
		}
	}
	return false
}

func (cumsumRows) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{{"GRAIN", []int{1024, 8192, 32768}, 8192}}
	if isFloat(c.Variants[0].Call.Outputs[0].DType) {
		params = append(params, lanes(f))
	}
	return params
}

func (cumsumColumns) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{{"COLS", []int{1, 2, 4, 8, 16}, 4}, {"GRAIN", []int{1024, 8192, 32768}, 8192}}
}

func (cumsumRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	return accumulation(c, p, "cumsum_rows")
}

func (cumsumColumns) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	return accumulation(c, p, "cumsum_columns")
}

func accumulation(c *card.Card, p Point, page string) (card.Candidate, error) {
	call := c.Variants[0].Call
	self, to := argument(call, "self"), call.Outputs[0].DType
	dims := len(self.Sizes)
	dim, ok := dimOf(call, "dim", dims)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim is not one of %d", c.Overload, dims)
	}
	accumulator := map[string]string{"float16": "float", "bfloat16": "float", "float32": "double", "float64": "double", "int64": "int64_t"}[to]
	constants := map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[to], "C": accumulator, "DIMS": strconv.Itoa(dims), "DIM": strconv.Itoa(dim), "WHOLE": flag(!isFloat(to)),
	}
	if page == "cumsum_rows" && isFloat(to) {
		constants["WIDTH"] = strconv.Itoa(p["KF_LANES"])
		if accumulator == "double" {
			constants["WIDTH"] = strconv.Itoa(p["KF_LANES"] / 2)
		}
	}
	args := []card.SpecArg{slot("out0"), slot("self")}
	args = append(append(append(args, sizesOf("self", dims)...), stridesOf("out0", dims)...), stridesOf("self", dims)...)
	length := fmt.Sprintf("self_size%d", dim)
	return card.Candidate{
		Source: hostPage(page, nil),
		Spec:   single(p, constants, "self_numel / "+length, fmt.Sprintf("max(1, %d / %s)", p["GRAIN"], length), args),
	}, nil
}
