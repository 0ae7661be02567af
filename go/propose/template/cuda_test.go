package template

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// cudaCall is a call with one output.
func cudaCall(overload, dtype string, strides, sizes []int64, args ...card.Arg) card.Call {
	return card.Call{Overload: "aten::" + overload, Args: args, Outputs: []card.Output{output(dtype, strides, sizes...)}}
}

func none(name string) card.Arg { return card.Arg{Name: name, Kind: "none"} }

func floatArg(name string, value float64) card.Arg {
	arg := plainArg(name, "scalar", value)
	arg.Type = "float"
	return arg
}

func wrappedArg(name, dtype, bits string) card.Arg {
	yes := true
	return card.Arg{Name: name, Kind: "wrapped", DType: dtype, Bits: bits, WrappedNumber: &yes}
}

// pointwiseCall is a binary operator whose second operand has its own layout.
func pointwiseCall(overload, dtype string, other card.Arg, order ...int) card.Call {
	sizes := []int64{4, 64, 28, 28}
	strides := laid(sizes, order...)
	args := []card.Arg{tensorArg("self", dtype, strides, sizes...), other}
	if overload == "add.Tensor" || overload == "sub.Tensor" {
		args = append(args, plainArg("alpha", "scalar", 1))
		args[2].Type = "int"
	}
	return cudaCall(overload, dtype, strides, sizes, args...)
}

func unaryCall(overload, dtype string, args ...card.Arg) card.Call {
	sizes := []int64{64, 1000}
	return cudaCall(overload, dtype, laid(sizes), sizes, append([]card.Arg{dataArg("self", dtype, sizes...)}, args...)...)
}

// copyCall copies between two orders of dims.
func copyCall(to, from string, order, source []int) card.Call {
	sizes := []int64{4, 64, 28, 28}
	return cudaCall("copy_", to, laid(sizes, order...), sizes, tensorArg("self", to, laid(sizes, order...), sizes...),
		tensorArg("src", from, laid(sizes, source...), sizes...), plainArg("non_blocking", "bool", false))
}

func foldCall(overload, dtype string, dims []int, sizes, out []int64, order ...int) card.Call {
	args := []card.Arg{tensorArg("self", dtype, laid(sizes, order...), sizes...), plainArg("dim", "ints", dims), plainArg("keepdim", "bool", false)}
	if overload != "amax" {
		args = append(args, none("dtype"))
	}
	return cudaCall(overload, dtype, laid(out), out, args...)
}

func scanCall(dtype string, dim int, sizes ...int64) card.Call {
	return cudaCall("cumsum", dtype, laid(sizes), sizes, dataArg("self", dtype, sizes...), plainArg("dim", "int", dim), none("dtype"))
}

func topkCall(dtype string, k int64, largest bool, rows, length int64) card.Call {
	call := cudaCall("topk", dtype, laid([]int64{rows, k}), []int64{rows, k}, dataArg("self", dtype, rows, length), plainArg("k", "int", k),
		plainArg("dim", "int", -1), plainArg("largest", "bool", largest), plainArg("sorted", "bool", true))
	call.Outputs = append(call.Outputs, output("int64", laid([]int64{rows, k}), rows, k))
	return call
}

func upsampleCall(overload, dtype string, order ...int) card.Call {
	in, out := []int64{2, 64, 16, 16}, []int64{2, 64, 32, 32}
	args := []card.Arg{tensorArg("self", dtype, laid(in, order...), in...), plainArg("output_size", "ints", []int{32, 32})}
	if overload == "upsample_bilinear2d" {
		args = append(args, plainArg("align_corners", "bool", false))
	}
	return cudaCall(overload, dtype, laid(out, order...), out, append(args, none("scales_h"), none("scales_w"))...)
}

func catCall(dtype string, dim int, order ...int) card.Call {
	sizes, out := []int64{4, 32, 28, 28}, []int64{4, 32, 28, 28}
	out[dim] *= 2
	item := tensorArg("", dtype, laid(sizes, order...), sizes...)
	return cudaCall("cat", dtype, laid(out, order...), out, card.Arg{Name: "tensors", Kind: "tensors", Items: []card.Arg{item, item}}, plainArg("dim", "int", dim))
}

