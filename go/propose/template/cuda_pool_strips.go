package template

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Max pools that roll down the plane: cudaMaxPoolStrips is cuda/max_pool_strips.cu, for contiguous channels, cudaMaxPoolBands cuda/max_pool_bands.cu, for
// contiguous rows, cudaMaxPoolKeys cuda/max_pool_keys.cu, for those of half types.
type (
	cudaMaxPoolStrips struct{}
	cudaMaxPoolBands  struct{}
	cudaMaxPoolKeys   struct{}
)

func (cudaMaxPoolStrips) Name() string { return "max_pool_strips" }
func (cudaMaxPoolBands) Name() string  { return "max_pool_bands" }
func (cudaMaxPoolKeys) Name() string   { return "max_pool_keys" }

// mostStrip bounds a window, whose loads are all written out.
const mostStrip = 16

func (cudaMaxPoolStrips) Applies(c *card.Card) bool {
	return (cudaMaxPoolChannels{}).Applies(c) && rolls(c)
}

func (cudaMaxPoolBands) Applies(c *card.Card) bool {
	return (cudaMaxPoolRows{}).Applies(c) && rolls(c) && bandVector(c) > 0
}

// mostPlaces are the elements of a plane that 16 bits tell apart.
const mostPlaces = 1 << 16

func (cudaMaxPoolKeys) Applies(c *card.Card) bool {
	return (cudaMaxPoolBands{}).Applies(c) && itemSizes[selfType(c)] == 2 && everyVariant(c, func(call card.Call) bool {
		in := sizes4(argument(call, "self").Sizes)
		return in[2]*in[3] <= mostPlaces
	})
}

// rolls says whether a window is small, of more than one row and without gaps.
func rolls(c *card.Card) bool {
	w, ok := windowOf(c.Variants[0].Call)
	return ok && w.dilation == [2]int64{1, 1} && w.kernel[0]*w.kernel[1] <= mostStrip && w.kernel[0] > 1
}

// bandVector is how many columns a thread can read together at most, with whole outputs under them; 0 where there is no such number.
func bandVector(c *card.Card) int {
	w, _ := windowOf(c.Variants[0].Call)
	for vector := int64(16 / itemSizes[selfType(c)]); vector > 1 && vector%w.stride[1] == 0; vector /= 2 {
		if everyVariant(c, func(call card.Call) bool {
			self := argument(call, "self")
			for d, stride := range self.Strides {
				if d != len(self.Strides)-1 && self.Sizes[d] > 1 && stride%vector != 0 {
					return false
				}
			}
			in, out := sizes4(self.Sizes), sizes4(call.Outputs[0].Sizes)
			return in[3]%vector == 0 && in[3] == out[3]*w.stride[1]
		}) {
			return int(vector)
		}
	}
	return 0
}

func (cudaMaxPoolStrips) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{poolThreads, channelAccesses(c), {"ROWS", []int{2, 4, 8, 16}, 4}}
}

func (cudaMaxPoolBands) Params(c *card.Card, _ propose.Facts) []Param {
	w, _ := windowOf(c.Variants[0].Call)
	most := bandVector(c)
	return []Param{poolThreads, {"VEC", powers(max(most/2, int(w.stride[1])), most), most}, {"ROWS", []int{2, 4, 8, 16}, 4}}
}

func (cudaMaxPoolKeys) Params(c *card.Card, f propose.Facts) []Param {
	return (cudaMaxPoolBands{}).Params(c, f)
}

func (cudaMaxPoolBands) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return maxPoolInBands(c, p, "max_pool_bands")
}

func (cudaMaxPoolKeys) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return maxPoolInBands(c, p, "max_pool_keys")
}

func maxPoolInBands(c *card.Card, p Point, page string) (card.Candidate, error) {
	s, constants, err := maxPoolPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	outputs, out := planeSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes))
	in, _ := planes("self", len(argument(c.Variants[0].Call, "self").Sizes))
	bands, strips := fmt.Sprintf("(%s / %d)", in[3], p["VEC"]), fmt.Sprintf("ceildiv(%s, %d)", out[2], p["ROWS"])
	count := fmt.Sprintf("(%s * %s * %s)", outputs, strips, bands)
	s.size("width_out", out[3])
	s.size("height_out", out[2])
	s.divider("strips_n", strips)
	s.divider("bands", bands)
	s.divider("channels", out[1])
	s.size("count", count)
	return pool(c, page, p, s, constants, count, p["THREADS"]), nil
}

func (cudaMaxPoolStrips) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := maxPoolPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	outputs, out := planeSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes))
	strips := fmt.Sprintf("ceildiv(%s, %d)", out[2], p["ROWS"])
	count := fmt.Sprintf("(%s / %d * %s * %s)", outputs, p["VEC"], strips, out[3])
	s.divider("width_out", out[3])
	s.size("height_out", out[2])
	s.divider("strips_n", strips)
	s.divider("blocks", fmt.Sprintf("(%s / %d)", out[1], p["VEC"]))
	s.size("count", count)
	return pool(c, "max_pool_strips", p, s, constants, count, p["THREADS"]), nil
}
