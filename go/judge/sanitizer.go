package judge

import (
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

// The gate `sanitizer`: a finalist on a device runs once on every input of its card in a worker under each tool of NVIDIA's compute-sanitizer, which
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
	limit time.Duration // of a run without a tool
	cases []Case
}

// sanitize runs a finalist under every tool that works here, and says in words what was run. A finding is the candidate's failure. A candidate is run
// once, on all variants of its card: what it does wrong on one, it does.
func (j *Judge) sanitize(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte) (string, error) {
	if j.sanitizer == nil || j.off(GateSanitizer) {
		return "", nil
	}
	if j.config.Sanitizer == "" {
		return "compute-sanitizer: not on this machine", nil
	}
	if said, ok := open.sanitized[candidate.ID]; ok {
		return said.words, said.err
	}
	defer j.account.since(partSanitizer, time.Now())
	if err := j.tryTools(ctx, c, open); err != nil {
		return "", err
	}
	var runs []underTools
	for _, v := range c.Variants {
		run := underTools{plan: j.plan(c, v, candidate, open.prepared.Align[v.ID]), image: image, limit: runLimit(v)}
		for _, k := range open.prepared.Cases {
			if k.Variant == v.ID && k.Kind != "exhaustive" { // all values of a type take no other way than some
				run.cases = append(run.cases, k)
			}
		}
		runs = append(runs, run)
	}
	said, err := j.run(ctx, c, open, j.usable.working, runs)
	if err != nil {
		return "", err
	}
	var clean []string
	left := slices.Clone(j.usable.broken)
	var failed error
	for _, tool := range j.usable.working {
		switch at := said[tool]; {
		case at.found != "" && failed == nil:
			failed = fail(GateSanitizer, card.Crash, "compute-sanitizer %s: %s", tool, at.found)
		case at.why != "": // it works on a kernel of ours: this candidate takes too long or too much under it
			left = append(left, fmt.Sprintf("%s could not be run: %s", tool, at.why))
		default:
			clean = append(clean, tool)
		}
	}
	if len(clean) > 0 {
		left = append([]string{strings.Join(clean, ", ") + " clean"}, left...)
	}
	words := "compute-sanitizer: " + strings.Join(left, "; ")
	if open.sanitized == nil {
		open.sanitized = map[string]sanitized{}
	}
	open.sanitized[candidate.ID] = sanitized{words, failed}
	return words, failed
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
	said, err := j.run(ctx, c, open, tools, []underTools{{controlPlan(), image, runFloor, []Case{only}}})
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

// run runs plans once on each of their cases in workers below tools, side by side, and lets the workers end so that the reports are whole. The cases are
// the referee's: it fills their outputs before each.
func (j *Judge) run(ctx context.Context, c *card.Card, open *opened, tools []string, runs []underTools) (map[string]tooled, error) {
	all := make([]*tool, len(tools))
	each := func(do func(*tool)) {
		var done sync.WaitGroup
		for _, t := range all {
			done.Go(func() {
				if t.err == nil {
					do(t)
				}
			})
		}
		done.Wait()
	}
	for i, name := range tools {
		all[i] = &tool{name: name, report: filepath.Join(j.scratch.Path, "sanitizer-"+name+".log")}
		_ = os.Remove(all[i].report) // of the finalist before
	}
	defer func() {
		for _, t := range all {
			if t.worker != nil {
				t.worker.Kill()
			}
		}
	}()
	each(func(t *tool) { t.err = t.begin(ctx, j, c, open, runs) })
	for i, run := range runs {
		for _, k := range run.cases {
			if _, err := j.referee.Check(ctx, c.ID, nil, &Poison{Case: k.ID}); err != nil {
				return nil, fmt.Errorf("check: %w", err)
			}
			each(func(t *tool) {
				_, t.err = t.worker.Run(ctx, sanitizerSlowdown*run.limit, t.kernels[i], slotsOf(k.Slots), worker.NoDirt, 0)
			})
		}
	}
	each(func(t *tool) {
		if ending, ok := t.worker.(interface{ End(limit time.Duration) }); ok {
			ending.End(loadLimit)
		}
	})
	said := map[string]tooled{}
	for _, t := range all {
		said[t.name] = t.said()
	}
	return said, ctx.Err()
}

// tool is one of compute-sanitizer's with a worker below it.
type tool struct {
	name, report string
	worker       runner
	kernels      []int
	err          error
}

func (t *tool) begin(ctx context.Context, j *Judge, c *card.Card, open *opened, runs []underTools) (err error) {
	if t.worker, err = j.sanitizer(ctx, t.name, t.report); err != nil {
		return err
	}
	s := &session{runner: t.worker}
	if err := s.use(ctx, c, open.prepared, open.prepared.ofRuns(c.Variants)); err != nil {
		return err
	}
	for _, run := range runs {
		kernel, err := t.worker.Load(ctx, sanitizerSlowdown*loadLimit, run.plan, run.image)
		if err != nil {
			return err
		}
		t.kernels = append(t.kernels, kernel)
	}
	return nil
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
