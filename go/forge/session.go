package forge

// session.go owns work that runs in the background of a caller who polls: a study, or a run of the red-team corpus. It refuses to block.

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// States of a study in this process. The store also knows "stopped": ended by the user, to be resumed.
const (
	StateRunning   = "running"
	StateFinishing = "finishing"
	StateDone      = "done"
	StateFailed    = "failed"
	stateStopped   = "stopped"
)

// Session is such work as its caller sees it. Its methods may be called from any goroutine; none blocks longer than it is told to.
type Session struct {
	queue *Queue
	stop  context.CancelCauseFunc
	wake  chan struct{} // holds one: something for a poll
	ended chan struct{} // closed when nothing of it runs any more

	leaving context.Context // done when the user has cancelled the work: whoever waits for somebody outside ends it then
	leave   context.CancelFunc

	concluded chan struct{} // closed when a study that attends is to come to its end

	mutex    sync.Mutex
	state    string
	failure  *card.Error
	finish   bool
	events   []store.Event // not polled yet
	progress Progress
}

// newSession makes the session of work that stop ends. off: gates that a test has switched off.
func newSession(stop context.CancelCauseFunc, off judge.Gates) *Session {
	s := &Session{stop: stop, wake: make(chan struct{}, 1), ended: make(chan struct{}), concluded: make(chan struct{}), state: StateRunning}
	s.progress.Best = map[string]float64{}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.queue = NewQueue(s.notify)
	s.queue.off = off
	return s
}

// Progress is what a progress bar shows.
type Progress struct {
	Runs             int                `json:"runs"`
	RunsDone         int                `json:"runs_done"`
	Candidates       int                `json:"candidates"`
	CandidatesBudget int                `json:"candidates_budget"`
	Seconds          float64            `json:"seconds"`
	SecondsLeft      float64            `json:"seconds_left"`
	Best             map[string]float64 `json:"best"`
	Calls            int                `json:"calls"` // of authors, that were paid
	TokensIn         int64              `json:"tokens_in"`
	TokensOut        int64              `json:"tokens_out"`
	USD              float64            `json:"usd"`
}

// Poll is what happened since the last one, and what the referee should do.
type Poll struct {
	State    string            `json:"state"`
	Events   []store.Event     `json:"events"`
	Tasks    []json.RawMessage `json:"tasks"`
	Progress Progress          `json:"progress"`
	Error    *card.Error       `json:"error"`
}

func (s *Session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Session) finishing() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.finish
}

// Poll waits at most `timeout` for something new.
func (s *Session) Poll(timeout time.Duration) Poll {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		if poll, some := s.look(); some {
			return poll
		}
		select {
		case <-s.wake:
		case <-s.ended:
			poll, _ := s.look()
			return poll
		case <-timer.C:
			poll, _ := s.look()
			return poll
		}
	}
}

func (s *Session) look() (Poll, bool) {
	tasks := s.queue.Waiting()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	poll := Poll{State: s.state, Events: s.events, Tasks: tasks, Progress: s.progress, Error: s.failure}
	some := len(s.events) > 0 || len(tasks) > 0
	if poll.Events == nil {
		poll.Events = []store.Event{}
	}
	s.events = nil
	return poll, some
}

// Answer delivers the result of a task, or why the referee could not carry it out.
func (s *Session) Answer(task int, result json.RawMessage, failure *card.Error) error {
	return s.queue.Answer(task, result, failure)
}

// Cancel ends the work: after the candidate in flight, or now. What was judged is kept; a later start resumes.
func (s *Session) Cancel(now bool) {
	s.mutex.Lock()
	s.finish = true
	if s.state == StateRunning {
		s.state = StateFinishing
	}
	s.mutex.Unlock()
	s.leave()
	if now {
		s.stop(errors.New(stoppedByUser))
	}
	s.notify()
}

// Close stops the work if it runs. It does not wait; Ended does.
func (s *Session) Close() { s.Cancel(true) }

// Ended is closed when nothing of the work runs any more; a study's lock is free then.
func (s *Session) Ended() <-chan struct{} { return s.ended }
