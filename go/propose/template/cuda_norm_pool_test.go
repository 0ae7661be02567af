package template

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var h200 = propose.Facts{Target: "cuda", Arch: "sm_90a", SMCount: 132, L2Bytes: 50 << 20, SmemOptin: 227 << 10}

func onCuda(calls ...card.Call) *card.Card {
	c := hostCard(calls...)
	c.Target, c.Threads = "cuda", 0
	return c
}

func typed(dtype string, call card.Call) card.Call {
	for i, arg := range call.Args {
		if arg.Kind == "tensor" {
			call.Args[i].DType = dtype
		}
	}
	for i, out := range call.Outputs {
		if out.DType != "int64" {
			call.Outputs[i].DType = dtype
		}
	}
	return call
}

// alike is a call whose parameters have the type of its data.
func alike(call card.Call) card.Call {
	for i, arg := range call.Args {
		if arg.Kind == "tensor" {
			call.Args[i].DType = call.Args[0].DType
		}
	}
	return call
}

// savedBatchNorm is batch norm in inference as eager has it on this target: two vectors of statistics.
func savedBatchNorm(order ...int) card.Call {
	call := batchNormCall(false, order...)
	call.Outputs[1], call.Outputs[2] = output("float32", laid([]int64{8}), 8), output("float32", laid([]int64{8}), 8)
	return call
}

func vendorBatchNorm() card.Call {
	call := batchNormCall(false)
	call.Overload = "aten::cudnn_batch_norm"
	call.Args[6], call.Args[7] = plainArg("exponential_average_factor", "float", 0.1), plainArg("epsilon", "float", 1e-5)
	call.Outputs = append(call.Outputs, output("uint8", []int64{1}, 0))
	return call
}

func groupsOf(channels, side int64, order ...int) card.Call {
	call := groupNormCall(order...)
	sizes := []int64{2, channels, side, side}
	call.Args[0] = tensorArg("input", "float32", laid(sizes, order...), sizes...)
	call.Args[1], call.Args[2] = dataArg("weight", "float32", channels), dataArg("bias", "float32", channels)
	call.Args[4], call.Args[5] = plainArg("C", "int", channels), plainArg("HxW", "int", side*side)
	call.Outputs[0] = output("float32", laid(sizes, order...), sizes...)
	return call
}

// intoPlanes is a group norm whose result is contiguous, whatever its input is.
func intoPlanes(call card.Call) card.Call {
	call.Outputs[0].Strides = laid(call.Outputs[0].Sizes)
	return call
}

func rmsCall(sizes, strides []int64) card.Call {
	n := sizes[len(sizes)-1]
	outer := slices.Clone(sizes)
	outer[len(outer)-1] = 1
	return card.Call{
		Overload: "aten::_fused_rms_norm",
		Args: []card.Arg{
			tensorArg("input", "bfloat16", strides, sizes...), plainArg("normalized_shape", "ints", []int64{n}), dataArg("weight", "bfloat16", n),
			{Name: "eps", Kind: "none"},
		},
		Outputs: []card.Output{output("bfloat16", laid(sizes), sizes...), output("float32", laid(outer), outer...)},
	}
}

func logSoftmax(call card.Call) card.Call {
	call.Overload = "aten::_log_softmax"
	return typed("float64", call)
}

func adaptiveCall(order ...int) card.Call {
	in, out := []int64{2, 16, 30, 31}, []int64{2, 16, 7, 7}
	return card.Call{
		Overload: "aten::_adaptive_avg_pool2d",
		Args:     []card.Arg{tensorArg("self", "float16", laid(in, order...), in...), plainArg("output_size", "ints", []int64{7, 7})},
		Outputs:  []card.Output{output("float16", laid(out, order...), out...)},
	}
}

// evenCall has windows of 4 x 4.
func evenCall(order ...int) card.Call {
	call := adaptiveCall(order...)
	in := []int64{2, 16, 28, 28}
	call.Args[0] = tensorArg("self", "float16", laid(in, order...), in...)
	return call
}

