package forge

// attend.go owns a study that stays open for candidates from outside: a person's, a coding agent's. It refuses to propose anything, and leaves
// what a search of the study has yet to do to that search.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/store"
)

const inboxEvery = 100 * time.Millisecond // how often the inbox of a study that waits is looked at

// table is where guests' candidates are judged: the one card whose inputs are held, and the cards that were there.
type table struct {
	*work
	run  *run // nil: no card is held
	seen []*card.Card
}

// attend judges what comes through the inbox until the study is told to conclude; then the best of it is confirmed, as at the end of a search.
func (w *work) attend(ctx context.Context, cards []*card.Card) error {
	t := &table{work: w}
	err := t.serve(ctx, cards)
	if closed := t.leave(ctx); cancelled(ctx) == nil {
		err = errors.Join(err, closed)
	}
	if err != nil || w.finishing() || len(t.seen) == 0 {
		return err
	}
	for _, c := range t.seen {
		if err := w.confirmGuests(ctx, c); err != nil || w.finishing() {
			return err
		}
	}
	if err := w.freshly(ctx); err != nil || w.finishing() {
		return err
	}
	return w.wholeModel(ctx)
}

// serve judges one candidate after another, those of the card that is held first.
func (t *table) serve(ctx context.Context, cards []*card.Card) error {
	left := map[string]bool{} // cards with a candidate that a session before this one took up and did not judge
	for _, c := range cards {
		left[c.ID] = t.past.run(c.ID).unanswered()
	}
	for {
		if t.finishing() {
			return nil
		}
		if err := t.receive(); err != nil {
			return err
		}
		c := t.next(cards, left)
		if c == nil {
			if t.concluding() {
				return nil
			}
			if err := t.wait(ctx); err != nil {
				return err
			}
			continue
		}
		_, guest := t.past.run(c.ID).nextSubmission()
		guest = guest || left[c.ID]
		delete(left, c.ID)
		if err := t.judgeAll(ctx, c, guest); err != nil {
			return err
		}
	}
}

// next is the card of a candidate that waits, or of counters that are asked for, or nil. The one that is held goes first: another has to be prepared.
func (t *table) next(cards []*card.Card, left map[string]bool) *card.Card {
	var found *card.Card
	for _, c := range cards {
		if _, waits := t.past.run(c.ID).nextSubmission(); !waits && !left[c.ID] && len(t.past.run(c.ID).wished) == 0 {
			continue
		}
		if t.run != nil && t.run.card == c {
			return c
		}
		if found == nil {
			found = c
		}
	}
	return found
}

func (t *table) wait(ctx context.Context) error {
	timer := time.NewTimer(inboxEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return cancelled(ctx)
	case <-t.concluded:
	case <-timer.C:
	}
	return nil
}

// judgeAll judges what waits for a card, and reads the counters that are asked for. A card that cannot be judged now is the candidate's answer, and no
// end of the others. guest: a candidate waits, so that there will be something to confirm.
func (t *table) judgeAll(ctx context.Context, c *card.Card, guest bool) error {
	if t.run != nil && t.run.card != c {
		if err := t.leave(ctx); err != nil {
			return err
		}
	}
	if t.run == nil {
		r, err := t.newRun(ctx, c, t.names[c.ID])
		if err != nil {
			return err
		}
		t.run = r
	}
	before := t.run.history.judged
	_, err := t.run.search(ctx)
	if (guest || t.run.history.judged > before) && !slices.Contains(t.seen, c) {
		t.seen = append(t.seen, c)
	}
	if err == nil {
		return nil
	}
	var noSight *blind
	state := runEvent{State: runFailed, Why: err.Error()}
	switch code := card.AsError(err).Code; {
	case errors.As(err, &noSight):
		state = runEvent{State: runEnded, Why: noSight.why}
	case code == card.CodeStopped, code == card.CodeStore, code == card.CodeInternal:
		return err
	}
	t.seen = slices.DeleteFunc(t.seen, func(other *card.Card) bool { return other == c })
	return errors.Join(t.leave(ctx), t.append(c.ID, store.Entry{Kind: store.KindRun, Data: state}))
}

// leave gives back what is held of a card.
func (t *table) leave(ctx context.Context) error {
	if t.run == nil {
		return nil
	}
	r := t.run
	t.run = nil
	return r.close(ctx)
}

// confirmGuests confirms what is best on a card now. A run that a search had ended is ended again, for the same reason; one that it had not is
// left to it.
func (w *work) confirmGuests(ctx context.Context, c *card.Card) (err error) {
	r, err := w.newRun(ctx, c, w.names[c.ID])
	if err != nil {
		return err
	}
	defer func() {
		if closed := r.close(ctx); cancelled(ctx) == nil {
			err = errors.Join(err, closed)
		}
	}()
	done, _, err := r.confirm(ctx)
	if err != nil || !done || r.history.searched == "" {
		return err
	}
	return w.append(c.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runEnded, Why: r.history.searched}})
}

// unanswered says that a candidate from outside was taken up and has no verdict: the session ended before.
func (h *runHistory) unanswered() bool {
	open := map[int]bool{}
	for _, event := range h.events {
		switch event.Kind {
		case store.KindSelection:
			if data, err := decode[selectionEvent](event); err == nil && data.Submission != 0 {
				open[data.Seq] = true
			}
		case store.KindVerdict:
			if data, err := decode[verdictEvent](event); err == nil {
				delete(open, data.Seq)
			}
		case store.KindProposal:
			if data, err := decode[proposalEvent](event); err == nil && data.Candidate == nil {
				delete(open, data.Seq)
			}
		}
	}
	return len(open) > 0
}

// Conclude ends a study that attends, after what waits is judged: its winners are confirmed, then it is done.
func (s *Session) Conclude() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	select {
	case <-s.concluded:
	default:
		close(s.concluded)
	}
}

func (s *Session) concluding() bool {
	select {
	case <-s.concluded:
		return true
	default:
		return false
	}
}
