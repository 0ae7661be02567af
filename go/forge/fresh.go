package forge

// fresh.go owns the last step before a confirmed node is a winner: fresh processes serve all of a study's winners together. A gain that only the
// process of the search sees is none: a batch norm that was accepted at 1.08 was 0.70 in the next process.

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/store"
)

const (
	freshBlocks = 16 // pairs of a plan in each process
	notFresh    = "not re-checked in fresh processes"
)

// Fresh is what fresh processes said of a plan: how many, and the median ratio in each.
type Fresh struct {
	Processes int       `json:"processes"`
	Ratios    []float64 `json:"ratios"`
	Why       string    `json:"why"` // there are fewer than was asked for
}

// freshly has all winners served by fresh processes, and leaves out those that are not faster in each of them.
func (w *work) freshly(ctx context.Context) error {
	winners := w.winners()
	asked := w.settings.Processes
	if !slices.ContainsFunc(winners, func(p Winner) bool { return p.Evidence.Fresh.Processes < asked }) {
		return nil
	}
	plans, err := w.load(winners)
	if err != nil {
		return err
	}
	began := w.now()
	seconds := 0.0
	if w.settings.Seconds > 0 {
		seconds = max(w.secondsLeft(), 1)
	}
	served, err := w.queue.ConfirmFresh(ctx, plans, asked, freshBlocks, seedOf(w.settings.Seed, "fresh"), seconds)
	if err != nil {
		return err
	}
	// In one step: a study that is killed here serves its winners again when it is resumed, or has all answers.
	seconds = w.now().Sub(began).Seconds()
	entries := []store.Entry{{Kind: store.KindSpend, Data: spendEvent{What: "confirm", Seconds: seconds, Parts: map[string]float64{"fresh": seconds}}}}
	for _, winner := range winners {
		fresh, why, err := served.of(winner.ID)
		if err != nil {
			return card.Fail(card.CodeReferee, "", "serve plan `%s` in fresh processes: %w", winner.ID, err)
		}
		if fresh.Processes == 0 && why == "" {
			fresh.Why = notFresh + ": " + fresh.Why
		}
		winner.Evidence.Fresh = fresh
		entries = append(entries, store.Entry{Run: winner.Card, Kind: store.KindPlan, Data: planEvent{Plan: winner, Served: why == "", Why: why}})
	}
	return w.log(entries...)
}

// winners are those that are served as far as the log knows.
func (w *work) winners() (all []Winner) {
	for _, g := range w.groups() {
		all = append(all, g.winners...)
	}
	return all
}

// of gathers what the processes said of one plan. why: it is left out, because.
func (s *FreshServed) of(plan string) (fresh Fresh, why string, err error) {
	fresh = Fresh{Ratios: []float64{}, Why: s.Why}
	for _, r := range s.Results {
		if r.Plan != plan {
			continue
		}
		if r.Status != card.OK {
			return fresh, fmt.Sprintf("%s in a fresh process: %s", r.Status, r.Detail), nil
		}
		if len(r.EagerNS) == 0 || len(r.EagerNS) != len(r.OursNS) {
			return fresh, "", fmt.Errorf("%d times of eager and %d of the plan (expected as many, and some)", len(r.EagerNS), len(r.OursNS))
		}
		ratios := make([]float64, len(r.EagerNS))
		for i := range ratios {
			if ratios[i] = r.EagerNS[i] / r.OursNS[i]; !(ratios[i] > 0) || math.IsInf(ratios[i], 0) {
				return fresh, "", fmt.Errorf("%g ns of eager and %g ns of the plan (expected times above 0)", r.EagerNS[i], r.OursNS[i])
			}
		}
		fresh.Ratios = append(fresh.Ratios, medianInterval(ratios).median)
	}
	fresh.Processes = len(fresh.Ratios)
	for i, ratio := range fresh.Ratios {
		if ratio <= 1 {
			return fresh, fmt.Sprintf("in a fresh process (%d of %d) it is %.2f times eager's speed", i+1, fresh.Processes, ratio), nil
		}
	}
	return fresh, "", nil
}
