package template

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// upsampleNearest is host/upsample_nearest.cc, upsampleBilinear host/upsample_bilinear.cc, both for NCHW and NHWC.
type (
	upsampleNearest  struct{}
	upsampleBilinear struct{}
)

func (upsampleNearest) Name() string  { return "upsample_nearest" }
func (upsampleBilinear) Name() string { return "upsample_bilinear" }

func (upsampleNearest) Applies(c *card.Card) bool {
	_, ok := resizes(c, "upsample_nearest2d upsample_nearest2d.out")
	return ok
}

// Bilinear of uint8 is fixed-point arithmetic in eager, and left to it.
func (upsampleBilinear) Applies(c *card.Card) bool {
	call, ok := resizes(c, "upsample_bilinear2d upsample_bilinear2d.out")
	var align bool
	return ok && isFloat(call.Outputs[0].DType) && json.Unmarshal(argument(call, "align_corners").Value, &align) == nil
}

func resizes(c *card.Card, names string) (card.Call, bool) {
	call, ok := callOf(c, overloads(names))
	if !ok || len(call.Outputs) != 1 || len(call.Outputs[0].Sizes) != 4 {
		return call, false
	}
	self := argument(call, "self")
	for _, name := range []string{"scales_h", "scales_w"} {
		if _, ok := inverseScale(argument(call, name)); !ok {
			return call, false
		}
	}
	return call, self.Kind == "tensor" && self.DType == call.Outputs[0].DType && len(self.Sizes) == 4
}

// inverseScale is 1 / a scale factor as a literal; 0 where none is given, or one that eager takes for none.
func inverseScale(arg card.Arg) (string, bool) {
	if arg.Kind == "none" {
		return "0x0p+0", true
	}
	v, ok := constant(arg)
	if !ok || math.IsNaN(v.float) || math.IsInf(v.float, 0) {
		return "", false
	}
	if v.float <= 0 {
		return "0x0p+0", true
	}
	return strconv.FormatFloat(1/v.float, 'x', -1, 64), true
}

// pixelsOfChannels says whether the channels of a card's output lie side by side.
func pixelsOfChannels(call card.Call) bool {
	return call.Outputs[0].Strides[1] == 1 && call.Outputs[0].Sizes[1] > 1
}

func (upsampleNearest) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{{"BLOCK", []int{128, 512, 2048}, 512}, {"GRAIN", []int{4096, 16384, 65536}, 16384}}
	if !pixelsOfChannels(c.Variants[0].Call) {
		params = append(params, Param{"REUSE", []int{0, 1}, 1})
	}
	return params
}

func (upsampleBilinear) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"BLOCK", []int{64, 256, 1024}, 256}, {"GRAIN", []int{2048, 8192, 32768}, 8192}}
}

func (upsampleNearest) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	dtype := c.Variants[0].Call.Outputs[0].DType
	quiet := map[string]string{"bfloat16": "1", "float16": "2"}[dtype]
	constants := map[string]string{"ELEMENT": bitsType(dtype), "QUIET": cmp.Or(quiet, "0")}
	if _, ok := p["REUSE"]; !ok {
		constants["REUSE"] = "0"
	}
	return resize(c, p, "upsample_nearest", constants)
}

func (upsampleBilinear) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	var align bool
	if err := json.Unmarshal(argument(call, "align_corners").Value, &align); err != nil {
		return card.Candidate{}, fmt.Errorf("overload `%s`: read `align_corners`: %w", c.Overload, err)
	}
	constants := map[string]string{"ELEMENT": ctypes[call.Outputs[0].DType], "C": "float", "ALIGN": flag(align)}
	if call.Outputs[0].DType == "float64" {
		constants["C"] = "double"
	}
	return resize(c, p, "upsample_bilinear", constants)
}

func resize(c *card.Card, p Point, page string, constants map[string]string) (card.Candidate, error) {
	call := c.Variants[0].Call
	last := pixelsOfChannels(call)
	constants["LAST"] = flag(last)
	args := []card.SpecArg{slot("out0"), slot("self")}
	args = append(append(args, sizesOf("out0", 4)...), integer("self_size2"), integer("self_size3"))
	args = append(append(args, stridesOf("out0", 4)...), stridesOf("self", 4)...)
	for _, name := range []string{"scales_h", "scales_w"} {
		literal, ok := inverseScale(argument(call, name))
		if !ok {
			return card.Candidate{}, fmt.Errorf("overload `%s`: its `%s` is no scale", c.Overload, name)
		}
		args = append(args, number(literal))
	}
	// The work is output rows: of a plane, or of an image whose channels lie inside.
	work, row := "out0_size0 * out0_size1 * out0_size2", "out0_size3"
	if last {
		work, row = "out0_size0 * out0_size2", "(out0_size1 * out0_size3)"
	}
	return card.Candidate{Source: hostPage(page, nil), Spec: single(p, constants, work, fmt.Sprintf("max(1, %d / %s)", p["GRAIN"], row), args)}, nil
}
