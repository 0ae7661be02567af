package judge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// tooling.go owns the workers below the sanitizer's tools: how they start ahead, run a plan side by side and end. A worker below a tool takes a second and
// more to start, so while one finalist is judged those for the next one start. Each worker has a report of its own and runs one plan: what the report
// says is that plan's. It refuses to judge what a tool says.

// A worker that waits below a tool holds a context of the device, some hundred megabytes: four of them wait only where that is next to nothing.
const (
	toolsAhead = 1
	roomyBytes = 32 << 30
)

// reporting is a worker below a tool, and where the tool writes its report when the worker has ended.
type reporting struct {
	runner
	report string
}

// below gives what starts workers below a tool. Under the lease.
func (j *Judge) below(name string) *workers {
	if j.tools[name] == nil {
		var reports atomic.Int64 // one may be started ahead while another is
		j.tools[name] = newWorkers(func(ctx context.Context) (runner, error) {
			report := filepath.Join(j.scratch.Path, fmt.Sprintf("sanitizer-%s-%d.log", name, reports.Add(1)))
			w, err := j.sanitizer(ctx, name, report)
			if err != nil {
				return nil, err
			}
			return reporting{w, report}, nil
		}, true, j.quiet)
	}
	return j.tools[name]
}

// tooling is workers below tools, side by side, each with the same plan.
type tooling struct {
	tools []*tool
	run   underTools
	turns *turns
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

// tooling begins with them.
func (j *Judge) tooling(ctx context.Context, c *card.Card, open *opened, names []string, run underTools) *tooling {
	all, ahead := &tooling{run: run, turns: j.turns}, 0
	if j.target.traits().roomy {
		ahead = toolsAhead
	}
	for _, name := range names {
		t, below := &tool{name: name}, j.below(name)
		all.tools = append(all.tools, t)
		all.begun.Go(func() { t.err = t.begin(ctx, below, ahead, c, open, run) })
	}
	return all
}

// begin takes a worker and gives it the plan. One that has ended while it waited is replaced, once: nothing has run in it.
func (t *tool) begin(ctx context.Context, below *workers, ahead int, c *card.Card, open *opened, run underTools) error {
	err := t.start(ctx, below, ahead, c, open, run)
	var lost *worker.Lost
	if errors.As(err, &lost) && ctx.Err() == nil {
		err = t.start(ctx, below, ahead, c, open, run)
	}
	if err == nil {
		t.kernel, err = t.worker.Load(ctx, sanitizerSlowdown*loadLimit, run.plan, run.image)
	}
	return err
}

func (t *tool) start(ctx context.Context, below *workers, ahead int, c *card.Card, open *opened, run underTools) error {
	s, err := below.take(ctx, anyWorker, ahead)
	if err != nil {
		return err
	}
	if t.worker != nil {
		t.worker.Kill()
	}
	at := s.runner.(reporting)
	t.worker, t.report = at.runner, at.report
	return s.use(ctx, c, open.prepared, buffersOf(run.cases))
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
		leave := a.turns.beside(ctx)
		a.each(func(t *tool) { _, t.err = t.worker.Run(ctx, a.run.limit, t.kernel, slotsOf(k.Slots), worker.NoDirt, 0) })
		leave()
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
