package judge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// sanitizerScript plays compute-sanitizer: it runs the worker below it, and one of its tools has something to say.
const sanitizerScript = `#!/bin/sh
[ "$1" = --tool ] && [ "$3" = --log-file ] || exit 2
tool=$2 report=$4
shift 4
echo "$tool" >> "$report.ran"
"$@"
ended=$?
{
  echo "========= COMPUTE-SANITIZER"
  if [ "$tool" = "$SANITIZER_FINDS" ]; then
    echo "========= Error: Race reported between Write access at kf_main+0x100 and Read access at kf_main+0x120"
    echo "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
  else
    echo "========= ERROR SUMMARY: 0 errors"
  fi
} > "$report"
exit $ended
`

func withSanitizer(t *testing.T, b *deviceBench, finds string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "compute-sanitizer")
	if err := os.WriteFile(program, []byte(strings.Replace(sanitizerScript, "$SANITIZER_FINDS", finds, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	b.judge.config.Sanitizer = program
	b.judge.sanitizer = func(ctx context.Context, tool, report string) (runner, error) {
		below := b.config
		below.Wrapper = []string{program, "--tool", tool, "--log-file", report}
		w, err := worker.Start(ctx, below)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

func TestAFinalistRunsUnderEveryToolOfTheSanitizer(t *testing.T) {
	right := deviceKernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;")
	for finds, want := range map[string]string{"none": "memcheck, racecheck, initcheck, synccheck clean", "racecheck": "Race reported between Write access"} {
		b := onFakeDevice(t, nil)
		withSanitizer(t, b, finds)
		b.referee.confirm = served(1.5, 0.01, 1)
		b.open(t)
		got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: deviceCandidate(right), Variant: "v0"}})
		if err != nil || got[0].Accepted != (finds == "none") || !strings.Contains(got[0].Detail, want) {
			t.Errorf("%s: found %v %q, %v", finds, got[0].Accepted, got[0].Detail, err)
		}
		for i, tool := range tools {
			ran, _ := os.ReadFile(filepath.Join(b.judge.scratch.Path, "sanitizer-"+tool+".log.ran"))
			if expected := finds == "none" || i < 2; (string(ran) == tool+"\n") != expected {
				t.Errorf("%s: %s ran %q", finds, tool, ran)
			}
		}
	}
	b := onFakeDevice(t, nil)
	withSanitizer(t, b, "racecheck")
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
	if words, err := b.judge.sanitize(t.Context(), b.card, &opened{}, card.Candidate{}, nil, b.card.Variants[0]); err != nil || words != "compute-sanitizer: not on this machine" {
		t.Errorf("found %q, %v", words, err)
	}
	b.judge.sanitizer = nil // the host
	if words, err := b.judge.sanitize(t.Context(), b.card, &opened{}, card.Candidate{}, nil, b.card.Variants[0]); err != nil || words != "" {
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
