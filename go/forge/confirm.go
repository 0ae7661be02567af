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

// finalists are, for each variant, the nodes with the least search costs below 1 that no confirmation has seen yet: the search's timing may be
// across processes, so only a confirmation in the user's process makes a winner.
func (r *run) finalists() [][]judge.Finalist {
	var all [][]judge.Finalist
	for _, given := range r.card.Variants {
		variant := r.names.toStored[given.ID]
		var best []judge.Finalist
		costs := map[int]float64{}
		for id := 1; id < len(r.nodes); id++ {
			cost, ok := variantCost(r.nodes[id].Verdict, variant)
			if !ok || cost >= 1 {
				continue
			}
			costs[id] = cost
			best = append(best, judge.Finalist{Node: id, Candidate: r.nodes[id].Candidate, Variant: variant})
		}
		slices.SortStableFunc(best, func(a, b judge.Finalist) int { return cmp.Compare(costs[a.Node], costs[b.Node]) })
		best = slices.DeleteFunc(best[:min(len(best), finalistsEach)], func(f judge.Finalist) bool {
			_, seen := r.history.confirmed[confirmKey(variant, f.Node)]
			return seen
		})
		if len(best) > 0 {
			all = append(all, best)
		}
	}
	return all
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

// confirm has the finalists of each variant confirmed and keeps the winners. False: the user stopped it; a resume goes on with the rest.
func (r *run) confirm(ctx context.Context) (done bool, err error) {
	for _, finalists := range r.finalists() {
		if r.finishing() {
			return false, nil
		}
		if err := r.open(ctx); err != nil {
			return false, err
		}
		theJudge, err := r.judge()
		if err != nil {
			return false, err
		}
		began := r.now()
		confirmations, err := theJudge.Confirm(ctx, r.card, r.names.given(finalists))
		if stopped := cancelled(ctx); stopped != nil {
			return false, stopped
		}
		if err != nil {
			return false, judgeError(err, "confirm finalists of `%s`", r.card.ID)
		}
		if err := r.keep(confirmations, r.now().Sub(began).Seconds()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// keep logs what was confirmed, and a plan for each variant that has a better winner than before.
func (r *run) keep(confirmations []judge.Confirmation, seconds float64) error {
	entries := []store.Entry{{Kind: store.KindSpend, Data: spendEvent{What: "confirm", Seconds: seconds}}}
	best := map[string]judge.Confirmation{}
	for _, c := range confirmations {
		if stored, ok := r.names.toStored[c.Variant]; ok {
			c.Variant, c.Plan.Variant = stored, stored
		}
		if c.Node < 1 || c.Node >= len(r.nodes) {
			return card.Fail(card.CodeJudge, "", "confirm finalists of `%s`: the judge named node %d (expected 1 to %d)", r.card.ID, c.Node, len(r.nodes)-1)
		}
		entries = append(entries, store.Entry{Kind: store.KindSamples, Data: samplesEvent{Variant: c.Variant, Node: c.Node, Accepted: c.Accepted,
			Ratio: c.Ratio, Low: c.Low, High: c.High, Samples: c.Samples, EagerUS: c.EagerUS, KernelforgeUS: c.OursUS, AAHalfWidth: c.AAHalfWidth, Detail: c.Detail}})
		if c.Accepted && c.Low > best[c.Variant].Low {
			best[c.Variant] = c
		}
	}
	for variant, c := range best {
		if before, ok := r.history.winners[variant]; ok && before.Plan.Evidence.Low >= c.Low {
			continue
		}
		winner, err := r.winner(c)
		if err != nil {
			return err
		}
		entries = append(entries, store.Entry{Kind: store.KindPlan, Data: planEvent{Plan: winner, Served: true}})
	}
	return r.append(r.card.ID, entries...)
}

// winner keeps code and source of a confirmed candidate, and makes the plan of a pack from them.
func (r *run) winner(c judge.Confirmation) (Winner, error) {
	candidate := r.nodes[c.Node].Candidate
	w := Winner{Plan: c.Plan, Evidence: Evidence{Ratio: c.Ratio, Low: c.Low, High: c.High, Samples: c.Samples, EagerUS: c.EagerUS,
		KernelforgeUS: c.OursUS, Rule: 2, Tier: r.settings.SandboxTier}}
	w.ID, w.Card, w.Variant, w.Node = planID(r.card.ID, c.Variant, candidate.ID, c.Image), r.card.ID, c.Variant, c.Node
	if w.Exact {
		w.Evidence.Rule = 1
	}
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

// winners gives all plans that are served as far as the log knows, by run and variant in the order of the cards, with the run's gain.
func (h *history) winnersOf(c *card.Card) []Winner {
	var winners []Winner
	past := h.runs[c.ID]
	if past == nil {
		return nil
	}
	for _, v := range c.Variants {
		if plan, ok := past.winners[v.ID]; ok && plan.Served {
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
