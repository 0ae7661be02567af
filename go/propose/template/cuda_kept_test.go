package template

import (
	"slices"
	"strconv"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/propose"
)

// A row is on the chip at every point: what registers and shared memory of its blocks hold is at least the largest piece of it. Clusters are
// offered only where the device has them.
func TestKeptRowsFitTheirBlocks(t *testing.T) {
	old := h200
	old.Arch, old.SmemOptin = "sm_75", 64<<10
	for _, test := range []struct {
		card     *card.Card
		device   propose.Facts
		clusters []int
	}{
		{onCuda(softmaxCall(-1, 4, 32768)), h200, []int{1, 2, 4, 8}},
		{onCuda(typed("bfloat16", softmaxCall(-1, 64, 262144))), h200, []int{2, 4, 8, 16}},
		{onCuda(typed("float32", softmaxCall(-1, 64, 262144))), h200, []int{4, 8, 16}},
		{onCuda(typed("float32", softmaxCall(-1, 64, 2<<20))), h200, nil},
		{onCuda(softmaxCall(-1, 4, 20000)), old, []int{1}},
		{onCuda(softmaxCall(-1, 4, 60000)), old, nil},
	} {
		k := keptSoftmax(test.card)
		if p := k.clusters(test.card, test.device); !slices.Equal(p.Values, test.clusters) {
			t.Errorf("rows of %d bytes on %s: clusters of %v (expected %v)", k.bytes(test.card), test.device.Arch, p.Values, test.clusters)
		}
		if got := (cudaSoftmaxCluster{}).Runs(test.card, test.device); got != (test.clusters != nil) {
			t.Errorf("rows of %d bytes on %s: the family runs is %v", k.bytes(test.card), test.device.Arch, got)
		}
		if test.clusters == nil {
			continue
		}
		for _, point := range Points(k.params(test.card, test.device)) {
			candidate, err := Make(cudaSoftmaxCluster{}, test.card, test.device, point)
			if err != nil {
				t.Fatal(err)
			}
			smem, err := strconv.ParseInt(candidate.Spec.Kernels[0].Smem, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			held := smem + int64(point["KEEP"])<<10
			if piece := pieceBytes(k.bytes(test.card), point["CLUSTER"]); held < piece || smem > test.device.SmemOptin-foldBytes {
				t.Errorf("%v: a block holds %d bytes, %d of them shared, of a piece of %d", point, held, smem, piece)
			}
		}
	}
}

// Where a call has more blocks than there are multiprocessors, the default leaves room for two blocks on each: of shared memory and, without spills, of
// registers.
func TestTwoBlocksOfKeptRowsShareAMultiprocessor(t *testing.T) {
	for _, test := range []struct {
		card   *card.Card
		blocks string
	}{
		{onCuda(typed("float32", softmaxCall(-1, 64, 262144))), "2"},
		{onCuda(typed("bfloat16", softmaxCall(-1, 64, 262144))), "2"},
		{onCuda(typed("float32", softmaxCall(-1, 64, 151936))), "2"},
		{onCuda(typed("float32", softmaxCall(-1, 4, 262144))), "1"},
	} {
		align(test.card, 16)
		candidate, err := Make(cudaSoftmaxCluster{}, test.card, h200, Points((cudaSoftmaxCluster{}).Params(test.card, h200))[0])
		if err != nil {
			t.Fatal(err)
		}
		smem, err := strconv.ParseInt(candidate.Spec.Kernels[0].Smem, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := candidate.Spec.Constants["BLOCKS"]; got != test.blocks || got == "2" && 2*(smem+foldBytes) > h200.SmemOptin {
			t.Errorf("%v: %s blocks with %d bytes of shared memory each (expected %s blocks, at most %d bytes)", candidate.Params, got, smem, test.blocks, h200.SmemOptin)
		}
		if test.blocks == "2" && local.MatchString(assembly(t, compiler(t, "sm_90a"), candidate)) {
			t.Errorf("%v: uses local memory", candidate.Params)
		}
	}
}

// groups is a group norm of one picture, contiguous, with 32 groups.
func groups(dtype string, channels, side int64) *card.Card {
	call := groupsOf(channels, side)
	sizes := []int64{1, channels, side, side}
	call.Args[0] = tensorArg("input", dtype, laid(sizes), sizes...)
	call.Args[3], call.Args[6] = plainArg("N", "int", 1), plainArg("group", "int", 32)
	call.Outputs[0] = output(dtype, laid(sizes), sizes...)
	for k := 1; k <= 2; k++ {
		call.Outputs[k] = output(dtype, laid([]int64{1, 32}), 1, 32)
	}
	return onCuda(typed(dtype, call))
}

// The largest piece of a row fits a block for every number of teams, and the default leaves the fewest multiprocessors without work. 8.4 MB fit 33
// multiprocessors of an H200, so that four teams take 32 groups in eight turns.
func TestTeamsKeepTheirRows(t *testing.T) {
	small := h200
	small.SMCount, small.SmemOptin = 40, 99<<10
	for _, test := range []struct {
		card   *card.Card
		device propose.Facts
		values []int
		best   int
	}{
		{groups("bfloat16", 128, 1024), h200, []int{1, 2, 3, 4}, 4},
		{groups("float32", 128, 1024), h200, []int{1, 2}, 2},
		{groups("float32", 512, 1024), h200, nil, 0},
		{groups("bfloat16", 128, 1024), small, nil, 0},
	} {
		p := (cudaNormTeam{}).teams(test.card, test.device)
		if !slices.Equal(p.Values, test.values) || p.Default != test.best || (cudaNormTeam{}).Runs(test.card, test.device) != (test.values != nil) {
			t.Errorf("rows of %d bytes: teams %v, default %d (expected %v, %d)", keptNorm(test.card).bytes(test.card), p.Values, p.Default, test.values, test.best)
		}
		for _, n := range p.Values {
			if piece := pieceBytes(keptNorm(test.card).bytes(test.card), test.device.SMCount/n); piece > leastBytes(test.device) {
				t.Errorf("%d teams: a piece has %d bytes, a block keeps %d", n, piece, leastBytes(test.device))
			}
		}
	}
}

// A spec's words that blocks wait for are zeroed, all its blocks run at once, and its expressions are short enough for the runtime.
func TestTeamsWaitOnlyForBlocksThatRun(t *testing.T) {
	c := groups("bfloat16", 128, 1024)
	for _, point := range Points((cudaNormTeam{}).Params(c, h200)) {
		candidate, err := Make(cudaNormTeam{}, c, h200, point)
		if err != nil {
			t.Fatal(err)
		}
		kernel := candidate.Spec.Kernels[0]
		if !kernel.Cooperative || !candidate.Spec.Workspaces[1].Zeroed || len(kernel.Grid[0]) > 1024 {
			t.Errorf("%v: cooperative %v, words zeroed %v, a grid of %d bytes", point, kernel.Cooperative, candidate.Spec.Workspaces[1].Zeroed, len(kernel.Grid[0]))
		}
	}
}

// A block of columns joins its threads' parts twice where exponentials are made once, in the same shared memory: beside it there is what a block folds in.
func TestColumnsJoinInTheSameMemory(t *testing.T) {
	pool := compiler(t, "sm_90a")
	for _, dtype := range []string{"float16", "float32"} {
		c := onCuda(typed(dtype, softmaxCall(1, 2, 64, 1024, 1024)))
		p := Point{"THREADS": 512, "ACROSS": 32, "VEC": 4}
		candidate, err := Make(cudaSoftmaxColumns{}, c, h200, p)
		if err != nil {
			t.Fatal(err)
		}
		usage, err := cuda.Usage(compiled(t, pool, candidate))
		const parts = 512 / 32 * 32 * 4 * 8
		if err != nil || candidate.Spec.Constants["HOLD"] != "1" || len(usage) != 1 || usage[0].SharedBytes > parts+foldBytes {
			t.Errorf("%s at %v: %v, %v, %v (expected rows in registers and at most %d bytes of shared memory)", dtype, p, usage, err, candidate.Spec.Constants, parts+foldBytes)
		}
	}
}
