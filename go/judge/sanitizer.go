package judge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The gate `sanitizer`: a finalist on a device runs once on every input of one variant in a worker under each tool of NVIDIA's compute-sanitizer, which
// sees what values alone do not show: a race on shared memory that came out right, an element of global memory that was read before it was written.
// Where there is no such program, that is told in the evidence; nothing else depends on it. How workers come below the tools is tooling.go's.

// tools are compute-sanitizer's, the most telling first.
var tools = []string{"memcheck", "racecheck", "initcheck", "synccheck"}

// sanitizerSlowdown is how much longer a run may take under a tool, up to sanitizerLimit. What is large takes seconds, so the judge's patience says when no
// further input is begun: blocks do on one what they do on the next.
const (
	sanitizerSlowdown = 100
	sanitizerLimit    = 20 * time.Second
)

// counts are the last line of a tool's report: how many errors, or hazards.
var counts = regexp.MustCompile(`(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)`)

// underSanitizer starts a worker below a tool that writes its report to a file.
type underSanitizer func(ctx context.Context, tool, report string) (runner, error)

// wrapper is a tool's command line, to which a worker's is added. Errors of the driver's calls are no findings: csrc asks for a kernel's parameters
// until there is none left.
func wrapper(program, tool, report string) []string {
	return []string{program, "--tool", tool, "--log-file", report, "--report-api-errors", "no"}
}

// tooled is what a tool had to say: a finding, or why it could not be run; neither where it is content.
type tooled struct{ found, why string }

// underTools is what is run under the tools: a plan with its image, on the slots of some cases.
type underTools struct {
	plan  Plan
	image []byte
	limit time.Duration // of a run
	cases []Case
}

// underSanitizerOf begins to run a finalist under every tool that works here: the workers start while it is judged again. Nil where that is not asked
// for, or known. It runs on all inputs of the card's smallest variant: a tool takes a hundred times as long, and a block does there what it does anywhere.
func (j *Judge) underSanitizerOf(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte) *tooling {
	if j.sanitizer == nil || j.off(GateSanitizer) || j.config.Sanitizer == "" {
		return nil
	}
	if _, known := open.sanitized[candidate.ID]; known {
		return nil
	}
	v := slices.MinFunc(c.Variants, func(a, b card.Variant) int { return cmp.Compare(a.Bytes, b.Bytes) })
	run := underTools{plan: j.plan(c, v, candidate, open.prepared.Align[v.ID]), image: image, limit: min(sanitizerSlowdown*j.runLimit(v), sanitizerLimit)}
	for _, k := range open.prepared.Cases {
		if k.Variant == v.ID && k.Kind != "exhaustive" { // all values of a type take no other way than some
			run.cases = append(run.cases, k)
		}
	}
	return j.tooling(ctx, c, open, j.broken.others(tools), run)
}

// sanitize ends what was begun, and says in words what was run. A finding is the candidate's failure.
func (j *Judge) sanitize(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, begun *tooling) (string, error) {
	switch {
	case j.sanitizer == nil || j.off(GateSanitizer):
		return "", nil
	case j.config.Sanitizer == "":
		return "compute-sanitizer: not on this machine", nil
	case begun == nil:
		said := open.sanitized[candidate.ID]
		return said.words, said.err
	}
	defer j.account.since(partSanitizer, time.Now())
	said, err := begun.end(ctx, j.patience.tools, func(k Case) error {
		_, err := j.referee.Check(ctx, c.ID, nil, &Poison{Case: k.ID})
		return err
	})
	if err != nil {
		return "", err
	}
	if err := j.tryTools(ctx, c, open, said); err != nil {
		return "", err
	}
	var clean, words []string
	var failed error
	for _, name := range tools {
		at := said[name]
		switch why, broken := j.broken[name]; {
		case broken:
			words = append(words, fmt.Sprintf("%s does not work here: %s", name, why))
		case at.found != "":
			if failed == nil { // the first tool is the most telling
				failed = fail(GateSanitizer, card.Crash, "compute-sanitizer %s: %s", name, at.found)
			}
		case at.why != "": // it works on a kernel of ours: this candidate takes too long or too much under it
			words = append(words, fmt.Sprintf("%s could not be run: %s", name, at.why))
		default:
			clean = append(clean, name)
		}
	}
	if len(clean) > 0 {
		told := strings.Join(clean, ", ") + " clean"
		if begun.ran < len(begun.run.cases) {
			told += fmt.Sprintf(" on %d of %d inputs", begun.ran, len(begun.run.cases))
		}
		words = append([]string{told}, words...)
	}
	if open.sanitized == nil {
		open.sanitized = map[string]sanitized{}
	}
	open.sanitized[candidate.ID] = sanitized{"compute-sanitizer: " + strings.Join(words, "; "), failed}
	return open.sanitized[candidate.ID].words, failed
}

