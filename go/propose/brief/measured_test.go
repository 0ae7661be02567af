package brief

import (
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var h200 = propose.Facts{Target: "cuda", Arch: "sm_90a", SMCount: 132, SmemOptin: 232448}

// Worked out by hand: a warp gets registers in units of 256, a multiprocessor has 4 x 16384 of them, 64 warps, 32 blocks and 228 KiB, of which 1 KiB a
// block is the system's.
func TestFillIsBoundByWhatRunsOutFirst(t *testing.T) {
	for name, c := range map[string]struct {
		threads, smem            string
		registers, shared        int
		blocks, warps, mostWarps int
		bound                    string
		arch                     string
	}{
		"registers":            {"256", "0", 48, 1088, 5, 40, 64, "registers", "sm_90a"},     // 1536 a warp: 10 of each part
		"all warps":            {"256", "0", 32, 0, 8, 64, 64, "warps", "sm_90a"},            // registers would let 8 in, too
		"blocks":               {"32", "0", 16, 0, 32, 32, 64, "blocks", "sm_90a"},           // 64 warps have room
		"dynamic shared":       {"512", "65536", 48, 1216, 2, 32, 64, "registers", "sm_90a"}, // shared memory would let 3 in
		"shared":               {"128", "100000", 32, 0, 2, 8, 64, "shared memory", "sm_90a"},
		"the most of a block":  {"128", "232448", 32, 0, 1, 4, 64, "shared memory", "sm_90a"},
		"more than a block":    {"128", "232449", 32, 0, 0, 0, 64, "shared memory", "sm_90a"},
		"255 registers":        {"128", "0", 255, 0, 2, 8, 64, "registers", "sm_90a"}, // 8192 a warp: 2 of each part
		"an odd block":         {"100", "0", 32, 0, 16, 64, 64, "warps", "sm_90a"},    // 4 warps
		"a smaller device":     {"256", "0", 32, 0, 6, 48, 48, "warps", "sm_86"},
		"the oldest one":       {"256", "0", 32, 0, 4, 32, 32, "warps", "sm_75"},
		"64 KiB of the oldest": {"256", "65536", 32, 0, 1, 8, 32, "shared memory", "sm_75"},
	} {
		facts := h200
		facts.Arch = c.arch
		if c.arch == "sm_75" {
			facts.SmemOptin = 65536
		}
		kernel := card.Kernel{Entry: "kf_main", Block: []string{c.threads, "1", "1"}, Smem: c.smem}
		fill, ok := FillOf(facts, kernel, card.Usage{Entry: "kf_main", Registers: c.registers, SharedBytes: c.shared})
		if !ok || fill.Blocks != c.blocks || fill.Warps != c.warps || fill.MostWarps != c.mostWarps || fill.Bound != c.bound {
			t.Errorf("%s: %+v, %v (expected %d blocks, %d of %d warps, bound by %s)", name, fill, ok, c.blocks, c.warps, c.mostWarps, c.bound)
		}
	}
}

func TestFillIsLeftOutWhereItIsNotKnown(t *testing.T) {
	plain := card.Kernel{Entry: "kf_main", Block: []string{"256", "1", "1"}, Smem: "0"}
	for name, c := range map[string]struct {
		facts  propose.Facts
		change func(*card.Kernel)
	}{
		"a device of tomorrow": {propose.Facts{Arch: "sm_200", SmemOptin: 1 << 18}, func(*card.Kernel) {}},
		"the host":             {propose.Facts{Target: "host"}, func(*card.Kernel) {}},
		"a block by a name":    {h200, func(k *card.Kernel) { k.Block = []string{"self_size1", "1", "1"} }},
		"memory by a name":     {h200, func(k *card.Kernel) { k.Smem = "min(smem_optin, 65536)" }},
		"too many threads":     {h200, func(k *card.Kernel) { k.Block = []string{"1024", "2", "1"} }},
		"no block":             {h200, func(k *card.Kernel) { k.Block = nil }},
	} {
		kernel := plain
		c.change(&kernel)
		if fill, ok := FillOf(c.facts, kernel, card.Usage{Registers: 32}); ok {
			t.Errorf("%s: %+v (expected nothing)", name, fill)
		}
	}
}

func TestMeasuredTellsRateShareAndWhatTheKernelsTake(t *testing.T) {
	c := &card.Card{Variants: []card.Variant{{ID: "v0", Bytes: 134217728, RoofUS: 31.2}}}
	spec := card.Spec{Kernels: []card.Kernel{{Entry: "kf_main", Block: []string{"256", "1", "1"}, Smem: "4096"}}}
	verdict := card.Verdict{Status: card.OK, Variants: []card.VariantCost{{ID: "v0", CandidateUS: 40}},
		Usage: []card.Usage{{Entry: "kf_main", Registers: 48, StackBytes: 16, SharedBytes: 1088}}}
	text := strings.Join(Measured(c, h200, spec, verdict), "\n")
	for _, words := range []string{"v0 moves its bytes at 3355 GB/s, 78 % of a copy's rate", "48 registers and 16 bytes of stack", "1088 bytes of static shared memory",
		"5 blocks of 256 threads and 4096 bytes of dynamic shared memory fit a multiprocessor (40 of 64 warps), bound by registers"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say `%s`:\n%s", words, text)
		}
	}
	if lines := Measured(c, h200, spec, card.Verdict{Status: card.WrongValue}); len(lines) != 0 {
		t.Errorf("of a kernel that was never timed it says %v", lines)
	}
}
