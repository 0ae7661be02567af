package forge

// study.go owns a study as this process sees it: start, poll, answer, cancel. It refuses to block a caller.

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

const stoppedByUser = "stopped by the user"

// Study is a study that this process runs. Its methods may be called from any goroutine; none blocks longer than it is told to.
type Study struct {
	ID      string
	Resumed bool
	*Session
}

// work is what a study's goroutine works with. Everything in it belongs to that goroutine alone, but for the Study.
type work struct {
	*Study
	ctx       context.Context
	store     *store.Store
	origin    json.RawMessage
	quiet     chan struct{} // held by who measures, and by the user's code that would disturb it
	patience  time.Duration // of writes, once the study runs
	lock      *store.Lock
	study     *store.Study
	given     map[string]*card.Card // as the referee knows them now
	names     map[string]naming
	settings  Settings
	proposer  propose.Proposer
	authors   []*source
	recording *Recording        // nil: sources propose
	stopped   map[string]string // authors that are asked no more, and why
	session   string            // of this process, for what it asks authors
	paid      paid
	arrivals  chan struct{} // holds one: a reply was paid
	facts     propose.Facts
	now       func() time.Time
	makeJudge func(judge.Referee) (Judge, error)
	theJudge  Judge
	scratch   *judge.Scratch // of code for the whole model; nil before it is measured
	past      *history
	group     sync.WaitGroup
	budgets   map[string]int // candidates that each run may take, for the progress
}

// Start takes a study's lock, creates or resumes it, and runs it in the background until it ends, fails or is cancelled. The store is the
// study's from here on, and is closed with it; if Start fails it stays the caller's.
func Start(config Config) (*Study, error) {
	settings, err := config.Settings.complete()
	if err != nil {
		return nil, err
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Study.ID == "" {
		config.Study.ID = Identity(config.Study)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	s := &Study{ID: config.Study.ID, Session: newSession(stop, settings.Off)}
	w := &work{Study: s, ctx: ctx, store: config.Store, study: config.Study, settings: settings, proposer: config.Proposer,
		quiet: make(chan struct{}, 1), origin: config.Origin, facts: config.Facts, now: config.Now, makeJudge: config.Judge, given: map[string]*card.Card{}, names: map[string]naming{},
		recording: config.Recording, stopped: map[string]string{}, session: rand.Text(), arrivals: make(chan struct{}, 1), budgets: map[string]int{}, patience: cmp.Or(config.Patience, store.PatienceRun)}
	if w.lock, err = config.Store.Lock(s.ID); err != nil {
		stop(err)
		return nil, err
	}
	if err = w.enter(); err == nil {
		err = w.hire(config.Authors)
	}
	if err != nil {
		stop(err)
		return nil, errors.Join(err, w.lock.Release())
	}
	go w.live()
	return s, nil
}

// Identity names a study by what it is about, so that the same work finds its study again: target, model, pins, and every call. Shares and
// times move from run to run, so they do not count.
func Identity(study *store.Study) string {
	var parts []string
	for _, c := range study.Cards {
		calls := []string{c.ID}
		for _, v := range c.Variants {
			calls = append(calls, card.CallKey(v.Call))
		}
		slices.Sort(calls)
		parts = append(parts, strings.Join(calls, " "))
	}
	slices.Sort(parts)
	pins, err := json.Marshal(study.Pins) // keys are sorted
	if err != nil {
		pins = nil // pins came out of JSON
	}
	sum := sha256.Sum256([]byte(strings.Join(append(parts, study.Target, study.Model, string(pins)), "\n")))
	return "s-" + hex.EncodeToString(sum[:])[:12]
}

// enter creates the study, or compares it with the one of this name and reads its log.
func (w *work) enter() error {
	for _, c := range w.study.Cards {
		w.given[c.ID] = c
	}
	stored, err := w.store.Study(w.ID)
	session := func(resumed bool) store.Entry {
		return store.Entry{Kind: store.KindSession, Data: sessionEvent{PID: os.Getpid(), Resumed: resumed, Settings: w.settings.logged()}}
	}
	if err != nil {
		if card.AsError(err).Code != card.CodeNotFound {
			return err
		}
		if err := w.store.Create(w.study, session(false)); err != nil {
			return err
		}
		stored = w.study
	} else {
		w.Resumed = true
		if err := w.compare(stored); err != nil {
			return err
		}
	}
	w.study = stored
	for _, c := range stored.Cards {
		if given := w.given[c.ID]; given != nil {
			w.names[c.ID], _ = namesOf(c, given) // compared above
		}
	}
	events, err := w.store.Events(w.ID, 0)
	if err != nil {
		return err
	}
	if w.past, err = readHistory(events); err != nil {
		return err
	}
	for _, run := range w.past.runs {
		run.wished = nil // who asked an earlier session waits no more
	}
	entries := []store.Entry{{Kind: store.KindState, Data: stateEvent{State: StateRunning}}}
	if w.Resumed {
		entries = slices.Insert(entries, 0, session(true))
	}
	if w.origin != nil && !same(w.origin, w.past.origin) {
		entries = append(entries, store.Entry{Kind: store.KindOrigin, Data: w.origin})
	}
	return w.append("", entries...)
}

// compare refuses to go on with a study that is about something else.
func (w *work) compare(stored *store.Study) error {
	refuse := func(format string, args ...any) error {
		return card.Fail(card.CodeMismatch, "name another study, or remove this one with `kernelforge cache clear --study`",
			"resume study `%s`: %w", w.ID, card.Fail(card.CodeMismatch, "", format, args...))
	}
	if stored.Target != w.study.Target {
		return refuse("it is for the target `%s` (asked: `%s`)", stored.Target, w.study.Target)
	}
	for name, was := range stored.Pins {
		if now := w.study.Pins[name]; !reflect.DeepEqual(was, now) {
			return refuse("it was made with %s `%v` (now: `%v`)", name, was, now)
		}
	}
	known := map[string]*card.Card{}
	for _, c := range stored.Cards {
		known[c.ID] = c
	}
	for _, c := range w.study.Cards {
		was := known[c.ID]
		if was == nil {
			return refuse("card `%s` (`%s`) is not in it", c.ID, c.Overload)
		}
		if _, same := namesOf(was, c); !same {
			return refuse("card `%s` (`%s`) was searched for other shapes", c.ID, c.Overload)
		}
	}
	return nil
}

// append writes events of a run to the log.
func (w *work) append(run string, entries ...store.Entry) error {
	for i := range entries {
		entries[i].Run = run
	}
	return w.log(entries...)
}

// log writes events to the log, all or none; only then do they count, here and for polls.
func (w *work) log(entries ...store.Entry) error {
	events, err := w.store.Append(w.ID, entries...)
	if err != nil {
		return err
	}
	return w.publish(events)
}

// receive takes what other processes sent: approvals and candidates.
func (w *work) receive() error {
	events, err := w.store.Receive(w.ID)
	if err != nil {
		return err
	}
	return w.publish(events)
}

func (w *work) publish(events []store.Event) error {
	for _, event := range events {
		if err := w.past.add(event); err != nil {
			return err
		}
	}
	w.mutex.Lock()
	w.events = append(w.events, events...)
	w.measure()
	w.mutex.Unlock()
	w.notify()
	return nil
}
