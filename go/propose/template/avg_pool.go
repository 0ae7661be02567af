package template

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var (
	avgPools      = overloads("avg_pool2d avg_pool2d.out")
	adaptivePools = overloads("_adaptive_avg_pool2d _adaptive_avg_pool2d.out adaptive_avg_pool2d.out")
)

// average is what an averaging pool's pages need as constants.
type average struct {
	window   window
	adaptive bool
	include  bool  // padding counts
	divisor  int64 // 0: what the window holds
}

func averageOf(c *card.Card) (average, bool) {
	if _, ok := callOf(c, adaptivePools); ok {
		one := [2]int64{1, 1}
		return average{window: window{kernel: one, stride: one, dilation: one}, adaptive: true}, true
	}
	call, ok := callOf(c, avgPools)
	if !ok {
		return average{}, false
	}
	w, ok := windowOf(call)
	a := average{window: w}
	if arg := argument(call, "count_include_pad"); arg.Kind != "bool" || json.Unmarshal(arg.Value, &a.include) != nil {
		return a, false
	}
	if arg := argument(call, "divisor_override"); arg.Kind == "int" {
		v, read := constant(arg)
		a.divisor = v.int
		ok = ok && read && v.int != 0
	} else if arg.Kind != "none" {
		return a, false
	}
	return a, ok && sameWindow(c, w)
}

// avgPoolApplies says whether windows are constant or adaptive, never empty, and tensors lie in the order.
func avgPoolApplies(c *card.Card, order []int) bool {
	a, ok := averageOf(c)
	return ok && everyVariant(c, func(call card.Call) bool {
		if !poolable(call, order, 1) {
			return false
		}
		in, out := sizes4(argument(call, "self").Sizes), sizes4(call.Outputs[0].Sizes)
		return a.adaptive || a.window.meets([2]int64(in[2:]), [2]int64(out[2:]))
	})
}

func (a average) constants(call card.Call) map[string]string {
	constants := map[string]string{
		"IN": ctypes[argument(call, "self").DType], "ADAPTIVE": boolean(a.adaptive), "INCLUDE": boolean(a.include),
		"DIVISOR": strconv.FormatInt(a.divisor, 10),
	}
	a.window.constants(constants)
	return constants
}

func boolean(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// avgPoolRows is host/avg_pool_rows.cc: planes whose rows are contiguous, constant windows.
type avgPoolRows struct{}

func (avgPoolRows) Name() string { return "avg_pool_rows" }

func (avgPoolRows) Applies(c *card.Card) bool {
	a, ok := averageOf(c)
	return ok && !a.adaptive && avgPoolApplies(c, rowsInside) && widestRow(c) <= maxColumns && a.window.kernel[0]*a.window.kernel[1] <= 128
}

func (avgPoolRows) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), pieces(c, f), ahead(c, f, 0, 1), grain()}
}

func (avgPoolRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call, a, err := averageCall(c)
	if err != nil {
		return card.Candidate{}, err
	}
	self := argument(call, "self")
	constants := a.constants(call)
	constants["BLOCKS"] = strconv.FormatInt(blocks(widestRow(c), p, self.DType), 10)
	in, strides := planes("self", len(self.Sizes))
	out, _ := planes("out0", len(self.Sizes))
	args := append([]card.SpecArg{slot("self"), slot("out0")}, integers(in[:]...)...)
	args = append(args, integers(out[2], out[3], strides[0], strides[1], strides[2])...)
	work := fmt.Sprintf("%s * %s * ceildiv(%s, %s)", in[0], in[1], out[2], pieceRows(p, out[2]))
	return card.Candidate{Source: hostPage("avg_pool_rows", nil), Spec: single(p, constants, work, share(p, pieceSize(p, a.window, in)), args)}, nil
}

func averageCall(c *card.Card) (card.Call, average, error) {
	a, ok := averageOf(c)
	if !ok {
		return card.Call{}, a, fmt.Errorf("overload `%s`: its window is not constant", c.Overload)
	}
	return c.Variants[0].Call, a, nil
}

// avgPoolColumns is host/avg_pool_columns.cc: planes whose rows are contiguous, any windows.
type avgPoolColumns struct{}

func (avgPoolColumns) Name() string { return "avg_pool_columns" }

func (avgPoolColumns) Applies(c *card.Card) bool {
	return avgPoolApplies(c, rowsInside) && widestInput(c) <= 4096 && widestRow(c) <= 4096 // both are kept on the stack
}

func widestInput(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		most = max(most, sizes4(argument(variant.Call, "self").Sizes)[3])
	}
	return most
}

func (avgPoolColumns) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, ahead(c, f, 0, 8, 16), grain()}
}

func (avgPoolColumns) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call, a, err := averageCall(c)
	if err != nil {
		return card.Candidate{}, err
	}
	self := argument(call, "self")
	constants := a.constants(call)
	constants["WIDTH"], constants["OUTS"] = strconv.FormatInt(widestInput(c), 10), strconv.FormatInt(widestRow(c), 10)
	in, strides := planes("self", len(self.Sizes))
	out, _ := planes("out0", len(self.Sizes))
	args := append([]card.SpecArg{slot("self"), slot("out0")}, integers(in[:]...)...)
	args = append(args, integers(out[2], out[3], strides[0], strides[1], strides[2])...)
	work := fmt.Sprintf("%s * %s * %s", in[0], in[1], out[2])
	return card.Candidate{Source: hostPage("avg_pool_columns", nil), Spec: single(p, constants, work, share(p, in[2]+" * "+in[3]+" / "+out[2]+" + 1"), args)}, nil
}

// avgPoolChannels is host/avg_pool_channels.cc: contiguous channels, any windows.
type avgPoolChannels struct{}

func (avgPoolChannels) Name() string { return "avg_pool_channels" }

func (avgPoolChannels) Applies(c *card.Card) bool { return avgPoolApplies(c, channelsInside) }

func (avgPoolChannels) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, ahead(c, f, 0, 4, 8, 16), grain()}
}

func (avgPoolChannels) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call, a, err := averageCall(c)
	if err != nil {
		return card.Candidate{}, err
	}
	args, work, size := channelArgs(len(argument(call, "self").Sizes), slot("out0"))
	return card.Candidate{
		Source: hostPage("avg_pool_channels", nil),
		Spec:   single(p, a.constants(call), work, share(p, size), args),
	}, nil
}

// channelArgs are the arguments of a pool over contiguous channels (C, H, W, OH, OW and the strides of N, H, W), its work and the input elements
// of one item.
func channelArgs(dim int, outputs ...card.SpecArg) (args []card.SpecArg, work, size string) {
	in, strides := planes("self", dim)
	out, _ := planes("out0", dim)
	args = append([]card.SpecArg{slot("self")}, outputs...)
	args = append(args, integers(in[1], in[2], in[3], out[2], out[3], strides[0], strides[2], strides[3])...)
	return args, in[0] + " * " + out[2], fmt.Sprintf("%s * %s * %s / %s + 1", in[1], in[2], in[3], out[2])
}
