package forge

// confirm.go owns the way from nodes to winners. It refuses search costs as evidence: only a confirmation counts.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// contest is what one variant may win: the nodes with the least search costs below 1, the best first, and the part of the model's time that
// the best would save.
type contest struct {
	variant   string // as the store calls it
	finalists []judge.Finalist
	saves     float64
}

// contests lists the variants that have finalists, the one that saves most first. The search's timing may be across processes, so only a
// confirmation in the user's process makes a winner.
func (r *run) contests() []contest {
	eager := 0.0
	for _, v := range r.card.Variants {
		eager += float64(v.Calls) * v.EagerUS
	}
	var all []contest
	for _, v := range r.card.Variants {
		variant := r.names.toStored[v.ID]
		costs := map[int]float64{}
		c := contest{variant: variant}
		for id := 1; id < len(r.nodes); id++ {
			if cost, ok := variantCost(r.nodes[id].Verdict, variant); ok && cost < 1 {
				costs[id] = cost
				c.finalists = append(c.finalists, judge.Finalist{Node: id, Candidate: r.nodes[id].Candidate, Variant: variant})
			}
		}
		if len(c.finalists) == 0 {
			continue
		}
		slices.SortStableFunc(c.finalists, func(a, b judge.Finalist) int { return cmp.Compare(costs[a.Node], costs[b.Node]) })
		c.finalists = r.oneOfEach(c.finalists)
		c.finalists = c.finalists[:min(len(c.finalists), finalistsEach)]
		tries := r.tries(c)
		for i := range c.finalists {
			c.finalists[i].Tries = tries
		}
		c.saves = r.card.Share * float64(v.Calls) * v.EagerUS / eager * (1 - costs[c.finalists[0].Node])
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b contest) int { return cmp.Compare(b.saves, a.saves) })
	return together(all)
}

// oneOfEach leaves the first candidate of each binary: a second chance of the same code is none.
func (r *run) oneOfEach(finalists []judge.Finalist) []judge.Finalist {
	seen := map[string]bool{}
	return slices.DeleteFunc(finalists, func(f judge.Finalist) bool {
		binary := cmp.Or(r.nodes[f.Node].Verdict.Twin, f.Candidate.ID)
		if seen[binary] {
			return true
		}
		seen[binary] = true
		return false
	})
}

// together keeps the order, but has the contests of one candidate follow its first: it stays loaded.
func together(all []contest) []contest {
	place := map[string]int{}
	for i := len(all) - 1; i >= 0; i-- {
		place[all[i].finalists[0].Candidate.ID] = i
	}
	slices.SortStableFunc(all, func(a, b contest) int {
		return cmp.Compare(place[a.finalists[0].Candidate.ID], place[b.finalists[0].Candidate.ID])
	})
	return all
}

// tries counts the nodes that were or may be tried for a variant: each is a chance to accept one that gains nothing.
func (r *run) tries(c contest) int {
	nodes := map[int]bool{}
	for _, finalist := range c.finalists {
		nodes[finalist.Node] = true
	}
	for _, before := range r.history.confirmed {
		if before.Variant == c.variant {
			nodes[before.Node] = true
		}
	}
	return len(nodes)
}

func variantCost(verdict card.Verdict, variant string) (float64, bool) {
	if verdict.Status != card.OK {
		return 0, false
	}
	for _, v := range verdict.Variants {
		if v.ID == variant {
			return v.Cost, true
		}
	}
	return 0, false
}

// confirm has the best node of each variant confirmed, and the next best if that one is refused, and keeps the winners. What would save next to
// nothing, and what comes when the seconds are spent, is left to eager; `left` counts those variants. The node that saves most is confirmed whatever
// was spent: without it the whole search would have been for nothing. Not done: the user stopped it, and a resume goes on with the rest.
func (r *run) confirm(ctx context.Context) (done bool, left int, err error) {
	began := false
	for _, c := range r.contests() {
		for _, finalist := range c.finalists {
			if r.finishing() {
				return false, left, nil
			}
			before, seen := r.history.confirmed[confirmKey(c.variant, finalist.Node)]
			began = began || seen // in an earlier session
			if seen && before.Accepted && r.wished(c.variant) {
				break
			}
			if seen {
				continue
			}
			if c.saves < *r.settings.MinGain*worthConfirming || (began && r.settings.Seconds > 0 && r.secondsLeft() <= 0) {
				left++
				break
			}
			began = true
			accepted, err := r.confirmOne(ctx, finalist)
			if err != nil {
				return false, left, err
			}
			if accepted {
				break
			}
		}
	}
	return true, left, nil
}

// wished says that a variant's winner is one that may serve: an earlier session may have asked for less than eager's bits.
func (r *run) wished(variant string) bool {
	winner, ok := r.history.winners[variant]
	return !ok || winner.Plan.Exact || !r.settings.Exact
}

