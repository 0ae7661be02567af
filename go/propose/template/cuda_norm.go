package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// The norms of rows for cuda: layer norm, rms norm, and group norm of contiguous tensors, whose groups are rows. cudaNormWarps is
// cuda/norm_warps.cu, cudaNormBlocks cuda/norm_blocks.cu, cudaNormSplit cuda/norm_split.cu, cudaNormStream cuda/norm_stream.cu.
type (
	cudaNormStream struct{}
	cudaNormWarps  struct{}
	cudaNormBlocks struct{}
	cudaNormSplit  struct{}
)

func (cudaNormWarps) Name() string  { return "norm_warps" }
func (cudaNormBlocks) Name() string { return "norm_blocks" }
func (cudaNormSplit) Name() string  { return "norm_split" }
func (cudaNormStream) Name() string { return "norm_stream" }

// isNormOfRows says no to parameters of another type than the data, as eager does on this target.
func isNormOfRows(c *card.Card) bool {
	rows := (normRows{}).Applies(c) || (groupNormPlanes{}).Applies(c)
	return rows && most(c, normLength) < 1<<30 && everyVariant(c, func(call card.Call) bool {
		return !slices.ContainsFunc([]string{"weight", "bias"}, func(name string) bool {
			p := argument(call, name)
			return p.Kind == "tensor" && p.DType != inputType(c)
		})
	})
}

// spreads says whether eager makes a whole row of an rms norm NaN of one infinity: by the recurrence of its mean, which it takes where vectors of
// four elements do not fit.
func spreads(c *card.Card) bool {
	n := most(c, normLength)
	return inputType(c) == "float64" || n%4 != 0 || n > 1<<24
}

// normLength is the number of elements that share a mean.
func normLength(call card.Call) int64 {
	in := argument(call, "input")
	if groupNorms[call.Overload] {
		group, _ := constant(argument(call, "group"))
		return numel(in) / max(1, in.Sizes[0]*group.int)
	}
	n := int64(1)
	for _, size := range in.Sizes[len(in.Sizes)-rowDims(call):] {
		n *= size
	}
	return n
}

// normDivides are the numbers that a vector of a row must divide.
func normDivides(call card.Call) []int64 {
	numbers := []int64{normLength(call)}
	in := argument(call, "input")
	for d := range len(in.Sizes) - rowDims(call) {
		if rowDims(call) > 0 && in.Sizes[d] > 1 {
			numbers = append(numbers, in.Strides[d])
		}
	}
	return numbers
}

func inputType(c *card.Card) string { return argument(c.Variants[0].Call, "input").DType }

func normAccesses(c *card.Card) Param { return accesses(c, itemSizes[inputType(c)], 16, normDivides) }

func (cudaNormWarps) Applies(c *card.Card) bool {
	return isNormOfRows(c) && len(teams("TEAM", warpTeams, most(c, normLength), inputType(c)).Values) > 0
}

func (cudaNormBlocks) Applies(c *card.Card) bool {
	if !isNormOfRows(c) {
		return false
	}
	longest := most(c, normLength)
	return longest >= 256 && len(teams("THREADS", blockTeams, longest, inputType(c)).Values) > 0
}

// streams are the threads of a row that keep it in at most 32 elements each, of which as many more are on their way; by default the least that have it
// in 24.
func streams(c *card.Card) Param {
	p, longest := Param{Name: "TEAM"}, most(c, normLength)
	for _, threads := range []int{8, 16, 32, 64, 128, 256, 512} {
		each := (longest + int64(threads) - 1) / int64(threads)
		if each > perThread(1024, inputType(c)) || (len(p.Values) > 0 && each < 4) {
			continue
		}
		p.Values = append(p.Values, threads)
		if p.Default == 0 && each <= 24 {
			p.Default = threads
		}
	}
	if p.Default == 0 && len(p.Values) > 0 {
		p.Default = p.Values[len(p.Values)-1]
	}
	return p
}

// Applies where there are rows for all multiprocessors, several times.
func (cudaNormStream) Applies(c *card.Card) bool {
	return isNormOfRows(c) && len(streams(c).Values) > 0 && most(c, normsOf) >= 512
}

func (cudaNormStream) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{streams(c), normAccesses(c), {"ONCE", []int{0, 1}, 0}, {"WAVES", []int{1, 2, 4}, 1}}
}

