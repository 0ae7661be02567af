package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// workers starts workers, and on a target where that costs much keeps them: one that is fit to serve the next candidate, and some that are ready
// to take its place. A worker is kept only while every candidate in it has passed: memory that a bad one has written is given up with its process.
//
// All methods but shutdown are called under the lease.
type workers struct {
	begin func(context.Context) (runner, error)
	reuse bool
	quiet *sync.RWMutex // held for reading while a worker starts beside other work: a start takes a CPU and the device for 0.4 s

	live    *session
	spares  []chan started // started beforehand, or being started; each holds one
	leaving sync.WaitGroup // workers that end beside other work
	stop    context.CancelFunc
	life    context.Context
}

// spares are started when none is left, side by side: one for the candidate after one that failed, two while finalists come, of whom each takes one.
// Starts do not overlap with what is timed, so a finalist waits for one; two take little longer.
const (
	sparesOfSearch    = 1
	sparesOfFinalists = 2
)

type started struct {
	runner runner
	err    error
}

// want says which worker will do for a candidate.
type want struct {
	fit     func(*session) bool
	spares  int          // to be started if none is left
	buffers map[int]bool // that it has to have; nil: all of the card's
}

// session is a worker and the card whose buffers it has mapped, or some of them.
type session struct {
	runner  runner
	used    bool   // it has run a candidate
	only    string // the one finalist that it has run; "" where there was another, or a search
	mapped  string
	buffers []int
	before  map[worker.Dirt]int // kernels of ours that leave dirt on the device; nil: not loaded
}

func newWorkers(begin func(context.Context) (runner, error), reuse bool, quiet *sync.RWMutex) *workers {
	w := &workers{begin: begin, reuse: reuse, quiet: quiet}
	w.life, w.stop = context.WithCancel(context.Background())
	return w
}

// device asks a worker what its device is; the worker stays for the first candidate.
func (w *workers) device(ctx context.Context) (*worker.Device, error) {
	s, err := w.take(ctx, anyWorker, sparesOfSearch)
	if err != nil {
		return nil, err
	}
	w.give(s, true)
	if known, ok := s.runner.(interface{ Device() *worker.Device }); ok {
		return known.Device(), nil
	}
	return nil, nil
}

// Which workers will do: any; one that is unused; or one that has run nothing but this finalist, on other variants.
func anyWorker(*session) bool      { return true }
func unusedWorker(s *session) bool { return !s.used }
func aloneWith(id string) func(*session) bool {
	return func(s *session) bool { return !s.used || s.only == id }
}

// ran notes that a candidate runs in this worker.
func (s *session) ran(id string, finalist bool) {
	if !finalist || (s.used && s.only != id) {
		id = ""
	}
	s.used, s.only = true, id
}

// take gives a worker that will do. spares: so many are started if none is left.
func (w *workers) take(ctx context.Context, fit func(*session) bool, spares int) (*session, error) {
	if s := w.live; s != nil {
		w.live = nil
		if fit(s) {
			return s, nil
		}
		w.retire(s)
	}
	runner, err := w.next(ctx)
	if err != nil {
		return nil, err
	}
	w.prepare(spares)
	return &session{runner: runner}, nil
}

// retire ends a worker that is healthy but not wanted any more, beside other work where that takes long: a driver needs 0.1 s and more to clear away
// what a process had on its device. Never beside a measurement.
func (w *workers) retire(s *session) {
	if !w.reuse || !w.quiet.TryRLock() { // nothing is measured where this is called, so that the lock is free
		s.runner.Kill()
		return
	}
	w.leaving.Go(func() { // cannot panic: it sends a signal and waits
		defer w.quiet.RUnlock()
		s.runner.Kill()
	})
}

