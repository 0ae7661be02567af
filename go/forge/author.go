package forge

// author.go owns sources that take their time and perhaps money: whose turn it is, what they are told, and what goes back to them. It refuses to
// know how they are reached.
//
//	asked -> candidate -> judged -> node
//	      -> a reply without one, or a failure -> back to the author, at most 3 times -> node, unfinished
//	      -> a budget refuses, the endpoint is broken -> the author is asked no more, the others go on

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// Author is a source that competes with the templates. Its Propose is called from several goroutines at once.
type Author struct {
	Name string // in logs and reports, for example `openai:gpt-5`
	Make func(*Ledger) (propose.Proposer, error)
}

// hire makes the authors.
func (w *work) hire(authors []Author) error {
	for _, author := range authors {
		made, err := author.Make(&Ledger{w, author.Name})
		if err != nil {
			return err
		}
		w.authors = append(w.authors, &source{name: author.Name, proposer: made})
	}
	return nil
}

// call opens the line to the authors, for one run. It is cut when the user stops the study.
func (r *run) call(ctx context.Context) {
	r.paid.Lock()
	r.paid.run = r.card.ID
	r.paid.Unlock()
	calls, hangUp := context.WithCancel(ctx)
	free := context.AfterFunc(r.leaving, hangUp)
	r.calls, r.hangUp = calls, func() { free(); hangUp() }
}

// source is who proposes in a run.
type source struct {
	name     string // "": the first, which answers at once
	proposer propose.Proposer
	stopped  string // why it is asked no more on this card
	inRow    int    // ideas that were not finished, one after another

	fruitless int  // answers that were no new candidate, one after another
	holds     bool // a budget refuses until a call that flies has settled
}

// idea is a node whose repairs ran out. That does not prove that it cannot work, so it may be tried once more from another parent.
type idea struct {
	node   search.NodeID
	parent search.NodeID
	source int
	again  bool // it was
}

var errNotAsked = errors.New("its author is not asked in this session")

// gateReply is where a reply fails that holds no candidate.
const gateReply = "reply"

// sourceOf gives the number of an author by its name, of one that only the log knows, too.
func (r *run) sourceOf(name string) int {
	for i, known := range r.sources {
		if known.name == name {
			return i
		}
	}
	if r.rates.Add() >= search.MaxSources {
		return search.MaxSources - 1 // as many authors as that have not been asked on one card
	}
	unknown := &source{name: name}
	if r.recording == nil {
		unknown.stopped = errNotAsked.Error()
	}
	r.sources = append(r.sources, unknown)
	return len(r.sources) - 1
}

// room says whether one more proposal of a source may be on its way.
func (r *run) room(who int) bool {
	fly := 0
	for _, f := range r.flights {
		if f.slow() == (who > 0) {
			fly++
		}
	}
	if who == 0 {
		return fly < r.settings.Width
	}
	return fly < r.settings.InFlight
}

// turn says who proposes next, by what each source brings for what it takes; -1: nobody now, and why if nobody any more. A source that answers at
// once fills in for authors that are all on their way.
func (r *run) turn(closed map[int]string) (who int, why string) {
	may := func(who int) bool {
		_, shut := closed[who]
		return !shut && !r.sources[who].holds && r.sources[who].stopped == "" && r.stopped[r.sources[who].name] == ""
	}
	best := r.rates.Best(may)
	switch {
	case best < 0:
		return -1, r.whyNobody(closed)
	case r.room(best):
		return best, ""
	case best > 0 && may(0) && r.room(0) && r.arrived() == nil:
		return 0, ""
	}
	return -1, ""
}

func (r *run) whyNobody(closed map[int]string) string {
	var reasons []string
	for who, source := range r.sources {
		why := closed[who]
		if stopped := source.stopped + r.stopped[source.name]; stopped != "" && stopped != errNotAsked.Error() {
			why = fmt.Sprintf("author `%s` stopped: %s", source.name, stopped)
		}
		if why != "" && (len(reasons) == 0 || reasons[0] != why) {
			reasons = append(reasons, why)
		}
	}
	return strings.Join(reasons, "; ")
}

// ask notes in a flight and its event which author is asked, and whether an unfinished idea goes along.
func (r *run) ask(f *flight, who int, event *selectionEvent) {
	event.Author = r.sources[who].name
	for i, known := range r.ideas {
		if who > 0 && known.source == who && !known.again && known.parent != f.selection.Parent {
			r.ideas[i].again = true
			f.again, event.Again = known.node, known.node
			return
		}
	}
}

