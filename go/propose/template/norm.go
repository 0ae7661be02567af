package template

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var (
	layerNorms = overloads("native_layer_norm native_layer_norm.out")
	rmsNorms   = overloads("_fused_rms_norm")
	groupNorms = overloads("native_group_norm native_group_norm.out")
)

// normed says what the norms need of a call: floating data with elements, the same type out, statistics (if any) of one floating type, each output
// dense in the layout, parameters of n elements.
func normed(call card.Call, outputs int, n int64, layout func(sizes, strides []int64) bool) bool {
	in := argument(call, "input")
	if in.Kind != "tensor" || !isFloat(in.DType) || len(in.Sizes) == 0 || slices.Min(in.Sizes) < 1 || len(call.Outputs) != outputs {
		return false
	}
	for i, out := range call.Outputs {
		first := i == 0
		if (first && (out.DType != in.DType || !layout(out.Sizes, out.Strides))) || (!first && !denseFrom(out.Sizes, out.Strides, 0)) {
			return false
		}
	}
	if outputs > 1 {
		statistics := call.Outputs[outputs-1].DType
		wide := statistics == in.DType || (statistics == "float32" && in.DType != "float64")
		if !wide || call.Outputs[1].DType != statistics {
			return false
		}
	}
	return parameter(argument(call, "weight"), n, in.DType) && parameter(argument(call, "bias"), n, in.DType)
}

// epsOf is the constant that keeps a root from zero. An absent one is that of the arithmetic type.
func epsOf(call card.Call) (float64, bool) {
	arg := argument(call, "eps")
	if arg.Kind == "none" {
		if argument(call, "input").DType == "float64" {
			return math.Nextafter(1, 2) - 1, true
		}
		return float64(math.Nextafter32(1, 2) - 1), true
	}
	v, ok := constant(arg)
	return v.float, ok
}

func normConstants(call card.Call) (map[string]string, []card.SpecArg, error) {
	eps, ok := epsOf(call)
	if !ok {
		return nil, nil, fmt.Errorf("overload `%s`: its eps is not constant", call.Overload)
	}
	constants := map[string]string{
		"IN": ctypes[argument(call, "input").DType], "STAT": ctypes[call.Outputs[len(call.Outputs)-1].DType],
	}
	parameters := []card.SpecArg{
		optional(constants, "WEIGHT", argument(call, "weight")), optional(constants, "BIAS", argument(call, "bias")),
		number(strconv.FormatFloat(eps, 'x', -1, 64)),
	}
	return constants, parameters, nil
}

// normRows is host/norm_rows.cc: layer norm and rms norm.
type normRows struct{}

func (normRows) Name() string { return "norm_rows" }

// rowDims is the number of normalised dims of a call; 0 where the call is not a layer or rms norm.
func rowDims(call card.Call) int {
	arg := argument(call, "normalized_shape")
	shape, ok := list(arg)
	if in := argument(call, "input"); !ok || len(shape) > len(in.Sizes) {
		return 0
	}
	return len(shape)
}

func (normRows) Applies(c *card.Card) bool {
	rms := false
	if _, ok := callOf(c, layerNorms); !ok {
		if _, rms = callOf(c, rmsNorms); !rms {
			return false
		}
	}
	return everyVariant(c, func(call card.Call) bool {
		in, dims := argument(call, "input"), rowDims(call)
		if dims == 0 || len(call.Outputs) != map[bool]int{false: 3, true: 2}[rms] {
			return false
		}
		outer, n := len(in.Sizes)-dims, int64(1)
		for _, size := range in.Sizes[outer:] {
			n *= size
		}
		_, ok := epsOf(call)
		return ok && slices.Min(in.Strides) >= 0 && denseFrom(in.Sizes, in.Strides, outer) &&
			normed(call, len(call.Outputs), n, func(sizes, strides []int64) bool { return denseFrom(sizes, strides, 0) })
	})
}

func (normRows) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, grain()}
}

