package judge

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The gate `sanitizer`: a finalist on a device runs once on every input of its variant in a worker under each tool of NVIDIA's compute-sanitizer, which
// sees what values alone do not show: a race on shared memory that came out right, an element of global memory that was read before it was written.
// Where there is no such program, that is told in the evidence; nothing else depends on it.

// tools are compute-sanitizer's, the most telling first.
var tools = []string{"memcheck", "racecheck", "initcheck", "synccheck"}

// sanitizerSlowdown is how much longer a run may take under a tool.
const sanitizerSlowdown = 100

// counts are the last line of a tool's report: how many errors, or hazards.
var counts = regexp.MustCompile(`(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)`)

// underSanitizer starts a worker below a tool that writes its report to a file.
type underSanitizer func(ctx context.Context, tool, report string) (runner, error)

// sanitize runs a finalist under every tool and says in words what was run. A finding is the candidate's failure.
func (j *Judge) sanitize(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte, v card.Variant) (string, error) {
	if j.sanitizer == nil || j.off(GateSanitizer) {
		return "", nil
	}
	if j.config.Sanitizer == "" {
		return "compute-sanitizer: not on this machine", nil
	}
	if open.sanitized[candidate.ID+v.ID] {
		return "compute-sanitizer: clean", nil
	}
	defer j.account.since(partSanitizer, time.Now())
	for _, tool := range tools {
		report := filepath.Join(j.scratch.Path, "sanitizer-"+tool+".log")
		_ = os.Remove(report) // of the finalist before
		err := j.underTool(ctx, c, open, candidate, image, v, tool, report)
		text, unread := os.ReadFile(report)
		if found := finding(string(text)); found != "" {
			return "", fail(GateSanitizer, card.Crash, "compute-sanitizer %s: %s", tool, found)
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil || unread != nil || !counts.Match(text) { // the tool does not work here: that is no fault of the candidate
			why := err
			if why == nil {
				why = fmt.Errorf("it wrote no report")
			}
			return fmt.Sprintf("compute-sanitizer: %s could not be run: %s", tool, worker.Clean(why.Error(), 256)), nil
		}
	}
	if open.sanitized == nil {
		open.sanitized = map[string]bool{}
	}
	open.sanitized[candidate.ID+v.ID] = true
	return "compute-sanitizer: " + strings.Join(tools, ", ") + " clean", nil
}

// underTool loads the candidate in a worker below a tool, runs it once on each input, and lets the worker end so that the report is whole.
func (j *Judge) underTool(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte, v card.Variant, tool, report string) error {
	w, err := j.sanitizer(ctx, tool, report)
	if err != nil {
		return err
	}
	defer w.Kill()
	s := &session{runner: w}
	if err := s.use(ctx, c, open.prepared, open.prepared.ofRuns([]card.Variant{v})); err != nil {
		return err
	}
	kernel, err := w.Load(ctx, sanitizerSlowdown*loadLimit, j.plan(c, v, candidate, open.prepared.Align[v.ID]), image)
	if err != nil {
		return err
	}
	for _, k := range open.prepared.Cases {
		if k.Variant != v.ID {
			continue
		}
		if _, err := j.referee.Check(ctx, c.ID, nil, &Poison{Case: k.ID}); err != nil {
			return fmt.Errorf("check: %w", err)
		}
		if _, err := w.Run(ctx, sanitizerSlowdown*runLimit(v), kernel, slotsOf(k.Slots), worker.NoDirt, 0); err != nil {
			return err
		}
	}
	if ending, ok := w.(interface{ End(limit time.Duration) }); ok {
		ending.End(loadLimit)
	}
	return nil
}

// finding is the first thing that a report complains about, or "".
func finding(report string) string {
	clean := true
	for _, count := range counts.FindAllStringSubmatch(report, -1) {
		clean = clean && (count[1] == "" || count[1] == "0") && (count[2] == "" || count[2] == "0")
	}
	if clean {
		return ""
	}
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "="))
		if line != "" && !strings.HasPrefix(line, "COMPUTE-SANITIZER") && !strings.Contains(line, "SUMMARY") {
			return worker.Clean(line, 512)
		}
	}
	return "it reports errors"
}