var cudaNormPoolCards = map[string]struct {
	card     *card.Card
	families string
}{
	"max pool of planes":                       {onCuda(maxPoolCall(2, 0)), "max_pool_rows max_pool_bands"},
	"max pool of planes of halves":             {onCuda(typed("bfloat16", maxPoolCall(2, 0))), "max_pool_rows max_pool_bands max_pool_keys"},
	"max pool of channels":                     {onCuda(typed("bfloat16", maxPoolCall(1, 1, channelsInside...))), "max_pool_channels max_pool_strips"},
	"max pool's values of planes":              {onCuda(valuesOf(maxPoolCall(2, 0))), "max_pool_rows max_pool_bands"},
	"max pool's values of channels":            {onCuda(typed("bfloat16", valuesOf(maxPoolCall(1, 1, channelsInside...)))), "max_pool_channels max_pool_strips"},
	"average of planes":                        {onCuda(avgPoolCall()), "avg_pool_rows"},
	"average of channels":                      {onCuda(avgPoolCall(channelsInside...)), "avg_pool_channels"},
	"adaptive average":                         {onCuda(adaptiveCall()), "avg_pool_teams"},
	"adaptive average of channels":             {onCuda(adaptiveCall(channelsInside...)), "avg_pool_channels"},
	"adaptive average of even windows":         {onCuda(evenCall()), "avg_pool_teams avg_pool_even"},
	"adaptive average of even channels":        {onCuda(evenCall(channelsInside...)), "avg_pool_channels avg_pool_even"},
	"batch norm of planes":                     {onCuda(savedBatchNorm()), "batch_norm_planes"},
	"batch norm of channels":                   {onCuda(typed("float16", batchNormCall(false, channelsInside...))), "batch_norm_channels"},
	"batch norm of channels, saved statistics": {onCuda(savedBatchNorm(channelsInside...)), "batch_norm_channels"},
	"the vendor's batch norm":                  {onCuda(vendorBatchNorm()), "batch_norm_planes"},
	"softmax of short rows":                    {onCuda(softmaxCall(-1, 4, 37), softmaxCall(-1, 8, 16)), "softmax_warps"},
	"softmax of rows":                          {onCuda(softmaxCall(-1, 4, 2000)), "softmax_warps softmax_blocks"},
	"softmax of long rows":                     {onCuda(softmaxCall(-1, 4, 32768)), "softmax_blocks softmax_cluster softmax_split"},
	"softmax of longest rows":                  {onCuda(logSoftmax(softmaxCall(-1, 4, 40000))), "softmax_cluster softmax_split"},
	"softmax of rows of odd halves":            {onCuda(typed("bfloat16", softmaxCall(-1, 4, 100003))), "softmax_cluster softmax_split"},
	"softmax down columns":                     {onCuda(softmaxCall(1, 4, 7, 5)), "softmax_columns softmax_lanes"},
	"softmax down long columns":                {onCuda(softmaxCall(0, 5000, 64)), "softmax_columns"},
	"layer norm":                               {onCuda(alike(layerNormCall("float32"))), "norm_warps"},
	"layer norm, parameters of another type":   {onCuda(layerNormCall("float32")), ""},
	"rms norm":                                 {onCuda(rmsCall([]int64{3, 4096}, []int64{4096, 1})), "norm_blocks"},
	"rms norm of many rows":                    {onCuda(rmsCall([]int64{1000, 4096}, []int64{4096, 1})), "norm_blocks norm_stream"},
	"rms norm of parts of rows":                {onCuda(rmsCall([]int64{3, 5, 96}, []int64{2400, 480, 1})), "norm_warps"},
	"rms norm of long rows":                    {onCuda(rmsCall([]int64{3, 50001}, []int64{50001, 1})), "norm_cluster norm_split"},
	"group norm of small groups":               {onCuda(groupNormCall()), "norm_warps"},
	"group norm of planes":                     {onCuda(groupsOf(64, 40)), "norm_blocks norm_cluster norm_split"},
	"group norm of large planes":               {onCuda(groupsOf(16, 256)), "group_norm_split group_norm_cluster norm_cluster norm_ring norm_team norm_split"},
	"group norm of channels":                   {onCuda(groupsOf(64, 40, channelsInside...)), "group_norm_lines"},
	"group norm of channels into planes":       {onCuda(intoPlanes(groupsOf(64, 40, channelsInside...))), "group_norm_lines"},
	"group norm of channels into odd planes":   {onCuda(intoPlanes(groupsOf(64, 39, channelsInside...))), "group_norm_lines"},
	"group norm of channels of odd planes":     {onCuda(groupsOf(64, 39, channelsInside...)), "group_norm_lines"},
	"group norm of small groups of channels":   {onCuda(groupsOf(8, 40, channelsInside...)), "group_norm_lines"},
	"group norm across vectors of channels":    {onCuda(groupsOf(24, 40, channelsInside...)), "group_norm_lines"},
	"group norm of parts of vectors":           {onCuda(typed("bfloat16", groupsOf(12, 40, channelsInside...))), ""},
	"the composite of channels":                {onCuda(composite(intoPlanes(groupsOf(64, 40, channelsInside...)))), "group_norm_lines"},
	"the composite of odd planes":              {onCuda(composite(intoPlanes(groupsOf(24, 39, channelsInside...)))), "group_norm_lines"},
	"the composite of planes":                  {onCuda(composite(groupsOf(64, 40))), ""},
	"group norm of channels in double":         {onCuda(typed("float64", groupsOf(64, 40, channelsInside...))), ""},
	"softmax, rows and columns":                {onCuda(softmaxCall(1, 4, 7, 1), softmaxCall(1, 4, 7, 5)), ""},
	"batch norm in training":                   {onCuda(batchNormCall(true)), ""},
	"max pool with two windows":                {onCuda(maxPoolCall(2, 0), maxPoolCall(1, 1)), ""},
	"group norm with an empty batch":           {onCuda(emptied(groupNormCall())), ""},
}