// cudaCards has the kinds of calls that the families of cudaMoves serve, with the families that apply.
var cudaCards = map[string]struct {
	card     *card.Card
	families string
}{
	"add":                       {onCuda(pointwiseCall("add.Tensor", "float16", dataArg("other", "float16", 4, 64, 28, 28))), "pointwise"},
	"add of a channel's bias":   {onCuda(pointwiseCall("add.Tensor", "bfloat16", dataArg("other", "bfloat16", 64, 1, 1), channelsInside...)), "pointwise"},
	"product of two orders":     {onCuda(pointwiseCall("mul.Tensor", "float32", dataArg("other", "float32", 4, 64, 28, 28), channelsInside...)), "pointwise"},
	"quotient by a number":      {onCuda(pointwiseCall("div.Tensor", "float64", wrappedArg("other", "float64", "4008000000000000"))), "pointwise"},
	"mixed types":               {onCuda(pointwiseCall("sub.Tensor", "float32", dataArg("other", "int64", 28, 28))), "pointwise"},
	"relu":                      {onCuda(unaryCall("relu_", "float16")), "pointwise"},
	"silu":                      {onCuda(unaryCall("silu", "bfloat16")), "pointwise"},
	"gelu":                      {onCuda(unaryCall("gelu", "float32", plainArg("approximate", "string", "tanh"))), "pointwise"},
	"tanh":                      {onCuda(unaryCall("tanh", "float64")), "pointwise"},
	"negation of integers":      {onCuda(unaryCall("neg", "int64")), "pointwise"},
	"masked fill":               {onCuda(unaryCall("masked_fill.Scalar", "float16", dataArg("mask", "bool", 64, 1000), floatArg("value", 1.5))), "pointwise"},
	"copy with a conversion":    {onCuda(copyCall("float16", "float32", nil, nil)), "pointwise"},
	"copy to channels last":     {onCuda(copyCall("float16", "float16", channelsInside, nil)), "transpose transpose_packed pointwise"},
	"copy from channels last":   {onCuda(copyCall("float32", "bfloat16", nil, channelsInside)), "transpose pointwise"},
	"copy of doubles":           {onCuda(copyCall("float64", "float64", channelsInside, nil)), "transpose pointwise"},
	"copy of bytes":             {onCuda(copyCall("uint8", "uint8", channelsInside, nil)), "transpose pointwise"},
	"cat of channels":           {onCuda(catCall("float16", 1)), "cat"},
	"cat of inner channels":     {onCuda(catCall("float32", 1, channelsInside...)), "cat"},
	"sum of planes":             {onCuda(foldCall("sum.dim_IntList", "float16", []int{2, 3}, []int64{4, 64, 28, 28}, []int64{4, 64})), "reduce_rows"},
	"mean of small planes":      {onCuda(foldCall("mean.dim", "float16", []int{2, 3}, []int64{8, 64, 7, 7}, []int64{8, 64})), "reduce_short reduce_rows"},
	"maximum of short rows":     {onCuda(foldCall("amax", "float64", []int{1}, []int64{1000, 15}, []int64{1000})), "reduce_short reduce_rows"},
	"copy of a turned matrix":   {onCuda(cudaCall("copy_", "float32", laid([]int64{96, 128}), []int64{96, 128}, dataArg("self", "float32", 96, 128), tensorArg("src", "float32", []int64{1, 96}, 96, 128), plainArg("non_blocking", "bool", false))), "transpose transpose_packed pointwise"},
	"sum of rows of a vector":   {onCuda(foldCall("sum.dim_IntList", "bfloat16", []int{2}, []int64{70, 30, 8}, []int64{70, 30})), "reduce_rows reduce_vectors"},
	"maximum of half a vector":  {onCuda(foldCall("amax", "float16", []int{1}, []int64{640, 4}, []int64{640})), "reduce_short reduce_rows reduce_vectors"},
	"mean of rows of 64":        {onCuda(foldCall("mean.dim", "float32", []int{1}, []int64{999, 64}, []int64{999})), "reduce_rows reduce_together"},
	"sum of rows of 512":        {onCuda(foldCall("sum.dim_IntList", "bfloat16", []int{1}, []int64{70, 512}, []int64{70})), "reduce_rows reduce_together"},
	"sum of everything":         {onCuda(foldCall("sum.dim_IntList", "float32", []int{}, []int64{4096, 4097}, nil)), "reduce_rows"},
	"sum of channels":           {onCuda(foldCall("sum.dim_IntList", "float32", []int{0, 2, 3}, []int64{32, 64, 28, 28}, []int64{64})), "reduce_rows"},
	"mean of inner channels":    {onCuda(foldCall("mean.dim", "bfloat16", []int{2, 3}, []int64{4, 64, 28, 28}, []int64{4, 64}, channelsInside...)), "reduce_columns"},
	"sum of a column":           {onCuda(foldCall("sum.dim_IntList", "float64", []int{0}, []int64{100000, 8}, []int64{8})), "reduce_columns"},
	"maximum of rows":           {onCuda(foldCall("amax", "float16", []int{1}, []int64{64, 1000}, []int64{64})), "reduce_rows"},
	"sums along short rows":     {onCuda(scanCall("float32", 1, 4096, 100)), "cumsum_rows"},
	"sums along long rows":      {onCuda(scanCall("float16", 1, 4, 100000)), "cumsum_rows"},
	"sums of integers":          {onCuda(scanCall("int64", 1, 64, 1000)), "cumsum_rows"},
	"sums down columns":         {onCuda(scanCall("float64", 0, 100000, 2)), "cumsum_columns"},
	"topk of experts":           {onCuda(topkCall("bfloat16", 8, true, 4096, 256)), "topk"},
	"topk of a vocabulary":      {onCuda(topkCall("float32", 50, true, 64, 131072)), "topk"},
	"least of doubles":          {onCuda(topkCall("float64", 5, false, 300, 77)), "topk"},
	"nearest":                   {onCuda(upsampleCall("upsample_nearest2d", "float16")), "upsample_nearest upsample_double"},
	"nearest of inner channels": {onCuda(upsampleCall("upsample_nearest2d", "bfloat16", channelsInside...)), "upsample_nearest upsample_double"},
	"bilinear":                  {onCuda(upsampleCall("upsample_bilinear2d", "float32")), "upsample_bilinear"},
	"bilinear, inner channels":  {onCuda(upsampleCall("upsample_bilinear2d", "float16", channelsInside...)), "upsample_bilinear"},
}

