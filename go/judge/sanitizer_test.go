package judge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// sanitizerScript plays compute-sanitizer: it runs the worker below it, and one of its tools has something to say, of its runs up to one; one may write no
// count.
const sanitizerScript = `#!/bin/sh
[ "$1" = --tool ] && [ "$3" = --log-file ] && [ "$5" = --report-api-errors ] || exit 2
tool=$2 report=$4
shift 6
"$@"
ended=$?
ran=$(dirname "$report")/ran-$tool
echo "$tool" >> "$ran"
number=$(wc -l < "$ran")
{
  echo "========= COMPUTE-SANITIZER"
  if [ "$tool" = "$FINDS" ] && [ $number -ge $FROM ] && [ $number -le $TO ]; then
    echo "========= Error: Race reported between Write access at kf_main+0x100 and Read access at kf_main+0x120"
    echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
  elif [ "$tool" = "$DUMB" ]; then
    echo "========= Error: Target application terminated before first instrumented API call"
  else
    echo "========= ERROR SUMMARY: 0 errors"
  fi
} > "$report"
exit $ended
`

// starts are the workers below the tools that were begun, and how many are just starting.
type starts struct {
	mutex    sync.Mutex
	begun    []*worker.Worker
	starting atomic.Int64
}

func (s *starts) all() []*worker.Worker {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.begun)
}

// withSanitizer has finalists run under the script, which is given its variables.
func withSanitizer(t *testing.T, b *deviceBench, variables ...string) *starts {
	t.Helper()
	program := filepath.Join(t.TempDir(), "compute-sanitizer")
	usual := []string{"$FINDS", "none", "$FROM", "1", "$TO", "1", "$DUMB", "none"}
	script := strings.NewReplacer(append(variables, usual...)...).Replace(sanitizerScript) // of two for one variable the first counts
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	seen := &starts{}
	b.judge.config.Sanitizer = program
	b.judge.sanitizer = func(ctx context.Context, tool, report string) (runner, error) {
		seen.starting.Add(1)
		defer seen.starting.Add(-1)
		below := b.config
		below.Wrapper = wrapper(program, tool, report)
		w, err := worker.Start(ctx, below)
		if err != nil {
			return nil, err
		}
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		seen.begun = append(seen.begun, w)
		return w, nil
	}
	return seen
}

const rightOnDevice = "y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"

func TestAFinalistRunsUnderEveryToolOfTheSanitizer(t *testing.T) {
	right := deviceKernel(rightOnDevice)
	for name, at := range map[string]struct {
		variables []string
		accepted  bool
		says      string
		tried     string // a tool that was not content with the candidate, so that it was run on a kernel of ours too
	}{
		"content":      {nil, true, "compute-sanitizer: memcheck, racecheck, initcheck, synccheck clean", ""},
		"in a hurry":   {nil, true, "compute-sanitizer: memcheck, racecheck, initcheck, synccheck clean on 1 of ", ""},
		"finds a race": {[]string{"$FINDS", "racecheck"}, false, "compute-sanitizer racecheck: Error: Race reported between Write access", "racecheck"},
		"finds one anywhere": {[]string{"$FINDS", "racecheck", "$TO", "9"}, true,
			"memcheck, initcheck, synccheck clean; racecheck does not work here: it complains about a kernel without a fault: Error: Race reported", "racecheck"},
		"does not see the GPU": {[]string{"$DUMB", "initcheck"}, true,
			"synccheck clean; initcheck does not work here: its report has no count of errors: COMPUTE-SANITIZER Error: Target application terminated", "initcheck"},
	} {
		b := onFakeDevice(t, nil)
		withSanitizer(t, b, at.variables...)
		b.referee.confirm = served(1.5, 0.01, 1)
		if name != "in a hurry" {
			b.judge.patience.tools = time.Minute
		}
		b.open(t)
		for range 2 { // the second answer is the first's
			got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: deviceCandidate(right), Variant: "v0"}})
			if err != nil || got[0].Accepted != at.accepted || !strings.Contains(got[0].Detail, at.says) {
				t.Errorf("%s: found %v %q (expected %q), %v", name, got[0].Accepted, got[0].Detail, at.says, err)
			}
		}
		for _, tool := range tools {
			times := 1
			if tool == at.tried {
				times = 2
			}
			if ran, _ := os.ReadFile(filepath.Join(b.judge.scratch.Path, "ran-"+tool)); string(ran) != strings.Repeat(tool+"\n", times) {
				t.Errorf("%s: %s ran %q (expected %d times)", name, tool, ran, times)
			}
		}
	}
	racy := onFakeDevice(t, nil) // the corpus, which is asked about no speed, has its finalists run under them too
	withSanitizer(t, racy, "$FINDS", "racecheck")
	racy.referee.confirm = served(1.5, 0.01, 1)
	racy.open(t)
	if got, err := racy.judge.Prove(t.Context(), racy.card, deviceCandidate(right), false); err != nil || got.Status != card.Crash || got.Gate != string(GateSanitizer) {
		t.Errorf("proved: found %+v, %v", got.Verdict, err)
	}
	b := onFakeDevice(t, nil)
	withSanitizer(t, b, "$FINDS", "racecheck")
	b.judge.config.Off = Gates{GateSanitizer}
	b.referee.confirm = served(1.5, 0.01, 1)
	b.open(t)
	if got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Candidate: deviceCandidate(right), Variant: "v0"}}); err != nil || !got[0].Accepted {
		t.Errorf("switched off: found %q, %v", got[0].Detail, err)
	}
}

