package judge

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// tooling.go owns the workers below the sanitizer's tools: how they start, run a plan side by side and end. A worker below a tool takes a second and more
// to start, which is why they start while the finalist is judged again. Each runs one plan: what the report says is that plan's. It refuses to judge what
// a tool says.

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
	all := &tooling{run: run, turns: j.turns}
	for _, name := range names {
		j.reports++
		t := &tool{name: name, report: filepath.Join(j.scratch.Path, fmt.Sprintf("sanitizer-%s-%d.log", name, j.reports))}
		all.tools = append(all.tools, t)
		all.begun.Go(func() { t.err = t.begin(ctx, j.sanitizer, c, open, run) })
	}
	return all
}

// begin starts a worker and gives it the plan.
func (t *tool) begin(ctx context.Context, start underSanitizer, c *card.Card, open *opened, run underTools) (err error) {
	if t.worker, err = start(ctx, t.name, t.report); err != nil {
		return err
	}
	if err = (&session{runner: t.worker}).use(ctx, c, open.prepared, buffersOf(run.cases)); err == nil {
		t.kernel, err = t.worker.Load(ctx, sanitizerSlowdown*loadLimit, run.plan, run.image)
	}
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
