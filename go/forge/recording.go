package forge

// recording.go owns running a stored study again: who was asked, what was answered and in which order it came are the recording's, so nobody is
// called. Places to grow are selected anew: with the recorded costs that gives the recorded tree, which shows that a log explains its tree.

import (
	"context"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// Recording is a stored study as what a new one follows.
type Recording struct {
	moves map[string][]move // by card
}

// move is one step of a recording: somebody is asked (author, parent), or an answer to that comes.
type move struct {
	seq int // of the recorded proposal

	asks   bool
	author string
	again  search.NodeID
	forced bool // below parent, wherever the tree would grow now
	parent search.NodeID

	candidate *card.Candidate
	err       error // in place of one
}

// recordedEnd is an answer that was none.
type recordedEnd struct {
	why    string
	closed bool
}

func (e *recordedEnd) Error() string { return e.why }

// Record reads a study to be run again.
func Record(s *store.Store, id string) (*Recording, error) {
	_, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	recording := &Recording{map[string][]move{}}
	for run, history := range past.runs {
		moves, err := movesOf(history.events)
		if err != nil {
			return nil, err
		}
		for i, m := range moves {
			if m.candidate == nil {
				continue
			}
			source, err := s.Get(id, m.candidate.Source)
			if err != nil {
				return nil, err
			}
			moves[i].candidate.Source = string(source)
		}
		recording.moves[run] = moves
	}
	return recording, nil
}

// movesOf derives the moves of a run from its log. Candidates have the hash of their source.
func movesOf(events []store.Event) ([]move, error) {
	var moves []move
	answered := map[int]bool{} // the newest question of that proposal
	answer := func(m move) {
		answered[m.seq] = true
		moves = append(moves, m)
	}
	for _, event := range events {
		var err error
		switch event.Kind {
		case store.KindSelection:
			var data selectionEvent
			if data, err = decode[selectionEvent](event); err == nil {
				moves = append(moves, move{seq: data.Seq, asks: true, author: data.Author, again: data.Again, forced: data.Forced, parent: data.Parent})
			}
		case store.KindProposal:
			var data proposalEvent
			if data, err = decode[proposalEvent](event); err != nil {
				break
			}
			switch {
			case data.Candidate == nil:
				answer(move{seq: data.Seq, err: &recordedEnd{data.None, data.Closed}})
			case len(data.Candidate.Spec.Kernels) > 0: // else the node of an idea without a candidate, which its verdict tells
				answer(move{seq: data.Seq, candidate: data.Candidate})
			}
		case store.KindAttempt:
			var data attemptEvent
			if data, err = decode[attemptEvent](event); err != nil {
				break
			}
			if !answered[data.Seq] {
				answer(move{seq: data.Seq, err: &propose.Unusable{Reason: strings.TrimPrefix(data.Verdict.Detail, (&propose.Unusable{}).Error()), Reply: data.Reply}})
			}
			answered[data.Seq] = false
		case store.KindVerdict:
			var data verdictEvent
			if data, err = decode[verdictEvent](event); err == nil && !answered[data.Seq] {
				why, _, _ := strings.Cut(data.Verdict.Detail, unproven)
				answer(move{seq: data.Seq, err: &recordedEnd{why: why}})
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// follow carries out what a recording says, from where this study's own log stands.
func (r *run) follow(ctx context.Context, moves []move) (why string, err error) {
	done, err := movesOf(r.history.events)
	if err != nil {
		return "", err
	}
	flights := map[int]*flight{} // by the recorded proposal
	for i, m := range moves[:min(len(done), len(moves))] {
		for _, f := range r.flights {
			if m.asks && done[i].asks && f.selection.Seq == done[i].seq {
				flights[m.seq] = f
			}
		}
	}
	for _, f := range flights { // its answer is in the log, and no verdict
		if f.candidate != nil {
			if err := r.bring(ctx, f); err != nil {
				return "", err
			}
		}
	}
	for _, m := range moves[min(len(done), len(moves)):] {
		if r.finishing() {
			return stoppedByUser, nil
		}
		if err := r.receive(); err != nil {
			return "", err
		}
		if m.asks {
			if why := search.First(r.rules(), r.progress()); why != "" {
				return why, r.abandon(why)
			}
			if flights[m.seq], err = r.asked(ctx, m); err != nil {
				return "", err
			}
			continue
		}
		f := flights[m.seq]
		if f == nil || !r.flies(f) { // it came to its end earlier than in the recording
			continue
		}
		p := proposal{err: m.err}
		if m.candidate != nil {
			p.candidate = *m.candidate
		}
		f.proposal <- p
		if err := r.bring(ctx, f); err != nil {
			return "", err
		}
	}
	return "the recording ends here", r.abandon("the recording ends here")
}

// asked selects a place for a recorded question. nil: the tree has none for it.
func (r *run) asked(ctx context.Context, m move) (*flight, error) {
	f := &flight{size: r.tree.Len(), again: m.again}
	var err error
	if f.selection, err = r.tree.Select(r.sourceOf(m.author)); m.forced || err != nil {
		if f.selection, err = r.tree.SelectAt(r.sourceOf(m.author), m.parent); err != nil {
			return nil, nil // the recorded parent failed here
		}
	}
	if err := r.learn(); err != nil {
		return nil, err
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	event := selectionEvent{Selection: f.selection, Author: m.author, Again: m.again}
	if err := r.append(r.card.ID, store.Entry{Kind: store.KindSelection, Data: event}); err != nil {
		return nil, err
	}
	r.launch(ctx, f)
	return f, nil
}

// bring settles a flight that has its answer.
func (r *run) bring(ctx context.Context, f *flight) error {
	ended, err := r.settle(ctx, f)
	if err == nil && ended {
		r.land(f)
	}
	return err
}

func (r *run) flies(f *flight) bool {
	for _, other := range r.flights {
		if other == f {
			return true
		}
	}
	return false
}

// abandon ends what still flies when nothing more comes.
func (r *run) abandon(why string) error {
	for len(r.flights) > 0 {
		f := r.flights[0]
		r.land(f)
		var err error
		if f.tried() {
			err = r.unfinished(f, why)
		} else {
			err = r.drop(f, why, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
