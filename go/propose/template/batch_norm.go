package template

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// norms are the families of normalisations and softmax.
var norms = []Family{batchNormPlanes{}, batchNormChannels{}, softmaxRows{}, softmaxColumns{}, softmaxSweep{}, normRows{}, groupNormPlanes{}, groupNormChannels{}}

// Eager on the CPU has no cudnn_batch_norm; out forms are given empty statistics, and calls with empty tensors are left to eager.
var batchNorms = overloads("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training")

// batchNormApplies says whether a card is a batch norm in inference whose parameters are vectors. Its outputs after the first are empty, or
// statistics that `saved` allows.
func batchNormApplies(c *card.Card, overloads map[string]bool, layout func(in card.Arg, out card.Output) bool, saved func(call card.Call) bool) bool {
	if _, ok := callOf(c, overloads); !ok {
		return false
	}
	return everyVariant(c, func(call card.Call) bool {
		in := argument(call, "input")
		if in.Kind != "tensor" || !isFloat(in.DType) || len(in.Sizes) < 2 || slices.Min(in.Sizes) < 1 || slices.Min(in.Strides) < 0 {
			return false
		}
		if training := argument(call, "training"); training.Kind != "none" {
			var on bool
			if training.Kind != "bool" || json.Unmarshal(training.Value, &on) != nil || on {
				return false
			}
		}
		if len(call.Outputs) < 3 || call.Outputs[0].DType != in.DType || !layout(in, call.Outputs[0]) {
			return false
		}
		elements := slices.ContainsFunc(call.Outputs[1:], func(out card.Output) bool { return !slices.Contains(out.Sizes, 0) })
		if elements && !saved(call) {
			return false
		}
		for _, name := range []string{"running_mean", "running_var", "weight", "bias"} {
			needed := strings.HasPrefix(name, "running")
			if arg := argument(call, name); !parameter(arg, in.Sizes[1], in.DType) || (needed && arg.Kind != "tensor") {
				return false
			}
		}
		return batchNormEps(call).Kind == "float"
	})
}

// batchNormEps is the argument that keeps the root from zero: the vendor's operator has another name for it.
func batchNormEps(call card.Call) card.Arg {
	if arg := argument(call, "eps"); arg.Kind != "none" {
		return arg
	}
	return argument(call, "epsilon")
}

func nothingSaved(card.Call) bool { return false }

// parameter says whether an optional parameter of n elements is absent or a dense vector of the data's type, or of a wider one that its
// arithmetic has.
func parameter(arg card.Arg, n int64, dtype string) bool {
	switch arg.Kind {
	case "none", "undefined":
		return true
	case "tensor":
		fits := arg.DType == dtype || (arg.DType == "float32" && dtype != "float64")
		return fits && isFloat(dtype) && numel(arg) == n && contiguous(arg)
	}
	return false
}

// batchNorm makes a candidate of a page, the kernel of the terms first. item is the expression for the elements of one item of work.
func batchNorm(page string, c *card.Card, p Point, work, item string, args []card.SpecArg) (card.Candidate, error) {
	call := c.Variants[0].Call
	eps, ok := constant(batchNormEps(call))
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its eps is not constant", c.Overload)
	}
	constants := map[string]string{"IN": ctypes[argument(call, "input").DType]}
	terms := []card.SpecArg{number(strconv.FormatFloat(eps.float, 'x', -1, 64)), slot("ws0"), integer("input_size1")}
	for _, name := range []string{"running_mean", "running_var", "weight", "bias"} {
		macro := map[string]string{"running_mean": "MEAN", "running_var": "VARIANCE", "weight": "WEIGHT", "bias": "BIAS"}[name]
		terms = append(terms, optional(constants, macro, argument(call, name)))
	}
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	spec := single(p, constants, work, share(p, item), args, card.Workspace{Bytes: "input_size1 * 16"})
	first := card.Kernel{Entry: "kf_terms", Work: "input_size1", Grain: "16384", Args: terms}
	spec.Kernels = append([]card.Kernel{first}, spec.Kernels...)
	return card.Candidate{Source: hostPage(page, nil), Spec: spec}, nil
}

// optional passes a parameter that may be absent, its type as a constant: void where it is absent.
func optional(constants map[string]string, macro string, arg card.Arg) card.SpecArg {
	if arg.Kind != "tensor" {
		constants[macro] = "void"
		return integer("0")
	}
	constants[macro] = ctypes[arg.DType]
	return slot(arg.Name)
}

// product is the expression for the product of a tensor's sizes from dim `from` on, "1" for none.
func product(name string, from, to int) string {
	sizes := []string{"1"}
	for d := from; d < to; d++ {
		sizes = append(sizes, fmt.Sprintf("%s_size%d", name, d))
	}
	return strings.Join(sizes[min(1, len(sizes)-1):], " * ")
}

// denseFrom says whether the dims of a tensor from `from` on are one run in row-major order.
func denseFrom(sizes, strides []int64, from int) bool {
	return contiguous(card.Arg{Sizes: sizes[from:], Strides: strides[from:]})
}

// batchNormPlanes is host/batch_norm_planes.cc: dense planes.
type batchNormPlanes struct{}

func (batchNormPlanes) Name() string { return "batch_norm_planes" }

func (batchNormPlanes) Applies(c *card.Card) bool {
	return batchNormApplies(c, batchNorms, func(in card.Arg, out card.Output) bool {
		return len(in.Sizes) > 2 && denseFrom(in.Sizes, in.Strides, 2) && denseFrom(out.Sizes, out.Strides, 0)
	}, nothingSaved)
}

func (batchNormPlanes) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 4}, grain()}
	return append(params, streaming(c, f)...)
}

func (batchNormPlanes) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	rank := len(argument(c.Variants[0].Call, "input").Sizes)
	args := []card.SpecArg{slot("input"), slot("out0"), slot("ws0")}
	args = append(args, integers("input_size1", product("input", 2, rank), "input_stride0", "input_stride1")...)
	return batchNorm("batch_norm_planes", c, p, "input_size0 * input_size1", product("input", 2, rank), args)
}

// batchNormChannels is host/batch_norm_channels.cc: channels inside, also a matrix of rows and channels.
type batchNormChannels struct{}

func (batchNormChannels) Name() string { return "batch_norm_channels" }

func (batchNormChannels) Applies(c *card.Card) bool {
	return batchNormApplies(c, batchNorms, channelsAlike, nothingSaved)
}

// channelsAlike says whether the channels are inside of both tensors.
func channelsAlike(in card.Arg, out card.Output) bool {
	return denseChannels(in.Sizes, in.Strides) && denseChannels(out.Sizes, out.Strides)
}

// denseChannels says whether a tensor lies in memory without gaps, the channels (dim 1) inside.
func denseChannels(sizes, strides []int64) bool {
	moved := card.Arg{Sizes: slices.Clone(sizes), Strides: slices.Clone(strides)}
	for _, list := range [][]int64{moved.Sizes, moved.Strides} {
		channels := list[1]
		copy(list[1:], list[2:])
		list[len(list)-1] = channels
	}
	return contiguous(moved)
}

func (batchNormChannels) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"ROWS", []int{1, 2, 4, 8}, 2}, grain()}
	return append(params, streaming(c, f)...)
}

func (batchNormChannels) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	args := []card.SpecArg{slot("input"), slot("out0"), slot("ws0"), integer("input_size1")}
	return batchNorm("batch_norm_channels", c, p, "input_numel / input_size1", "input_size1", args)
}
