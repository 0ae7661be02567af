package forge

// flight.go owns a proposal's way from a selection to a node, each step logged before the next depends on it.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// flight is a proposal on its way from a selection to a verdict.
type flight struct {
	selection search.Selection
	size      int             // nodes in the tree when it was selected: a brief shows no later ones
	candidate *card.Candidate // known already: submitted, or read back from the log
	submitted bool
	logged    bool          // the log has the candidate
	proposal  chan proposal // holds one

	// of an author's
	counters *card.Counters   // of the parent, as the log had them when it was selected
	again    search.NodeID    // the node whose idea is tried once more here; 0: none
	failed   []attemptEvent   // candidates and replies that went back to the author, oldest first
	last     *propose.Attempt // the newest of them that was a candidate
	newest   card.Verdict     // of all of them
}

type proposal struct {
	candidate card.Candidate
	err       error
}

// slow says that nothing waits for it: it may take minutes, and enters the tree when it comes.
func (f *flight) slow() bool { return f.selection.Source > 0 }

// tried says that something of it went back to its author: it ends as a node, which shows that.
func (f *flight) tried() bool { return len(f.failed) > 0 }

// settle brings a proposal a step further: to a node, to nothing, or back to its author. It says whether it has ended.
func (r *run) settle(ctx context.Context, f *flight) (ended bool, err error) {
	var p proposal
	select {
	case p = <-f.proposal:
	case <-ctx.Done():
		return false, cancelled(ctx)
	}
	if f.slow() {
		for _, source := range r.sources {
			source.holds = false
		}
	}
	if f.slow() && p.err == nil {
		if err := p.candidate.Validate(); err != nil {
			p.err = &propose.Unusable{Reason: err.Error()}
		}
		if slices.ContainsFunc(f.failed, func(a attemptEvent) bool { return a.Candidate.ID == p.candidate.ID }) {
			p.err = &propose.Unusable{Reason: "it is a candidate that failed before, unchanged"}
		}
	}
	twin, known := r.byID[p.candidate.ID]
	if p.err == nil && known && !f.submitted && !f.slow() && r.recording == nil { // made side by side with its twin: ask again, now that the twin is known
		p = r.propose(ctx, r.sources[0].proposer, r.brief(f.selection, r.tree.Len()))
		twin, known = r.byID[p.candidate.ID]
	}
	switch {
	case p.err != nil && (f.slow() || r.recording != nil):
		return r.unanswered(ctx, f, p.err)
	case errors.Is(p.err, propose.ErrExhausted):
		return true, r.drop(f, "nothing left to propose here", true)
	case errors.Is(p.err, errNotAsked):
		return true, r.drop(f, errNotAsked.Error(), false)
	case p.err != nil:
		if err := cancelled(ctx); err != nil {
			return false, err
		}
		return false, card.Fail(card.CodePropose, card.AsError(p.err).Hint, "propose a child of node %d of `%s`: %w", f.selection.Parent, r.card.ID, p.err)
	case known && f.tried():
		return true, r.unfinished(f, fmt.Sprintf("the author gave node %d again", twin))
	case known && f.slow():
		if err := r.drop(f, fmt.Sprintf("the candidate is node %d already", twin), false); err != nil {
			return false, err
		}
		return true, r.fruitless(f)
	case known:
		return true, r.drop(f, fmt.Sprintf("the candidate is node %d already", twin), !f.submitted)
	}
	if err := p.candidate.Validate(); err != nil {
		return false, card.Fail(card.CodePropose, "", "propose a child of node %d of `%s`: %w", f.selection.Parent, r.card.ID, err)
	}
	if !f.logged {
		entry, err := r.proposed(f.selection.Seq, p.candidate)
		if err != nil {
			return false, err
		}
		if err := r.append(r.card.ID, entry); err != nil {
			return false, err
		}
	}
	r.ahead(ctx, f, p.candidate)
	if err := r.open(ctx); err != nil {
		return false, err
	}
	began := r.now()
	verdict, err := r.judgeOnce(ctx, p.candidate)
	if err != nil {
		return false, err
	}
	spent := r.spend(f, "judge", r.now().Sub(began).Seconds(), r.took())
	if f.slow() && verdict.Status != card.OK {
		return r.failed(ctx, f, propose.Attempt{Candidate: p.candidate, Verdict: verdict}, "", spent)
	}
	return true, r.enter(f, p.candidate, verdict, spent)
}