func TestFamiliesForCudaApplyWhereTheyAreExact(t *testing.T) {
	for name, test := range cudaCards {
		got := familyNames(test.card)
		if want := regexp.MustCompile(`\S+`).FindAllString(test.families, -1); !slices.Equal(got, want) {
			t.Errorf("%s: families %v apply (expected %v)", name, got, want)
		}
	}
}

// Every point of a family's space is a valid candidate that names only what the call and the device have, and no two points are the same kernel.
func TestEveryPointForCudaIsAValidSpec(t *testing.T) {
	for name, test := range cudaCards {
		call := test.card.Variants[0].Call
		names := namesOf(call)
		for _, fact := range []string{"sm_count", "l2_bytes", "smem_optin", "max_blocks_per_sm"} {
			names[fact] = true
		}
		for _, family := range Applicable(test.card) {
			params := family.Params(test.card, h200)
			for _, param := range params {
				if !slices.Contains(param.Values, param.Default) || !slices.IsSorted(param.Values) {
					t.Errorf("%s, %s: %s has the default %d and the values %v", name, family.Name(), param.Name, param.Default, param.Values)
				}
			}
			points := Points(params)
			if len(points) > MaxPoints {
				t.Errorf("%s, %s: %d points (expected at most %d)", name, family.Name(), len(points), MaxPoints)
			}
			seen := map[string]Point{}
			for _, point := range points {
				candidate, err := Make(family, test.card, h200, point)
				if err != nil {
					t.Fatal(err)
				}
				if twin, ok := seen[candidate.ID]; ok {
					t.Errorf("%s, %s: %v and %v are the same kernel", name, family.Name(), twin, point)
				}
				seen[candidate.ID] = point
				candidate.Change = "test"
				if err := candidate.Validate(); err != nil {
					t.Fatal(err)
				}
				checkCudaSpec(t, name+", "+family.Name(), call, candidate, names)
			}
		}
	}
}

// allCudaCards are the cards of all families for cuda.
func allCudaCards() map[string]*card.Card {
	cards := map[string]*card.Card{}
	for name, test := range cudaCards {
		cards[name] = test.card
	}
	for name, test := range cudaNormPoolCards {
		cards[name] = test.card
	}
	return cards
}

