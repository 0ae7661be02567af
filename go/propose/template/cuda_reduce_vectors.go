package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaReduceVectors is cuda/reduce_vectors.cu: rows of one vector or a few, of one length in all variants.
type cudaReduceVectors struct{}

func (cudaReduceVectors) Name() string { return "reduce_vectors" }

func (cudaReduceVectors) Applies(c *card.Card) bool {
	if !reduces(c, true) {
		return false
	}
	vector, vectors := rowVectors(c)
	return vector > 0 && vectors <= 4
}

// rowVectors is what each row consists of: vectors of so many elements, and how many; no elements where rows are not whole vectors in one run.
func rowVectors(c *card.Card) (vector, vectors int) {
	kept, rows, ok := reducedWalks(c, false)
	fewest, longest := rows.lengths()
	most := int64(16 / itemSizes[argument(c.Variants[0].Call, "self").DType])
	if !ok || len(kept.sizes) != 1 || len(rows.sizes) != 1 || !rows.unit[0] || !kept.unit[0] || fewest != longest {
		return 0, 0
	}
	for _, n := range kept.numbers {
		if n.sizes[0] > 1 && n.strides[1][0] != longest {
			return 0, 0
		}
	}
	switch {
	case longest%most == 0 && int64(floorPower(longest/most)) == longest/most:
		return int(most), int(longest / most)
	case longest > 1 && longest < most && int64(floorPower(longest)) == longest:
		return int(longest), 1
	}
	return 0, 0
}

func (cudaReduceVectors) Params(c *card.Card, _ propose.Facts) []Param {
	_, vectors := rowVectors(c)
	next := 4 / vectors
	for next > 1 && !everyVariant(c, func(call card.Call) bool { return numelOf(call.Outputs[0].Sizes)%int64(next) == 0 }) {
		next /= 2
	}
	return []Param{{"NEXT", powers(1, next), 1}, {"UNROLL", powers(1, 8/vectors), 4 / vectors}, {"THREADS", []int{128, 256}, 256}}
}

func (cudaReduceVectors) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	vector, vectors := rowVectors(c)
	if vector == 0 {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its rows are not whole vectors", c.Overload)
	}
	s, constants := vectorReduction(c, vector)
	s.size("numel", "self_numel")
	constants["VECTORS"] = strconv.Itoa(vectors)
	return card.Candidate{
		Source: cudaPage("reduce_vectors", map[string]string{"parameters": s.parameters()}),
		Spec: deviceSpec(c, p, constants, []card.Kernel{
			launch("kf_main", fmt.Sprintf("ceildiv(out0_numel, %d)", p["NEXT"]*p["UNROLL"]*p["THREADS"]), p["THREADS"], s)}),
	}, nil
}

// vectorReduction is the signature and the constants of a page whose rows are whole vectors, one behind the other.
func vectorReduction(c *card.Card, vector int) (signature, map[string]string) {
	call := c.Variants[0].Call
	self := argument(call, "self")
	s := signatureOf(c)
	s.out("OUT", "out", "out0")
	s.in("IN", "self", "self")
	s.size("outputs", "out0_numel")
	return s, map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[call.Outputs[0].DType], "C": accumulator(self.DType), "MEAN": flag(means[c.Overload]),
		"MAXIMUM": flag(maximums[c.Overload]), "INDEX": s.index(), "VEC": strconv.Itoa(vector),
	}
}