func (r *run) confirmOne(ctx context.Context, finalist judge.Finalist) (accepted bool, err error) {
	if err := r.open(ctx); err != nil {
		return false, err
	}
	theJudge, err := r.judge()
	if err != nil {
		return false, err
	}
	began := r.now()
	confirmations, err := theJudge.Confirm(ctx, r.card, r.names.given([]judge.Finalist{finalist}))
	if stopped := cancelled(ctx); stopped != nil {
		return false, stopped
	}
	if err == nil && len(confirmations) != 1 {
		err = fmt.Errorf("the judge gave %d answers (expected 1)", len(confirmations))
	}
	if err != nil {
		return false, judgeError(err, "confirm node %d of `%s`", finalist.Node, r.card.ID)
	}
	return confirmations[0].Accepted, r.keep(confirmations[0], r.now().Sub(began).Seconds())
}

// keep logs what was confirmed, and a plan if it is the variant's best winner so far.
func (r *run) keep(c judge.Confirmation, seconds float64) error {
	if stored, ok := r.names.toStored[c.Variant]; ok {
		c.Variant, c.Plan.Variant = stored, stored
	}
	if c.Node < 1 || c.Node >= len(r.nodes) {
		return card.Fail(card.CodeJudge, "", "confirm a finalist of `%s`: the judge named node %d (expected 1 to %d)", r.card.ID, c.Node, len(r.nodes)-1)
	}
	entries := []store.Entry{
		{Kind: store.KindSpend, Data: spendEvent{What: "confirm", Seconds: seconds, Parts: r.took()}},
		{Kind: store.KindSamples, Data: samplesEvent{Variant: c.Variant, Node: c.Node, Accepted: c.Accepted, Decision: c.Decision,
			Measured: measuredOf(c), Detail: c.Detail}},
	}
	before, ok := r.history.winners[c.Variant]
	if c.Accepted && (!ok || !r.wished(c.Variant) || before.Plan.Evidence.Low < c.Low) {
		winner, err := r.winner(c)
		if err != nil {
			return err
		}
		entries = append(entries, store.Entry{Kind: store.KindPlan, Data: planEvent{Plan: winner, Served: true}})
	}
	return r.append(r.card.ID, entries...)
}

func measuredOf(c judge.Confirmation) Measured {
	return Measured{Ratio: c.Ratio, Low: c.Low, High: c.High, Samples: c.Samples, Dropped: c.Dropped, EagerUS: c.EagerUS, KernelforgeUS: c.OursUS,
		AAHalfWidth: c.AAHalfWidth, Margin: c.Margin, WarmRatio: c.WarmRatio, PoolBytes: c.PoolBytes}
}

// winner keeps code and source of a confirmed candidate, and makes the plan of a pack from them.
func (r *run) winner(c judge.Confirmation) (Winner, error) {
	candidate := r.nodes[c.Node].Candidate
	w := Winner{Plan: c.Plan, Evidence: Evidence{Measured: measuredOf(c), Fresh: Fresh{Ratios: []float64{}, Why: notFresh}, Rule: c.Rule, Tier: c.Tier,
		Controls: r.history.controls[c.Variant], Exhaustive: c.Exhaustive}}
	w.ID, w.Card, w.Variant, w.Node = planID(r.card.ID, c.Variant, candidate.ID, c.Image), r.card.ID, c.Variant, c.Node
	w.State = "approved"
	if r.settings.Review {
		w.State = "proposed"
	}
	var err error
	w.Code.Bytes, w.Source.Bytes = len(c.Image), len(candidate.Source)
	if w.Code.SHA256, err = r.store.Put(r.study.ID, c.Image); err != nil {
		return w, err
	}
	w.Source.SHA256, err = r.store.Put(r.study.ID, []byte(candidate.Source))
	return w, err
}

// planID names what would be served where: the same candidate and code for the same variant is the same plan.
func planID(cardID, variant, candidate string, image []byte) string {
	code := sha256.Sum256(image)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %x", cardID, variant, candidate, code))
	return "p-" + hex.EncodeToString(sum[:])[:8]
}

// winnersOf gives the plans of a run that are served as far as the log knows, in the order of the card's variants; where exact plans are wished
// for, only these.
func (h *history) winnersOf(c *card.Card) []Winner {
	var winners []Winner
	past := h.runs[c.ID]
	if past == nil {
		return nil
	}
	for _, v := range c.Variants {
		if plan, ok := past.winners[v.ID]; ok && plan.Served && (plan.Plan.Exact || !h.exact) {
			winners = append(winners, plan.Plan)
		}
	}
	return winners
}

// saved is the part of the model's time that the winners of a card save, by their own evidence.
func saved(c *card.Card, winners []Winner) float64 {
	eager, less := 0.0, 0.0
	for _, v := range c.Variants {
		eager += float64(v.Calls) * v.EagerUS
		for _, w := range winners {
			if w.Variant == v.ID {
				less += float64(v.Calls) * v.EagerUS * (1 - 1/w.Evidence.Ratio)
			}
		}
	}
	return c.Share * less / eager
}

// same says whether two values have the same JSON: for what came through a log.
func same(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && string(left) == string(right)
}
