package template

import (
	"encoding/json"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaUpsampleNearest is cuda/upsample_nearest.cu, cudaUpsampleBilinear cuda/upsample_bilinear.cu, both for NCHW and NHWC.
type (
	cudaUpsampleNearest  struct{}
	cudaUpsampleBilinear struct{}
)

func (cudaUpsampleNearest) Name() string  { return "upsample_nearest" }
func (cudaUpsampleBilinear) Name() string { return "upsample_bilinear" }

func (cudaUpsampleNearest) Applies(c *card.Card) bool {
	return (upsampleNearest{}).Applies(c) && oneOrder(c)
}

func (cudaUpsampleBilinear) Applies(c *card.Card) bool {
	return (upsampleBilinear{}).Applies(c) && oneOrder(c)
}

// oneOrder says whether all variants have the channels inside, or none.
func oneOrder(c *card.Card) bool {
	last := pixelsOfChannels(c.Variants[0].Call)
	return everyVariant(c, func(call card.Call) bool { return pixelsOfChannels(call) == last })
}

// pixelVector is how many elements of the innermost dim can be written together, and with NHWC read, at most `most`.
func pixelVector(c *card.Card, most int) int {
	for ; most > 1; most /= 2 {
		if everyVariant(c, func(call card.Call) bool { return wholePixels(call, int64(most)) }) {
			break
		}
	}
	return most
}

func wholePixels(call card.Call, vector int64) bool {
	inner, sides := 3, [][]int64{call.Outputs[0].Strides}
	if pixelsOfChannels(call) {
		inner, sides = 1, append(sides, argument(call, "self").Strides)
	}
	if call.Outputs[0].Sizes[inner]%vector != 0 {
		return false
	}
	for _, strides := range sides {
		for d, stride := range strides {
			if d == inner && stride != 1 || d != inner && stride%vector != 0 {
				return false
			}
		}
	}
	return true
}

func resizeParams(c *card.Card, f propose.Facts) []Param {
	size := itemSizes[c.Variants[0].Call.Outputs[0].DType]
	most := pixelVector(c, 16/size)
	var values []int
	for v := 1; v <= most; v *= 2 {
		values = append(values, v)
	}
	unroll := 2
	if largestBytes(c) < 8<<20 {
		unroll = 1
	}
	return []Param{{"VEC", values, most}, {"THREADS", []int{128, 256, 512}, 256}, {"UNROLL", []int{1, 2, 4}, unroll}, {"WAVES", []int{0, 1, 4}, 0}}
}

func (cudaUpsampleNearest) Params(c *card.Card, f propose.Facts) []Param  { return resizeParams(c, f) }
func (cudaUpsampleBilinear) Params(c *card.Card, f propose.Facts) []Param { return resizeParams(c, f) }

func (cudaUpsampleNearest) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return deviceResize(c, p, "upsample_nearest", map[string]string{"ELEMENT": bitsType(c.Variants[0].Call.Outputs[0].DType), "C": "float", "ALIGN": "0"})
}

func (cudaUpsampleBilinear) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	var align bool
	if err := json.Unmarshal(argument(call, "align_corners").Value, &align); err != nil {
		return card.Candidate{}, fmt.Errorf("overload `%s`: read `align_corners`: %w", c.Overload, err)
	}
	dtype := call.Outputs[0].DType
	return deviceResize(c, p, "upsample_bilinear", map[string]string{"ELEMENT": ctypes[dtype], "C": accumulator(dtype), "ALIGN": flag(align)})
}

func deviceResize(c *card.Card, p Point, page string, constants map[string]string) (card.Candidate, error) {
	call := c.Variants[0].Call
	last := pixelsOfChannels(call)
	s := signatureOf(c)
	constants["LAST"], constants["INDEX"] = flag(last), s.index()
	s.out("ELEMENT", "out", "out0")
	s.in("ELEMENT", "self", "self")
	for d, name := range []string{"n", "c", "h", "w"} {
		s.size("to_"+name, fmt.Sprintf("out0_stride%d", d))
		s.size("from_"+name, fmt.Sprintf("self_stride%d", d))
	}
	s.size("in_h", "self_size2")
	s.size("in_w", "self_size3")
	s.size("out_h", "out0_size2")
	s.size("out_w", "out0_size3")
	inner, middle, outer := "out0_size3", "out0_size2", "out0_size1"
	if last {
		inner, middle, outer = "out0_size1", "out0_size3", "out0_size2"
	}
	s.divider("inner_n", inner)
	s.divider("vectors_n", fmt.Sprintf("max(1, %s / %d)", inner, p["VEC"]))
	s.divider("middle_n", middle)
	s.divider("outer_n", outer)
	s.size("count", "out0_numel")
	for _, name := range []string{"h", "w"} {
		literal, ok := inverseScale(argument(call, "scales_"+name))
		if !ok {
			return card.Candidate{}, fmt.Errorf("overload `%s`: its `scales_%s` is no scale", c.Overload, name)
		}
		s.number("double", "inverse_"+name, literal)
	}
	work := fmt.Sprintf("ceildiv(out0_numel, %d)", p["VEC"]*p["THREADS"]*p["UNROLL"])
	return card.Candidate{
		Source: cudaPage(page, map[string]string{"parameters": s.parameters()}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", waves(work, p), p["THREADS"], s)}),
	}, nil
}