func TestNormAndPoolFamiliesForCudaApplyWhereTheyAreExact(t *testing.T) {
	for name, test := range cudaNormPoolCards {
		if got := strings.Join(familyNames(test.card), " "); got != test.families {
			t.Errorf("%s: families %q apply (expected %q)", name, got, test.families)
		}
	}
}

var entryPoint = regexp.MustCompile(`(?s)KF_KERNEL\([\w, +]+\) void (kf_\w+)\(\n(.*?)\n\) \{`)

// Every point has a spec that names only what the call and the device have, and hands each kernel as many arguments as its page has parameters.
func TestEveryPointOfNormAndPoolFamiliesForCudaIsAValidSpec(t *testing.T) {
	device := []string{"sm_count", "l2_bytes", "smem_optin", "max_blocks_per_sm"}
	for name, test := range cudaNormPoolCards {
		call := test.card.Variants[0].Call
		names := namesOf(call)
		for _, fact := range device {
			names[fact] = true
		}
		for _, family := range Applicable(test.card) {
			params := family.Params(test.card, h200)
			for _, param := range params {
				if !slices.Contains(param.Values, param.Default) || !slices.IsSorted(param.Values) {
					t.Errorf("%s, %s: %s has the default %d and the values %v", name, family.Name(), param.Name, param.Default, param.Values)
				}
			}
			seen := map[string]Point{}
			for _, point := range Points(params) {
				where := fmt.Sprintf("%s, %s at %v", name, family.Name(), point)
				candidate, err := Make(family, test.card, h200, point)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if again, _ := Make(family, test.card, h200, point); !reflect.DeepEqual(candidate, again) {
					t.Fatalf("%s: one point gives two candidates", where)
				}
				if twin, ok := seen[candidate.ID]; ok {
					t.Errorf("%s: the same kernel as %v", where, twin)
				}
				seen[candidate.ID] = point
				candidate.Change = "test"
				if err := candidate.Validate(); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if strings.Contains(candidate.Source, "// @") {
					t.Fatalf("%s: a part of the page is missing", where)
				}
				checkCudaSpec(t, where, call, candidate, names)
			}
			if len(seen) > MaxPoints {
				t.Errorf("%s: %d points (expected at most %d)", family.Name(), len(seen), MaxPoints)
			}
		}
	}
}

