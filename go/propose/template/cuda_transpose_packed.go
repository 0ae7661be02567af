package template

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaTransposePacked is cuda/transpose_packed.cu: the copies of transpose.cu in whole vectors of 2-byte or 4-byte elements that keep their type.
type cudaTransposePacked struct{}

func (cudaTransposePacked) Name() string { return "transpose_packed" }

func (cudaTransposePacked) Applies(c *card.Card) bool {
	if !(cudaTranspose{}).Applies(c) {
		return false
	}
	call := c.Variants[0].Call
	size := itemSizes[call.Outputs[0].DType]
	w, along := crossing(c)
	return argument(call, "src").DType == call.Outputs[0].DType && (size == 2 || size == 4) && crossedVector(w, along, 16/size) == 16/size
}

func (cudaTransposePacked) Params(c *card.Card, _ propose.Facts) []Param {
	tile := Param{"TILE", []int{32, 64}, 64}
	if itemSizes[c.Variants[0].Call.Outputs[0].DType] == 2 {
		tile = Param{"TILE", []int{32, 64, 128}, 128}
	}
	return []Param{tile, {"THREADS", []int{128, 256, 512}, 256}, {"ORDER", []int{0, 1}, 0}, {"WAVES", []int{0, 1, 4}, 0}}
}

func (cudaTransposePacked) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	w, along := crossing(c)
	if along < 0 {
		return card.Candidate{}, fmt.Errorf("overload `%s`: no dim of the source crosses the output's last", c.Overload)
	}
	element := bitsType(c.Variants[0].Call.Outputs[0].DType)
	return squares(c, p, w, along, "transpose_packed", map[string]string{"IN": element, "OUT": element})
}
