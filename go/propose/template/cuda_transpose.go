package template

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaTranspose is cuda/transpose.cu: the copies of the host's family, where one pair of dims is crossed in every variant.
type cudaTranspose struct{}

func (cudaTranspose) Name() string { return "transpose" }

// leastSide is the least size of both crossed dims, in one variant at least, for which squares pay.
const leastSide = 16

func (cudaTranspose) Applies(c *card.Card) bool {
	if !(transpose{}).Applies(c) {
		return false
	}
	w, along := crossing(c)
	last := len(w.sizes) - 1
	return along >= 0 && !everyNumber(w.numbers, func(n numbers) bool { return min(n.sizes[last], n.sizes[along]) < leastSide })
}

// crossing is the walk of output and source, and its dim along which the source is contiguous; -1 where no dim is, or the output's last is not.
func crossing(c *card.Card) (walk, int) {
	w := walkOfOutput(c, []card.Arg{argument(c.Variants[0].Call, "src")})
	last := len(w.sizes) - 1
	for d := range last {
		if w.unit[0] && everyNumber(w.numbers, func(n numbers) bool { return n.strides[1][d] == 1 }) {
			return w, d
		}
	}
	return w, -1
}

// crossedVector is how many elements can be moved together on both sides, at most `most`.
func crossedVector(w walk, along, most int) int {
	last := len(w.sizes) - 1
	for ; most > 1; most /= 2 {
		if everyNumber(w.numbers, func(n numbers) bool { return wholeSides(n, last, along, int64(most)) }) {
			break
		}
	}
	return most
}

func wholeSides(n numbers, last, along int, vector int64) bool {
	for k, strides := range n.strides {
		unit := map[int]int{0: last, 1: along}[k]
		if n.sizes[unit]%vector != 0 {
			return false
		}
		for d, stride := range strides {
			if d != unit && n.sizes[d] > 1 && stride%vector != 0 {
				return false
			}
		}
	}
	return true
}

func (cudaTranspose) Params(c *card.Card, _ propose.Facts) []Param {
	call := c.Variants[0].Call
	size := max(itemSizes[argument(call, "src").DType], itemSizes[call.Outputs[0].DType])
	w, along := crossing(c)
	most := crossedVector(w, along, 16/size)
	var values []int
	for v := 1; v <= most; v *= 2 {
		values = append(values, v)
	}
	tile := Param{"TILE", []int{32, 64}, 64}
	if size == 8 {
		tile = Param{"TILE", []int{16, 32, 64}, 32}
	}
	return []Param{{"VEC", values, most}, tile, {"THREADS", []int{128, 256, 512}, 256}, {"ORDER", []int{0, 1}, 0}, {"WAVES", []int{0, 1, 4}, 0}}
}

func (cudaTranspose) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	w, along := crossing(c)
	if along < 0 {
		return card.Candidate{}, fmt.Errorf("overload `%s`: no dim of the source crosses the output's last", c.Overload)
	}
	src, to := argument(call, "src"), call.Outputs[0].DType
	constants := map[string]string{"IN": bitsType(src.DType), "OUT": bitsType(to)}
	if src.DType != to {
		constants["IN"], constants["OUT"] = ctypes[src.DType], ctypes[to]
	}
	return squares(c, p, w, along, "transpose", constants)
}

// squares is the candidate of a page that moves squares of TILE elements of a crossing.
func squares(c *card.Card, p Point, w walk, along int, page string, constants map[string]string) (card.Candidate, error) {
	last := len(w.sizes) - 1
	s := signatureOf(c)
	constants["INDEX"] = s.index()
	s.out("OUT", "out", "out0")
	s.in("IN", "src", "src")
	s.size("across", w.sizes[last])
	s.size("along", w.sizes[along])
	s.size("from", w.strides[1][last])
	s.size("to", w.strides[0][along])
	wide, high := ceilTiles(w.sizes[last], p["TILE"]), ceilTiles(w.sizes[along], p["TILE"])
	s.divider("wide_n", wide)
	s.divider("high_n", high)
	count := wide + " * " + high
	var dividers []string
	strides := [2][]string{}
	for d := range w.sizes {
		if d == last || d == along {
			continue
		}
		count += " * " + w.sizes[d]
		name := "batch" + strconv.Itoa(d)
		if len(dividers) == 0 {
			dividers = append(dividers, "{}")
		} else {
			s.divider(name, "("+w.sizes[d]+")")
			dividers = append(dividers, fmt.Sprintf("{%s, %s_magic}", name, name))
		}
		for k := range strides {
			s.size(fmt.Sprintf("%s_s%d", name, k), w.strides[k][d])
			strides[k] = append(strides[k], fmt.Sprintf("%s_s%d", name, k))
		}
	}
	if len(dividers) == 0 {
		dividers, strides = []string{"{}"}, [2][]string{{"0"}, {"0"}}
	}
	s.size("squares", count)
	constants["DIMS"] = strconv.Itoa(len(dividers))
	walks := fmt.Sprintf("  const kf_divider<INDEX> wide = {wide_n, wide_n_magic}, high = {high_n, high_n_magic};\n  const Walk<2, DIMS> batch = {{%s}, {{%s}, {%s}}};\n",
		strings.Join(dividers, ", "), strings.Join(strides[0], ", "), strings.Join(strides[1], ", "))
	return card.Candidate{
		Source: cudaPage(page, map[string]string{"parameters": s.parameters(), "walks": walks}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", waves(count, p), p["THREADS"], s)}),
	}, nil
}

func ceilTiles(size string, tile int) string { return fmt.Sprintf("ceildiv(%s, %d)", size, tile) }