// parametersOf are the numbers of parameters of a source's kernels.
func parametersOf(source string) map[string]int {
	parameters := map[string]int{}
	for _, match := range entryPoint.FindAllStringSubmatch(source, -1) {
		parameters[match[1]] = strings.Count(match[2], ",") + 1
	}
	return parameters
}

// sourcesSeen: most points of a family share their source, and to read one takes longer than to make it.
var sourcesSeen = map[string]map[string]int{}

func checkCudaSpec(t *testing.T, where string, call card.Call, candidate card.Candidate, names map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	check := func(expr string) {
		if seen[expr] {
			return
		}
		seen[expr] = true
		for _, word := range identifier.FindAllString(expr, -1) {
			if !names[word] {
				t.Fatalf("%s: expression `%s` uses `%s`, which neither call nor device has", where, expr, word)
			}
		}
	}
	for key, value := range candidate.Spec.Constants {
		if !constantName.MatchString(key) || !constantValue.MatchString(value) {
			t.Fatalf("%s: constant %s=%s", where, key, value)
		}
	}
	for _, workspace := range candidate.Spec.Workspaces {
		check(workspace.Bytes)
	}
	parameters := sourcesSeen[candidate.Source]
	if parameters == nil {
		parameters = parametersOf(candidate.Source)
		sourcesSeen[candidate.Source] = parameters
	}
	for _, kernel := range candidate.Spec.Kernels {
		if parameters[kernel.Entry] != len(kernel.Args) {
			t.Fatalf("%s: kernel `%s` has %d parameters and %d arguments", where, kernel.Entry, parameters[kernel.Entry], len(kernel.Args))
		}
		for _, expr := range append(append(kernel.Grid, kernel.Block...), kernel.Smem) {
			check(expr)
		}
		for _, arg := range kernel.Args {
			check(arg.Int)
			checkSlot(t, where, call, candidate.Spec, arg.Slot)
			if arg.Slot == "" && arg.Type == "" {
				t.Fatalf("%s: an argument of kernel `%s` has no type", where, kernel.Entry)
			}
		}
	}
}

func vectorOf(c *card.Card, family Family) Param {
	for _, param := range family.Params(c, h200) {
		if param.Name == "VEC" {
			return param
		}
	}
	return Param{}
}

// An access divides the rows, and the strides between them, of every variant.
func TestAccessesDivideRowsAndStrides(t *testing.T) {
	for _, test := range []struct {
		what   string
		family Family
		card   *card.Card
		best   int
	}{
		{"float16, 8 elements are 16 bytes", cudaSoftmaxWarps{}, onCuda(softmaxCall(-1, 4, 64)), 8},
		{"rows of 36 and 64", cudaSoftmaxWarps{}, onCuda(softmaxCall(-1, 4, 36), softmaxCall(-1, 4, 64)), 4},
		{"an odd row", cudaSoftmaxWarps{}, onCuda(softmaxCall(-1, 4, 37)), 1},
		{"columns of 6", cudaSoftmaxColumns{}, onCuda(softmaxCall(0, 4, 2, 3)), 2},
		{"rows of 96 that lie 100 apart", cudaNormWarps{}, onCuda(rmsCall([]int64{3, 96}, []int64{100, 1})), 4},
	} {
		if p := vectorOf(test.card, test.family); p.Default != test.best || slices.Max(p.Values) != test.best {
			t.Errorf("%s: vectors %v, default %d (expected at most %d, and that)", test.what, p.Values, p.Default, test.best)
		}
	}
}