// Constants come before the prelude, so none may be a word of it.
func TestConstantsForCudaAreNoWordsOfThePrelude(t *testing.T) {
	text, err := os.ReadFile("../../cuda/prelude/kf_kernel.cuh")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`//[^\n]*|"[^"\n]*"`).ReplaceAllString(string(text), "")
	words := identifier.FindAllString(code, -1)
	for _, c := range allCudaCards() {
		for _, family := range Applicable(c) {
			candidate, err := Make(family, c, h200, Points(family.Params(c, h200))[0])
			if err != nil {
				t.Fatal(err)
			}
			for constant := range maps.Keys(candidate.Spec.Constants) {
				if slices.Contains(words, constant) {
					t.Errorf("%s: the constant `%s` is a word of the prelude (expected another name)", family.Name(), constant)
				}
			}
		}
	}
}

// A kernel has at most as many arguments as the runtime takes, and no expression is longer than it reads.
func TestCatOfManyInputs(t *testing.T) {
	most := 0
	for count := 2; count <= 40; count++ {
		sizes, out := []int64{4, 6, 5, 7}, []int64{4, 6 * int64(count), 5, 7}
		gaps := tensorArg("", "float32", []int64{2000, 300, 50, 7}, sizes...)
		gaps.Strides[3] = 1
		items := make([]card.Arg, count)
		for i := range items {
			items[i] = gaps
		}
		c := onCuda(cudaCall("cat", "float32", laid(out), out, card.Arg{Name: "tensors", Kind: "tensors", Items: items}, plainArg("dim", "int", 1)))
		if !(cudaCat{}).Applies(c) {
			continue
		}
		most = count
		candidate, err := Make(cudaCat{}, c, h200, Points(cudaCat{}.Params(c, h200))[0])
		if err != nil {
			t.Fatal(err)
		}
		kernel := candidate.Spec.Kernels[0]
		if len(kernel.Args) > 256 {
			t.Fatalf("%d inputs: %d arguments (expected at most 256)", count, len(kernel.Args))
		}
		longest := len(kernel.Grid[0])
		for _, arg := range kernel.Args {
			longest = max(longest, len(arg.Int))
		}
		if longest > 1024 {
			t.Fatalf("%d inputs: an expression of %d bytes (expected at most 1024)", count, longest)
		}
	}
	if most < 10 {
		t.Errorf("cat serves at most %d inputs (expected 10 or more)", most)
	}
}

// walked is the walk of a call's output and of its tensors.
func walked(calls ...card.Call) walk {
	c := onCuda(calls...)
	var tensors []card.Arg
	for _, arg := range calls[0].Args {
		if arg.Kind == "tensor" {
			tensors = append(tensors, arg)
		}
	}
	return walkOfOutput(c, tensors)
}

// Dims are joined where every operand of every variant has them in one run, and vectors are as wide as rows allow.
func TestWalksJoinWhatIsOneRun(t *testing.T) {
	dense := func(sizes ...int64) card.Call {
		return cudaCall("add.Tensor", "float32", laid(sizes), sizes, dataArg("self", "float32", sizes...), dataArg("other", "float32", sizes...))
	}
	gaps := dense(4, 6, 8)
	gaps.Args[1].Strides = []int64{96, 16, 1}
	bias := pointwiseCall("add.Tensor", "float32", dataArg("other", "float32", 64, 1, 1))
	for _, test := range []struct {
		what   string
		walk   walk
		sizes  []string
		units  int
		vector int
	}{
		{"one run", walked(dense(3, 5, 7)), []string{"out0_size0 * out0_size1 * out0_size2"}, 7, 4},
		{"one run in both variants", walked(dense(3, 5, 7), dense(1, 8, 9)), []string{"out0_size0 * out0_size1 * out0_size2"}, 7, 4},
		{"channels inside", walked(pointwiseCall("mul.Tensor", "float32", tensorArg("other", "float32", laid([]int64{4, 64, 28, 28}, channelsInside...), 4, 64, 28, 28), channelsInside...)),
			[]string{"out0_size0 * out0_size2 * out0_size3 * out0_size1"}, 7, 4},
		{"rows with gaps", walked(gaps), []string{"out0_size0 * out0_size1", "out0_size2"}, 7, 4},
		{"rows with gaps in one variant", walked(dense(4, 6, 8), gaps), []string{"out0_size0 * out0_size1", "out0_size2"}, 7, 4},
		{"a bias that repeats along rows", walked(bias), []string{"out0_size0", "out0_size1", "out0_size2 * out0_size3"}, 3, 4},
		{"one element", walked(dense(1, 1)), []string{"1"}, 7, 4},
	} {
		if w := test.walk; !slices.Equal(w.sizes, test.sizes) || w.units() != test.units || w.vector(4) != test.vector {
			t.Errorf("%s: dims %q, side by side %b, vectors of %d (expected %q, %b, %d)", test.what, w.sizes, w.units(), w.vector(4), test.sizes, test.units, test.vector)
		}
	}
}

