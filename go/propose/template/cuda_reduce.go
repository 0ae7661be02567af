package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaReduceRows is cuda/reduce_rows.cu, cudaReduceColumns cuda/reduce_columns.cu: the reductions of the host's families.
type (
	cudaReduceRows    struct{}
	cudaReduceColumns struct{}
)

func (cudaReduceRows) Name() string    { return "reduce_rows" }
func (cudaReduceColumns) Name() string { return "reduce_columns" }

func (cudaReduceRows) Applies(c *card.Card) bool    { return reduces(c, true) }
func (cudaReduceColumns) Applies(c *card.Card) bool { return reduces(c, false) }

// reducedWalks are the walks of the kept dims (of the output and the input, or with `inside` of the input and the output: the first one's
// memory gives the order) and of the reduced dims (of the input).
func reducedWalks(c *card.Card, inside bool) (kept, rows walk, ok bool) {
	call := c.Variants[0].Call
	mask, ok := reducedDims(call)
	dims := len(argument(call, "self").Sizes)
	var keep, fold, at []int // dims of the input; dims of the output
	for d, next := 0, 0; d < dims; d++ {
		if mask>>d&1 == 1 {
			fold = append(fold, d)
		} else {
			keep, at = append(keep, d), append(at, next)
		}
		if mask>>d&1 == 0 || len(call.Outputs[0].Sizes) == dims {
			next++
		}
	}
	sizes := func(list []int) func(card.Call) []int64 {
		return func(call card.Call) []int64 { return pick(argument(call, "self").Sizes, list) }
	}
	self := func(list []int) operand {
		return operand{exprs: pick(texts(stridesOf("self", dims)), list), strides: func(call card.Call) []int64 { return pick(argument(call, "self").Strides, list) }}
	}
	out := operand{exprs: pick(texts(stridesOf("out0", len(call.Outputs[0].Sizes))), at), strides: func(call card.Call) []int64 { return pick(call.Outputs[0].Strides, at) }}
	operands := []operand{out, self(keep)}
	if inside {
		slices.Reverse(operands)
	}
	names := texts(sizesOf("self", dims))
	return walkOf(c, pick(names, keep), sizes(keep), operands), walkOf(c, pick(names, fold), sizes(fold), []operand{self(fold)}), ok
}

func pick[T any](list []T, at []int) []T {
	picked := make([]T, len(at))
	for i, d := range at {
		picked[i] = list[d]
	}
	return picked
}

// lengths are the number of elements of a walk in the variants: the fewest and the most.
func (w *walk) lengths() (fewest, most int64) {
	fewest = 1 << 62
	for _, n := range w.numbers {
		fewest, most = min(fewest, numelOf(n.sizes)), max(most, numelOf(n.sizes))
	}
	return fewest, most
}

// multiples says whether the strides of an operand in all dims but an inner one are multiples of a vector.
func (w *walk) multiples(k int, vector int64, inner bool) bool {
	return everyNumber(w.numbers, func(n numbers) bool {
		last := len(n.sizes) - 1
		for d, stride := range n.strides[k] {
			if !(inner && d == last) && n.sizes[d] > 1 && stride%vector != 0 {
				return false
			}
		}
		return !inner || n.sizes[last]%vector == 0
	})
}

// powers are the powers of two from a to b.
func powers(a, b int) []int {
	var list []int
	for v := a; v <= b; v *= 2 {
		list = append(list, v)
	}
	return list
}

// floorPower is the largest power of two that is at most n, at least 1.
func floorPower(n int64) int {
	p := 1
	for int64(p)*2 <= n {
		p *= 2
	}
	return p
}

// rowVector is how many elements of a row can be taken together: of one run any, of several runs those that all begin and end whole.
func rowVector(kept, rows *walk, most int) int {
	if !rows.unit[0] {
		return 1
	}
	for ; most > 1 && len(rows.sizes) > 1; most /= 2 {
		if rows.multiples(0, int64(most), true) && kept.multiples(1, int64(most), false) {
			break
		}
	}
	return most
}

func (cudaReduceRows) Params(c *card.Card, f propose.Facts) []Param {
	kept, rows, _ := reducedWalks(c, false)
	size := itemSizes[argument(c.Variants[0].Call, "self").DType]
	fewest, longest := rows.lengths()
	most := min(rowVector(&kept, &rows, 16/size), floorPower(fewest))
	best := most
	if longest%int64(most) != 0 && longest < int64(64*most) {
		best = 1 // short rows that begin anywhere: most of a row would be its ends
	}
	vectors := longest / int64(best)
	team := min(max(floorPower(vectors/2), 4), 256)
	if outputs, _ := kept.lengths(); outputs >= int64(64*max(f.SMCount, 1)) {
		// Enough rows for all multiprocessors: a warp needs no barrier, and its loads are in flight together.
		team = min(team, max(4, min(floorPower(vectors/4), 32), min(floorPower(vectors/16), 256)))
	}
	unroll := 4
	for unroll > 1 && vectors < int64(unroll*team) {
		unroll /= 2
	}
	least := min(max(floorPower(vectors/16), 4), team) // a thread of a smaller team would have more than 16 vectors of a row
	return []Param{
		{"VEC", powers(1, most), best},
		{"TEAM", powers(least, min(512, max(8, 2*floorPower(vectors)))), team},
		{"UNROLL", []int{1, 2, 4}, unroll},
		cuts(&kept, longest/int64(8*best*team), 256/team, f),
	}
}