// A row fits the registers of its team at every point, also where some threads have less of it than others.
func TestTeamsHoldTheirRows(t *testing.T) {
	for _, test := range []struct {
		longest int64
		dtype   string
		values  []int
		best    int
	}{
		{256, "bfloat16", []int{64, 128, 256}, 64},
		{2048, "bfloat16", []int{64, 128, 256, 512, 1024}, 128},
		{32768, "float32", []int{512, 1024}, 1024},
		{32769, "float32", nil, 0},
		{16384, "float64", []int{512, 1024}, 1024},
		{16385, "float64", nil, 0},
	} {
		p := teams("THREADS", blockTeams, test.longest, test.dtype)
		if !slices.Equal(p.Values, test.values) || p.Default != test.best {
			t.Errorf("%d elements of %s: blocks of %v, default %d (expected %v, %d)", test.longest, test.dtype, p.Values, p.Default, test.values, test.best)
		}
	}
	if n := items(2049, 128, 8); n != 3 {
		t.Errorf("2,049 elements in 128 threads by 8: %d items (expected 3)", n)
	}
}

// torch's rule, with the ambiguous cases of its comments: one channel, one position, and a slice of one.
func TestChannelsLastIsAsTorchHasIt(t *testing.T) {
	for _, test := range []struct {
		sizes, strides []int64
		want           bool
	}{
		{[]int64{2, 8, 5, 5}, []int64{200, 25, 5, 1}, false},
		{[]int64{2, 8, 5, 5}, []int64{200, 1, 40, 8}, true},
		{[]int64{2, 1, 5, 5}, []int64{25, 25, 5, 1}, false},
		{[]int64{2, 1, 5, 5}, []int64{25, 1, 5, 1}, true},
		{[]int64{2, 8, 1, 1}, []int64{8, 1, 8, 8}, true},
		{[]int64{2, 8, 1, 1}, []int64{8, 1, 1, 1}, false},
		{[]int64{2, 1, 1, 1}, []int64{1, 1, 1, 1}, false},
		{[]int64{2, 1, 1, 1}, []int64{7, 7, 7, 7}, false},
		{[]int64{8, 5, 5}, []int64{1, 40, 8}, false},
		{[]int64{2, 8, 5, 5}, []int64{400, 1, 80, 16}, true},
	} {
		if got := channelsLast(test.sizes, test.strides); got != test.want {
			t.Errorf("sizes %v, strides %v: channels last is %v (expected %v)", test.sizes, test.strides, got, test.want)
		}
	}
}

func TestWindowsAreSharedByTeamsThatFitThem(t *testing.T) {
	if p := windowTeams(onCuda(avgPoolCall()), 16); !slices.Equal(p.Values, []int{1, 2, 4, 8}) || p.Default != 1 {
		t.Errorf("windows of 9: teams of %v, default %d (expected up to 8, default 1)", p.Values, p.Default)
	}
	if p := windowTeams(onCuda(adaptiveCall()), 4); slices.Max(p.Values) != 16 || p.Default != 8 {
		t.Errorf("windows of 25: teams of %v, default %d (expected up to 16, default 8)", p.Values, p.Default)
	}
}

// Turns take all rows once, and none is empty: a launch has no empty grid.
func TestTurnsShareAllRows(t *testing.T) {
	for rows := int64(1); rows <= 200; rows++ {
		for n := int64(1); n <= 8; n *= 2 {
			each, taken, least := (rows+n-1)/n, int64(0), rows
			for k := range n {
				turn := min(each, rows-k*each)
				taken, least = taken+turn, min(least, turn)
			}
			if fill := least >= 1; turnsFill(rows, n) != fill || (fill && taken != rows) {
				t.Errorf("%d rows in %d turns: fill is %v, the least has %d, all have %d", rows, n, turnsFill(rows, n), least, taken)
			}
		}
	}
}

// Each block joins all pieces of its row, so few bytes are cut into fewer of them; one turn is the first guess whatever the size.
func TestFewBytesAreCutIntoFewerPieces(t *testing.T) {
	for bytes, waves := range map[int64]int{32 << 20: 4, 512 << 20: 8} {
		c := onCuda(groupsOf(64, 256))
		c.Variants[0].Bytes = bytes
		for _, param := range (cudaNormSplit{}).Params(c, h200) {
			if want := map[string]int{"WAVES": waves, "TURNS": 1}[param.Name]; want != 0 && param.Default != want {
				t.Errorf("%d bytes: default %d of %s (expected %d)", bytes, param.Default, param.Name, want)
			}
		}
	}
}