// Build has blocks of one team, or of 128 threads whose warps have a row each, or several.
func (cudaNormStream) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	team := p["TEAM"]
	threads := team
	if team <= 32 {
		threads = 128
	}
	candidate, err := normOfRows(c, p, "norm_stream", team, threads)
	if err == nil {
		grid := &candidate.Spec.Kernels[0].Grid[0]
		*grid = waves(*grid, p)
	}
	return candidate, err
}

func (cudaNormSplit) Applies(c *card.Card) bool {
	return isNormOfRows(c) && most(c, normLength) >= 8192 && everyVariant(c, func(call card.Call) bool { return contiguous(argument(call, "input")) })
}

func (cudaNormWarps) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{teams("TEAM", warpTeams, most(c, normLength), inputType(c)), warps, normAccesses(c)}
}

// Params have, by default, half the threads that a softmax would where rows are many, or where rows are whole vectors of each only then: sums and divisions of
// a row cost each thread the same.
func (cudaNormBlocks) Params(c *card.Card, f propose.Facts) []Param {
	threads, vector := teams("THREADS", blockTeams, most(c, normLength), inputType(c)), normAccesses(c)
	if at := slices.Index(threads.Values, threads.Default); at > 0 {
		half := threads.Values[at-1]
		if most(c, normsOf) >= int64(16*max(f.SMCount, 1)) || wholeRows(c, half, vector.Default) && !wholeRows(c, threads.Default, vector.Default) {
			threads.Default = half
		}
	}
	return []Param{threads, vector}
}

// wholeRows says whether each of so many threads has as many whole vectors of every row.
func wholeRows(c *card.Card, threads, vector int) bool {
	each := items(most(c, normLength), threads, vector)
	return everyVariant(c, func(call card.Call) bool { return normLength(call) == each*int64(threads*vector) })
}

// normsOf is the number of rows that have a mean each.
func normsOf(call card.Call) int64 { return numel(argument(call, "input")) / normLength(call) }

func (cudaNormSplit) Params(c *card.Card, _ propose.Facts) []Param {
	return append(sharing(c, normsOf), normAccesses(c))
}

// fewRows are at most the rows of which single roundings are seen: of four, a mean and a deviation as exact as eager's own passed 200 times of 200, of two 118
// of 120, of one 178 of 200 (cuda/deviation.cuh).
const fewRows = 16

// isFew says whether a variant has so few rows of float32; rows of a call.
func isFew(c *card.Card, rows func(card.Call) int64) bool {
	return inputType(c) == "float32" && !everyVariant(c, func(call card.Call) bool { return rows(call) > fewRows })
}

// normPage is what the pages of norms share: constants, a signature with the parameters of the writing kernel, and parts of its text.
type normPage struct {
	constants    map[string]string
	s            signature
	rows, length string
	channel      string
}

func normPageOf(c *card.Card, p Point) (normPage, error) {
	call := c.Variants[0].Call
	eps, ok := epsOf(call)
	if !ok {
		return normPage{}, fmt.Errorf("overload `%s`: its eps is not constant", call.Overload)
	}
	in, rank := argument(call, "input"), len(argument(call, "input").Sizes)
	n := normPage{s: signatureOf(c)}
	group := groupNorms[call.Overload]
	n.constants = map[string]string{
		"IN": ctypes[in.DType], "STAT": ctypes[call.Outputs[len(call.Outputs)-1].DType], "INDEX": n.s.index(),
		"RMS": boolean(len(call.Outputs) == 2), "LAYER": boolean(!group), "INSIDE": "0",
		"SPREADS": boolean(spreads(c)), "FEW": boolean(isFew(c, normsOf)),
	}
	n.s.in("IN", "x", "input")
	n.s.out("IN", "out", "out0")
	n.s.optional(n.constants, "WEIGHT", "weight", argument(call, "weight"))
	n.s.optional(n.constants, "BIAS", "bias", argument(call, "bias"))
	if len(call.Outputs) == 2 {
		n.s.null("STAT", "mean_out")
		n.s.out("STAT", "rstd_out", "out1")
	} else {
		n.s.out("STAT", "mean_out", "out1")
		n.s.out("STAT", "rstd_out", "out2")
	}
	n.s.number(accumulator(in.DType), "eps", strconv.FormatFloat(eps, 'x', -1, 64))
	if group {
		area := product("input", 2, rank)
		n.rows, n.length = "(input_size0 * group)", "(input_size1 / group * "+area+")"
		n.s.divider("plane", "("+area+")")
		n.s.size("channels", "input_size1 / group")
		n.s.size("groups", "group")
		n.channel = "  const int first = int(row % groups) * int(channels);\n  const kf_divider<INDEX> area = {plane, plane_magic};\n"
		n.constants["INSIDE"] = boolean(everyVariant(c, func(call card.Call) bool {
			in := argument(call, "input")
			return numel(in)/(in.Sizes[0]*in.Sizes[1])%int64(p["VEC"]) == 0
		}))
	} else {
		outer := rank - rowDims(call)
		n.rows, n.length = "("+product("input", 0, outer)+")", "("+product("input", outer, rank)+")"
		n.channel = "  const int first = 0;\n  const kf_divider<INDEX> area = {1, 0};\n"
	}
	n.s.size("length", n.length)
	return n, nil
}

