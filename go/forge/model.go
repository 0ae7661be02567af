package forge

// model.go owns the whole model: is it faster with the winners, and which of them does it not need.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// group is the winners of one card: they are kept or left out together.
type group struct {
	card    *card.Card
	winners []Winner
	saves   float64 // part of the model's time, by the confirmations
}

// interval is a median with the bounds of its 95 % interval.
type interval struct{ median, low, high float64 }

// wholeModel times the model with all winners on and off, in pairs, and leaves out what does not help it.
//
// All winners on is measured first. If the model is surely faster and as fast as the confirmations promise, all stay. A group can only have
// hurt if it promised less than what is missing; each such group is left out once, and stays out if the model is surely faster without it. If
// the model is not surely faster at all, each group is measured alone, and those that help are measured together. What was decided is an event
// of its own: a study that is stopped or killed between two measurements has decided nothing, and measures again when it is resumed.
func (w *work) wholeModel(ctx context.Context) error {
	groups := w.groups()
	if len(groups) == 0 || w.decided(groups) {
		return nil
	}
	all, status, err := w.timeModel(ctx, groups, nil, "all winners")
	if err != nil {
		return err
	}
	kept, why, done := groups, "", true
	if status != card.OK || all.low <= 1 {
		kept, why, done, err = w.oneByOne(ctx, groups)
	} else {
		kept, done, err = w.leaveOut(ctx, groups, all)
	}
	if err != nil || !done {
		return err
	}
	if left := except(groups, kept); len(left) > 0 && len(kept) > 0 {
		if w.finishing() {
			return nil
		}
		if all, status, err = w.timeModel(ctx, kept, left, "winners that help"); err != nil {
			return err
		}
		if status != card.OK || all.low <= 1 {
			kept, why = nil, "the model is not surely faster with the winners"
		}
	}
	return w.decide(groups, kept, cmp.Or(why, "it does not help the model"))
}

// decide logs which groups are left out and why, and last that this is the decision: in one step, or a study that is killed here would resume
// with half of it, and measure the model with the other half only.
func (w *work) decide(groups, kept []group, why string) error {
	var entries []store.Entry
	left := except(groups, kept)
	for _, g := range left {
		for _, winner := range g.winners {
			entries = append(entries, store.Entry{Run: g.card.ID, Kind: store.KindPlan, Data: planEvent{Plan: winner, Served: false, Why: why}})
		}
	}
	return w.log(append(entries, store.Entry{Kind: store.KindDecision, Data: decisionEvent{Plans: idsOf(kept), LeftOut: idsOf(left)}})...)
}

func (w *work) groups() []group {
	var groups []group
	for _, c := range w.study.Cards {
		if winners := w.past.winnersOf(c); len(winners) > 0 && w.given[c.ID] != nil {
			groups = append(groups, group{c, winners, saved(c, winners)})
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.saves, a.saves) })
	return groups
}

// decided says that the newest decision about the model kept exactly these winners.
func (w *work) decided(groups []group) bool {
	return w.past.decision != nil && same(w.past.decision.Plans, idsOf(groups))
}

// leaveOut finds the groups without which the model is surely faster. Not done: the user stopped it. When the seconds are spent it keeps the rest.
func (w *work) leaveOut(ctx context.Context, groups []group, all interval) (kept []group, done bool, err error) {
	promised := 0.0
	for _, g := range groups {
		promised += g.saves
	}
	missing := promised - (1 - 1/all.median)
	kept = groups
	for _, g := range groups {
		if g.saves >= missing || len(groups) == 1 || w.outOfTime() {
			continue
		}
		if w.finishing() {
			return nil, false, nil
		}
		rest := except(kept, []group{g})
		if len(rest) == 0 {
			break
		}
		without, status, err := w.timeModel(ctx, rest, []group{g}, "without `"+g.card.Overload+"`")
		if err != nil {
			return nil, false, err
		}
		if status == card.OK && without.low > all.high {
			kept, all = rest, without
		}
	}
	return kept, true, nil
}

