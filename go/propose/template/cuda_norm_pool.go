package template

import (
	"fmt"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
)

// cudaPools and cudaNorms are the families of pooling, normalisation and softmax for cuda.
var (
	cudaPools = []Family{cudaMaxPoolRows{}, cudaMaxPoolChannels{}, cudaMaxPoolStrips{}, cudaMaxPoolBands{}, cudaMaxPoolKeys{}, cudaAvgPoolRows{}, cudaAvgPoolTeams{}, cudaAvgPoolChannels{}, cudaAvgPoolEven{}}
	cudaNorms = []Family{
		cudaBatchNormPlanes{}, cudaBatchNormChannels{}, cudaSoftmaxWarps{}, cudaSoftmaxBlocks{}, cudaSoftmaxCluster{}, cudaSoftmaxSplit{}, cudaSoftmaxColumns{}, cudaSoftmaxLanes{},
		cudaNormWarps{}, cudaNormBlocks{}, cudaNormStream{}, cudaGroupNormSplit{}, cudaGroupNormCluster{}, cudaNormCluster{}, cudaNormRing{}, cudaNormTeam{}, cudaNormSplit{}, cudaGroupNormLines{},
	}
)

// optional is a parameter of the call that may be absent: its type is a constant, void where it is absent, and the pointer is then null.
func (s *signature) optional(constants map[string]string, macro, name string, arg card.Arg) {
	if arg.Kind != "tensor" {
		constants[macro] = "void"
		s.null("const void", name)
		return
	}
	constants[macro] = ctypes[arg.DType]
	s.in(macro, name, arg.Name)
}

// null is a pointer that the kernel does not follow.
func (s *signature) null(ctype, name string) {
	s.text, s.args = append(s.text, ctype+"* "+name), append(s.args, card.SpecArg{Int: "0", Type: "i64"})
}

// accesses offers the elements of one access: 16 bytes or half of them, or as many as divide all of some numbers of every variant. Larger
// ones, up to `most` bytes, are offered where they fit.
func accesses(c *card.Card, size, most int, numbers func(card.Call) []int64) Param {
	fits := func(vector int) bool {
		return everyVariant(c, func(call card.Call) bool {
			return !slices.ContainsFunc(numbers(call), func(n int64) bool { return n%int64(vector) != 0 })
		})
	}
	best := 16 / size
	for best > 1 && !fits(best) {
		best /= 2
	}
	values := []int{best}
	if best > 1 {
		values = []int{best / 2, best}
	}
	for v := best * 2; v <= most/size && fits(v); v *= 2 {
		values = append(values, v)
	}
	return Param{"VEC", values, best}
}

// perThread is how many elements a thread may keep in registers: fewer where a block of 1,024 threads leaves it 64 registers.
func perThread(threads int, dtype string) int64 {
	most := int64(64)
	if threads > 512 {
		most = 32
	}
	if dtype == "float64" {
		most /= 2
	}
	return most
}

// teams are the numbers of threads, out of some, that can keep a row of `longest` elements: the default is the least that has it in at most 16
// elements each.
func teams(name string, values []int, longest int64, dtype string) Param {
	p := Param{Name: name}
	for _, threads := range values {
		each := (longest + int64(threads) - 1) / int64(threads)
		if each > perThread(threads, dtype) || (len(p.Values) > 0 && int64(threads) > longest) {
			continue
		}
		p.Values = append(p.Values, threads)
		if p.Default == 0 && each <= 16 {
			p.Default = threads
		}
	}
	if p.Default == 0 && len(p.Values) > 0 {
		p.Default = p.Values[len(p.Values)-1]
	}
	return p
}

var (
	warpTeams  = []int{4, 8, 16, 32}
	blockTeams = []int{64, 128, 256, 512, 1024}
	warps      = Param{"WARPS", []int{1, 2, 4, 8}, 4}
)

