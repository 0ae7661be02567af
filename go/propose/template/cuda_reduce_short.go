package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaReduceShort is cuda/reduce_short.cu: short rows in one run that are not whole vectors; others are reduceRows'.
type cudaReduceShort struct{}

func (cudaReduceShort) Name() string { return "reduce_short" }

// staticBytes is the shared memory that a block may declare.
const staticBytes = 48 << 10

func (cudaReduceShort) Applies(c *card.Card) bool {
	if !reduces(c, true) {
		return false
	}
	kept, rows, ok := reducedWalks(c, false)
	_, longest := rows.lengths()
	size := itemSizes[argument(c.Variants[0].Call, "self").DType]
	if !ok || len(kept.sizes) != 1 || len(rows.sizes) != 1 || !rows.unit[0] || !kept.unit[0] || longest%int64(16/size) == 0 || int(longest)*size*64 > staticBytes {
		return false
	}
	for v, n := range kept.numbers {
		if n.sizes[0] > 1 && n.strides[1][0] != rows.numbers[v].sizes[0] {
			return false
		}
	}
	return true
}

// Params have, by default, four threads a row, so that a plane of 7 x 7 is on its way at once.
func (cudaReduceShort) Params(c *card.Card, _ propose.Facts) []Param {
	_, rows, _ := reducedWalks(c, false)
	_, longest := rows.lengths()
	size := itemSizes[argument(c.Variants[0].Call, "self").DType]
	most := min(128, floorPower(int64(staticBytes/(int(longest)*size))))
	return []Param{{"VEC", powers(1, 16/size), 16 / size}, {"ROWS", powers(32, most), min(64, most)}, {"TEAM", []int{1, 2, 4, 8}, 4}, {"UNROLL", []int{1, 2, 4, 8}, 4}}
}

func (cudaReduceShort) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	_, rows, ok := reducedWalks(c, false)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dims are not a list", c.Overload)
	}
	fewest, longest := rows.lengths()
	self := argument(call, "self")
	s := signatureOf(c)
	s.out("OUT", "out", "out0")
	s.in("IN", "self", "self")
	s.size("outputs", "out0_numel")
	s.size("numel", "self_numel")
	s.size("length", "self_numel / out0_numel")
	constants := map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[call.Outputs[0].DType], "C": accumulator(self.DType), "MEAN": flag(means[c.Overload]),
		"MAXIMUM": flag(maximums[c.Overload]), "INDEX": s.index(), "LONGEST": strconv.FormatInt(longest, 10), "SAME": flag(fewest == longest),
	}
	return card.Candidate{
		Source: cudaPage("reduce_short", map[string]string{"parameters": s.parameters()}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", fmt.Sprintf("ceildiv(out0_numel, %d)", p["ROWS"]), p["ROWS"]*p["TEAM"], s)}),
	}, nil
}
