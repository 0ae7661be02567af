package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaReduceTogether is cuda/reduce_together.cu: rows of some vectors, a power of two, of one length in all variants.
type cudaReduceTogether struct{}

func (cudaReduceTogether) Name() string { return "reduce_together" }

// mostTogether bounds the vectors of a lane, whose loads are all in flight; leastTogether the vectors of a call: fewer leave most of a device idle.
const mostTogether, leastTogether = 16, 4096

func (cudaReduceTogether) Applies(c *card.Card) bool {
	if !reduces(c, true) {
		return false
	}
	vector, vectors := rowVectors(c)
	return vectors >= 4 && vectors <= 32*mostTogether && most(c, func(call card.Call) int64 { return numel(argument(call, "self")) }) >= int64(leastTogether*vector)
}

// Params have, by default, eight loads a lane.
func (cudaReduceTogether) Params(c *card.Card, _ propose.Facts) []Param {
	_, vectors := rowVectors(c)
	team := together(vectors)
	rows := func(loads int) int { return max(1, min(team, loads*team/vectors)) }
	return []Param{{"ROWS", powers(1, rows(mostTogether)), rows(8)}, {"THREADS", []int{128, 256, 512}, 256}}
}

// together is the number of lanes that have a row of so many vectors.
func together(vectors int) int { return min(vectors, 32) }

func (cudaReduceTogether) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	vector, vectors := rowVectors(c)
	if vector == 0 {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its rows are not whole vectors", c.Overload)
	}
	s, constants := vectorReduction(c, vector)
	team := together(vectors)
	constants["TEAM"], constants["ITEMS"] = strconv.Itoa(team), strconv.Itoa(vectors/team)
	return card.Candidate{
		Source: cudaPage("reduce_together", map[string]string{"parameters": s.parameters()}),
		Spec: deviceSpec(c, p, constants, []card.Kernel{
			launch("kf_main", fmt.Sprintf("ceildiv(out0_numel, %d)", p["ROWS"]*p["THREADS"]/team), p["THREADS"], s)}),
	}, nil
}