var rank = map[string]int{store.KindProposal: 0, store.KindVerdict: 1, store.KindSpend: 2}

// land takes a flight that has ended off the list.
func (r *run) land(f *flight) {
	r.flights = slices.DeleteFunc(r.flights, func(other *flight) bool { return other == f })
}

// enter makes a judged candidate a node.
func (r *run) enter(f *flight, candidate card.Candidate, verdict card.Verdict, entries ...store.Entry) error {
	data := verdictEvent{Seq: f.selection.Seq, Node: search.NodeID(r.tree.Len()), Verdict: verdict}
	entries = append(entries, store.Entry{Kind: store.KindVerdict, Data: data})
	slices.SortStableFunc(entries, func(a, b store.Entry) int { // what was judged, its verdict, what that took
		return cmp.Compare(rank[a.Kind], rank[b.Kind])
	})
	if err := r.append(r.card.ID, entries...); err != nil {
		return err
	}
	who := r.sources[f.selection.Source]
	stopped := who.stopped
	if err := r.attach(f, candidate, verdict); err != nil {
		return err
	}
	r.charge(entries...)
	if who.stopped == stopped {
		return nil
	}
	return r.append(r.card.ID, store.Entry{Kind: store.KindAuthor, Data: authorEvent{Author: who.name, State: "stopped", Why: who.stopped}})
}

// spend makes the event of seconds that went by for a flight, and counts them.
func (r *run) spend(f *flight, what string, seconds float64, parts map[string]float64) store.Entry {
	r.spentNow += seconds
	return store.Entry{Kind: store.KindSpend, Data: spendEvent{What: what, Seconds: seconds, Author: r.sources[f.selection.Source].name, Parts: parts}}
}

// took asks the judge where the seconds went since it was last asked, if it keeps account of them.
func (w *work) took() map[string]float64 {
	if told, ok := w.theJudge.(interface{ Took() map[string]float64 }); ok {
		return told.Took()
	}
	return nil
}

// drop ends a flight without a node. With closed its source has nothing more below that parent.
func (r *run) drop(f *flight, why string, closed bool) error {
	err := r.append(r.card.ID, store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: f.selection.Seq, None: why, Closed: closed}})
	if err != nil {
		return err
	}
	r.rates.Drop(f.selection.Source)
	return r.tree.Drop(f.selection.Seq, closed)
}

// proposed keeps the source of a candidate by its hash, and gives the event of the candidate without it.
func (r *run) proposed(seq int, candidate card.Candidate) (store.Entry, error) {
	hash, err := r.store.Put(r.study.ID, []byte(candidate.Source))
	candidate.Source = hash
	return store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: seq, Candidate: &candidate}}, err
}

// attach enters a judged candidate into the tree.
func (r *run) attach(f *flight, candidate card.Candidate, verdict card.Verdict) error {
	before, _ := r.tree.Best()
	id, err := r.tree.Attach(f.selection.Seq, search.Result{OK: verdict.Status == card.OK, Cost: verdict.Cost})
	if err != nil {
		return err
	}
	after, _ := r.tree.Best()
	r.nodes = append(r.nodes, propose.Attempt{Node: int(id), Candidate: candidate, Verdict: verdict})
	if candidate.Source != "" {
		r.byID[candidate.ID] = id
	}
	r.rates.Judged(f.selection.Source, before, after)
	r.remember(f, id, verdict)
	return nil
}

// alone takes the right to measure; who has it gives it back by reading from `quiet`.
func (w *work) alone(ctx context.Context) error {
	select {
	case w.quiet <- struct{}{}:
		return nil
	case <-ctx.Done():
		return cancelled(ctx)
	}
}

func (r *run) judgeOnce(ctx context.Context, candidate card.Candidate) (card.Verdict, error) {
	judge, err := r.judge()
	if err != nil {
		return card.Verdict{}, err
	}
	if err := r.alone(ctx); err != nil {
		return card.Verdict{}, err
	}
	defer func() { <-r.quiet }()
	verdict, err := judge.Judge(ctx, r.card, candidate)
	if stopped := cancelled(ctx); stopped != nil {
		return card.Verdict{}, stopped
	}
	if err == nil {
		err = verdict.Validate()
	}
	if err != nil {
		return card.Verdict{}, judgeError(err, "judge `%s` on `%s`", candidate.ID, r.card.ID)
	}
	return r.names.stored(verdict), nil
}