// A tool that does not work here says nothing of any finalist; one that does is tried on our kernel once, and what it finds is that finalist's alone.
func TestWhatAToolFindsIsThatFinalists(t *testing.T) {
	for name, at := range map[string]struct {
		variables []string
		accepted  [4]bool
		ran       int // racecheck
	}{
		"the second":              {[]string{"$FROM", "2", "$TO", "2"}, [4]bool{true, false, true, true}, 5},
		"the first and the third": {[]string{"$FROM", "1", "$TO", "1", "-ge $FROM ] && [ $number -le $TO", "-eq 1 -o $number -eq 4"}, [4]bool{false, true, false, true}, 5},
		"every one":               {[]string{"$TO", "9"}, [4]bool{true, true, true, true}, 2},
	} {
		b := onFakeDevice(t, nil)
		withSanitizer(t, b, append([]string{"$FINDS", "racecheck"}, at.variables...)...)
		b.referee.confirm = served(1.5, 0.01, 1)
		b.open(t)
		for i, accepted := range at.accepted {
			candidate := deviceCandidate(deviceKernel(strings.Repeat(" ", i) + rightOnDevice))
			got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: i, Candidate: candidate, Variant: "v0"}})
			if err != nil || got[0].Accepted != accepted {
				t.Errorf("%s: finalist %d: found %v %q, %v", name, i+1, got[0].Accepted, got[0].Detail, err)
			}
		}
		if ran, _ := os.ReadFile(filepath.Join(b.judge.scratch.Path, "ran-racecheck")); strings.Count(string(ran), "\n") != at.ran {
			t.Errorf("%s: racecheck ran %d times (expected %d)", name, strings.Count(string(ran), "\n"), at.ran)
		}
	}
}

func TestToolsNeitherStartNorLiveBesideATiming(t *testing.T) {
	b := onFakeDevice(t, nil)
	seen := withSanitizer(t, b)
	times := served(1.5, 0.01, 1)
	b.referee.confirm = func(plan Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		if starting := seen.starting.Load(); starting != 0 {
			t.Errorf("%d tools start while a plan is timed", starting)
		}
		for _, w := range seen.all() {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", w.PID())); !os.IsNotExist(err) {
				t.Errorf("worker %d is left below its tool: %v", w.PID(), err)
			}
		}
		return times(plan, image, blocks, seed)
	}
	b.open(t)
	for node := range 2 {
		candidate := deviceCandidate(deviceKernel(strings.Repeat(" ", node) + rightOnDevice))
		got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: node, Candidate: candidate, Variant: "v0"}})
		if err != nil || !got[0].Accepted || !strings.Contains(got[0].Detail, "memcheck, racecheck, initcheck, synccheck clean") {
			t.Fatalf("found %+v, %v", got, err)
		}
	}
	if got := len(seen.all()); got != 2*len(tools) {
		t.Errorf("%d workers were started for two finalists (expected %d)", got, 2*len(tools))
	}
}

func TestWithoutTheSanitizerTheEvidenceSaysSo(t *testing.T) {
	b := fakeOnHost(t)
	b.judge.sanitizer = func(context.Context, string, string) (runner, error) { panic("there is none") }
	if words, err := b.judge.sanitize(t.Context(), b.card, &opened{}, card.Candidate{}, nil); err != nil || words != "compute-sanitizer: not on this machine" {
		t.Errorf("found %q, %v", words, err)
	}
	b.judge.sanitizer = nil // the host
	if words, err := b.judge.sanitize(t.Context(), b.card, &opened{}, card.Candidate{}, nil); err != nil || words != "" {
		t.Errorf("found %q, %v", words, err)
	}
	for report, want := range map[string]string{
		"========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n":        "",
		"========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)": "",
		"": "",
		"========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n========= ERROR SUMMARY: 3 errors\n": "Invalid __global__ read of size 4 bytes",
	} {
		if found := finding(report); found != want {
			t.Errorf("%q: found %q (expected %q)", report, found, want)
		}
	}
}