func (normRows) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	constants, parameters, err := normConstants(call)
	if err != nil {
		return card.Candidate{}, err
	}
	rank := len(argument(call, "input").Sizes)
	outer := rank - rowDims(call)
	length := product("input", outer, rank)
	constants["RMS"], constants["DIMS"] = boolean(len(call.Outputs) == 2), strconv.Itoa(outer)
	args := []card.SpecArg{slot("input"), slot("out0"), parameters[0], parameters[1], slot("out1"), slot("out2")}
	if len(call.Outputs) == 2 {
		args[5] = slot("out1")
	}
	args = append(args, integer(length), parameters[2])
	args = append(args, sizesOf("input", rank)[:outer]...)
	args = append(args, stridesOf("input", rank)[:outer]...)
	work := product("input", 0, outer)
	return card.Candidate{Source: hostPage("norm_rows", nil), Spec: single(p, constants, work, share(p, length), args)}, nil
}

// groupNormApplies says whether a card is a group norm of tensors in this layout.
func groupNormApplies(c *card.Card, layout func(sizes, strides []int64) bool) bool {
	if _, ok := callOf(c, groupNorms); !ok {
		return false
	}
	first, ok := constant(argument(c.Variants[0].Call, "group"))
	return ok && everyVariant(c, func(call card.Call) bool {
		in := argument(call, "input")
		groups, ok := constant(argument(call, "group"))
		_, eps := epsOf(call)
		return ok && eps && groups == first && groups.int > 0 && len(in.Sizes) >= 2 && in.Sizes[1]%groups.int == 0 &&
			layout(in.Sizes, in.Strides) && normed(call, 3, in.Sizes[1], layout)
	})
}

// groupNormPlanes is host/group_norm_planes.cc: contiguous tensors.
type groupNormPlanes struct{}

func (groupNormPlanes) Name() string { return "group_norm_planes" }

func (groupNormPlanes) Applies(c *card.Card) bool {
	return groupNormApplies(c, func(sizes, strides []int64) bool { return denseFrom(sizes, strides, 0) })
}

func (groupNormPlanes) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}, grain()}
}

func (groupNormPlanes) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	constants, parameters, err := normConstants(call)
	if err != nil {
		return card.Candidate{}, err
	}
	rank := len(argument(call, "input").Sizes)
	args := []card.SpecArg{slot("input"), slot("out0"), parameters[0], parameters[1], slot("out1"), slot("out2")}
	args = append(args, integers("input_size1 / group", product("input", 2, rank), "group")...)
	args = append(args, parameters[2])
	return card.Candidate{
		Source: hostPage("group_norm_planes", nil),
		Spec:   single(p, constants, "input_size0 * group", share(p, "input_numel / (input_size0 * group)"), args),
	}, nil
}

// groupNormChannels is host/group_norm_channels.cc: channels inside.
type groupNormChannels struct{}

func (groupNormChannels) Name() string { return "group_norm_channels" }

// Applies leaves float64 to eager, whose variance in one pass cancels there: nothing wider can say who is right.
func (groupNormChannels) Applies(c *card.Card) bool {
	return groupNormApplies(c, denseChannels) && argument(c.Variants[0].Call, "input").DType != "float64"
}

func (groupNormChannels) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{lanes(f), {"PIECES", []int{1, 2, 4, 8, 16}, 4}, {"UNROLL", []int{1, 2, 4}, 2}, grain()}
}

func (groupNormChannels) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	constants, parameters, err := normConstants(call)
	if err != nil {
		return card.Candidate{}, err
	}
	rank := len(argument(call, "input").Sizes)
	size := product("input", 2, rank)
	pieces := strconv.Itoa(p["PIECES"])
	gather := []card.SpecArg{slot("input"), slot("ws0"), integer("input_size1"), integer(size)}
	join := []card.SpecArg{slot("ws0"), slot("ws1"), parameters[0], parameters[1], slot("out1"), slot("out2")}
	join = append(join, integers("input_size1", size, "group")...)
	join = append(join, parameters[2])
	apply := []card.SpecArg{slot("input"), slot("out0"), slot("ws1"), integer("input_size1"), integer(size)}
	spec := single(p, constants, "input_size0 * "+size, share(p, "input_size1"), apply,
		card.Workspace{Bytes: "input_size0 * input_size1 * 16 * " + pieces}, card.Workspace{Bytes: "input_size0 * input_size1 * 24"})
	spec.Kernels = append([]card.Kernel{
		{Entry: "kf_gather", Work: "input_size0 * " + pieces, Grain: "1", Args: gather},
		{Entry: "kf_join", Work: "input_size0 * group", Grain: "64", Args: join},
	}, spec.Kernels...)
	return card.Candidate{Source: hostPage("group_norm_channels", nil), Spec: spec}, nil
}
