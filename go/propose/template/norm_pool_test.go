package template

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var avx512 = propose.Facts{Target: "host", ISA: "avx512", Threads: 2, L1Bytes: 48 << 10, L2Bytes: 1 << 20, LLCBytes: 32 << 20, CacheLine: 64}

// laid are the strides of a tensor without gaps, dims in memory order.
func laid(sizes []int64, order ...int) []int64 {
	strides, next := make([]int64, len(sizes)), int64(1)
	if order == nil {
		for d := range sizes {
			order = append(order, d)
		}
	}
	for _, d := range slices.Backward(order) {
		strides[d], next = next, next*sizes[d]
	}
	return strides
}

func tensorArg(name, dtype string, strides []int64, sizes ...int64) card.Arg {
	return card.Arg{Name: name, Kind: "tensor", DType: dtype, Sizes: sizes, Strides: strides}
}

func dataArg(name, dtype string, sizes ...int64) card.Arg {
	return tensorArg(name, dtype, laid(sizes), sizes...)
}

func plainArg(name, kind string, value any) card.Arg {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	arg := card.Arg{Name: name, Kind: kind, Value: text}
	if f, ok := value.(float64); ok {
		arg.Bits = fmt.Sprintf("%016x", math.Float64bits(f))
	}
	return arg
}

func output(dtype string, strides []int64, sizes ...int64) card.Output {
	return card.Output{DType: dtype, Sizes: sizes, Strides: strides, Alias: -1}
}

func hostCard(calls ...card.Call) *card.Card {
	c := &card.Card{Schema: card.Schema, ID: "c-00000000", Target: "host", Overload: calls[0].Overload, Layout: "contiguous", Threads: 2}
	for i, call := range calls {
		c.Variants = append(c.Variants, card.Variant{ID: fmt.Sprintf("v%d", i), Call: call, Calls: 1, EagerUS: 10, Bytes: 64 << 20, RoofUS: 1})
	}
	return c
}

func maxPoolCall(stride, padding int64, order ...int) card.Call {
	in := []int64{4, 64, 112, 112}
	side := (112 + 2*padding - 3 + stride - 1) / stride // ceil_mode
	out := []int64{4, 64, side + 1, side + 1}
	return card.Call{
		Overload: "aten::max_pool2d_with_indices",
		Args: []card.Arg{
			tensorArg("self", "float32", laid(in, order...), in...), plainArg("kernel_size", "ints", []int64{3, 3}),
			plainArg("stride", "ints", []int64{stride, stride}), plainArg("padding", "ints", []int64{padding, padding}),
			plainArg("dilation", "ints", []int64{1, 1}), plainArg("ceil_mode", "bool", true),
		},
		Outputs: []card.Output{output("float32", laid(out, order...), out...), output("int64", laid(out, order...), out...)},
	}
}

// valuesOf is a max pool without the places of its maxima, as the composite gives it.
func valuesOf(call card.Call) card.Call {
	call.Overload, call.Outputs = "aten::max_pool2d", call.Outputs[:1]
	return call
}

func avgPoolCall(order ...int) card.Call {
	in, out := []int64{2, 8, 9, 9}, []int64{2, 8, 4, 4}
	return card.Call{
		Overload: "aten::avg_pool2d",
		Args: []card.Arg{
			tensorArg("self", "bfloat16", laid(in, order...), in...), plainArg("kernel_size", "ints", []int64{3, 3}),
			plainArg("stride", "ints", []int64{2, 2}), plainArg("padding", "ints", []int64{0, 0}), plainArg("ceil_mode", "bool", false),
			plainArg("count_include_pad", "bool", true), {Name: "divisor_override", Kind: "none"},
		},
		Outputs: []card.Output{output("bfloat16", laid(out, order...), out...)},
	}
}

func batchNormCall(training bool, order ...int) card.Call {
	in := []int64{2, 8, 9, 9}
	return card.Call{
		Overload: "aten::native_batch_norm",
		Args: []card.Arg{
			tensorArg("input", "float32", laid(in, order...), in...), dataArg("weight", "float32", 8), {Name: "bias", Kind: "none"},
			dataArg("running_mean", "float32", 8), dataArg("running_var", "float32", 8),
			plainArg("training", "bool", training), plainArg("momentum", "float", 0.1), plainArg("eps", "float", 1e-5),
		},
		Outputs: []card.Output{output("float32", laid(in, order...), in...), output("float32", []int64{1}, 0), output("float32", []int64{1}, 0)},
	}
}

func softmaxCall(dim int, sizes ...int64) card.Call {
	return card.Call{
		Overload: "aten::_softmax",
		Args:     []card.Arg{dataArg("self", "float16", sizes...), plainArg("dim", "int", dim), plainArg("half_to_float", "bool", false)},
		Outputs:  []card.Output{output("float16", laid(sizes), sizes...)},
	}
}

