package judge

import (
	"context"
	"fmt"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// The first two gates, policy and compile, which need neither lease nor card: they may be passed before a candidate's turn.

// begun is a compile that was begun ahead. Once done is closed, built and err are its end.
type begun struct {
	done  chan struct{}
	built compile.Built
	err   error
}

// mostAhead bounds what is begun for candidates whose turn never comes.
const mostAhead = 8

// Ahead begins a candidate's compile beside whatever else is done, where that disturbs no measurement, so that Judge finds it ready. It is a hint:
// nothing is decided by it, and a candidate that never comes costs one compile.
func (j *Judge) Ahead(ctx context.Context, candidate card.Candidate) {
	if !j.target.traits().beside {
		return
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.ahead[candidate.ID] != nil {
		return
	}
	if len(j.ahead) >= mostAhead {
		clear(j.ahead)
	}
	b := &begun{done: make(chan struct{})}
	j.ahead[candidate.ID] = b
	j.group.Go(func() {
		defer close(b.done)
		defer func() {
			if trouble := recover(); trouble != nil { // in the user's process nothing else would catch it
				b.err = fmt.Errorf("compile candidate `%s` ahead: %v", candidate.ID, trouble)
			}
		}()
		b.built, b.err = j.build(ctx, candidate)
	})
}

// compile gives a candidate's image, from what was begun ahead if there is something.
func (j *Judge) compile(ctx context.Context, candidate card.Candidate) (compile.Built, error) {
	j.mutex.Lock()
	b := j.ahead[candidate.ID]
	delete(j.ahead, candidate.ID)
	j.mutex.Unlock()
	defer j.account.since(partCompile, time.Now())
	if b == nil {
		return j.build(ctx, candidate)
	}
	select {
	case <-b.done:
		return b.built, b.err
	case <-ctx.Done():
		return compile.Built{}, ctx.Err()
	}
}

// build is the first two gates.
func (j *Judge) build(ctx context.Context, candidate card.Candidate) (compile.Built, error) {
	if err := j.target.policy(candidate); err != nil && !j.off(GatePolicy) {
		return compile.Built{}, fail(GatePolicy, card.Rejected, "policy: %v", err)
	}
	options, err := compile.Options(candidate.Spec.Constants)
	if err != nil {
		return compile.Built{}, fail(GatePolicy, card.Rejected, "policy: %v", err)
	}
	if !j.target.traits().beside {
		j.quiet.RLock()
		defer j.quiet.RUnlock()
	}
	built, err := j.target.Compile(ctx, candidate.Source, options)
	if err == nil && built.Failure != "" {
		err = fail(GateCompile, card.CompileError, "%s", built.Failure)
	}
	if err == nil && built.Refused != "" && !j.off(GateImage) {
		err = fail(GateImage, card.Rejected, "image: %s", built.Refused)
	}
	return built, err
}
