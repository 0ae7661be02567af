package judge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernelforge/kernelforge/go/card"
)

// ncuScript plays ncu: it notes how it was asked, runs the worker below it, and writes what the real one writes to its log.
const ncuScript = `#!/bin/sh
echo "$NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT $HOME $@" >> "$0.asked"
while [ $# -gt 0 ]; do
  case "$1" in
    --log-file) report=$2; shift 2;;
    --csv) shift;;
    --*) shift 2;;
    *) break;;
  esac
done
%s
cat > "$report" <<'END'
%sEND
%s
exit $ended
`

const runsBelow = `"$@"; ended=$?`

// ncuPage has the form of ncu's raw page in CSV, with some of its columns and made-up numbers: names, units, a row for each launch. A metric that the
// device does not have, one that is no number, separators of thousands, a kernel with its parameters, one of somebody else.
const ncuPage = `==PROF== Connected to process 4711 (/usr/local/bin/kernelforge-worker)
==PROF== Profiling "kf_first" - 0: 0%....50%....100% - 14 passes
==PROF== Profiling "kf_main" - 1: 0%....50%....100% - 14 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","launch__waves_per_multiprocessor"
"","","","","","","","","","","","byte","%","ns","%","inst",""
"0","4711","kernelforge-worker","127.0.0.1","kf_first","1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0","134,217,728","91.25","41,312","n/a","17.5","0.97"
"1","4711","kernelforge-worker","127.0.0.1","kf_main(const float *, float *)","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","1024","0.5","2,144","nan","3.25","0.01"
"2","4711","kernelforge-worker","127.0.0.1","of_the_driver","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","7","7","7","7","7","7"
`

// withNCU has counters read below the script.
func withNCU(t *testing.T, b *deviceBench, before, page, after string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ncu")
	if err := os.WriteFile(program, fmt.Appendf(nil, ncuScript, before, page, after), 0o700); err != nil {
		t.Fatal(err)
	}
	b.judge.config.NCU = program
	b.judge.wrapped = belowOf(b.config)
	b.judge.patience.count = time.Minute
	return program
}