// next is the worker that was started beforehand, or one that is started now.
func (w *workers) next(ctx context.Context) (runner, error) {
	if len(w.spares) == 0 {
		return w.begin(ctx)
	}
	select {
	case s := <-w.spares[0]:
		w.spares = w.spares[1:]
		if s.err != nil {
			return w.begin(ctx) // what hindered it may be over; if not, this says so
		}
		return s.runner, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare starts the next workers beside whatever is done now, but never beside a measurement.
func (w *workers) prepare(count int) {
	if !w.reuse || len(w.spares) > 0 {
		return
	}
	for range count {
		spare := make(chan started, 1)
		w.spares = append(w.spares, spare)
		go func() { // cannot panic: it starts a process and hands it over
			w.quiet.RLock()
			defer w.quiet.RUnlock()
			var s started
			if s.err = w.life.Err(); s.err == nil {
				s.runner, s.err = w.begin(w.life)
			}
			spare <- s
		}()
	}
}

// give takes a worker back. One that is not fit any more ends.
func (w *workers) give(s *session, fit bool) {
	if !fit || !w.reuse {
		s.runner.Kill()
		return
	}
	w.live = s
}

// release unmaps a card's buffers, so that their owner can free them; those who had them are gone when it returns.
func (w *workers) release(ctx context.Context, cardID string) {
	w.leaving.Wait()
	if s := w.live; s != nil && s.mapped == cardID {
		if s.unmap(ctx) != nil {
			w.live = nil
			s.runner.Kill()
		}
	}
}

// shutdown ends every worker. Nothing may be under the lease.
func (w *workers) shutdown() {
	w.stop()
	if w.live != nil {
		w.live.runner.Kill()
		w.live = nil
	}
	for _, spare := range w.spares {
		if s := <-spare; s.err == nil {
			s.runner.Kill()
		}
	}
	w.spares = nil
	w.leaving.Wait()
}

// use gives the worker those of a card's buffers that are wanted (nil: all), as far as it does not have them.
func (s *session) use(ctx context.Context, c *card.Card, prepared *Prepared, wanted map[int]bool) error {
	if s.mapped != c.ID {
		if err := s.unmap(ctx); err != nil {
			return err
		}
	}
	var buffers []worker.Buffer
	var fds, ids []int
	for _, b := range prepared.Buffers {
		if slices.Contains(s.buffers, b.ID) || (wanted != nil && !wanted[b.ID]) {
			continue
		}
		buffers, fds, ids = append(buffers, worker.Buffer{ID: b.ID, Bytes: b.Bytes, Writable: b.Writable}), append(fds, b.FD), append(ids, b.ID)
	}
	if len(buffers) == 0 {
		return nil
	}
	if err := s.runner.Map(ctx, mapLimit, buffers, fds); err != nil {
		return mapError(c, err) // of a worker in which nothing has run, the harness's fault
	}
	s.mapped, s.buffers = c.ID, append(s.buffers, ids...)
	return nil
}

// ofRuns are the buffers of what some variants are run on, without those of their timing.
func (p *Prepared) ofRuns(variants []card.Variant) map[int]bool {
	return buffersOf(slices.DeleteFunc(slices.Clone(p.Cases), func(k Case) bool {
		return !slices.ContainsFunc(variants, func(v card.Variant) bool { return v.ID == k.Variant })
	}))
}

// buffersOf are the buffers of some cases.
func buffersOf(cases []Case) map[int]bool {
	found := map[int]bool{}
	for _, k := range cases {
		for _, s := range k.Slots {
			found[s.Buffer] = true
		}
	}
	return found
}

func mapError(c *card.Card, err error) error {
	hint := ""
	var fault *worker.Fault
	if errors.As(err, &fault) {
		hint = fault.Hint
	}
	return card.Fail(card.CodeJudge, hint, "map the buffers of card `%s`: %w", c.ID, err)
}

func (s *session) unmap(ctx context.Context) error {
	if s.mapped == "" {
		return nil
	}
	if err := s.runner.Unmap(ctx, mapLimit, s.buffers); err != nil {
		return fmt.Errorf("unmap the buffers of card `%s`: %w", s.mapped, err)
	}
	s.mapped, s.buffers = "", nil
	return nil
}
