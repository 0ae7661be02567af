package brief

// counters.go owns the reading of hardware counters as a diagnosis: what bounds a kernel, in words. Thresholds are those of the rules that come with Nsight
// Compute (sections/SpeedOfLight.py of 2026.1, sections/CPIStall.py), but for the few that are marked as ours. It refuses to advise: that is the author's.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// Of SpeedOfLight.py: below `latency` on both sides (memory; computing) neither is what a kernel waits for; at `saturated` a side is as good as used up;
// sides that differ by less than `balanced` are even; less than one wave of blocks does not fill the device. Per cent of the peak.
const (
	latency   = 60
	saturated = 80
	balanced  = 10
	oneWave   = 1
)

// Of CPIStall.py: a reason to wait counts where issue slots are used less than this, and it takes more than this part of the time between instructions.
const (
	busySlots = 80
	longStall = 0.3
)

// Ours.
const (
	conflicted = 0.1 // part of the passes over shared memory that are there for bank conflicts alone
	moreBytes  = 1.2 // times the bytes that must move
	mostStalls = 2   // told of a kernel
)

// waits words the states in which a warp waits, by our names of the counters. Source: Nsight Compute, kernel profiling guide, "Warp Stall Reasons".
var waits = map[string]string{
	"stall_long_scoreboard":    "loads of global or local memory (long scoreboard)",
	"stall_short_scoreboard":   "shared memory or special functions (short scoreboard)",
	"stall_lg_throttle":        "room in the queue of global and local memory: many narrow accesses (LG throttle)",
	"stall_mio_throttle":       "room in the queue of shared memory and special functions (MIO throttle)",
	"stall_math_pipe_throttle": "an arithmetic pipe that is busy (math pipe throttle)",
	"stall_tex_throttle":       "room in the L1's queue (TEX throttle)",
	"stall_barrier":            "other warps at a barrier",
	"stall_membar":             "a memory fence",
	"stall_wait":               "results of arithmetic, a fixed few cycles each (wait)",
	"stall_not_selected":       "their turn: others are ready, too (not selected)",
	"stall_no_instruction":     "instructions: code that does not fit the cache, or jumps (no instruction)",
	"stall_branch_resolving":   "targets of branches",
	"stall_imc_miss":           "constants that are not in the cache (IMC miss)",
	"stall_drain":              "stores to leave at the end (drain)",
	"stall_dispatch_stall":     "the dispatcher",
}

// Counted says in sentences what the counters of a candidate say; nil where nobody asked for them.
func Counted(c *card.Card, counters *card.Counters) []string {
	switch {
	case counters == nil:
		return nil
	case len(counters.Kernels) == 0:
		return []string{"no hardware counters: " + counters.Why}
	}
	lines := []string{fmt.Sprintf("hardware counters (ncu, one run of %s with cold caches):", counters.Variant)}
	total, moved := 0.0, 0.0
	for _, k := range counters.Kernels {
		total += k.Values["ns"]
		moved += k.Values["dram_bytes"]
	}
	for _, k := range counters.Kernels {
		line := fmt.Sprintf("`%s`", k.Entry)
		if ns := k.Values["ns"]; len(counters.Kernels) > 1 && total > 0 && ns > 0 {
			line += fmt.Sprintf(" (%.0f %% of the time)", 100*ns/total)
		}
		lines = append(lines, line+": "+strings.Join(slices.Concat(bound(k.Values), waiting(k.Values), conflicts(k.Values), numbers(k.Values)), "; "))
	}
	for _, v := range c.Variants {
		if must := float64(v.Bytes); v.ID == counters.Variant && must > 0 && moved > moreBytes*must {
			lines = append(lines, fmt.Sprintf("DRAM moved %.3g times the bytes that must move", moved/must))
		}
	}
	return lines
}