func layerNormCall(statistics string) card.Call {
	return card.Call{
		Overload: "aten::native_layer_norm",
		Args: []card.Arg{
			dataArg("input", "bfloat16", 6, 64), plainArg("normalized_shape", "ints", []int64{64}), dataArg("weight", "float32", 64),
			dataArg("bias", "float32", 64), plainArg("eps", "float", 1e-5),
		},
		Outputs: []card.Output{output("bfloat16", laid([]int64{6, 64}), 6, 64), output(statistics, laid([]int64{6, 1}), 6, 1), output(statistics, laid([]int64{6, 1}), 6, 1)},
	}
}

func groupNormCall(order ...int) card.Call {
	in := []int64{2, 8, 9, 9}
	return card.Call{
		Overload: "aten::native_group_norm",
		Args: []card.Arg{
			tensorArg("input", "float32", laid(in, order...), in...), {Name: "weight", Kind: "undefined"}, {Name: "bias", Kind: "none"},
			plainArg("N", "int", 2), plainArg("C", "int", 8), plainArg("HxW", "int", 81), plainArg("group", "int", 4), plainArg("eps", "float", 1e-5),
		},
		Outputs: []card.Output{output("float32", laid(in, order...), in...), output("float32", laid([]int64{2, 4}), 2, 4), output("float32", laid([]int64{2, 4}), 2, 4)},
	}
}

// composite is the call of `group_norm` that makes a leaf's: it gives no statistics.
func composite(leaf card.Call) card.Call {
	groups := argument(leaf, "group")
	groups.Name = "num_groups"
	return card.Call{
		Overload: "aten::group_norm",
		Args:     []card.Arg{argument(leaf, "input"), groups, argument(leaf, "weight"), argument(leaf, "bias"), argument(leaf, "eps"), plainArg("cudnn_enabled", "bool", true)},
		Outputs:  leaf.Outputs[:1],
	}
}

func familyNames(c *card.Card) []string {
	names := []string{}
	for _, family := range Applicable(c) {
		names = append(names, family.Name())
	}
	return names
}

var normPoolCards = map[string]struct {
	card     *card.Card
	families string
}{
	"max pool of planes":             {hostCard(maxPoolCall(2, 0)), "max_pool_rows"},
	"max pool of channels":           {hostCard(maxPoolCall(1, 1, channelsInside...)), "max_pool_channels"},
	"average of planes":              {hostCard(avgPoolCall()), "avg_pool_rows avg_pool_columns"},
	"average of channels":            {hostCard(avgPoolCall(channelsInside...)), "avg_pool_channels"},
	"batch norm of planes":           {hostCard(batchNormCall(false)), "batch_norm_planes"},
	"batch norm of channels":         {hostCard(batchNormCall(false, channelsInside...)), "batch_norm_channels"},
	"softmax along rows":             {hostCard(softmaxCall(-1, 4, 37), softmaxCall(-1, 8, 16)), "softmax_rows"},
	"softmax down columns":           {hostCard(softmaxCall(1, 4, 7, 5)), "softmax_columns"},
	"softmax down long columns":      {hostCard(softmaxCall(0, 256, 64)), "softmax_columns softmax_sweep"},
	"layer norm":                     {hostCard(layerNormCall("float32")), "norm_rows"},
	"group norm of planes":           {hostCard(groupNormCall()), "group_norm_planes"},
	"group norm of channels":         {hostCard(groupNormCall(channelsInside...)), "group_norm_channels"},
	"softmax, rows and columns":      {hostCard(softmaxCall(1, 4, 7, 1), softmaxCall(1, 4, 7, 5)), ""},
	"batch norm in training":         {hostCard(batchNormCall(true)), ""},
	"max pool's values of planes":    {hostCard(valuesOf(maxPoolCall(2, 0))), "max_pool_rows"},
	"max pool's values of channels":  {hostCard(valuesOf(maxPoolCall(1, 1, channelsInside...))), "max_pool_channels"},
	"max pool with two windows":      {hostCard(maxPoolCall(2, 0), maxPoolCall(1, 1)), ""},
	"layer norm, odd statistics":     {hostCard(layerNormCall("float64")), ""},
	"group norm with an empty batch": {hostCard(emptied(groupNormCall())), ""},
}

func emptied(call card.Call) card.Call {
	call.Args[0].Sizes = []int64{0, 8, 9, 9}
	return call
}

func TestNormAndPoolFamiliesApplyWhereTheyAreExact(t *testing.T) {
	for name, test := range normPoolCards {
		if got := strings.Join(familyNames(test.card), " "); got != test.families {
			t.Errorf("%s: families %q apply (expected %q)", name, got, test.families)
		}
	}
}

