package judge

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The gate `sanitizer`: a finalist on a device runs once on every input of one variant in a worker under each tool of NVIDIA's compute-sanitizer, which
// sees what values alone do not show: a race on shared memory that came out right, an element of global memory that was read before it was written.
// Where there is no such program, that is told in the evidence; nothing else depends on it.

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
func (j *Judge) underSanitizerOf(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte) (*tooling, error) {
	if j.sanitizer == nil || j.off(GateSanitizer) || j.config.Sanitizer == "" {
		return nil, nil
	}
	if _, known := open.sanitized[candidate.ID]; known {
		return nil, nil
	}
	defer j.account.since(partSanitizer, time.Now())
	if err := j.tryTools(ctx, c, open); err != nil {
		return nil, err
	}
	v := slices.MinFunc(c.Variants, func(a, b card.Variant) int { return cmp.Compare(a.Bytes, b.Bytes) })
	run := underTools{plan: j.plan(c, v, candidate, open.prepared.Align[v.ID]), image: image, limit: min(sanitizerSlowdown*runLimit(v), sanitizerLimit)}
	for _, k := range open.prepared.Cases {
		if k.Variant == v.ID && k.Kind != "exhaustive" { // all values of a type take no other way than some
			run.cases = append(run.cases, k)
		}
	}
	return j.tooling(ctx, c, open, j.usable.working, run), nil
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
	var clean []string
	words := slices.Clone(j.usable.broken)
	var failed error
	for _, t := range begun.tools {
		switch at := said[t.name]; {
		case at.found != "":
			if failed == nil { // the first tool is the most telling
				failed = fail(GateSanitizer, card.Crash, "compute-sanitizer %s: %s", t.name, at.found)
			}
		case at.why != "": // it works on a kernel of ours: this candidate takes too long or too much under it
			words = append(words, fmt.Sprintf("%s could not be run: %s", t.name, at.why))
		default:
			clean = append(clean, t.name)
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

// usableTools are the tools that work on this machine, and what is wrong with the others, in words.
type usableTools struct {
	tried           bool
	working, broken []string
}

// sanitized is what came of a candidate under the tools.
type sanitized struct {
	words string
	err   error
}

// tryTools finds out, once, which tools work on this machine: those that are content with a kernel of ours that has no fault.
func (j *Judge) tryTools(ctx context.Context, c *card.Card, open *opened) error {
	if j.usable.tried {
		return nil
	}
	image, err := j.target.control(ctx)
	if err != nil {
		return err
	}
	only := open.prepared.Cases[0]
	only.Slots = []Slot{only.Slots[0], only.Slots[0]} // in place: its output is its input, of which it writes nothing
	said, err := j.tooling(ctx, c, open, tools, underTools{controlPlan(), image, sanitizerSlowdown * runFloor, []Case{only}}).end(ctx, 0, func(Case) error { return nil })
	if err != nil {
		return err
	}
	for _, tool := range tools {
		switch at := said[tool]; {
		case at.found != "":
			j.usable.broken = append(j.usable.broken, fmt.Sprintf("%s does not work here: it complains about a kernel without a fault: %s", tool, at.found))
		case at.why != "":
			j.usable.broken = append(j.usable.broken, fmt.Sprintf("%s does not work here: %s", tool, at.why))
		default:
			j.usable.working = append(j.usable.working, tool)
		}
	}
	j.usable.tried = true
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

// tooling is workers below tools, side by side, each with the same plan.
type tooling struct {
	tools []*tool
	run   underTools
	begun sync.WaitGroup
	ran   int // cases
}

// tool is one of compute-sanitizer's with a worker below it.
type tool struct {
	name, report string
	worker       runner
	kernel       int
	err          error
}

// tooling starts them.
func (j *Judge) tooling(ctx context.Context, c *card.Card, open *opened, names []string, run underTools) *tooling {
	all := &tooling{run: run}
	for _, name := range names {
		t := &tool{name: name, report: filepath.Join(j.scratch.Path, "sanitizer-"+name+".log")}
		_ = os.Remove(t.report) // of the finalist before
		all.tools = append(all.tools, t)
		all.begun.Go(func() { t.err = t.begin(ctx, j, c, open, run) })
	}
	return all
}

func (t *tool) begin(ctx context.Context, j *Judge, c *card.Card, open *opened, run underTools) (err error) {
	if t.worker, err = j.sanitizer(ctx, t.name, t.report); err != nil {
		return err
	}
	if err = (&session{runner: t.worker}).use(ctx, c, open.prepared, buffersOf(run.cases)); err != nil {
		return err
	}
	t.kernel, err = t.worker.Load(ctx, sanitizerSlowdown*loadLimit, run.plan, run.image)
	return err
}

// end runs the plan once on each of its cases, which `poison` makes ready, as far as the time goes, and lets the workers end so that the reports are whole.
func (a *tooling) end(ctx context.Context, patience time.Duration, poison func(Case) error) (map[string]tooled, error) {
	defer a.kill()
	a.begun.Wait()
	for start := time.Now(); a.ran < len(a.run.cases) && (a.ran == 0 || time.Since(start) < patience); a.ran++ {
		k := a.run.cases[a.ran]
		if err := poison(k); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
		a.each(func(t *tool) { _, t.err = t.worker.Run(ctx, a.run.limit, t.kernel, slotsOf(k.Slots), worker.NoDirt, 0) })
	}
	a.each(func(t *tool) {
		if ending, ok := t.worker.(interface{ End(limit time.Duration) }); ok {
			ending.End(loadLimit)
		}
	})
	said := map[string]tooled{}
	for _, t := range a.tools {
		said[t.name] = t.said()
	}
	return said, ctx.Err()
}

// each does something with all that have not failed, at once.
func (a *tooling) each(do func(*tool)) {
	var done sync.WaitGroup
	for _, t := range a.tools {
		if t.err == nil {
			done.Go(func() { do(t) })
		}
	}
	done.Wait()
}

// kill ends the workers.
func (a *tooling) kill() {
	a.begun.Wait()
	for _, t := range a.tools {
		if t.worker != nil {
			t.worker.Kill()
		}
	}
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