// bound is SpeedOfLight.py's tree: what a kernel is bound by.
func bound(v map[string]float64) []string {
	memory, computes := v["memory_pct"]
	sm, known := v["sm_pct"]
	if !known || !computes {
		return nil
	}
	waves, counted := v["waves"]
	switch {
	case max(memory, sm) < latency && counted && waves < oneWave:
		return []string{fmt.Sprintf("bound by latency: its blocks fill the device %.2f times (less than one wave), memory reaches %.0f %% and computing %.0f %% of the peak", waves, memory, sm)}
	case max(memory, sm) < latency:
		return []string{fmt.Sprintf("bound by latency: memory reaches %.0f %% and computing %.0f %% of the peak, so warps wait", memory, sm)}
	case max(memory, sm) < saturated && max(memory-sm, sm-memory) < balanced:
		return []string{fmt.Sprintf("bound by memory and computing alike: %.0f %% and %.0f %% of the peak", memory, sm)}
	case memory >= sm:
		return []string{byMemory(v, memory)}
	}
	return []string{byComputing(v, sm)}
}

// byMemory tells DRAM from the caches and shared memory: memory_pct is the busiest of them.
func byMemory(v map[string]float64, memory float64) string {
	if dram, known := v["dram_pct"]; known && dram > memory-balanced {
		return fmt.Sprintf("bound by memory: %.0f %% of DRAM's rate", dram)
	}
	return fmt.Sprintf("bound by memory, but not by DRAM: caches or shared memory reach %.0f %% of the peak, DRAM %.0f %%", memory, v["dram_pct"])
}

// byComputing tells the special function unit and the issue slots from other pipes: sm_pct is the busiest of them.
func byComputing(v map[string]float64, sm float64) string {
	switch {
	case v["xu_pct"] > sm-balanced:
		return fmt.Sprintf("bound by the special function unit (exp, log, sin, sqrt, divisions, conversions): %.0f %% of the peak", v["xu_pct"])
	case v["issue_pct"] > sm-balanced:
		return fmt.Sprintf("bound by issue slots: %.0f %% of them are used, so fewer instructions count", v["issue_pct"])
	}
	return fmt.Sprintf("bound by computing: the busiest pipe reaches %.0f %% of the peak", sm)
}

// waiting is CPIStall.py: what warps wait for, the longest first.
func waiting(v map[string]float64) []string {
	all := v["cycles_per_issue"]
	if all <= 0 || v["issue_pct"] >= busySlots {
		return nil
	}
	var words []string
	names := slices.Sorted(maps.Keys(waits))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(v[b], v[a]) })
	for _, name := range names[:mostStalls] {
		if v[name] > longStall*all {
			words = append(words, fmt.Sprintf("warps wait %.0f %% of their time for %s", 100*v[name]/all, waits[name]))
		}
	}
	return words
}

func conflicts(v map[string]float64) []string {
	if all := v["shared_wavefronts"]; all > 0 && v["bank_conflicts"] > conflicted*all {
		return []string{fmt.Sprintf("bank conflicts are %.0f %% of the passes over shared memory", 100*v["bank_conflicts"]/all)}
	}
	return nil
}

// numbers are the counters themselves, as far as they are there.
func numbers(v map[string]float64) []string {
	var words []string
	for _, n := range []struct {
		name, format string
		scale        float64
	}{
		{"ns", "%.4g us under ncu", 1e-3}, {"dram_pct", "DRAM %.0f %%", 1}, {"dram_bytes", "%.4g MB from and to it", 1e-6}, {"l2_hit_pct", "L2 hits %.0f %%", 1},
		{"sm_pct", "computing %.0f %%", 1}, {"issue_pct", "issue slots %.0f %%", 1}, {"xu_pct", "special functions %.0f %%", 1}, {"warps_pct", "%.0f %% of the warps that fit", 1},
	} {
		if value, known := v[n.name]; known {
			words = append(words, fmt.Sprintf(n.format, n.scale*value))
		}
	}
	if len(words) == 0 {
		return []string{"none of them is there"}
	}
	return []string{strings.Join(words, ", ")}
}
