package forge

// loop.go owns the life of a study: which run comes when, what each may spend, and how it all ends.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// live runs the study to its end, then gives back all that it holds. Whatever happens, the study ends.
func (w *work) live() {
	defer close(w.ended)
	err := safe("run study `"+w.ID+"`", func() error {
		if err := w.reopen(); err != nil {
			return err
		}
		return w.all(w.ctx)
	})
	if broken := safe("end study `"+w.ID+"`", func() error { return w.end(&err) }); broken != nil {
		err = errors.Join(err, broken)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.state = StateDone
	if err != nil {
		w.state, w.failure = StateFailed, card.AsError(err)
	}
}

// reopen takes a store that waits for other writers as long as a running study may; the one it was started with had to answer at once.
func (w *work) reopen() error {
	patient, err := store.OpenExisting(w.store.Path(), w.patience)
	if err != nil {
		return err
	}
	hasty := w.store
	w.store = patient
	return hasty.Close()
}

// end stops what still runs, logs how the study ended (*result is nil afterwards if the user stopped it), and frees judge, store and lock.
func (w *work) end(result *error) error {
	w.stop(*result) // proposals that still run end now
	w.group.Wait()
	if w.theJudge != nil {
		w.theJudge.Shutdown()
	}
	if w.scratch != nil {
		w.scratch.Remove()
	}
	late := w.receive() // what came while winners were confirmed; nobody else may take it while the lock is held
	state := stateEvent{State: StateDone}
	switch err := *result; {
	case err != nil && card.AsError(err).Code == card.CodeStopped, err == nil && w.finishing():
		state, *result = stateEvent{State: stateStopped, Why: stoppedByUser}, nil
	case err != nil:
		state = stateEvent{State: StateFailed, Why: err.Error()}
	}
	unsaved := w.append("", store.Entry{Kind: store.KindState, Data: state})
	if *result != nil {
		unsaved, late = nil, nil // the first error is the one that matters: a full disk refuses this event too
	}
	return errors.Join(late, unsaved, w.lock.Release(), w.store.Close())
}

// all is the whole study: forecast, every run, its winners in fresh processes, the whole model.
func (w *work) all(ctx context.Context) error {
	cards := w.inOrder()
	if w.settings.Attend {
		return w.attend(ctx, cards)
	}
	if err := w.forecast(cards); err != nil {
		return err
	}
	var failed []error
	tried := 0
	for _, c := range cards {
		if w.finishing() {
			return nil
		}
		did, err := w.one(ctx, c, cards)
		if did {
			tried++
		}
		if err == nil {
			continue
		}
		switch card.AsError(err).Code {
		case card.CodeStopped, card.CodeStore, card.CodeInternal:
			return err
		}
		failed = append(failed, err) // this card cannot be judged; the others may
		if err := w.append(c.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runFailed, Why: err.Error()}}); err != nil {
			return err
		}
	}
	if len(failed) > 0 && len(failed) == tried {
		return failed[0]
	}
	if w.finishing() {
		return nil
	}
	if err := w.freshly(ctx); err != nil || w.finishing() {
		return err
	}
	return w.wholeModel(ctx)
}

// inOrder gives the cards by what they can gain, the most first.
func (w *work) inOrder() []*card.Card {
	var cards []*card.Card
	for _, c := range w.study.Cards {
		if given := w.given[c.ID]; given != nil {
			cards = append(cards, given)
		}
	}
	slices.SortStableFunc(cards, func(a, b *card.Card) int {
		_, savedA := gain(a)
		_, savedB := gain(b)
		return cmp.Or(cmp.Compare(savedB, savedA), cmp.Compare(a.ID, b.ID))
	})
	return cards
}

// settled says that a run needs no more work: it ended, and neither budgets nor submissions ask for more.
func (w *work) settled(c *card.Card) bool {
	past := w.past.run(c.ID)
	_, waits := past.nextSubmission()
	return past.state.State == runEnded && !waits && (past.endedWith == nil || w.settings.sameBudget(*past.endedWith))
}

// skip says why a run is not even begun, or "".
func (w *work) skip(c *card.Card) string {
	floor, _ := gain(c)
	if len(w.past.run(c.ID).submitted) > 0 {
		return ""
	}
	if some, ok := w.proposer.(interface{ Serves(*card.Card) bool }); ok && len(w.authors) == 0 && !some.Serves(c) {
		return "no template serves it"
	}
	return search.LittleToGain{Share: c.Share, Floor: floor, Least: *w.settings.MinGain}.Stop(search.Progress{Best: 1})
}

