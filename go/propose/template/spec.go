package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// ctypes are the element types of the prelude by torch's names. A bool is a byte that is 0 or 1.
var ctypes = map[string]string{
	"bool": "uint8_t", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
	"float16": "kf_f16", "bfloat16": "kf_bf16", "float32": "float", "float64": "double",
}

var itemSizes = map[string]int{
	"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}

// isFloat says whether the prelude's arithmetic covers the type.
func isFloat(dtype string) bool {
	switch dtype {
	case "float16", "bfloat16", "float32", "float64":
		return true
	}
	return false
}

// argument finds an argument of a call by its name; a missing one is of kind "none".
func argument(call card.Call, name string) card.Arg {
	for _, arg := range call.Args {
		if arg.Name == name {
			return arg
		}
	}
	return card.Arg{Name: name, Kind: "none"}
}

// Arguments of a kernel.
func slot(name string) card.SpecArg      { return card.SpecArg{Slot: name} }
func integer(expr string) card.SpecArg   { return card.SpecArg{Int: expr} }
func number(literal string) card.SpecArg { return card.SpecArg{Float: literal} }

// sizesOf and stridesOf pass a tensor's sizes or strides, outermost first; prefix is an argument's name or `out<k>`.
func sizesOf(prefix string, dim int) []card.SpecArg   { return each(prefix, "size", dim) }
func stridesOf(prefix string, dim int) []card.SpecArg { return each(prefix, "stride", dim) }

func each(prefix, what string, dim int) []card.SpecArg {
	args := make([]card.SpecArg, dim)
	for i := range args {
		args[i] = integer(fmt.Sprintf("%s_%s%d", prefix, what, i))
	}
	return args
}

// single is the spec of one kernel `kf_main`. Every parameter of the point but GRAIN, which only the spec needs, becomes a constant of the
// same name: candidates that differ in GRAIN share a binary.
func single(p Point, constants map[string]string, work, grain string, args []card.SpecArg, workspaces ...card.Workspace) card.Spec {
	all := map[string]string{}
	for name, value := range p {
		if name != "GRAIN" {
			all[name] = strconv.Itoa(value)
		}
	}
	for name, value := range constants {
		all[name] = value
	}
	return card.Spec{
		Schema: card.Schema, Constants: all, Workspaces: workspaces,
		Kernels: []card.Kernel{{Entry: "kf_main", Work: work, Grain: grain, Args: args}},
	}
}

// numel is a tensor's number of elements.
func numel(arg card.Arg) int64 {
	n := int64(1)
	for _, size := range arg.Sizes {
		n *= size
	}
	return n
}

// contiguous says what Tensor.is_contiguous() does: row-major without gaps, strides of dims of size 1 aside.
func contiguous(arg card.Arg) bool {
	next := int64(1)
	for d := len(arg.Sizes) - 1; d >= 0; d-- {
		if arg.Sizes[d] != 1 {
			if arg.Strides[d] != next {
				return false
			}
			next *= arg.Sizes[d]
		}
	}
	return true
}

// lanes are the vector widths worth trying, in floats.
func lanes(f propose.Facts) Param {
	switch f.ISA {
	case "avx512":
		return Param{"KF_LANES", []int{8, 16}, 16}
	case "avx2":
		return Param{"KF_LANES", []int{8}, 8}
	}
	return Param{"KF_LANES", []int{4}, 4}
}