// Indices become 64-bit before the last block of a launch could pass 2^31.
func TestWideIndices(t *testing.T) {
	for _, test := range []struct {
		sizes, strides []int64
		want           bool
	}{
		{[]int64{1 << 20, 1 << 10}, []int64{1 << 10, 1}, false},
		{[]int64{1 << 21, 1 << 10}, []int64{1 << 10, 1}, true},
		{[]int64{1 << 20, 2}, []int64{1 << 11, 1}, true},
		{[]int64{1<<31 - 1<<24}, []int64{1}, true},
		{[]int64{1<<31 - 1<<24 - 1}, []int64{1}, false},
	} {
		call := cudaCall("neg", "float32", laid(test.sizes), test.sizes, tensorArg("self", "float32", test.strides, test.sizes...))
		if got := wideIndices(onCuda(call)); got != test.want {
			t.Errorf("sizes %v, strides %v: wide indices are %v (expected %v)", test.sizes, test.strides, got, test.want)
		}
	}
}

// align says of every input's address that it is a multiple of some bytes.
func align(c *card.Card, bytes int) {
	for i := range c.Variants {
		v := &c.Variants[i]
		v.Align = nil
		for _, arg := range v.Call.Args {
			switch arg.Kind {
			case "tensor":
				v.Align = append(v.Align, bytes)
			case "tensors":
				v.Align = append(v.Align, slices.Repeat([]int{bytes}, len(arg.Items))...)
			}
		}
	}
}

func TestOnlyKnownAddressesAreCalledAligned(t *testing.T) {
	for _, c := range allCudaCards() {
		for _, family := range Applicable(c) {
			for bytes, want := range map[int]string{0: "0", 8: "0", 16: "1", 256: "1"} {
				if align(c, bytes); bytes == 0 {
					align(c, 16)
					c.Variants[len(c.Variants)-1].Align = nil // not known of one variant
				}
				candidate, err := Make(family, c, h200, Points(family.Params(c, h200))[0])
				if err != nil {
					t.Fatal(err)
				}
				if got := candidate.Spec.Constants["ALIGNED"]; got != want {
					t.Errorf("%s of %s with addresses of %d bytes: ALIGNED is %q (expected %q)", family.Name(), c.Overload, bytes, got, want)
				}
			}
		}
	}
}

func TestWholeTilesAreClaimedForEveryVariantOrNone(t *testing.T) {
	for _, c := range []struct {
		sizes [][]int64
		want  string
	}{{[][]int64{{2048}, {6144}}, "1"}, {[][]int64{{2048}, {2047}}, "0"}, {[][]int64{{1}}, "0"}} {
		made := &card.Card{Target: "cuda", Overload: "aten::relu"}
		for i, sizes := range c.sizes {
			one := cudaCall("relu", "float16", laid(sizes), sizes, dataArg("self", "float16", sizes...))
			made.Variants = append(made.Variants, card.Variant{ID: fmt.Sprint("v", i), Call: one, Calls: 1, EagerUS: 1})
		}
		candidate, err := Make(cudaPointwise{}, made, h200, Point{"VEC": 8, "THREADS": 256, "UNROLL": 1, "WAVES": 0, "ONCE": 0})
		if err != nil {
			t.Fatal(err)
		}
		if got := candidate.Spec.Constants["WHOLE"]; got != c.want {
			t.Errorf("%v: WHOLE is %q (expected %q)", c.sizes, got, c.want)
		}
	}
}
