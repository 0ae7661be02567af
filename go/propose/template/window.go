package template

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// pools are the pooling families.
var pools = []Family{maxPoolRows{}, maxPoolChannels{}, avgPoolRows{}, avgPoolColumns{}, avgPoolChannels{}}

// window is what a pooling operator slides over a plane; [0] is along the height.
type window struct {
	kernel, stride, padding, dilation [2]int64
}

// windowOf reads the arguments of max_pool2d_with_indices and avg_pool2d; an absent dilation is 1. false: not the kinds that the schema has.
func windowOf(call card.Call) (window, bool) {
	var w window
	kernel, ok := pair(argument(call, "kernel_size"))
	w.kernel, w.stride, w.dilation = kernel, kernel, [2]int64{1, 1}
	if stride := argument(call, "stride"); stride.Kind == "ints" && string(stride.Value) != "[]" {
		var read bool
		w.stride, read = pair(stride)
		ok = ok && read
	}
	padding, read := pair(argument(call, "padding"))
	w.padding = padding
	ok = ok && read
	if dilation := argument(call, "dilation"); dilation.Kind == "ints" {
		w.dilation, read = pair(dilation)
		ok = ok && read
	}
	for i := range 2 {
		ok = ok && w.kernel[i] > 0 && w.stride[i] > 0 && w.dilation[i] > 0 && w.padding[i] >= 0 && w.kernel[i] <= 64
	}
	return w, ok
}

// pair reads an int[2]; one value stands for both.
func pair(arg card.Arg) ([2]int64, bool) {
	values, ok := list(arg)
	if !ok || len(values) > 2 {
		return [2]int64{}, false
	}
	return [2]int64{values[0], values[len(values)-1]}, true
}

// list reads an int[] with elements.
func list(arg card.Arg) ([]int64, bool) {
	var values []int64
	ok := arg.Kind == "ints" && json.Unmarshal(arg.Value, &values) == nil && len(values) > 0
	return values, ok
}

// meets says whether every window of a plane has at least one element, in which case eager's first position lies in the plane.
func (w window) meets(in, out [2]int64) bool {
	for i := range 2 {
		for o := range out[i] {
			at := o*w.stride[i] - w.padding[i]
			if at < 0 {
				at += (w.dilation[i] - 1 - at) / w.dilation[i] * w.dilation[i]
			}
			if at >= min(in[i], o*w.stride[i]-w.padding[i]+(w.kernel[i]-1)*w.dilation[i]+1) {
				return false
			}
		}
	}
	return true
}

// constants are a window's macros: KH, KW, SH, SW, PH, PW, DH, DW.
func (w window) constants(into map[string]string) {
	for name, values := range map[string][2]int64{"K": w.kernel, "S": w.stride, "P": w.padding, "D": w.dilation} {
		into[name+"H"], into[name+"W"] = strconv.FormatInt(values[0], 10), strconv.FormatInt(values[1], 10)
	}
}

// sizes4 are a tensor's sizes as N, C, H, W; a tensor of three dims has N = 1.
func sizes4(sizes []int64) [4]int64 {
	if len(sizes) == 3 {
		return [4]int64{1, sizes[0], sizes[1], sizes[2]}
	}
	return [4]int64(sizes)
}

// planes are the spec's expressions for a tensor of three or four dims: N, C, H, W and the strides of each.
func planes(name string, dim int) (sizes, strides [4]string) {
	sizes[0], strides[0] = "1", "0"
	for i := range dim {
		sizes[4-dim+i] = fmt.Sprintf("%s_size%d", name, i)
		strides[4-dim+i] = fmt.Sprintf("%s_stride%d", name, i)
	}
	return sizes, strides
}

func integers(exprs ...string) []card.SpecArg {
	args := make([]card.SpecArg, len(exprs))
	for i, expr := range exprs {
		args[i] = integer(expr)
	}
	return args
}

// Orders of memory, outermost dim first.
var (
	rowsInside     = []int{0, 1, 2, 3} // NCHW
	channelsInside = []int{0, 2, 3, 1} // NHWC
)

// dense says whether a tensor without empty dims lies in memory in this order without gaps. Strides of dims of size 1 do not matter.
func dense(sizes, strides []int64, order []int) bool {
	next := int64(1)
	for _, d := range slices.Backward(order) {
		d -= 4 - len(sizes)
		if d < 0 {
			continue
		}
		if sizes[d] < 1 || (sizes[d] > 1 && strides[d] != next) {
			return false
		}
		next *= sizes[d]
	}
	return true
}

// poolable says what every pooling family needs of a call: floating point in and out, three or four dims, nothing empty, rows (inner = 3) or
// channels (inner = 1) of stride 1 in the input, the outputs dense in the order.
func poolable(call card.Call, order []int, outputs int) bool {
	self := argument(call, "self")
	if self.Kind != "tensor" || !isFloat(self.DType) || len(self.Sizes) < 3 || len(self.Sizes) > 4 || len(call.Outputs) != outputs {
		return false
	}
	inner := order[3] - (4 - len(self.Sizes))
	if slices.Min(self.Sizes) < 1 || slices.Min(self.Strides) < 0 || (self.Sizes[inner] > 1 && self.Strides[inner] != 1) {
		return false
	}
	for i, out := range call.Outputs {
		if len(out.Sizes) != len(self.Sizes) || !dense(out.Sizes, out.Strides, order) || (i == 0 && out.DType != self.DType) {
			return false
		}
	}
	plane := sizes4(self.Sizes)
	return plane[2]*plane[3] < 1<<31
}

// sameWindow says whether all variants slide one window, in which case it is a constant of the kernel.
func sameWindow(c *card.Card, w window) bool {
	return everyVariant(c, func(call card.Call) bool {
		other, ok := windowOf(call)
		return ok && other == w
	})
}

// pieces are the rows of one piece of work, 0 for whole planes.
func pieces(c *card.Card, f propose.Facts) Param {
	rows := Param{"ROWS", []int{0, 4, 8, 16, 32}, 0}
	for _, variant := range c.Variants {
		out := sizes4(variant.Call.Outputs[0].Sizes)
		if out[0]*out[1] < int64(4*f.Threads) && out[2] > 8 {
			rows.Default = 8 // too few planes to share out
		}
	}
	return rows
}

// ahead is how far to prefetch: the hardware does not see the order in which windows read. The third value, or the last, where data lies
// beyond the second cache.
func ahead(c *card.Card, f propose.Facts, values ...int) Param {
	p := Param{"AHEAD", values, 0}
	if largestBytes(c) > 2*f.L2Bytes {
		p.Default = values[min(2, len(values)-1)]
	}
	return p
}

// grain is how many elements a thread takes at least.
func grain() Param { return Param{"GRAIN", []int{2048, 8192, 32768, 131072}, 8192} }

// share is the expression for a point's grain in items of so many elements.
func share(p Point, item string) string { return fmt.Sprintf("max(1, %d / (%s))", p["GRAIN"], item) }