// twoKernels is a plan of two launches of the same work.
func twoKernels() card.Candidate {
	c := deviceCandidate("KERNEL(kf_first) { const float* x = ARG(const float*, 0); float* y = ARG(float*, 1); for (int64_t i = 0; i < ARG(int64_t, 2); ++i) y[i] = x[i]; }\n" +
		deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"))
	first := c.Spec.Kernels[0]
	first.Entry = "kf_first"
	c.Spec.Kernels = []card.Kernel{first, c.Spec.Kernels[0]}
	c.ID = card.CandidateID(c.Source, c.Spec)
	return c
}

func TestCountersOfEveryKernelAreReadBelowNCU(t *testing.T) {
	b := onFakeDevice(t, nil)
	program := withNCU(t, b, runsBelow, ncuPage, "")
	b.open(t)
	found, err := b.judge.Count(t.Context(), b.card, twoKernels())
	want := card.Counters{Variant: "v0", Kernels: []card.KernelCounters{
		{Entry: "kf_first", Values: map[string]float64{"dram_bytes": 134217728, "dram_pct": 91.25, "ns": 41312, "stall_long_scoreboard": 17.5, "waves": 0.97}},
		{Entry: "kf_main", Values: map[string]float64{"dram_bytes": 1024, "dram_pct": 0.5, "ns": 2144, "stall_long_scoreboard": 3.25, "waves": 0.01}}}}
	if err != nil || !cmp.Equal(found, want) {
		t.Errorf("%v, %s", err, cmp.Diff(want, found))
	}
	asked, _ := os.ReadFile(program + ".asked")
	for _, words := range []string{"1 " + b.judge.scratch.Path + " --config-file off --csv --page raw", "--clock-control none", "--kernel-name regex:^(kf_first|kf_main)$ --launch-count 2 ", "--metrics gpu__time_duration.sum,dram__throughput",
		",smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,", " serve cuda below"} {
		if strings.Count(string(asked), words) != 1 {
			t.Errorf("ncu was asked %q (expected once %q)", asked, words)
		}
	}
	if took := b.judge.Took(); took[partCount] <= 0 {
		t.Errorf("the account has %v (expected seconds of `%s`)", took, partCount)
	}
	if verdict := b.verdict(t, deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;")); verdict.Status != card.OK {
		t.Errorf("afterwards a candidate is judged %s: %s", verdict.Status, verdict.Detail)
	}
}

// The script writes its page whatever became of the plan, so that this is a test of its own.
func TestAPlanOfTwoKernelsRunsBelowNCU(t *testing.T) {
	b := onFakeDevice(t, nil)
	withNCU(t, b, runsBelow, ncuPage, "")
	b.open(t)
	c, v := twoKernels(), heaviestFirst(b.card.Variants)[0]
	open, err := b.judge.opened(b.card)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := b.judge.compile(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	run := underTools{plan: b.judge.plan(b.card, v, c, open.prepared.Align[v.ID]), image: compiled.Image, cases: open.prepared.Cases[:1]}
	if page, err := b.judge.underNCU(t.Context(), b.card, open, run); err != nil || page != ncuPage {
		t.Errorf("%v, %q (expected the page)", err, page)
	}
}

func TestWithoutCountersTheReasonIsTold(t *testing.T) {
	const refused = "==PROF== Connected to process 4711 (/usr/local/bin/kernelforge-worker)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0. " +
		"For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 4711\n==WARNING== No kernels were profiled.\n"
	right := deviceCandidate(deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"))
	for name, at := range map[string]struct {
		before, page, after string
		change              func(*Judge)
		says                string
		asked               int // how often, of three candidates
	}{
		"refused":       {runsBelow, refused, "", nil, "ncu says: ERR_NVGPUCTRPERM - The user does not have permission", 1},
		"fails":         {"ended=3", "==ERROR== Failed to find metric gpu__time_duration.sum\n", "", nil, "ncu says: Failed to find metric", 2},
		"is too old":    {"echo '==ERROR== unrecognised option --config-file'; exit 1", "", "", nil, "unrecognised option --config-file", 2},
		"sees nothing":  {runsBelow, "==WARNING== No kernels were profiled.\n", "", nil, "ncu saw no kernel of it", 2},
		"half a page":   {runsBelow, strings.SplitAfter(ncuPage, "\"CC\"")[0], "", nil, "ncu saw no kernel of it", 2},
		"hangs before":  {"sleep 600; ended=0", "", "", func(j *Judge) { j.patience.count = time.Second }, "it took longer than 1 s under ncu", 2},
		"hangs after":   {runsBelow, "", "sleep 600", func(j *Judge) { j.patience.count = 2 * time.Second }, "it took longer than 2 s under ncu", 2},
		"not there":     {runsBelow, ncuPage, "", func(j *Judge) { j.config.NCU = "" }, "ncu is not on this machine", 0},
		"not wanted":    {runsBelow, ncuPage, "", func(j *Judge) { j.config.NCU = NoCounters }, "they are switched off", 0},
		"confined":      {runsBelow, ncuPage, "", func(j *Judge) { j.wrapped = nil }, "ncu does not run inside the sandbox tier that was asked for", 0},
		"another entry": {runsBelow, strings.ReplaceAll(ncuPage, "kf_main", "kf_other"), "", nil, "ncu saw no kernel of it", 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := onFakeDevice(t, nil)
			program := withNCU(t, b, at.before, at.page, at.after)
			if at.change != nil {
				at.change(b.judge)
			}
			b.open(t)
			for range 3 {
				found, err := b.judge.Count(t.Context(), b.card, right)
				if err != nil || len(found.Kernels) > 0 || !strings.Contains(found.Why, at.says) || strings.Contains(found.Why, "/") && !strings.Contains(found.Why, "https:") {
					t.Errorf("found %+v, %v (expected %q)", found, err, at.says)
				}
			}
			asked, _ := os.ReadFile(program + ".asked")
			if n := strings.Count(string(asked), "--csv"); n != at.asked {
				t.Errorf("ncu was started %d times (expected %d)", n, at.asked)
			}
			if verdict, err := b.judge.Judge(t.Context(), b.card, right); err != nil || verdict.Status != card.OK {
				t.Errorf("afterwards the candidate is judged %s: %s, %v", verdict.Status, verdict.Detail, err)
			}
		})
	}
}

// A candidate that fails under ncu where another did not is that candidate's trouble.
func TestNCUThatWorkedIsAskedAgain(t *testing.T) {
	b := onFakeDevice(t, nil)
	withNCU(t, b, runsBelow, ncuPage, "")
	b.open(t)
	if found, err := b.judge.Count(t.Context(), b.card, twoKernels()); err != nil || len(found.Kernels) != 2 {
		t.Fatalf("found %+v, %v", found, err)
	}
	good := b.judge.config.NCU
	withNCU(t, b, "ended=1", "==ERROR== out of luck\n", "")
	for range 2 * mostInVain {
		if found, err := b.judge.Count(t.Context(), b.card, twoKernels()); err != nil || found.Why != "ncu says: out of luck" {
			t.Fatalf("found %+v, %v", found, err)
		}
	}
	b.judge.config.NCU = good
	if found, err := b.judge.Count(t.Context(), b.card, twoKernels()); err != nil || len(found.Kernels) != 2 {
		t.Errorf("found %+v, %v (expected counters again)", found, err)
	}
}

// Time that other processes take on the device says nothing of ncu: it is asked again.
func TestWhoWaitsForTheDeviceDoesNotGiveNCUUp(t *testing.T) {
	b := onFakeDevice(t, nil)
	program := withNCU(t, b, runsBelow, ncuPage, "")
	b.open(t)
	right := deviceCandidate(deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"))
	path := aDevice(t)
	b.judge.turns, b.judge.patience.count = newTurns(path), 2*time.Second
	leave := newTurns(path).alone(t.Context())
	for range mostInVain + 1 {
		found, err := b.judge.Count(t.Context(), b.card, right)
		if err != nil || found.Why != errNoTurn.Error() {
			t.Errorf("found %+v, %v (expected that others used the device)", found, err)
		}
	}
	leave()
	b.judge.patience.count = time.Minute
	if found, err := b.judge.Count(t.Context(), b.card, right); err != nil || len(found.Kernels) != 1 {
		t.Errorf("found %+v, %v (expected counters)", found, err)
	}
	if asked, _ := os.ReadFile(program + ".asked"); strings.Count(string(asked), "--csv") != mostInVain+2 {
		t.Errorf("ncu was asked %q (expected %d times)", asked, mostInVain+2)
	}
}

func TestCountingEndsWithTheStudy(t *testing.T) {
	b := onFakeDevice(t, nil)
	withNCU(t, b, "sleep 600; ended=0", "", "")
	b.open(t)
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, stop)
	if _, err := b.judge.Count(ctx, b.card, twoKernels()); err == nil {
		t.Error("a count that was cancelled has no error")
	}
	if why := b.judge.Uncountable(); why != "" {
		t.Errorf("a cancelled count says of ncu: %s", why)
	}
}

func TestUnitsOfAPageAreRead(t *testing.T) {
	page := "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes.sum\",\"waves\"\n\"\",\"\",\"usecond\",\"Mbyte\",\"\"\n\"0\",\"kf_main\",\"1,041.5\",\"16.25\",\"3\"\n"
	spec := deviceCandidate("").Spec
	kernels, refused := readPage(page, spec)
	if want := []card.KernelCounters{{Entry: "kf_main", Values: map[string]float64{"ns": 1041500, "dram_bytes": 16250000}}}; refused != "" || !cmp.Equal(kernels, want) {
		t.Errorf("%q, %s", refused, cmp.Diff(want, kernels))
	}
	for _, report := range []string{"", "\"ID\"\n", "\"ID\",\"Kernel Name\"\n\"\",\"\"\n\"0\",\"kf_ma", "\"ID\",\"Name\"\n\"\",\"\"\n\"0\",\"kf_main\"\n", "\x00\xff\"ID\"\n"} {
		if kernels, refused := readPage(report, spec); kernels != nil || refused != "" {
			t.Errorf("%q: found %v, %q", report, kernels, refused)
		}
	}
}
