package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaGroupNormLines is cuda/group_norm_lines.cu: group norms of tensors whose channels lie inside, the composite `group_norm` among them.
type cudaGroupNormLines struct{}

var lineNorms = overloads("group_norm native_group_norm native_group_norm.out")

func (cudaGroupNormLines) Name() string { return "group_norm_lines" }

// lineThreads are the threads of a block that reads lines; cellBytes is the most that one keeps of their moments in shared memory.
var lineThreads = []int{128, 256, 512}

const cellBytes = 40 << 10

// lines is what every call of a card must share: the vectors of a line, the channels of a group, the number of outputs (the composite gives no
// statistics), and whether the first is planes.
type lines struct {
	channels, depth int64
	outputs         int
	planes          bool
}

// cells are the runs of channels in a vector that no group's border cuts, wherever the vector begins.
func (l lines) cells(vector int64) int64 { return vector / min(vector, l.depth&-l.depth) }

// area is the pixels of a plane of a call.
func (l lines) area(call card.Call) int64 {
	in := argument(call, "input")
	return numel(in) / (in.Sizes[0] * l.channels)
}

// linesOf reads a call. false: its lines are no whole vectors, or it is no such call.
func linesOf(call card.Call) (lines, bool) {
	in := argument(call, "input")
	group, outputs := "group", 3
	if call.Overload == "aten::group_norm" {
		group, outputs = "num_groups", 1
	}
	if len(in.Sizes) < 3 || slices.Min(in.Sizes) < 1 || len(call.Outputs) != outputs {
		return lines{}, false
	}
	out := call.Outputs[0]
	groups, ok := constant(argument(call, group))
	size := int64(itemSizes[in.DType])
	if !ok || groups.int < 1 || in.Sizes[1]%groups.int != 0 || (size != 2 && size != 4) {
		return lines{}, false
	}
	l := lines{in.Sizes[1], in.Sizes[1] / groups.int, outputs, contiguous(card.Arg{Sizes: out.Sizes, Strides: out.Strides})}
	vector := 16 / size
	return l, l.channels%vector == 0 && !contiguous(in) && denseChannels(in.Sizes, in.Strides)
}

func (f cudaGroupNormLines) Applies(c *card.Card) bool {
	if _, ok := callOf(c, lineNorms); !ok {
		return false
	}
	first, ok := linesOf(c.Variants[0].Call)
	return ok && len(f.threads(c)) > 0 && everyVariant(c, func(call card.Call) bool {
		l, ok := linesOf(call)
		_, eps := epsOf(call)
		for _, name := range []string{"weight", "bias"} {
			p := argument(call, name)
			ok = ok && (p.Kind != "tensor" || p.DType == inputType(c)) // eager refuses others on this target
		}
		return ok && eps && l == first && normed(call, l.outputs, l.channels, func(sizes, strides []int64) bool {
			return (l.planes && denseFrom(sizes, strides, 0)) || (!l.planes && denseChannels(sizes, strides))
		})
	})
}

// threads are the blocks' sizes that hold a line, and whose moments fit.
func (cudaGroupNormLines) threads(c *card.Card) []int {
	l, _ := linesOf(c.Variants[0].Call)
	vector := int64(16 / itemSizes[inputType(c)])
	var list []int
	for _, threads := range lineThreads {
		if l.channels/vector <= int64(threads) && int64(threads)*l.cells(vector)*12 <= cellBytes {
			list = append(list, threads)
		}
	}
	return list
}

func (f cudaGroupNormLines) Params(c *card.Card, _ propose.Facts) []Param {
	threads := f.threads(c)
	tile := Param{"TILE", []int{32, 64}, 64}
	if itemSizes[inputType(c)] == 2 {
		tile.Values = append(tile.Values, 128)
	}
	return []Param{{"THREADS", threads, threads[min(1, len(threads)-1)]}, {"UNROLL", []int{1, 2, 4, 8}, 4}, {"WAVES", []int{2, 4, 8}, 4}, tile}
}

func (cudaGroupNormLines) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	eps, ok := epsOf(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its eps is not constant", call.Overload)
	}
	l, _ := linesOf(call)
	in := argument(call, "input")
	vector := int64(16 / itemSizes[in.DType])
	odd := l.planes && !everyVariant(c, func(call card.Call) bool { return l.area(call)%vector == 0 })
	area := "(" + product("input", 2, len(in.Sizes)) + ")"
	each := int64(p["THREADS"]) / (l.channels / vector) * int64(p["UNROLL"])
	pieces := fmt.Sprintf("max(1, min(ceildiv(%d * sm_count, input_size0), ceildiv(%s, %d)))", p["WAVES"], area, each)
	squares := fmt.Sprintf("(input_size0 * ceildiv(%s, %d) * %d)", area, p["TILE"], (l.channels+int64(p["TILE"])-1)/int64(p["TILE"]))
	rows := fmt.Sprintf("(input_size0 * %d)", l.channels/l.depth)

	gather, join, apply := signatureOf(c), signatureOf(c), signatureOf(c)
	constants := map[string]string{
		"IN": ctypes[in.DType], "STATISTICS": boolean(l.outputs == 3), "INDEX": gather.index(), "PLANES": boolean(l.planes), "ODD": boolean(odd),
		"CHANNELS": strconv.FormatInt(l.channels, 10), "DEPTH": strconv.FormatInt(l.depth, 10),
		"FEW": boolean(isFew(c, func(call card.Call) int64 { return argument(call, "input").Sizes[0] * l.channels / l.depth })),
	}
	gather.in("IN", "x", "input")
	gather.out("Moments", "parts", "ws0")
	gather.size("area", area)
	gather.size("pieces", pieces)

	join.in("Moments", "parts", "ws0")
	join.out("Moment", "moments", "ws1")
	if l.outputs == 3 {
		constants["STAT"] = ctypes[call.Outputs[2].DType]
		join.out("STAT", "mean_out", "out1")
		join.out("STAT", "rstd_out", "out2")
	}
	join.size("rows", rows)
	join.size("pieces", pieces)
	join.number("float", "eps", strconv.FormatFloat(eps, 'x', -1, 64))

	apply.in("IN", "x", "input")
	apply.out("IN", "out", "out0")
	apply.in("Moment", "moments", "ws1")
	apply.optional(constants, "WEIGHT", "weight", argument(call, "weight"))
	apply.optional(constants, "BIAS", "bias", argument(call, "bias"))
	apply.size("area", area)
	apply.size("squares", squares)

	return card.Candidate{
		Source: cudaPage("group_norm_lines", map[string]string{"gather": gather.parameters(), "join": join.parameters(), "parameters": apply.parameters()}),
		Spec: deviceSpec(c, p, constants, []card.Kernel{
			launch("kf_gather", "input_size0 * "+pieces, p["THREADS"], gather),
			launch("kf_join", fmt.Sprintf("ceildiv(%s, 4)", rows), 128, join),
			launch("kf_main", squares, p["THREADS"], apply),
		}, card.Workspace{Bytes: fmt.Sprintf("%s * %s * %d", rows, pieces, momentBytes(constants, 3, in.DType))}, card.Workspace{Bytes: rows + " * 8"}),
	}, nil
}
