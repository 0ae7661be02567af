package judge

// ncu.go owns ncu's names of counters, and its raw CSV page as numbers by ours. It refuses to say what they mean: that is go/propose/brief.

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// metric is a counter by ncu's name and by ours.
type metric struct{ theirs, ours string }

// metrics are what is asked of ncu: few, since every group of them is one more pass over the kernel, and only such as each device has that is supported
// (Nsight Compute's documentation, "Metrics Reference"; its section files SpeedOfLight, WarpStateStats, MemoryWorkloadAnalysis).
var metrics = append([]metric{
	{"gpu__time_duration.sum", "ns"},
	{"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram_pct"},
	{"dram__bytes.sum", "dram_bytes"},
	{"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory_pct"},
	{"sm__throughput.avg.pct_of_peak_sustained_elapsed", "sm_pct"},
	{"lts__t_sector_hit_rate.pct", "l2_hit_pct"},
	{"sm__warps_active.avg.pct_of_peak_sustained_active", "warps_pct"},
	{"smsp__issue_active.avg.pct_of_peak_sustained_active", "issue_pct"},
	{"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "xu_pct"},
	{"launch__waves_per_multiprocessor", "waves"},
	{"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "shared_wavefronts"},
	{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "bank_conflicts"},
	{"smsp__average_warp_latency_per_inst_issued.ratio", "cycles_per_issue"},
}, stallMetrics()...)

// stalls are the states in which a warp waits, by ncu's names: cycles of a warp between two instructions.
var stalls = []string{"long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "math_pipe_throttle", "tex_throttle", "barrier", "membar", "wait",
	"not_selected", "no_instruction", "branch_resolving", "imc_miss", "drain", "dispatch_stall"}

func stallMetrics() (all []metric) {
	for _, stall := range stalls {
		all = append(all, metric{"smsp__average_warps_issue_stalled_" + stall + "_per_issue_active.ratio", "stall_" + stall})
	}
	return all
}

func metricNames() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.theirs
	}
	return names
}

// units are what the second row of a page may say, in nanoseconds and bytes: older versions write some of them out, and know other base units.
var units = map[string]float64{"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
	"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}

// readPage gives the launches of a spec's kernels in a report, or what ncu says that it refuses. Neither: the report is not whole, or has no such kernel.
func readPage(report string, spec card.Spec) (kernels []card.KernelCounters, refused string) {
	var page strings.Builder
	for line := range strings.Lines(report) {
		if said, found := strings.CutPrefix(line, "==ERROR=="); found && refused == "" {
			refused = "ncu says: " + strings.TrimSpace(said)
		}
		if strings.HasPrefix(line, `"ID"`) || page.Len() > 0 && strings.HasPrefix(line, `"`) {
			page.WriteString(line)
		}
	}
	rows := csv.NewReader(strings.NewReader(page.String()))
	head, err := rows.Read()
	if err != nil {
		return nil, refused
	}
	unit, err := rows.Read()
	if err != nil {
		return nil, refused
	}
	name := slices.Index(head, "Kernel Name")
	for name >= 0 && len(kernels) < len(spec.Kernels) {
		row, err := rows.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, refused
			}
			break
		}
		entry, _, _ := strings.Cut(row[name], "(") // some versions add the parameters
		if slices.ContainsFunc(spec.Kernels, func(k card.Kernel) bool { return k.Entry == entry }) {
			kernels = append(kernels, card.KernelCounters{Entry: entry, Values: valuesOf(head, unit, row)})
		}
	}
	return kernels, refused
}

// valuesOf are a row's numbers by our names. What the device does not have reads `n/a`, and is left out.
func valuesOf(head, unit, row []string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range metrics {
		at := slices.Index(head, m.theirs)
		if at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.ReplaceAll(row[at], ",", ""), 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		if factor, known := units[unit[at]]; known {
			value *= factor
		}
		values[m.ours] = value
	}
	return values
}
