package judge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// sanitizerScript plays compute-sanitizer: it runs the worker below it, and one of its tools has something to say, of everything or of what comes
// after the kernel on which the tools are tried; one may write no count.
const sanitizerScript = `#!/bin/sh
[ "$1" = --tool ] && [ "$3" = --log-file ] && [ "$5" = --report-api-errors ] || exit 2
tool=$2 report=$4
shift 6
echo "$tool" >> "$report.ran"
"$@"
ended=$?
{
  echo "========= COMPUTE-SANITIZER"
  if [ "$tool" = "$FINDS" ] && [ $(wc -l < "$report.ran") -gt $AFTER ]; then
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

// withSanitizer has finalists run under the script, which is given its variables.
func withSanitizer(t *testing.T, b *deviceBench, variables ...string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "compute-sanitizer")
	usual := []string{"$FINDS", "none", "$AFTER", "1", "$DUMB", "none"}
	script := strings.NewReplacer(append(variables, usual...)...).Replace(sanitizerScript) // of two for one variable the first counts
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	b.judge.config.Sanitizer = program
	b.judge.sanitizer = func(ctx context.Context, tool, report string) (runner, error) {
		below := b.config
		below.Wrapper = wrapper(program, tool, report)
		w, err := worker.Start(ctx, below)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

func TestAFinalistRunsUnderEveryToolOfTheSanitizer(t *testing.T) {
	right := deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;")
	for name, at := range map[string]struct {
		variables []string
		accepted  bool
		says      string
	}{
		"content":              {nil, true, "compute-sanitizer: memcheck, racecheck, initcheck, synccheck clean"},
		"in a hurry":           {nil, true, "compute-sanitizer: memcheck, racecheck, initcheck, synccheck clean on 1 of "},
		"finds a race":         {[]string{"$FINDS", "racecheck"}, false, "compute-sanitizer racecheck: Error: Race reported between Write access"},
		"finds one anywhere":   {[]string{"$FINDS", "racecheck", "$AFTER", "0"}, true, "memcheck, initcheck, synccheck clean; racecheck does not work here: it complains about a kernel without a fault: Error: Race reported"},
		"does not see the GPU": {[]string{"$DUMB", "initcheck"}, true, "synccheck clean; initcheck does not work here: its report has no count of errors: COMPUTE-SANITIZER Error: Target application terminated"},
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
			times := 2 // on the kernel of ours, and on the candidate
			if strings.Contains(at.says, tool+" does not work") {
				times = 1
			}
			if ran, _ := os.ReadFile(filepath.Join(b.judge.scratch.Path, "sanitizer-"+tool+".log.ran")); string(ran) != strings.Repeat(tool+"\n", times) {
				t.Errorf("%s: %s ran %q (expected %d times)", name, tool, ran, times)
			}
		}
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
