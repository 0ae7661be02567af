package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaCumsumRows is cuda/cumsum_rows.cu, cudaCumsumColumns cuda/cumsum_columns.cu: the scans of the host's families.
type (
	cudaCumsumRows    struct{}
	cudaCumsumColumns struct{}
)

func (cudaCumsumRows) Name() string    { return "cumsum_rows" }
func (cudaCumsumColumns) Name() string { return "cumsum_columns" }

func (cudaCumsumRows) Applies(c *card.Card) bool    { return accumulates(c, true) }
func (cudaCumsumColumns) Applies(c *card.Card) bool { return accumulates(c, false) }

// scanWalk is the walk of all dims but the one that is summed along: of the output and the input.
func scanWalk(c *card.Card) (w walk, dim int) {
	call := c.Variants[0].Call
	dims := len(argument(call, "self").Sizes)
	dim, _ = dimOf(call, "dim", dims)
	var others []int
	for d := range dims {
		if d != dim {
			others = append(others, d)
		}
	}
	sizes := func(call card.Call) []int64 { return pick(argument(call, "self").Sizes, others) }
	return walkOf(c, pick(texts(sizesOf("self", dims)), others), sizes, []operand{
		{exprs: pick(texts(stridesOf("out0", dims)), others), strides: func(call card.Call) []int64 { return pick(call.Outputs[0].Strides, others) }},
		{exprs: pick(texts(stridesOf("self", dims)), others), strides: func(call card.Call) []int64 { return pick(argument(call, "self").Strides, others) }},
	}), dim
}

// scanLengths are the fewest and the most elements along a dim of the input.
func scanLengths(c *card.Card, dim int) (fewest, most int64) {
	fewest = 1 << 62
	for _, variant := range c.Variants {
		n := argument(variant.Call, "self").Sizes[dim]
		fewest, most = min(fewest, n), max(most, n)
	}
	return fewest, most
}

// scanVector is how many elements can be taken together at most: along the dim itself, or with `across` along the others' last.
func scanVector(c *card.Card, w *walk, dim, most int, across bool) int {
	last := len(w.sizes) - 1
	for ; most > 1; most /= 2 {
		vector := int64(most)
		whole := everyVariant(c, func(call card.Call) bool {
			self, out := argument(call, "self"), call.Outputs[0]
			if across {
				return self.Strides[dim]%vector == 0 && out.Strides[dim]%vector == 0
			}
			return self.Strides[dim] == 1 && out.Strides[dim] == 1 && self.Sizes[dim]%vector == 0
		})
		if across {
			whole = whole && w.unit[0] && w.unit[1] && everyNumber(w.numbers, func(n numbers) bool { return n.sizes[last]%vector == 0 })
		}
		if whole && w.multiples(0, vector, across) && w.multiples(1, vector, across) {
			break
		}
	}
	return most
}

// scanSize is the larger item size of a card's input and output.
func scanSize(c *card.Card) int {
	call := c.Variants[0].Call
	return max(itemSizes[argument(call, "self").DType], itemSizes[call.Outputs[0].DType])
}

func (cudaCumsumRows) Params(c *card.Card, f propose.Facts) []Param {
	w, dim := scanWalk(c)
	_, longest := scanLengths(c, dim)
	most := scanVector(c, &w, dim, 16/scanSize(c), false)
	team := 256
	switch vectors := longest / int64(most); {
	case vectors <= 128:
		team = 32
	case vectors <= 512:
		team = 128
	}
	rows, _ := w.lengths()
	return []Param{{"VEC", powers(1, most), most}, {"TEAM", []int{32, 128, 256, 512}, team}, scanParts(rows*int64(team)/256, longest/int64(4*most*team), 4, f)}
}

func (cudaCumsumColumns) Params(c *card.Card, f propose.Facts) []Param {
	w, dim := scanWalk(c)
	_, longest := scanLengths(c, dim)
	most := scanVector(c, &w, dim, 16/scanSize(c), true)
	columns, _ := w.lengths()
	best := most
	for best > 1 && columns/int64(best) < int64(f.SMCount)*256 {
		best /= 2
	}
	return []Param{
		{"VEC", powers(1, most), best},
		{"UNROLL", []int{4, 8, 16}, 8},
		{"THREADS", []int{64, 128, 256}, 128},
		scanParts(columns/int64(best)/128, longest/32, 8, f),
	}
}

// scanParts offers to cut each row or column into at most `longest` parts where there are fewer blocks than `each` for a multiprocessor: reading
// twice pays where the device would wait for memory.
func scanParts(blocks, longest int64, each int, f propose.Facts) Param {
	most := min(1024, floorPower(longest))
	best := 1
	if wanted := int64(each * max(f.SMCount, 1)); 2*blocks < wanted {
		best = min(most, floorPower(wanted/max(1, blocks)))
	}
	values := slices.DeleteFunc([]int{1, 4, 16, 64, 256, 1024, best}, func(v int) bool { return v > most })
	slices.Sort(values)
	return Param{"PARTS", slices.Compact(values), best}
}

func (cudaCumsumRows) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	threads := max(128, p["TEAM"])
	work := fmt.Sprintf("ceildiv(self_numel / self_size%s * %d, %d)", "%d", p["PARTS"], threads/p["TEAM"])
	return deviceScan(c, p, "cumsum_rows", work, threads)
}

func (cudaCumsumColumns) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	work := fmt.Sprintf("ceildiv(self_numel / self_size%s / %d * %d, %d)", "%d", p["VEC"], p["PARTS"], p["THREADS"])
	return deviceScan(c, p, "cumsum_columns", work, p["THREADS"])
}

func deviceScan(c *card.Card, p Point, page, work string, threads int) (card.Candidate, error) {
	call := c.Variants[0].Call
	self, to := argument(call, "self"), call.Outputs[0].DType
	w, dim := scanWalk(c)
	s := signatureOf(c)
	constants := map[string]string{
		"IN": ctypes[self.DType], "OUT": ctypes[to], "C": accumulator(to), "DIMS": strconv.Itoa(len(w.sizes)), "INDEX": s.index(), "THREADS": strconv.Itoa(threads),
	}
	s.out("OUT", "out", "out0")
	s.in("IN", "self", "self")
	others := fmt.Sprintf("self_numel / self_size%d", dim)
	if p["PARTS"] > 1 {
		s.out("C", "parts", "ws0")
	}
	if page == "cumsum_rows" {
		s.size("rows", others)
	} else {
		s.size("columns", others)
	}
	s.size("length", fmt.Sprintf("self_size%d", dim))
	s.size("to", fmt.Sprintf("out0_stride%d", dim))
	s.size("from", fmt.Sprintf("self_stride%d", dim))
	vector := p["VEC"]
	if page == "cumsum_rows" {
		vector = 1 // vectors lie along the summed dim
	}
	walks := w.declare(&s, "", vector)
	source := cudaPage(page, map[string]string{"parameters": s.parameters(), "walks": walks})
	kernels := []card.Kernel{launch("kf_main", fmt.Sprintf(work, dim), threads, s)}
	if p["PARTS"] == 1 {
		return card.Candidate{Source: source, Spec: deviceSpec(c, p, constants, kernels)}, nil
	}
	sums := launch("kf_sums", fmt.Sprintf(work, dim), threads, s)
	size := map[string]int{"float": 4, "double": 8, "int64_t": 8}[constants["C"]]
	return card.Candidate{
		Source: source,
		Spec:   deviceSpec(c, p, constants, append([]card.Kernel{sums}, kernels...), card.Workspace{Bytes: fmt.Sprintf("%s * %d", others, p["PARTS"]*size)}),
	}, nil
}