// sharing are the parameters of kernels in which several blocks share a row; rows of a call. They read twice, and turns let the L2 hold what is read
// again. One turn is the default all the same: on an H200 a group norm of 1x128x1024x1024 takes 215 us in one turn and 307 us in eight, since each
// turn waits for the last blocks of the one before.
func sharing(c *card.Card, rows func(card.Call) int64) []Param {
	waves := Param{"WAVES", []int{2, 4, 8, 16, 32}, 8}
	if largestBytes(c) < 64<<20 {
		waves.Default = 4 // a block joins all pieces of its row before it writes: that must not be most of its work
	}
	turns := Param{"TURNS", []int{1}, 1}
	for n := 2; n <= 8; n *= 2 { // a spec has at most 16 kernels
		if !everyVariant(c, func(call card.Call) bool { return turnsFill(rows(call), int64(n)) }) {
			break
		}
		turns.Values = append(turns.Values, n)
	}
	return []Param{{"THREADS", []int{128, 256, 512}, 256}, {"UNROLL", []int{1, 2, 4, 8}, 4}, waves, turns, {"ONCE", []int{0, 1}, 0}}
}

// turnsFill says whether n turns of equally many rows, but the last, all have a row.
func turnsFill(rows, n int64) bool { return (n-1)*((rows+n-1)/n) < rows }

// turn is one of p["TURNS"] turns of kernels that share rows: expressions for its first row, its rows, and the blocks of each.
type turn struct{ first, rows, pieces string }

func turnsOf(p Point, rows, length string) []turn {
	n := p["TURNS"]
	each := fmt.Sprintf("ceildiv(%s, %d)", rows, n)
	list := make([]turn, n)
	for k := range list {
		t := turn{first: fmt.Sprintf("%d * %s", k, each), rows: fmt.Sprintf("min(%s, %s - %d * %s)", each, rows, k, each)}
		if n == 1 {
			t = turn{first: "0", rows: rows}
		}
		t.pieces = piecesOf(p, t.rows, length)
		list[k] = t
	}
	return list
}

// piecesOf is the expression for the blocks that share a row: WAVES blocks for each multiprocessor in all, but none without a full step of work.
func piecesOf(p Point, rows, length string) string {
	return fmt.Sprintf("max(1, min(ceildiv(%d * sm_count, %s), ceildiv(%s, %d)))", p["WAVES"], rows, length, p["VEC"]*p["THREADS"]*p["UNROLL"])
}

// inTurns are the kernels of a page whose rows are shared: in each turn kf_gather, then kf_main; and the workspace for the parts of one turn, of
// so many bytes each.
func inTurns(p Point, rows, length string, gather, apply signature, each int) ([]card.Kernel, card.Workspace) {
	var kernels []card.Kernel
	turns := turnsOf(p, rows, length)
	for _, t := range turns {
		for _, k := range []struct {
			entry string
			s     signature
		}{{"kf_gather", gather}, {"kf_main", apply}} {
			s := k.s
			s.args = slices.Clone(s.args)
			for i, arg := range s.args {
				switch arg.Int {
				case "FIRST":
					s.args[i].Int = t.first
				case "PIECES":
					s.args[i].Int = t.pieces
				}
			}
			kernels = append(kernels, launch(k.entry, "("+t.rows+") * "+t.pieces, p["THREADS"], s))
		}
	}
	// The first turn has the most rows, and the last one, with fewer, the most pieces of a row; WAVES bounds both.
	bytes := fmt.Sprintf("max((%s) * %s, (%s) * %s) * %d", turns[0].rows, turns[0].pieces, turns[len(turns)-1].rows, turns[len(turns)-1].pieces, each)
	return kernels, card.Workspace{Bytes: bytes}
}

// shared are the two parameters that differ from turn to turn.
func (s *signature) shared() {
	s.size("first_row", "FIRST")
	s.size("pieces", "PIECES")
}

// most is the largest of a number of each variant.
func most(c *card.Card, number func(card.Call) int64) int64 {
	var found int64
	for _, variant := range c.Variants {
		found = max(found, number(variant.Call))
	}
	return found
}

// items is the number of vectors of each of some threads for a row.
func items(longest int64, threads, vector int) int64 {
	step := int64(threads * vector)
	return (longest + step - 1) / step
}