// inform makes a brief one for an author: verdicts as they may be told, the direction asked for, what is to be mended or tried again. It is the
// same however often it is made, so the same call is never paid twice.
func (r *run) inform(brief *propose.Brief, f *flight) {
	for i, attempt := range brief.Lineage {
		brief.Lineage[i] = propose.ToldOf(attempt)
	}
	for i, attempt := range brief.Children {
		brief.Children[i] = propose.ToldOf(attempt)
	}
	f.tellCounters(brief)
	brief.Direction = propose.Directions[int(brief.Seed%int64(len(propose.Directions)))]
	if f.again > 0 {
		again := propose.ToldOf(r.nodes[f.again])
		brief.Again = &again
	}
	brief.Attempt = len(f.failed)
	if n := len(f.failed); n > 0 {
		repair := propose.Attempt{Verdict: propose.Told(f.failed[n-1].Verdict)}
		if f.last != nil {
			told := propose.ToldOf(*f.last)
			if f.failed[n-1].Candidate.Source == "" { // the author must not lose sight of the candidate
				told.Verdict.Gate = gateReply
				told.Verdict.Detail = fmt.Sprintf("%s\nThe candidate before that reply: %s: %s", repair.Verdict.Detail, told.Verdict.Status, told.Verdict.Detail)
			}
			repair = told
		}
		brief.Repair = &repair
	}
}

// arrived is the oldest flight of an author that has its answer.
func (r *run) arrived() *flight {
	for _, f := range r.flights {
		if f.slow() && len(f.proposal) > 0 {
			return f
		}
	}
	return nil
}

// answered wakes the run: an answer is there.
func (r *run) answered() {
	select {
	case r.answers <- struct{}{}:
	default:
	}
}

// ready gives the next flight to settle: an author's that has its answer, else the oldest of the source that answers at once. It waits only when
// all that fly are authors' calls; nil: look again.
func (r *run) ready(ctx context.Context) (*flight, error) {
	if f := r.arrived(); f != nil {
		return f, nil
	}
	for _, f := range r.flights {
		if !f.slow() {
			return f, nil
		}
	}
	var over <-chan time.Time // of the seconds
	if r.settings.Seconds > 0 {
		timer := time.NewTimer(time.Duration(max(0, r.seconds-r.spentNow) * float64(time.Second)))
		defer timer.Stop()
		over = timer.C
	}
	began := r.now()
	for waiting := true; waiting; {
		select {
		case <-r.answers:
			waiting = false
		case <-r.arrivals:
			waiting = false
		case <-over:
			r.hangUp() // no candidate may begin any more; every call lands now
			over = nil
		case <-r.leaving.Done():
			return nil, nil
		case <-ctx.Done():
			return nil, cancelled(ctx)
		}
	}
	waited := r.spend(r.flights[0], "wait", r.now().Sub(began).Seconds(), nil)
	if err := r.append(r.card.ID, waited); err != nil {
		return nil, err
	}
	r.charge(waited)
	return nil, nil
}

// charge counts what was spent on authors and templates, for the choice among them.
func (r *run) charge(entries ...store.Entry) {
	for _, entry := range entries {
		if data, ok := entry.Data.(spendEvent); ok {
			r.rates.Spend(r.sourceOf(data.Author), data.Seconds, data.USD)
		}
	}
}

// unanswered ends a flight whose author gave no candidate, or sends an unusable reply back to it.
func (r *run) unanswered(ctx context.Context, f *flight, found error) (ended bool, err error) {
	if r.finishing() { // the call was cancelled; the next session takes the flight up
		return false, cancelled(ctx)
	}
	if err := cancelled(ctx); err != nil {
		return false, err
	}
	var unusable *propose.Unusable
	if errors.As(found, &unusable) {
		verdict := card.Verdict{Status: card.Rejected, Gate: gateReply, Detail: found.Error()}
		return r.failed(ctx, f, propose.Attempt{Verdict: verdict}, unusable.Reply)
	}
	why, closed := found.Error(), false
	var refused interface{ Waits() bool }
	var recorded *recordedEnd
	switch {
	case errors.As(found, &recorded):
		closed = recorded.closed
	case r.calls.Err() != nil:
		why = "the seconds are spent"
	case errors.Is(found, propose.ErrExhausted):
		why, closed = "nothing left to propose here", true
	case errors.Is(found, store.ErrLost), errors.Is(found, errNotAsked):
	case errors.As(found, &refused) && refused.Waits() && r.othersFly(f): // it fits when what flies has settled for less
		r.sources[f.selection.Source].holds = true
		return true, r.drop(f, why, false)
	default:
		if err := r.stop(f, why, true); err != nil {
			return false, err
		}
	}
	if f.tried() {
		return true, r.unfinished(f, why)
	}
	if err := r.drop(f, why, closed); err != nil {
		return false, err
	}
	if closed {
		return true, nil
	}
	return true, r.fruitless(f)
}

