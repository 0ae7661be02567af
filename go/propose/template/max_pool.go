package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var maxPools = overloads("max_pool2d max_pool2d_with_indices max_pool2d_with_indices.out")

// withIndices says whether a max pool gives the places of its maxima as well; `max_pool2d` does not.
func withIndices(call card.Call) bool { return len(call.Outputs) == 2 }

// indexSlot is the argument for the places of the maxima, which are the second output where there is one.
func indexSlot(call card.Call) card.SpecArg {
	if withIndices(call) {
		return slot("out1")
	}
	return integer("0")
}

// maxPoolRows is host/max_pool_rows.cc: planes whose rows are contiguous.
type maxPoolRows struct{}

func (maxPoolRows) Name() string { return "max_pool_rows" }

func (maxPoolRows) Applies(c *card.Card) bool { return maxPoolApplies(c, rowsInside) }

func maxPoolApplies(c *card.Card, order []int) bool {
	call, ok := callOf(c, maxPools)
	if !ok {
		return false
	}
	w, ok := windowOf(call)
	return ok && sameWindow(c, w) && everyVariant(c, func(call card.Call) bool {
		outputs := 1
		if call.Overload != "aten::max_pool2d" {
			outputs = 2
		}
		if !poolable(call, order, outputs) || (outputs == 2 && call.Outputs[1].DType != "int64") {
			return false
		}
		in, out := sizes4(argument(call, "self").Sizes), sizes4(call.Outputs[0].Sizes)
		return w.meets([2]int64(in[2:]), [2]int64(out[2:]))
	})
}

func (maxPoolRows) Params(c *card.Card, f propose.Facts) []Param {
	order := Param{"ORDER", []int{0, 1}, 0}
	if largestBytes(c) > f.LLCBytes {
		order.Default = 1
	}
	if widestRow(c) > maxColumns {
		order = Param{"ORDER", []int{0}, 0}
	}
	params := []Param{lanes(f), order, pieces(c, f), ahead(c, f, 0, 1), grain()}
	return append(params, streaming(c, f)...)
}

// maxColumns bounds what a page keeps on the stack for the vectors of a row.
const maxColumns = 1024

func widestRow(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		most = max(most, sizes4(variant.Call.Outputs[0].Sizes)[3])
	}
	return most
}

func (maxPoolRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	w, ok := windowOf(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its window is not constant", c.Overload)
	}
	self := argument(call, "self")
	constants := map[string]string{
		"IN": ctypes[self.DType], "BLOCKS": strconv.FormatInt(blocks(widestRow(c), p, self.DType), 10), "INDICES": boolean(withIndices(call)),
	}
	w.constants(constants)
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	in, strides := planes("self", len(self.Sizes))
	out, _ := planes("out0", len(self.Sizes))
	args := append([]card.SpecArg{slot("self"), slot("out0"), indexSlot(call)}, integers(in[:]...)...)
	args = append(args, integers(out[2], out[3], strides[0], strides[1], strides[2])...)
	work := fmt.Sprintf("%s * %s * ceildiv(%s, %s)", in[0], in[1], out[2], pieceRows(p, out[2]))
	return card.Candidate{
		Source: hostPage("max_pool_rows", nil),
		Spec:   single(p, constants, work, share(p, pieceSize(p, w, in)), args),
	}, nil
}

// pieceRows is the expression for the rows of one piece of work.
func pieceRows(p Point, all string) string {
	if rows := p["ROWS"]; rows > 0 {
		return strconv.Itoa(rows)
	}
	return all
}

// pieceSize is the expression for the input elements of one piece.
func pieceSize(p Point, w window, in [4]string) string {
	if rows := p["ROWS"]; rows > 0 {
		return fmt.Sprintf("%d * %s", int64(rows)*w.stride[0], in[3])
	}
	return in[2] + " * " + in[3]
}

// blocks is the number of vectors in a row of so many columns.
func blocks(columns int64, p Point, dtype string) int64 {
	lanes := laneCount(p, ctypes[dtype])
	return (columns + lanes - 1) / lanes
}

// maxPoolChannels is host/max_pool_channels.cc: contiguous channels.
type maxPoolChannels struct{}

func (maxPoolChannels) Name() string { return "max_pool_channels" }

func (maxPoolChannels) Applies(c *card.Card) bool { return maxPoolApplies(c, channelsInside) }

func (maxPoolChannels) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, ahead(c, f, 0, 4, 8, 16), grain()}
	return append(params, streaming(c, f)...)
}

func (maxPoolChannels) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	w, ok := windowOf(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its window is not constant", c.Overload)
	}
	self := argument(call, "self")
	constants := map[string]string{"IN": ctypes[self.DType], "INDICES": boolean(withIndices(call))}
	w.constants(constants)
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	args, work, size := channelArgs(len(self.Sizes), slot("out0"), indexSlot(call))
	return card.Candidate{Source: hostPage("max_pool_channels", nil), Spec: single(p, constants, work, share(p, size), args)}, nil
}