// oneByOne finds the groups with which alone the model is faster. Not done: the user stopped it. What there is no time to measure is left out.
func (w *work) oneByOne(ctx context.Context, groups []group) (kept []group, why string, done bool, err error) {
	if len(groups) == 1 {
		return nil, "the model is not surely faster with it", true, nil
	}
	for _, g := range groups {
		if w.finishing() {
			return nil, "", false, nil
		}
		if w.outOfTime() {
			return kept, "the model is not surely faster with all winners, and no time was left to measure each alone", true, nil
		}
		alone, status, err := w.timeModel(ctx, []group{g}, except(groups, []group{g}), "`"+g.card.Overload+"` alone")
		if err != nil {
			return nil, "", false, err
		}
		if status == card.OK && alone.median > 1 {
			kept = append(kept, g)
		}
	}
	return kept, "", true, nil
}

// outOfTime says that the seconds of the study are spent.
func (w *work) outOfTime() bool { return w.settings.Seconds > 0 && w.secondsLeft() <= 0 }

// timeModel has the referee time the model with the winners of some groups on and off, and logs it.
func (w *work) timeModel(ctx context.Context, on, left []group, what string) (interval, card.Status, error) {
	var winners []Winner
	for _, g := range on {
		winners = append(winners, g.winners...)
	}
	plans, err := w.load(winners)
	if err != nil {
		return interval{}, "", err
	}
	began := w.now()
	times, err := w.queue.ConfirmModel(ctx, plans, modelBlocks)
	if err != nil {
		return interval{}, "", err
	}
	if len(times.OnMS) != len(times.OffMS) || (times.Status == card.OK && len(times.OnMS) == 0) {
		return interval{}, "", card.Fail(card.CodeReferee, "", "time the whole model: %d forwards with winners and %d without (expected as many, and some)",
			len(times.OnMS), len(times.OffMS))
	}
	ratios := make([]float64, len(times.OnMS))
	for i := range ratios {
		ratios[i] = times.OffMS[i] / times.OnMS[i]
	}
	found := medianInterval(ratios)
	event := modelEvent{Plans: idsOf(on), OnMS: times.OnMS, OffMS: times.OffMS, Ratio: found.median, Low: found.low, High: found.high,
		LeftOut: idsOf(left), Why: what}
	if times.Status != card.OK {
		event.Why = fmt.Sprintf("%s: %s: %s", what, times.Status, times.Detail)
	}
	return found, times.Status, w.append("", store.Entry{Kind: store.KindModel, Data: event},
		store.Entry{Kind: store.KindSpend, Data: spendEvent{What: "model", Seconds: w.now().Sub(began).Seconds()}})
}

// load puts the code of winners where the referee can open it.
func (w *work) load(winners []Winner) ([]Loaded, error) {
	var plans []Loaded
	for _, winner := range winners {
		image, err := w.imageFile(winner.Code.SHA256)
		if err != nil {
			return nil, err
		}
		plans = append(plans, Loaded{Plan: winner.Plan, Image: image})
	}
	return plans, nil
}

// imageFile puts code from the store where the referee can open it: in a folder that nobody else can write, and that ends with the study.
func (w *work) imageFile(hash string) (string, error) {
	data, err := w.store.Get(w.ID, hash)
	if err != nil {
		return "", err
	}
	if w.scratch == nil {
		if w.scratch, err = judge.MakeScratch(w.settings.Scratch); err != nil {
			return "", err
		}
	}
	extension := ".so"
	if w.study.Target == "cuda" {
		extension = ".cubin"
	}
	path := filepath.Join(w.scratch.Path, hash+extension)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", card.Fail(card.CodeStore, compile.ScratchHint, "write code for the whole model: %w", err)
	}
	return path, nil
}

func idsOf(groups []group) []string {
	ids := []string{}
	for _, g := range groups {
		for _, winner := range g.winners {
			ids = append(ids, winner.ID)
		}
	}
	return ids
}

func except(groups, gone []group) []group {
	return slices.DeleteFunc(slices.Clone(groups), func(g group) bool {
		return slices.ContainsFunc(gone, func(other group) bool { return other.card == g.card })
	})
}

// medianInterval gives the median and the order statistics that bound it with at least 95 % confidence (by the binomial distribution: the
// number of samples below the median is B(n, 1/2)). With fewer than six samples no such bounds exist; the extremes are given.
func medianInterval(values []float64) interval {
	n := len(values)
	if n == 0 {
		return interval{}
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	tail, term, rank := 0.0, math.Pow(0.5, float64(n)), 0
	for k := 0; k < n/2; k++ {
		if tail+term > 0.025 {
			break
		}
		tail += term
		term *= float64(n-k) / float64(k+1)
		rank = k + 1
	}
	rank = max(rank, 1)
	return interval{median, sorted[rank-1], sorted[n-rank]}
}