// sanitized is what came of a candidate under the tools.
type sanitized struct {
	words string
	err   error
}

// brokenTools are the tools that are not content with a kernel of ours that has no fault, and what each says instead.
type brokenTools map[string]string

func (b brokenTools) others(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, is := b[name]; return is })
}

// tryTools finds out, once, which of the tools that are not content with a candidate work on this machine at all.
func (j *Judge) tryTools(ctx context.Context, c *card.Card, open *opened, said map[string]tooled) error {
	names := slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return said[name] == tooled{} || j.tried[name] })
	if len(names) == 0 {
		return nil
	}
	image, err := j.target.control(ctx)
	if err != nil {
		return err
	}
	only := open.prepared.Cases[0]
	only.Slots = []Slot{only.Slots[0], only.Slots[0]} // in place: its output is its input, of which it writes nothing
	control, err := j.tooling(ctx, c, open, names, underTools{controlPlan(), image, sanitizerSlowdown * runFloor, []Case{only}}).end(ctx, 0, func(Case) error { return nil })
	if err != nil {
		return err
	}
	for _, name := range names {
		j.tried[name] = true
		switch at := control[name]; {
		case at.found != "":
			j.broken[name] = "it complains about a kernel without a fault: " + at.found
		case at.why != "":
			j.broken[name] = at.why
		}
	}
	return nil
}

// controlPlan launches the kernel of go/cuda/control.cu.
func controlPlan() Plan {
	return Plan{ID: "p-c0c0c0c0", Card: "c-c0c0c0c0", Variant: "v0", State: "approved", Align: []int{1, 1}, Deterministic: true,
		Call: card.Call{Overload: "kernelforge::control", Args: []card.Arg{{Name: "input", Kind: "tensor", DType: "uint8", Sizes: []int64{1}, Strides: []int64{1}}},
			Outputs: []card.Output{{DType: "uint8", Sizes: []int64{1}, Strides: []int64{1}, Alias: 0}}},
		Spec: card.Spec{Schema: 1, Constants: map[string]string{}, Workspaces: []card.Workspace{{Bytes: strconv.Itoa(4 * cuda.ControlThreads)}},
			Kernels: []card.Kernel{{Entry: "kf_main", Grid: []string{"1", "1", "1"}, Block: []string{strconv.Itoa(cuda.ControlThreads), "1", "1"}, Smem: "0",
				Args: []card.SpecArg{{Slot: "input"}, {Slot: "ws0"}}}}}}
}

// said reads the report, whose errors are findings whatever became of the worker.
func (t *tool) said() tooled {
	text, unread := os.ReadFile(t.report)
	found := finding(string(text))
	switch {
	case found != "":
		return tooled{found: found}
	case t.err != nil:
		return tooled{why: worker.Clean(t.err.Error(), 256)}
	case unread != nil:
		return tooled{why: "it wrote no report"}
	case !counts.Match(text):
		return tooled{why: "its report has no count of errors: " + worker.Clean(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "=========", "")), " "), 256)}
	}
	return tooled{}
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
