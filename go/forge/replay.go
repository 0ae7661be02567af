package forge

// replay.go owns the way back: from a log to the run that wrote it, proposals in flight included.

import (
	"context"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// naming translates variant ids between the store (from the first session) and the referee (from this one): a profile that is taken again
// may number the same calls differently.
type naming struct{ toStored, toGiven map[string]string }

// namesOf pairs the variants of a stored and a given card by their calls; false if they are not the same calls.
func namesOf(stored, given *card.Card) (naming, bool) {
	n := naming{map[string]string{}, map[string]string{}}
	byCall := map[string]string{}
	for _, v := range given.Variants {
		byCall[card.CallKey(v.Call)] = v.ID
	}
	for _, v := range stored.Variants {
		id, ok := byCall[card.CallKey(v.Call)]
		if !ok {
			return n, false
		}
		n.toStored[id], n.toGiven[v.ID] = v.ID, id
	}
	return n, len(stored.Variants) == len(given.Variants)
}

func (n naming) stored(verdict card.Verdict) card.Verdict {
	variants := make([]card.VariantCost, len(verdict.Variants))
	for i, v := range verdict.Variants {
		if id, ok := n.toStored[v.ID]; ok {
			v.ID = id
		}
		variants[i] = v
	}
	verdict.Variants = variants
	if verdict.At != nil {
		at := *verdict.At
		if id, ok := n.toStored[at.Variant]; ok {
			at.Variant = id
		}
		verdict.At = &at
	}
	return verdict
}

func (n naming) given(finalists []judge.Finalist) []judge.Finalist {
	given := make([]judge.Finalist, len(finalists))
	for i, f := range finalists {
		f.Variant = n.toGiven[f.Variant]
		given[i] = f
	}
	return given
}

// newRun rebuilds a run from its log: the tree, its nodes, and the proposals that had no verdict, which fly again.
func (w *work) newRun(ctx context.Context, c *card.Card, names naming) (*run, error) {
	config := search.Default
	config.C = *w.settings.C
	r := &run{work: w, card: c, names: names, history: w.past.run(c.ID), byID: map[string]search.NodeID{}, counters: map[search.NodeID]*card.Counters{}, tried: map[search.NodeID]bool{}, answers: make(chan struct{}, 1),
		sources: []*source{{proposer: w.proposer}}, rates: search.NewSources(search.DefaultRates)}
	r.rates.Add()
	for _, author := range w.authors {
		at := r.sourceOf(author.name)
		r.sources[at].proposer, r.sources[at].stopped = author.proposer, ""
	}
	r.floor, r.gain = gain(c)
	r.tree = search.New(config, seedOf(w.settings.Seed, c.ID), 1)
	r.nodes = []propose.Attempt{{}}
	var waiting []*flight
	for _, event := range r.history.events {
		var err error
		switch event.Kind {
		case store.KindSelection:
			waiting, err = r.replaySelection(event, waiting)
		case store.KindProposal:
			waiting, err = r.replayProposal(event, waiting)
		case store.KindAttempt:
			err = r.replayAttempt(event, waiting)
		case store.KindSpend:
			err = r.replaySpend(event)
		case store.KindVerdict:
			waiting, err = r.replayVerdict(event, waiting)
		case store.KindCounters:
			err = r.replayCounters(event)
		}
		if err != nil {
			return nil, card.Fail(card.CodeStore, "restore the store from a copy, or remove the study with `kernelforge cache clear --study`",
				"read the log of run `%s`: event %d (`%s`): %w", c.ID, event.Seq, event.Kind, err)
		}
	}
	r.call(ctx)
	for _, f := range waiting {
		r.flights = append(r.flights, f)
		r.take(ctx, f)
	}
	return r, nil
}

func (r *run) replaySelection(event store.Event, waiting []*flight) ([]*flight, error) {
	data, err := decode[selectionEvent](event)
	if err != nil {
		return nil, err
	}
	data.Source = r.sourceOf(data.Author)
	selection, err := r.tree.SelectAt(data.Source, data.Parent)
	if err != nil {
		return nil, err
	}
	if selection.Seq != data.Seq {
		return nil, card.Fail(card.CodeStore, "", "it has number %d (expected %d)", data.Seq, selection.Seq)
	}
	f := &flight{selection: data.Selection, size: r.tree.Len(), again: data.Again, counters: r.counters[data.Parent]}
	for i := range r.ideas {
		r.ideas[i].again = r.ideas[i].again || r.ideas[i].node == data.Again
	}
	r.rates.Begin(data.Source)
	if data.Submission != 0 {
		for _, submission := range r.history.submitted {
			if submission.Seq == data.Submission {
				from, err := decode[Submission](submission)
				if err != nil {
					return nil, err
				}
				f.submitted, f.candidate = true, &from.Candidate
			}
		}
	}
	return append(waiting, f), nil
}

func (r *run) replayProposal(event store.Event, waiting []*flight) ([]*flight, error) {
	data, err := decode[proposalEvent](event)
	if err != nil {
		return nil, err
	}
	f, err := flightOf(waiting, data.Seq)
	if err != nil {
		return nil, err
	}
	if data.Candidate == nil {
		r.rates.Drop(f.selection.Source)
		return without(waiting, f), r.tree.Drop(data.Seq, data.Closed)
	}
	source, err := r.store.Get(r.study.ID, data.Candidate.Source)
	if err != nil {
		return nil, err
	}
	data.Candidate.Source = string(source)
	f.candidate, f.logged = data.Candidate, true
	return waiting, nil
}

func (r *run) replayVerdict(event store.Event, waiting []*flight) ([]*flight, error) {
	data, err := decode[verdictEvent](event)
	if err != nil {
		return nil, err
	}
	f, err := flightOf(waiting, data.Seq)
	if err != nil {
		return nil, err
	}
	candidate := f.candidate
	if candidate == nil && f.last != nil {
		candidate = &f.last.Candidate
	}
	if candidate == nil {
		return nil, card.Fail(card.CodeStore, "", "proposal %d has a verdict and no candidate", data.Seq)
	}
	return without(waiting, f), r.attach(f, *candidate, data.Verdict)
}

func (r *run) replayAttempt(event store.Event, waiting []*flight) error {
	data, err := decode[attemptEvent](event)
	if err != nil {
		return err
	}
	f, err := flightOf(waiting, data.Seq)
	if err != nil {
		return err
	}
	if f.selection.Source == 0 { // an older log: the attempt came with the candidate that mended it
		return nil
	}
	failed := propose.Attempt{Verdict: data.Verdict}
	if f.candidate != nil {
		failed.Candidate = *f.candidate
	}
	f.note(failed)
	f.failed = append(f.failed, data)
	return nil
}

// replaySpend counts what was spent on a source, for the choice among them.
func (r *run) replaySpend(event store.Event) error {
	data, err := decode[spendEvent](event)
	if err == nil && (data.What == "judge" || data.What == "wait" || data.Call != nil) {
		r.rates.Spend(r.sourceOf(data.Author), data.Seconds, data.USD)
	}
	return err
}

func flightOf(waiting []*flight, seq int) (*flight, error) {
	for _, f := range waiting {
		if f.selection.Seq == seq {
			return f, nil
		}
	}
	return nil, card.Fail(card.CodeStore, "", "proposal %d does not wait for anything", seq)
}

func without(waiting []*flight, f *flight) []*flight {
	return slices.DeleteFunc(waiting, func(other *flight) bool { return other == f })
}

// nextSubmission is the oldest candidate from outside that has not been taken up.
func (h *runHistory) nextSubmission() (store.Event, bool) {
	for _, event := range h.submitted {
		if !h.taken[event.Seq] {
			return event, true
		}
	}
	return store.Event{}, false
}
