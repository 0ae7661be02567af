package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Softmax and log-softmax for cuda. Along the innermost dim: cudaSoftmaxWarps is cuda/softmax_warps.cu, cudaSoftmaxBlocks
// cuda/softmax_blocks.cu, cudaSoftmaxSplit cuda/softmax_split.cu. Along any other: cudaSoftmaxColumns is cuda/softmax_columns.cu, cudaSoftmaxLanes
// cuda/softmax_lanes.cu.
type (
	cudaSoftmaxLanes   struct{}
	cudaSoftmaxWarps   struct{}
	cudaSoftmaxBlocks  struct{}
	cudaSoftmaxSplit   struct{}
	cudaSoftmaxColumns struct{}
)

func (cudaSoftmaxWarps) Name() string   { return "softmax_warps" }
func (cudaSoftmaxBlocks) Name() string  { return "softmax_blocks" }
func (cudaSoftmaxSplit) Name() string   { return "softmax_split" }
func (cudaSoftmaxColumns) Name() string { return "softmax_columns" }
func (cudaSoftmaxLanes) Name() string   { return "softmax_lanes" }

func selfType(c *card.Card) string { return argument(c.Variants[0].Call, "self").DType }

func (cudaSoftmaxWarps) Applies(c *card.Card) bool {
	return softmaxApplies(c, true) && len(teams("TEAM", warpTeams, longest(c), selfType(c)).Values) > 0
}

func (cudaSoftmaxBlocks) Applies(c *card.Card) bool {
	return softmaxApplies(c, true) && longest(c) >= 256 && len(teams("THREADS", blockTeams, longest(c), selfType(c)).Values) > 0
}

func (cudaSoftmaxSplit) Applies(c *card.Card) bool {
	return softmaxApplies(c, true) && longest(c) >= 8192 && longest(c) < 1<<30
}

func (cudaSoftmaxColumns) Applies(c *card.Card) bool {
	return softmaxApplies(c, false) && longest(c) < 1<<30
}

func (cudaSoftmaxLanes) Applies(c *card.Card) bool {
	return softmaxApplies(c, false) && len(laneAccesses(c).Values) > 0
}

// laneAccesses are the columns of a thread that keeps whole ones in 64 registers; at most 64 elements each, which are all unrolled.
func laneAccesses(c *card.Card) Param {
	const room, unrolled = 256, 64
	p := Param{Name: "VEC"}
	for v := 1; v <= slices.Max(softmaxAccesses(c, true).Values); v *= 2 {
		if longest(c) <= unrolled && longest(c)*int64(v*itemSizes[selfType(c)]) <= room {
			p.Values, p.Default = append(p.Values, v), v
		}
	}
	return p
}

// softmaxAccesses are the vectors of a row, or of neighbouring columns.
func softmaxAccesses(c *card.Card, columns bool) Param {
	return accesses(c, itemSizes[selfType(c)], 16, func(call card.Call) []int64 {
		dim, _ := softmaxDim(call)
		if columns {
			return []int64{numelOf(argument(call, "self").Sizes[dim+1:])}
		}
		return []int64{argument(call, "self").Sizes[dim]}
	})
}

func (cudaSoftmaxWarps) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{teams("TEAM", warpTeams, longest(c), selfType(c)), warps, softmaxAccesses(c, false)}
}

func (cudaSoftmaxBlocks) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{teams("THREADS", blockTeams, longest(c), selfType(c)), softmaxAccesses(c, false)}
}

func (cudaSoftmaxSplit) Params(c *card.Card, _ propose.Facts) []Param {
	length := func(call card.Call) int64 {
		dim, _ := softmaxDim(call)
		return argument(call, "self").Sizes[dim]
	}
	rows := func(call card.Call) int64 { return numel(argument(call, "self")) / length(call) }
	params := sharing(c, rows)
	vector := accesses(c, itemSizes[selfType(c)], 16, func(card.Call) []int64 { return nil }) // rows need not be whole vectors
	if odd(c, vector.Default) {
		params[slices.IndexFunc(params, func(p Param) bool { return p.Name == "ONCE" })].Default = 1 // other stores of such rows are split by the compiler
	}
	return append(params, vector)
}

// odd says whether rows of some variant are not whole vectors.
func odd(c *card.Card, vector int) bool {
	return !everyVariant(c, func(call card.Call) bool {
		dim, _ := softmaxDim(call)
		return argument(call, "self").Sizes[dim]%int64(vector) == 0
	})
}

