package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Batch norm in inference for cuda: cudaBatchNormPlanes is cuda/batch_norm_planes.cu, cudaBatchNormChannels cuda/batch_norm_channels.cu.
type (
	cudaBatchNormPlanes   struct{}
	cudaBatchNormChannels struct{}
)

func (cudaBatchNormPlanes) Name() string   { return "batch_norm_planes" }
func (cudaBatchNormChannels) Name() string { return "batch_norm_channels" }

var (
	cudaBatchNorms = overloads("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm")
	vendors        = overloads("cudnn_batch_norm")
)

// savesStatistics says whether a call has outputs of a mean and a deviation a channel, in the type of the arithmetic. On this target eager makes
// them in inference too: the running mean, and what it normalises by.
func savesStatistics(call card.Call) bool {
	in := argument(call, "input")
	return len(call.Outputs) == 3 && !slices.ContainsFunc(call.Outputs[1:], func(out card.Output) bool {
		return !slices.Equal(out.Sizes, in.Sizes[1:2]) || ctypes[out.DType] != accumulator(in.DType) || !denseFrom(out.Sizes, out.Strides, 0)
	})
}

// saves says it for every variant; false also where some variants save and others do not, which is no card.
func saves(c *card.Card) bool {
	return everyVariant(c, func(call card.Call) bool { return !slices.Contains(call.Outputs[1].Sizes, 0) })
}

func (cudaBatchNormPlanes) Applies(c *card.Card) bool {
	return batchNormApplies(c, cudaBatchNorms, func(in card.Arg, out card.Output) bool {
		return len(in.Sizes) > 2 && denseFrom(in.Sizes, in.Strides, 2) && denseFrom(out.Sizes, out.Strides, 0)
	}, savesStatistics)
}

func (cudaBatchNormChannels) Applies(c *card.Card) bool {
	return batchNormApplies(c, cudaBatchNorms, channelsAlike, savesStatistics)
}

func (cudaBatchNormPlanes) Params(c *card.Card, _ propose.Facts) []Param {
	unroll := Param{"UNROLL", []int{1, 2, 4, 8}, 4}
	if largestBytes(c) < 16<<20 {
		unroll.Default = 1
	}
	return []Param{{"THREADS", []int{128, 256, 512}, 256}, unroll, accesses(c, itemSizes[inputType(c)], 32, func(card.Call) []int64 { return nil })}
}

func (cudaBatchNormChannels) Params(c *card.Card, _ propose.Facts) []Param {
	rows := Param{"ROWS", []int{1, 2, 4, 8, 16}, 8}
	if largestBytes(c) < 16<<20 {
		rows.Default = 2
	}
	channels := func(call card.Call) []int64 { return argument(call, "input").Sizes[1:2] }
	return []Param{{"THREADS", []int{128, 256, 512}, 256}, rows, accesses(c, itemSizes[inputType(c)], 16, channels)}
}

// batchNormPage has the constants and the signature that both pages share.
func batchNormPage(c *card.Card) (map[string]string, signature, error) {
	call := c.Variants[0].Call
	eps, ok := constant(batchNormEps(call))
	if !ok {
		return nil, signature{}, fmt.Errorf("overload `%s`: its eps is not constant", c.Overload)
	}
	s, in := signatureOf(c), argument(call, "input")
	constants := map[string]string{"IN": ctypes[in.DType], "INDEX": s.index(), "VENDOR": boolean(vendors[c.Overload])}
	s.in("IN", "x", "input")
	s.out("IN", "out", "out0")
	if saves(c) {
		s.out("A", "save_mean", "out1")
		s.out("A", "save_invstd", "out2")
	}
	s.optional(constants, "MEAN", "mean", argument(call, "running_mean"))
	s.optional(constants, "VARIANCE", "variance", argument(call, "running_var"))
	s.optional(constants, "WEIGHT", "weight", argument(call, "weight"))
	s.optional(constants, "BIAS", "bias", argument(call, "bias"))
	s.number(accumulator(in.DType), "eps", strconv.FormatFloat(eps.float, 'x', -1, 64))
	return constants, s, nil
}

// saving is the text that writes the statistics.
func saving(c *card.Card) string {
	if saves(c) {
		return "  save(mean, variance, save_mean, save_invstd, int(channels), eps);\n"
	}
	return "\n"
}

func (cudaBatchNormPlanes) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	constants, s, err := batchNormPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	s.size("count", "input_numel")
	s.divider("area", "("+product("input", 2, len(argument(c.Variants[0].Call, "input").Sizes))+")")
	s.divider("channels", "input_size1")
	s.size("sample_stride", "input_stride0")
	s.size("channel_stride", "input_stride1")
	vector := int64(p["VEC"])
	strided := !everyVariant(c, func(call card.Call) bool { return contiguous(argument(call, "input")) })
	constants["STRIDED"] = boolean(strided)
	constants["PLANES"] = "1"
	if !everyVariant(c, func(call card.Call) bool { return areaOf(call)%vector == 0 }) {
		constants["PLANES"] = "2"
		if strided || !everyVariant(c, func(call card.Call) bool { return areaOf(call) >= vector }) {
			constants["PLANES"] = "3"
		}
	}
	even := !strided || everyVariant(c, func(call card.Call) bool {
		in := argument(call, "input")
		return areaOf(call)%vector == 0 && in.Strides[0]%vector == 0 && in.Strides[1]%vector == 0
	})
	constants["EVEN"] = boolean(even)
	if !even {
		constants["ALIGNED"] = "0" // of the tensors' addresses, not of the rows'
	}
	work := fmt.Sprintf("ceildiv(input_numel, %d)", p["VEC"]*p["THREADS"]*p["UNROLL"])
	return card.Candidate{
		Source: cudaPage("batch_norm_planes", map[string]string{"parameters": s.parameters(), "save": saving(c)}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", work, p["THREADS"], s)}),
	}, nil
}

func (cudaBatchNormChannels) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	constants, s, err := batchNormPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	s.size("positions", "input_numel / input_size1")
	s.size("channels", "input_size1")
	down := fmt.Sprintf("(%d / min(input_size1 / %d, %d))", p["THREADS"], p["VEC"], p["THREADS"])
	work := fmt.Sprintf("ceildiv(input_numel / input_size1, %d * %s)", p["ROWS"], down)
	constants["WHOLE"] = boolean(everyVariant(c, func(call card.Call) bool {
		in := argument(call, "input")
		across := min(in.Sizes[1]/int64(p["VEC"]), int64(p["THREADS"]))
		return numel(in)/in.Sizes[1]%(int64(p["ROWS"])*(int64(p["THREADS"])/across)) == 0
	}))
	return card.Candidate{
		Source: cudaPage("batch_norm_channels", map[string]string{"parameters": s.parameters(), "save": saving(c)}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", work, p["THREADS"], s)}),
	}, nil
}

// areaOf is the number of positions of a sample.
func areaOf(call card.Call) int64 {
	in := argument(call, "input")
	return numel(in) / (in.Sizes[0] * in.Sizes[1])
}
