package judge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// workers starts workers, and on a target where that costs much keeps them: one that is fit to serve the next candidate, and one that is ready
// to take its place. A worker is kept only while every candidate in it has passed: memory that a bad one has written is given up with its process.
//
// All methods but shutdown are called under the lease.
type workers struct {
	begin func(context.Context) (runner, error)
	reuse bool
	quiet *sync.RWMutex // held for reading while a worker starts beside other work: a start takes a CPU and the device for 0.4 s

	live  *session
	spare chan started // holds one; nil: none is being started
	stop  context.CancelFunc
	life  context.Context
}

type started struct {
	runner runner
	err    error
}

// session is a worker and the card whose buffers it has mapped.
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
	s, err := w.take(ctx, anyWorker)
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

// take gives a worker that will do.
func (w *workers) take(ctx context.Context, fit func(*session) bool) (*session, error) {
	if s := w.live; s != nil {
		w.live = nil
		if fit(s) {
			return s, nil
		}
		s.runner.Kill()
	}
	runner, err := w.next(ctx)
	if err != nil {
		return nil, err
	}
	w.prepare()
	return &session{runner: runner}, nil
}

// next is the worker that was started beforehand, or one that is started now.
func (w *workers) next(ctx context.Context) (runner, error) {
	spare := w.spare
	if spare == nil {
		return w.begin(ctx)
	}
	select {
	case s := <-spare:
		w.spare = nil
		if s.err != nil {
			return w.begin(ctx) // what hindered it may be over; if not, this says so
		}
		return s.runner, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare starts the next worker beside whatever is done now, but never beside a measurement.
func (w *workers) prepare() {
	if !w.reuse || w.spare != nil {
		return
	}
	spare := make(chan started, 1)
	w.spare = spare
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

// give takes a worker back. One that is not fit any more ends.
func (w *workers) give(s *session, fit bool) {
	if !fit || !w.reuse {
		s.runner.Kill()
		return
	}
	w.live = s
}

// release unmaps a card's buffers, so that their owner can free them.
func (w *workers) release(ctx context.Context, cardID string) {
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
	if w.spare != nil {
		if s := <-w.spare; s.err == nil {
			s.runner.Kill()
		}
		w.spare = nil
	}
}

// use gives the worker a card's buffers, if it does not have them.
func (s *session) use(ctx context.Context, c *card.Card, prepared *Prepared) error {
	if s.mapped == c.ID {
		return nil
	}
	if err := s.unmap(ctx); err != nil {
		return err
	}
	buffers, fds := make([]worker.Buffer, len(prepared.Buffers)), make([]int, len(prepared.Buffers))
	ids := make([]int, len(buffers))
	for i, b := range prepared.Buffers {
		buffers[i], fds[i], ids[i] = worker.Buffer{ID: b.ID, Bytes: b.Bytes, Writable: b.Writable}, b.FD, b.ID
	}
	if err := s.runner.Map(ctx, mapLimit, buffers, fds); err != nil {
		return mapError(c, err) // no candidate has run: a lost worker is the harness's fault
	}
	s.mapped, s.buffers = c.ID, ids
	return nil
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
