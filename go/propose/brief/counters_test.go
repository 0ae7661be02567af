package brief

import (
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// The trees are Nsight Compute's own rules: each case sits on one side of a threshold of SpeedOfLight.py or CPIStall.py.
func TestCountersBecomeADiagnosis(t *testing.T) {
	type values = map[string]float64
	for name, at := range map[string]struct {
		values values
		says   string
		not    string
	}{
		"DRAM is used up":         {values{"memory_pct": 91.2, "dram_pct": 91.2, "sm_pct": 20}, "bound by memory: 91 % of DRAM's rate", "but not by DRAM"},
		"memory leads":            {values{"memory_pct": 71, "dram_pct": 70, "sm_pct": 61}, "bound by memory: 70 % of DRAM's rate", "alike"},
		"both are even":           {values{"memory_pct": 70.9, "dram_pct": 70, "sm_pct": 61}, "bound by memory and computing alike: 71 % and 61 %", ""},
		"used up, though even":    {values{"memory_pct": 80, "dram_pct": 80, "sm_pct": 79}, "bound by memory: 80 % of DRAM's rate", "alike"},
		"a cache":                 {values{"memory_pct": 88, "dram_pct": 30, "sm_pct": 40}, "bound by memory, but not by DRAM: caches or shared memory reach 88 % of the peak, DRAM 30 %", ""},
		"special functions":       {values{"memory_pct": 40, "sm_pct": 85, "xu_pct": 85, "issue_pct": 50}, "bound by the special function unit (exp, log, sin, sqrt, divisions, conversions): 85 %", ""},
		"issue slots":             {values{"memory_pct": 40, "sm_pct": 85, "xu_pct": 20, "issue_pct": 85}, "bound by issue slots: 85 % of them are used", ""},
		"another pipe":            {values{"memory_pct": 40, "sm_pct": 62, "xu_pct": 20, "issue_pct": 45}, "bound by computing: the busiest pipe reaches 62 %", ""},
		"nothing is busy":         {values{"memory_pct": 59, "sm_pct": 59, "waves": 3}, "bound by latency: memory reaches 59 % and computing 59 % of the peak, so warps wait", "wave"},
		"few blocks":              {values{"memory_pct": 9, "sm_pct": 3, "waves": 0.25}, "bound by latency: its blocks fill the device 0.25 times (less than one wave)", ""},
		"waits are not told":      {values{"memory_pct": 9, "sm_pct": 3, "stall_barrier": 9}, "bound by latency", "barrier"},
		"a long wait":             {values{"issue_pct": 12, "cycles_per_issue": 20, "stall_long_scoreboard": 14, "stall_barrier": 5}, "warps wait 70 % of their time for loads of global or local memory (long scoreboard)", "barrier"},
		"two long waits":          {values{"issue_pct": 12, "cycles_per_issue": 20, "stall_long_scoreboard": 7, "stall_barrier": 8, "stall_wait": 1}, "warps wait 40 % of their time for other warps at a barrier; warps wait 35 % of their time for loads", "(wait)"},
		"busy slots do not wait":  {values{"issue_pct": 80, "cycles_per_issue": 20, "stall_not_selected": 14}, "issue slots 80 %", "wait"},
		"a wait of 30 % is short": {values{"issue_pct": 12, "cycles_per_issue": 20, "stall_barrier": 6}, "issue slots 12 %", "wait"},
		"bank conflicts":          {values{"shared_wavefronts": 1000, "bank_conflicts": 400}, "bank conflicts are 40 % of the passes over shared memory", ""},
		"few of them":             {values{"shared_wavefronts": 1000, "bank_conflicts": 100, "ns": 5}, "under ncu", "conflicts"},
		"the numbers": {values{"ns": 41312, "dram_pct": 91.2, "dram_bytes": 134217728, "l2_hit_pct": 45.2, "sm_pct": 22, "issue_pct": 30, "xu_pct": 4, "warps_pct": 58},
			"41.31 us under ncu, DRAM 91 %, 134.2 MB from and to it, L2 hits 45 %, computing 22 %, issue slots 30 %, special functions 4 %, 58 % of the warps that fit", "moved"},
		"a device without them": {values{}, "`kf_main`: none of them is there", ""},
	} {
		counters := &card.Counters{Variant: "v0", Kernels: []card.KernelCounters{{Entry: "kf_main", Values: at.values}}}
		text := strings.Join(Counted(&card.Card{Variants: []card.Variant{{ID: "v0", Bytes: 134217728}}}, counters), "\n")
		if !strings.HasPrefix(text, "hardware counters (ncu, one run of v0 with cold caches):\n`kf_main`: ") || !strings.Contains(text, at.says) || at.not != "" && strings.Contains(text, at.not) {
			t.Errorf("%s: found\n%s\n(expected `%s`, and no `%s`)", name, text, at.says, at.not)
		}
	}
}

func TestCountersOfSeveralKernelsAreTakenTogether(t *testing.T) {
	counters := &card.Counters{Variant: "v1", Kernels: []card.KernelCounters{{Entry: "kf_parts", Values: map[string]float64{"ns": 30000, "dram_bytes": 2e6}},
		{Entry: "kf_main", Values: map[string]float64{"ns": 10000, "dram_bytes": 1e6}}}}
	c := &card.Card{Variants: []card.Variant{{ID: "v0", Bytes: 1}, {ID: "v1", Bytes: 1.5e6}}}
	text := strings.Join(Counted(c, counters), "\n")
	for _, words := range []string{"`kf_parts` (75 % of the time): ", "`kf_main` (25 % of the time): ", "\nDRAM moved 2 times the bytes that must move"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say `%s`:\n%s", words, text)
		}
	}
	c.Variants[1].Bytes = 2.5e6 // 1.2 times as many were moved
	if text := strings.Join(Counted(c, counters), "\n"); strings.Contains(text, "moved") {
		t.Errorf("found\n%s", text)
	}
	if lines := Counted(c, nil); lines != nil {
		t.Errorf("where nobody asked it says %v", lines)
	}
	if lines := Counted(c, &card.Counters{Why: "ncu is not on this machine"}); len(lines) != 1 || lines[0] != "no hardware counters: ncu is not on this machine" {
		t.Errorf("found %v", lines)
	}
}