func (r *run) othersFly(f *flight) bool {
	for _, other := range r.flights {
		if other != f && other.slow() {
			return true
		}
	}
	return false
}

// failed logs a failure of an author's candidate or reply, and sends it back while repairs are left.
func (r *run) failed(ctx context.Context, f *flight, attempt propose.Attempt, reply string, entries ...store.Entry) (ended bool, err error) {
	f.note(attempt)
	who := r.sources[f.selection.Source]
	if len(f.failed) >= maxRepairs {
		return true, r.unfinished(f, fmt.Sprintf("given up after %d repairs", maxRepairs), entries...)
	}
	if stopped := who.stopped + r.stopped[who.name]; stopped != "" {
		return true, r.unfinished(f, "its author stopped: "+stopped, entries...)
	}
	data := attemptEvent{Seq: f.selection.Seq, Attempt: len(f.failed) + 1, Candidate: attempt.Candidate, Verdict: attempt.Verdict, Reply: reply}
	if attempt.Candidate.Source != "" {
		if data.Candidate.Source, err = r.store.Put(r.study.ID, []byte(attempt.Candidate.Source)); err != nil {
			return false, err
		}
	}
	if err := r.append(r.card.ID, append([]store.Entry{{Kind: store.KindAttempt, Data: data}}, entries...)...); err != nil {
		return false, err
	}
	r.charge(entries...)
	f.failed = append(f.failed, data)
	r.take(ctx, f)
	return false, nil
}

// note keeps what failed: a reply, or a candidate that is judged and logged.
func (f *flight) note(attempt propose.Attempt) {
	f.newest, f.candidate = attempt.Verdict, nil
	if attempt.Candidate.Source != "" {
		f.last, f.logged = &attempt, false
	}
}

// unproven follows the reason why an idea was not finished.
const unproven = ", which does not prove that the idea cannot work: "

// unfinished makes a node of an idea that could not be brought to a verdict of its own: its last candidate, or none.
func (r *run) unfinished(f *flight, why string, entries ...store.Entry) error {
	who := r.sources[f.selection.Source]
	attempt := propose.Attempt{Candidate: card.Candidate{ID: card.CandidateID("", card.Spec{}), Author: who.name, Change: "no candidate"}, Verdict: f.newest}
	if f.last != nil {
		attempt = *f.last
	}
	attempt.Verdict.Unfinished = true
	attempt.Verdict.Detail = why + unproven + attempt.Verdict.Detail
	if f.last == nil {
		entry, err := r.proposed(f.selection.Seq, attempt.Candidate)
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	return r.enter(f, attempt.Candidate, attempt.Verdict, entries...)
}

// remember notes how an author's idea ended: what may be tried once more, and when to stop asking.
func (r *run) remember(f *flight, id search.NodeID, verdict card.Verdict) {
	if !f.slow() {
		return
	}
	who := r.sources[f.selection.Source]
	who.fruitless = 0
	switch {
	case !verdict.Unfinished:
		who.inRow = 0
	case len(f.failed) >= maxRepairs:
		who.inRow++
	}
	if verdict.Unfinished && f.again == 0 {
		r.ideas = append(r.ideas, idea{node: id, parent: f.selection.Parent, source: f.selection.Source})
	}
	if who.inRow >= maxInRow && who.stopped == "" {
		who.stopped = fmt.Sprintf("%d ideas in a row were not finished after %d repairs each", maxInRow, maxRepairs)
	}
}

// fruitless counts answers that were no new candidate.
func (r *run) fruitless(f *flight) error {
	who := r.sources[f.selection.Source]
	if who.fruitless++; who.fruitless < 2*maxInRow {
		return nil
	}
	return r.stop(f, fmt.Sprintf("%d answers in a row were no new candidate", who.fruitless), false)
}

// stop asks an author no more: on this card, or on none.
func (r *run) stop(f *flight, why string, everywhere bool) error {
	who, run := r.sources[f.selection.Source], r.card.ID
	if r.stopped[who.name] != "" {
		return nil
	}
	if everywhere {
		r.stopped[who.name], run = why, ""
	} else {
		who.stopped = why
	}
	return r.append(run, store.Entry{Kind: store.KindAuthor, Data: authorEvent{Author: who.name, State: "stopped", Why: why}})
}