// offset is the text that finds a row: `from` from `rest`, the row's number.
func (n *normPage) offset(c *card.Card) string {
	if everyVariant(c, func(call card.Call) bool { return contiguous(argument(call, "input")) }) {
		return "  from = int64_t(rest) * n;\n"
	}
	call, text := c.Variants[0].Call, ""
	for d := len(argument(call, "input").Sizes) - rowDims(call) - 1; d >= 0; d-- {
		size, stride := fmt.Sprintf("size%d", d), fmt.Sprintf("stride%d", d)
		n.s.divider(size, "input_"+size)
		n.s.size(stride, "input_"+stride)
		text += fmt.Sprintf("  from += int64_t(kf_divider<INDEX>{%s, %s_magic}.split(rest)) * %s;\n", size, size, stride)
	}
	return text
}

// normOfRows is a candidate whose teams of threads keep a row each.
func normOfRows(c *card.Card, p Point, name string, team, threads int) (card.Candidate, error) {
	n, err := normPageOf(c, p)
	if err != nil {
		return card.Candidate{}, err
	}
	n.s.size("rows", n.rows)
	offset := n.offset(c)
	n.constants["ITEMS"] = strconv.FormatInt(items(most(c, normLength), team, p["VEC"]), 10)
	n.constants["THREADS"], n.constants["WHOLE"] = strconv.Itoa(threads), boolean(wholeRows(c, team, p["VEC"]))
	return card.Candidate{
		Source: cudaPage(name, map[string]string{"parameters": n.s.parameters(), "offset": offset, "channel": n.channel}),
		Spec:   deviceSpec(c, p, n.constants, []card.Kernel{launch("kf_main", fmt.Sprintf("ceildiv(%s, %d)", n.rows, threads/team), threads, n.s)}),
	}, nil
}

func (cudaNormWarps) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return normOfRows(c, p, "norm_warps", p["TEAM"], 32*p["WARPS"])
}

func (cudaNormBlocks) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	return normOfRows(c, p, "norm_blocks", p["THREADS"], p["THREADS"])
}

func (cudaNormSplit) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	n, err := normPageOf(c, p)
	if err != nil {
		return card.Candidate{}, err
	}
	gather := signatureOf(c)
	gather.in("IN", "x", "input")
	gather.out("Moments", "parts", "ws0")
	gather.size("length", n.length)
	gather.shared()
	n.s.in("Moments", "parts", "ws0")
	n.s.shared()
	kernels, parts := inTurns(p, n.rows, n.length, gather, n.s, momentBytes(n.constants, 3, inputType(c)))
	return card.Candidate{
		Source: cudaPage("norm_split", map[string]string{"parameters": n.s.parameters(), "gather": gather.parameters(), "channel": n.channel}),
		Spec:   deviceSpec(c, p, n.constants, kernels, parts),
	}, nil
}

// momentBytes are those of a `Moments` of so many numbers; where rows are few it has two more, what was rounded off.
func momentBytes(constants map[string]string, numbers int, dtype string) int {
	if constants["FEW"] == "1" {
		numbers += 2
	}
	return numbers * accumulatorBytes(dtype)
}

func accumulatorBytes(dtype string) int { return sizeOf[accumulator(dtype)] }