func (cudaReduceColumns) Params(c *card.Card, f propose.Facts) []Param {
	kept, rows, _ := reducedWalks(c, true)
	size := itemSizes[argument(c.Variants[0].Call, "self").DType]
	most := 16 / size
	for ; most > 1; most /= 2 {
		if kept.unit[0] && kept.multiples(0, int64(most), true) && rows.multiples(0, int64(most), false) {
			break
		}
	}
	outputs, _ := kept.lengths()
	_, longest := rows.lengths()
	cols := min(max(floorPower(outputs/int64(most)), 4), 32)
	down := 256 / cols
	unroll := 1
	switch {
	case longest > int64(4*down) && longest <= int64(8*down):
		unroll = 8 // all of them at once
	case longest >= int64(4*down):
		unroll = 4
	}
	return []Param{
		{"VEC", powers(1, most), most},
		{"COLS", powers(4, 64), cols},
		{"UNROLL", []int{1, 2, 4, 8}, unroll},
		{"THREADS", []int{128, 256, 512}, 256},
		cuts(&kept, longest/int64(4*down), cols*most, f),
	}
}

// cuts offers to cut the elements of an output into parts, at most `longest` of them: as many as give each multiprocessor six blocks of
// `each` outputs.
func cuts(kept *walk, longest int64, each int, f propose.Facts) Param {
	outputs, _ := kept.lengths()
	blocks := max(1, outputs/int64(each))
	most := min(1024, floorPower(longest))
	best := min(most, floorPower(6*int64(max(f.SMCount, 1))/blocks))
	values := []int{1, 4, 16, 64, 256, 1024, best}
	values = slices.DeleteFunc(values, func(v int) bool { return v > most })
	slices.Sort(values)
	return Param{"PARTS", slices.Compact(values), best}
}

func (cudaReduceRows) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	threads := max(256, p["TEAM"])
	work := fmt.Sprintf("ceildiv(out0_numel * %d, %d)", p["PARTS"], threads/p["TEAM"])
	return deviceReduction(c, p, "reduce_rows", work, threads)
}

func (cudaReduceColumns) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	candidate, err := deviceReduction(c, p, "reduce_columns", fmt.Sprintf("ceildiv(out0_numel, %d)", p["COLS"]*p["VEC"]), p["THREADS"])
	if err == nil {
		candidate.Spec.Kernels[0].Grid[1] = strconv.Itoa(p["PARTS"])
	}
	return candidate, err
}

func deviceReduction(c *card.Card, p Point, page, work string, threads int) (card.Candidate, error) {
	call := c.Variants[0].Call
	kept, rows, ok := reducedWalks(c, page == "reduce_columns")
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dims are not a list", c.Overload)
	}
	self := argument(call, "self")
	s := signatureOf(c)
	constants := map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[call.Outputs[0].DType], "C": accumulator(self.DType), "DIMS": strconv.Itoa(len(kept.sizes)),
		"ROW_DIMS": strconv.Itoa(len(rows.sizes)), "MEAN": flag(means[c.Overload]), "MAXIMUM": flag(maximums[c.Overload]), "INDEX": s.index(),
		"THREADS": strconv.Itoa(threads),
	}
	s.out("OUT", "out", "out0")
	s.in("IN", "self", "self")
	if p["PARTS"] > 1 {
		s.out("C", "parts", "ws0")
	}
	if page == "reduce_columns" {
		_, longest := rows.lengths()
		constants["ONE"] = flag(p["PARTS"] == 1 && longest <= int64(p["THREADS"]/p["COLS"]*p["UNROLL"]))
	}
	counts := func(s *signature) {
		s.size("outputs", "out0_numel")
		s.size("numel", "self_numel")
	}
	counts(&s)
	s.size("length", "self_numel / out0_numel")
	walks := kept.declare(&s, "", p["VEC"]) + rows.declare(&s, "row_", p["VEC"])
	kernels := []card.Kernel{launch("kf_main", work, threads, s)}
	if p["PARTS"] == 1 {
		parts := map[string]string{"parameters": s.parameters(), "walks": walks, "join": "", "joined": ""}
		return card.Candidate{Source: cudaPage(page, parts), Spec: deviceSpec(c, p, constants, kernels)}, nil
	}
	join := signature{wide: s.wide}
	join.out("OUT", "out", "out0")
	join.in("C", "parts", "ws0")
	counts(&join)
	joined := kept.declare(&join, "", 1)
	size := map[string]int{"float": 4, "double": 8}[constants["C"]]
	return card.Candidate{
		Source: cudaPage(page, map[string]string{"parameters": s.parameters(), "walks": walks, "join": join.parameters(), "joined": joined}),
		Spec: deviceSpec(c, p, constants, append(kernels, launch("kf_join", "ceildiv(out0_numel, 4)", 128, join)),
			card.Workspace{Bytes: fmt.Sprintf("out0_numel * %d", p["PARTS"]*size)}),
	}, nil
}
