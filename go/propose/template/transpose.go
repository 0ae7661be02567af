package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// transpose is host/transpose.cc: copies between different orders of dims, with or without a conversion between float32 and half types.
type transpose struct{}

func (transpose) Name() string { return "transpose" }

func (transpose) Applies(c *card.Card) bool {
	call, ok := callOf(c, copies)
	if !ok || len(call.Outputs) != 1 {
		return false
	}
	src, to := argument(call, "src"), call.Outputs[0].DType
	if src.Kind != "tensor" || (src.DType != to && !(short(src.DType) && short(to))) {
		return false
	}
	crossed := false // at least one variant gains by it
	for _, v := range c.Variants {
		crossed = crossed || crosses(v.Call.Outputs[0], argument(v.Call, "src"))
	}
	return crossed
}

// short says whether a type is computed in float.
func short(dtype string) bool { return isFloat(dtype) && dtype != "float64" }

// crosses says whether output and source are contiguous along different dims.
func crosses(out card.Output, src card.Arg) bool {
	inner := func(sizes, strides []int64) int {
		best := -1
		for d := range sizes {
			if sizes[d] > 1 && (best < 0 || strides[d] < strides[best]) {
				best = d
			}
		}
		return best
	}
	a, b := inner(out.Sizes, out.Strides), inner(src.Sizes, src.Strides)
	return len(out.Sizes) == len(src.Sizes) && a >= 0 && b >= 0 && a != b && out.Strides[a] == 1 && src.Strides[b] == 1
}

func (transpose) Params(c *card.Card, f propose.Facts) []Param {
	call := c.Variants[0].Call
	src, to := argument(call, "src").DType, call.Outputs[0].DType
	widest := map[string]int{"avx512": 64, "avx2": 32}[f.ISA]
	tiles := []int{4, 8, 16}
	switch wide := max(widest, 16) / itemSizes[src]; { // elements of the source in a vector
	case src != to:
		tiles = []int{lanes(f).Default} // a row is the unit of conversion
	case wide < 8:
		tiles = []int{4}
	case wide < 16:
		tiles = []int{4, 8}
	}
	tile := Param{"TILE", tiles, tiles[len(tiles)-1]}
	span, order := Param{"SPAN", []int{1, 2, 4, 8}, 4}, Param{"ORDER", []int{0, 1}, 0}
	params := []Param{ahead(c, f, 0, 16, 64), {"GRAIN", []int{2048, 8192, 32768}, 8192}}
	switch lines := f.ISA == "avx512" && src == to && tile.Default*itemSizes[to] == lineBytes; {
	case largestOutput(c) > mappedBytes:
		span.Values, order.Values = []int{2, 4, 8}, []int{0}
	case lines && largestBytes(c) > 2*f.L2Bytes:
		tile.Values = []int{tile.Default} // a row of a block is a line
		span = Param{"SPAN", []int{2, 4, 8}, 2}
		order = Param{"ORDER", []int{1}, 1}
		params[0].Default = 0
		params = append(params, Param{"STREAM", []int{0, 1}, 1})
	}
	return append([]Param{tile, span, order}, params...)
}

// lineBytes is what a cache holds side by side; half of it is not written past the caches without reading the rest.
const lineBytes = 64

// mappedBytes is the size beyond which glibc's malloc maps every new output anew, so that its pages come into the second cache as zeros when they
// are first touched. There they are best filled while they are near: 16.5 ms for 64 MiB, of which the pages take 14.5. Lines written past the caches,
// or along the source's rows, take 18 to 27 there, but 3.3 instead of 8 where the output's pages are kept, which is how a search times.
const mappedBytes = 32 << 20

// largestOutput is the bytes of the largest variant's output.
func largestOutput(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		bytes := int64(itemSizes[variant.Call.Outputs[0].DType])
		for _, size := range variant.Call.Outputs[0].Sizes {
			bytes *= size
		}
		most = max(most, bytes)
	}
	return most
}

func (transpose) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	if len(call.Outputs) != 1 {
		return card.Candidate{}, fmt.Errorf("overload `%s`: %d outputs (expected 1)", c.Overload, len(call.Outputs))
	}
	src, to, dims := argument(call, "src"), call.Outputs[0].DType, len(call.Outputs[0].Sizes)
	constants := map[string]string{"IN": bitsType(src.DType), "OUT": bitsType(to), "DIMS": strconv.Itoa(dims), "CONVERT": "0"}
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	if src.DType != to {
		constants["CONVERT"], constants["FROM"], constants["TO"] = "1", ctypes[src.DType], ctypes[to]
		constants["KF_LANES"] = strconv.Itoa(p["TILE"])
	}
	args := []card.SpecArg{slot("out0"), slot("src")}
	args = append(args, sizesOf("out0", dims)...)
	args = append(args, stridesOf("out0", dims)...)
	args = append(args, broadcast("src", len(src.Sizes), dims)...)
	return card.Candidate{
		Source: hostPage("transpose", nil),
		Spec:   single(p, constants, "out0_numel", strconv.Itoa(p["GRAIN"]), args),
	}, nil
}