func (cudaSoftmaxColumns) Params(c *card.Card, _ propose.Facts) []Param {
	vector := softmaxAccesses(c, true)
	threads, across := Param{"THREADS", []int{128, 256, 512}, 512}, Param{"ACROSS", []int{2, 4, 8, 16, 32}, 8}
	// The widest lines whose elements a thread can keep, in as few threads as do.
	for _, room := range []int64{32, perThread(512, selfType(c))} {
		for _, t := range threads.Values {
			for _, a := range []int{32, 16, 8, 4} {
				if items(longest(c), t/a, 1)*int64(vector.Default) <= room {
					threads.Default, across.Default = t, a
					return []Param{threads, across, vector}
				}
			}
		}
	}
	return []Param{threads, across, vector}
}

func (cudaSoftmaxLanes) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{{"THREADS", []int{64, 128, 256}, 128}, laneAccesses(c), {"ONCE", []int{0, 1}, 0}}
}

// softmaxPage has the constants and the signature that the pages share.
func softmaxPage(c *card.Card) (map[string]string, signature, int, error) {
	dim, ok := softmaxDim(c.Variants[0].Call)
	if !ok {
		return nil, signature{}, 0, fmt.Errorf("overload `%s`: its dim is not constant", c.Overload)
	}
	constants, s := softmaxTypes(c), signatureOf(c)
	constants["INDEX"] = s.index()
	s.in("IN", "x", "self")
	s.out("OUT", "out", "out0")
	s.size("length", fmt.Sprintf("self_size%d", dim))
	return constants, s, dim, nil
}

func softmaxOfRows(c *card.Card, p Point, name string, team, threads int) (card.Candidate, error) {
	constants, s, dim, err := softmaxPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	rows := product("self", 0, dim)
	s.size("rows", rows)
	constants["THREADS"] = strconv.Itoa(threads)
	constants["ITEMS"] = strconv.FormatInt(items(longest(c), team, p["VEC"]), 10)
	return card.Candidate{
		Source: cudaPage(name, map[string]string{"parameters": s.parameters()}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", fmt.Sprintf("ceildiv(%s, %d)", rows, threads/team), threads, s)}),
	}, nil
}

func (cudaSoftmaxWarps) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return softmaxOfRows(c, p, "softmax_warps", p["TEAM"], 32*p["WARPS"])
}

func (cudaSoftmaxBlocks) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return softmaxOfRows(c, p, "softmax_blocks", p["THREADS"], p["THREADS"])
}

func (cudaSoftmaxSplit) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	constants, s, dim, err := softmaxPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	rows, length := "("+product("self", 0, dim)+")", fmt.Sprintf("self_size%d", dim)
	constants["ODD"] = boolean(odd(c, p["VEC"]))
	gather := signatureOf(c)
	gather.in("IN", "x", "self")
	gather.out("Part", "parts", "ws0")
	gather.size("length", length)
	gather.shared()
	s.in("Part", "parts", "ws0")
	s.shared()
	kernels, parts := inTurns(p, rows, length, gather, s, 2*accumulatorBytes(selfType(c)))
	return card.Candidate{
		Source: cudaPage("softmax_split", map[string]string{"parameters": s.parameters(), "gather": gather.parameters()}),
		Spec:   deviceSpec(c, p, constants, kernels, parts),
	}, nil
}

// softmaxOfColumns is a page whose blocks have so many neighbouring columns of one slice.
func softmaxOfColumns(c *card.Card, p Point, page string, columns int, more map[string]string) (card.Candidate, error) {
	constants, s, dim, err := softmaxPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	inner := "(" + product("self", dim+1, len(argument(c.Variants[0].Call, "self").Sizes)) + ")"
	blocks := fmt.Sprintf("ceildiv(%s, %d)", inner, columns)
	s.size("inner", inner)
	s.size("blocks", blocks)
	maps.Copy(constants, more)
	return card.Candidate{
		Source: cudaPage(page, map[string]string{"parameters": s.parameters()}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", product("self", 0, dim)+" * "+blocks, p["THREADS"], s)}),
	}, nil
}

func (cudaSoftmaxLanes) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return softmaxOfColumns(c, p, "softmax_lanes", p["THREADS"]*p["VEC"], map[string]string{"ITEMS": strconv.FormatInt(longest(c), 10)})
}

func (cudaSoftmaxColumns) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	kept := items(longest(c), p["THREADS"]/p["ACROSS"], 1)
	hold := kept*int64(p["VEC"]) <= perThread(p["THREADS"], selfType(c))
	constants := map[string]string{"HOLD": boolean(hold), "ITEMS": "1"}
	if hold {
		constants["ITEMS"] = strconv.FormatInt(kept, 10)
	}
	return softmaxOfColumns(c, p, "softmax_columns", p["ACROSS"]*p["VEC"], constants)
}
