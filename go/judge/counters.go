package judge

// counters.go owns what the hardware says of a candidate: its heaviest variant runs once in a worker below NVIDIA's ncu. It refuses to decide anything by
// it: a time under ncu is no evidence of speed, and a candidate is judged the same where there is no ncu.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/worker"
)

// NoCounters in place of ncu's path: the user does not want them.
const NoCounters = "off"

const (
	countLimit = 20 * time.Second // of one candidate, with the start of its worker: nothing else is judged meanwhile
	mostInVain = 2                // candidates without counters, before any with them: then ncu does not work here
	mostReport = 4 << 20          // bytes
)

// counting is what is known of ncu on this machine. Under the lease, but for `why`, which the judge's mutex guards.
type counting struct {
	works  bool // it did once
	inVain int
	why    string // it is asked no more
}

// errNoTurn ends a count whose time others on the device took, before anything ran under ncu: neither ncu nor the candidate is the reason.
var errNoTurn = errors.New("other processes used the device all the time")

// notPermitted is how ncu says that the driver keeps counters to administrators (its documentation, "ERR_NVGPUCTRPERM").
const notPermitted = "ERR_NVGPUCTRPERM"

// ncuCommand is ncu's command line, to which a worker's is added. Clocks are left alone, since a locked clock would stay with every process of the device;
// caches are emptied before each pass (its default), so that each pass of a kernel sees the same. It finds no wishes of the user's for ncu, and leaves nothing in
// their home. What it says before there is a report, of an option that it does not know, goes where errors are read.
func ncuCommand(program, report string, spec card.Spec) []string {
	var names []string
	for _, kernel := range spec.Kernels {
		if name := regexp.QuoteMeta(kernel.Entry); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return []string{"/bin/sh", "-c", `exec "$@" >&2`, "sh", "/usr/bin/env", "HOME=" + filepath.Dir(report), "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT=1", program, "--config-file", "off", "--csv", "--page", "raw", "--print-units", "base",
		"--log-file", report, "--clock-control", "none", "--target-processes", "application-only", "--kernel-name-base", "function",
		"--kernel-name", "regex:^(" + strings.Join(names, "|") + ")$", "--launch-count", fmt.Sprint(len(spec.Kernels)), "--metrics", strings.Join(metricNames(), ",")}
}

// Uncountable says why no candidate's counters can be read here; "" where that may be tried.
func (j *Judge) Uncountable() string {
	switch {
	case j.config.NCU == NoCounters:
		return "they are switched off"
	case j.wrapped == nil: // as for the sanitizer: ncu opens what a confined process may not
		return "ncu does not run inside the sandbox tier that was asked for"
	case j.config.NCU == "":
		return "ncu is not on this machine"
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.counting.why
}

// Count reads the hardware counters of a candidate that passed. That there are none is no error.
func (j *Judge) Count(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Counters, error) {
	if why := j.Uncountable(); why != "" {
		return card.Counters{Why: why}, nil
	}
	open, err := j.opened(c)
	if err != nil {
		return card.Counters{}, err
	}
	compiled, err := j.compile(ctx, candidate)
	var failed *failure
	if errors.As(err, &failed) {
		return card.Counters{Why: "it does not compile any more"}, nil
	}
	if err != nil {
		return card.Counters{}, err
	}
	j.lease.Lock()
	defer j.lease.Unlock()
	defer j.account.since(partCount, time.Now())
	v := heaviestFirst(c.Variants)[0]
	at := slices.IndexFunc(open.prepared.Cases, func(k Case) bool { return k.Variant == v.ID && !k.Final })
	if at < 0 {
		return card.Counters{}, fmt.Errorf("count: variant `%s` has no input", v.ID)
	}
	input := open.prepared.Cases[at]
	if _, err := j.referee.Check(ctx, c.ID, nil, &Poison{Case: input.ID}); err != nil {
		return card.Counters{}, fmt.Errorf("check: %w", err)
	}
	within, stop := context.WithTimeout(ctx, j.patience.count)
	defer stop()
	found := card.Counters{Variant: v.ID}
	report, err := j.underNCU(within, c, open, underTools{plan: j.plan(c, v, candidate, open.prepared.Align[v.ID]), image: compiled.Image, cases: []Case{input}})
	if ctx.Err() != nil {
		return card.Counters{}, ctx.Err()
	}
	kernels, refused := readPage(report, candidate.Spec)
	switch {
	case len(kernels) > 0:
		found.Kernels, j.counting.works = kernels, true
		return found, nil
	case refused != "":
		found.Why = refused
	case errors.Is(err, errNoTurn):
		found.Why = err.Error()
		return found, nil
	case within.Err() != nil:
		found.Why = fmt.Sprintf("it took longer than %g s under ncu", j.patience.count.Seconds())
	case err != nil:
		found.Why = "it could not be run under ncu: " + err.Error()
	default:
		found.Why = "ncu saw no kernel of it"
	}
	found.Why = worker.Clean(propose.WithoutFolders(found.Why), 512) // an author outside of this machine reads it
	j.vain(found.Why)
	return found, nil
}

// vain counts a try without counters. Where ncu never worked it is given up.
func (j *Judge) vain(why string) {
	j.counting.inVain++
	if strings.Contains(why, notPermitted) || !j.counting.works && j.counting.inVain >= mostInVain {
		j.mutex.Lock()
		j.counting.why = why
		j.mutex.Unlock()
	}
}

// underNCU runs a plan once on its case, and gives what ncu wrote of it. The report may be there beside an error.
func (j *Judge) underNCU(ctx context.Context, c *card.Card, open *opened, run underTools) (report string, err error) {
	path := filepath.Join(j.scratch.Path, "counters.csv")
	_ = os.Remove(path) // of the candidate before
	w, err := j.wrapped(ctx, ncuCommand(j.config.NCU, path, run.plan.Spec))
	if err == nil {
		stop := context.AfterFunc(ctx, w.Kill) // also an ncu that does not end
		defer stop()
		defer w.Kill()
		err = j.runOnce(ctx, w, c, open, run)
		if ending, ok := w.(interface{ End(limit time.Duration) }); ok {
			ending.End(j.patience.count)
		}
	}
	text, unread := readMost(path, mostReport)
	if err == nil && ctx.Err() == nil {
		err = unread
	}
	return text, err
}

// runOnce runs a plan on its case in a worker that has seen nothing.
func (j *Judge) runOnce(ctx context.Context, w runner, c *card.Card, open *opened, run underTools) error {
	if err := (&session{runner: w}).use(ctx, c, open.prepared, buffersOf(run.cases)); err != nil {
		return err
	}
	kernel, err := w.Load(ctx, j.patience.count, run.plan, run.image)
	if err != nil {
		return err
	}
	defer j.turns.alone(ctx)() // counters of the memory are the device's, whoever uses it
	if ctx.Err() != nil {
		return errNoTurn
	}
	_, err = w.Run(ctx, j.patience.count, kernel, slotsOf(run.cases[0].Slots), worker.NoDirt, 0)
	return err
}

// readMost reads a file that an untrusted process wrote, as far as it is of a sensible size.
func readMost(path string, most int64) (string, error) {
	known, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", errors.New("it wrote no report")
	case !known.Mode().IsRegular() || known.Size() > most:
		return "", fmt.Errorf("its report is no file of at most %d bytes", most)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