// forecast says what the study may take, before the first spend.
func (w *work) forecast(cards []*card.Card) error {
	var forecast forecastEvent
	each := w.each()
	for _, c := range cards {
		_, saved := gain(c)
		f := runForecast{Card: c.ID, Gain: saved, Why: w.skip(c)}
		if f.Why == "" && w.settled(c) {
			f.Why = "it was searched before: " + w.past.run(c.ID).state.Why
		}
		w.budgets[c.ID] = w.past.run(c.ID).judged
		if f.Why == "" {
			w.budgets[c.ID] = max(w.settings.Candidates, w.budgets[c.ID])
			f.Candidates = w.budgets[c.ID] - w.past.run(c.ID).judged
			f.Seconds = each * float64(f.Candidates)
		}
		forecast.Candidates += f.Candidates
		forecast.Seconds += f.Seconds
		forecast.Runs = append(forecast.Runs, f)
	}
	if left := w.secondsLeft(); w.settings.Seconds > 0 {
		forecast.Seconds = min(forecast.Seconds, left)
	}
	for _, author := range w.authors {
		told, ok := author.proposer.(interface {
			Forecast(propose.Brief, int64) (budget.Forecast, error)
		})
		if !ok || len(cards) == 0 {
			continue
		}
		found, err := told.Forecast(propose.Brief{Card: cards[0], Facts: w.facts}, int64(forecast.Candidates))
		if err != nil {
			return err
		}
		forecast.Authors = append(forecast.Authors, AuthorForecast{author.name, found, found.String()})
		forecast.USD += found.USD
	}
	return w.append("", store.Entry{Kind: store.KindForecast, Data: forecast})
}

// each is what a candidate takes: as those that were judged, or a guess before the first.
func (w *work) each() float64 {
	if w.past.judged == 0 {
		return guessSeconds
	}
	return w.past.judgeTime / float64(w.past.judged)
}

// first says that what is left of the study's seconds is too little for a run's first candidate. What a run's own part of them does not
// hold is no reason: a small card gets one candidate all the same.
type first struct{ left, takes float64 }

func (f first) Stop(search.Progress) string {
	if f.left < f.takes {
		return fmt.Sprintf("budget: %.1f seconds are left, and a candidate takes about %.1f", max(0, f.left), f.takes)
	}
	return ""
}

func (w *work) secondsLeft() float64 { return max(0, w.settings.Seconds-w.past.spent.Seconds) }

// one brings a run to its end: search, then confirm what it found. It says whether there was anything to do.
func (w *work) one(ctx context.Context, c *card.Card, cards []*card.Card) (did bool, err error) {
	if w.settled(c) {
		return false, nil
	}
	if why := w.skip(c); why != "" {
		return false, w.append(c.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runEnded, Why: why}})
	}
	r, err := w.newRun(ctx, c, w.names[c.ID])
	if err != nil {
		return true, err
	}
	r.seconds = w.allowance(c, cards)
	defer func() {
		if closed := r.close(ctx); cancelled(ctx) == nil { // a referee that was told to stop answers no more, and frees what it has itself
			err = errors.Join(err, closed)
		}
	}()
	why, err := r.search(ctx)
	if err == nil && why == stoppedByUser {
		return true, nil
	}
	done, left := false, 0
	if err == nil {
		done, left, err = r.confirm(ctx)
	}
	var noSight *blind
	if errors.As(err, &noSight) {
		return true, w.append(c.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runEnded, Why: noSight.why}})
	}
	if err != nil || !done {
		return true, err
	}
	if left > 0 {
		why += fmt.Sprintf("; variants left to eager without a confirmation: %d (too little to gain, or no time left)", left)
	}
	w.budgets[c.ID] = r.history.judged
	return true, w.append(c.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runEnded, Why: why}})
}

// allowance shares the seconds that are left among the runs that are left, by what they can gain.
func (w *work) allowance(c *card.Card, cards []*card.Card) float64 {
	if w.settings.Seconds == 0 {
		return 0
	}
	_, own := gain(c)
	total := 0.0
	for _, other := range cards {
		if _, saved := gain(other); other == c || (!w.settled(other) && w.skip(other) == "") {
			total += saved
		}
	}
	if total <= 0 {
		return w.secondsLeft() * (1 - confirmReserve)
	}
	return w.secondsLeft() * (1 - confirmReserve) * own / total
}

// judge makes the judge when it is first needed: it starts a worker.
func (w *work) judge() (Judge, error) {
	if w.theJudge == nil {
		judge, err := w.makeJudge(w.queue)
		if err != nil {
			return nil, judgeError(err, "start the judge")
		}
		w.theJudge = judge
	}
	return w.theJudge, nil
}

// measure brings the progress up to date; the mutex is held.
func (w *work) measure() {
	p := Progress{Best: map[string]float64{}, Candidates: w.past.judged, Seconds: w.past.spent.Seconds,
		Calls: w.past.calls, TokensIn: w.past.tokensIn, TokensOut: w.past.tokensOut, USD: w.past.spent.USD}
	for id, past := range w.past.runs {
		if past.best > 0 {
			p.Best[id] = past.best
		}
	}
	for _, c := range w.study.Cards {
		if w.given[c.ID] == nil {
			continue
		}
		p.Runs++
		if state := w.past.run(c.ID).state.State; state == runEnded || state == runFailed {
			p.RunsDone++
		}
		p.CandidatesBudget += max(w.budgets[c.ID], w.past.run(c.ID).judged)
	}
	each := w.each()
	p.SecondsLeft = each * float64(p.CandidatesBudget-p.Candidates)
	if w.settings.Seconds > 0 {
		p.SecondsLeft = min(p.SecondsLeft, w.secondsLeft())
	}
	w.progress = p
}