// A window that meets no element has an index outside the plane in eager; no kernel should have to follow.
func TestWindowsMustMeetThePlane(t *testing.T) {
	inside := window{kernel: [2]int64{3, 3}, stride: [2]int64{2, 2}, padding: [2]int64{1, 1}, dilation: [2]int64{1, 1}}
	if !inside.meets([2]int64{7, 7}, [2]int64{4, 4}) {
		t.Error("3x3 windows at stride 2 with padding 1 meet a plane of 7x7")
	}
	beside := window{kernel: [2]int64{2, 2}, stride: [2]int64{1, 1}, padding: [2]int64{1, 1}, dilation: [2]int64{3, 3}}
	if beside.meets([2]int64{2, 2}, [2]int64{1, 1}) {
		t.Error("a 2x2 window of dilation 3 from -1 looks at -1 and 2, not at a plane of 2x2")
	}
}

func TestDenseIgnoresStridesOfDimsOfSizeOne(t *testing.T) {
	if !dense([]int64{2, 1, 3, 4}, []int64{12, 999, 4, 1}, rowsInside) || dense([]int64{2, 2, 3, 4}, []int64{24, 13, 4, 1}, rowsInside) {
		t.Error("dense: a dim of size 1 may have any stride, others may not")
	}
	if !dense([]int64{3, 4, 5}, []int64{1, 15, 3}, channelsInside) {
		t.Error("dense: three dims are C, H, W")
	}
}

var (
	identifier    = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	constantName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	constantValue = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
)

// namesOf are the names that expressions of a call's spec may use (docs/formats.md, `spec`).
func namesOf(call card.Call) map[string]bool {
	names := map[string]bool{"threads": true, "ceildiv": true, "min": true, "max": true}
	add := func(prefix string, dim int) {
		names[prefix+"_numel"] = true
		for d := range dim {
			names[fmt.Sprintf("%s_size%d", prefix, d)], names[fmt.Sprintf("%s_stride%d", prefix, d)] = true, true
		}
	}
	for _, arg := range call.Args {
		if arg.Kind == "tensor" {
			add(arg.Name, len(arg.Sizes))
		}
		for k, item := range arg.Items {
			add(fmt.Sprintf("%s_%d", arg.Name, k), len(item.Sizes))
		}
		names[arg.Name] = names[arg.Name] || arg.Kind == "int"
	}
	for i, out := range call.Outputs {
		add(fmt.Sprintf("out%d", i), len(out.Sizes))
	}
	return names
}

func TestEveryPointOfNormAndPoolFamiliesIsAValidSpec(t *testing.T) {
	for name, test := range normPoolCards {
		call := test.card.Variants[0].Call
		names := namesOf(call)
		check := func(where, expr string) {
			for _, word := range identifier.FindAllString(expr, -1) {
				if !names[word] {
					t.Errorf("%s, %s: expression `%s` uses `%s`, which the call does not have", name, where, expr, word)
				}
			}
		}
		for _, family := range Applicable(test.card) {
			params := family.Params(test.card, avx512)
			points := Points(params)
			if len(points) > MaxPoints {
				t.Errorf("%s: %d points (expected at most %d)", family.Name(), len(points), MaxPoints)
			}
			for _, param := range params {
				if !slices.Contains(param.Values, param.Default) {
					t.Errorf("%s: default %d of %s is none of its values %v", family.Name(), param.Default, param.Name, param.Values)
				}
			}
			for _, point := range points {
				candidate, err := Make(family, test.card, avx512, point)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if again, _ := Make(family, test.card, avx512, point); !reflect.DeepEqual(candidate, again) {
					t.Fatalf("%s: point %v gives two candidates", family.Name(), point)
				}
				if strings.Contains(candidate.Source, "// @") {
					t.Errorf("%s: a part of the page is missing", family.Name())
				}
				for key, value := range candidate.Spec.Constants {
					if !constantName.MatchString(key) || !constantValue.MatchString(value) {
						t.Errorf("%s: constant %s=%s", family.Name(), key, value)
					}
				}
				for _, workspace := range candidate.Spec.Workspaces {
					check("workspace", workspace.Bytes)
				}
				for _, kernel := range candidate.Spec.Kernels {
					check("work", kernel.Work)
					check("grain", kernel.Grain)
					for _, arg := range kernel.Args {
						check("argument", arg.Int)
						checkSlot(t, family.Name(), call, candidate.Spec, arg.Slot)
					}
				}
			}
		}
	}
}

func checkSlot(t *testing.T, family string, call card.Call, spec card.Spec, slot string) {
	for i := range call.Outputs {
		if slot == fmt.Sprintf("out%d", i) {
			return
		}
	}
	for i := range spec.Workspaces {
		if slot == fmt.Sprintf("ws%d", i) {
			return
		}
	}
	for _, arg := range call.Args {
		for k := range arg.Items {
			if slot == fmt.Sprintf("%s_%d", arg.Name, k) {
				return
			}
		}
	}
	if slot != "" && argument(call, slot).Kind != "tensor" {
		t.Errorf("%s: slot `%s` is no tensor of the call", family, slot)
	}
}
