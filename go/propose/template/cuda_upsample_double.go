package template

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaUpsampleDouble is cuda/upsample_double.cu: nearest to twice the size, without gaps.
type cudaUpsampleDouble struct{}

func (cudaUpsampleDouble) Name() string { return "upsample_double" }

// exactFloats bounds the sizes for which eager's index, half of a float, is half of the integer.
const exactFloats = 1 << 24

func (cudaUpsampleDouble) Applies(c *card.Card) bool {
	return (upsampleNearest{}).Applies(c) && oneOrder(c) && everyVariant(c, func(call card.Call) bool {
		self, out := argument(call, "self"), call.Outputs[0]
		order := rowsInside
		if pixelsOfChannels(call) {
			order = channelsInside
		}
		for _, d := range []int{2, 3} {
			if out.Sizes[d] != 2*self.Sizes[d] || out.Sizes[d] >= exactFloats {
				return false
			}
		}
		for _, name := range []string{"scales_h", "scales_w"} {
			if inverse, ok := inverseScale(argument(call, name)); !ok || inverse != "0x0p+00" && inverse != "0x0p+0" && inverse != "0x1p-01" {
				return false
			}
		}
		return dense(self.Sizes, self.Strides, order) && dense(out.Sizes, out.Strides, order)
	}) && doubledVector(c) > 1
}

// doubledVector is how many elements can be read together: of a row, or with the channels inside of those.
func doubledVector(c *card.Card) int {
	most := 16 / itemSizes[c.Variants[0].Call.Outputs[0].DType]
	for ; most > 1; most /= 2 {
		if everyVariant(c, func(call card.Call) bool {
			inner := 3
			if pixelsOfChannels(call) {
				inner = 1
			}
			return argument(call, "self").Sizes[inner]%int64(most) == 0
		}) {
			break
		}
	}
	return most
}

func (cudaUpsampleDouble) Params(c *card.Card, _ propose.Facts) []Param {
	most := doubledVector(c)
	best := most
	if size := itemSizes[c.Variants[0].Call.Outputs[0].DType]; !pixelsOfChannels(c.Variants[0].Call) && most*size == 16 {
		best = most / 2 // whose store has 16 bytes
	}
	return []Param{
		{"VEC", powers(max(1, most/2), most), best}, {"THREADS", []int{128, 256, 512}, 256}, {"UNROLL", []int{1, 2, 4}, 4},
		{"ROWS", []int{1, 2}, 1}, {"ONCE", []int{0, 1}, 0},
	}
}

func (cudaUpsampleDouble) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	last := pixelsOfChannels(call)
	s := signatureOf(c)
	constants := map[string]string{"ELEMENT": bitsType(call.Outputs[0].DType), "LAST": flag(last), "INDEX": s.index()}
	inner := "self_size3"
	if last {
		inner = "self_size1"
	}
	s.out("ELEMENT", "out", "out0")
	s.in("ELEMENT", "self", "self")
	s.divider("inner", fmt.Sprintf("(%s / %d)", inner, p["VEC"]))
	s.divider("width", "self_size3")
	vectors := fmt.Sprintf("(self_numel / %d * %d)", p["VEC"], 2/p["ROWS"])
	s.size("count", vectors)
	return card.Candidate{
		Source: cudaPage("upsample_double", map[string]string{"parameters": s.parameters()}),
		Spec: deviceSpec(c, p, constants, []card.Kernel{
			launch("kf_main", fmt.Sprintf("ceildiv(%s, %d)", vectors, p["THREADS"]*p["UNROLL"]), p["THREADS"], s)}),
	}, nil
}
