package judge

import (
	"fmt"
	"math"

	"github.com/kernelforge/kernelforge/go/card"
)

// One look of the decision rule at the blocks of a finalist so far.

// Decision is what a confirmation came to. Only the first makes a winner; the last means that this machine could not tell.
type Decision string

// The three decisions.
const (
	Faster    Decision = "faster"
	NotFaster Decision = "not_faster"
	Ambiguous Decision = "ambiguous"
)

// evidence is what the blocks of a finalist have said so far, nanoseconds a call; dropped blocks are counted and forgotten.
type evidence struct {
	eager, ours, again  []float64
	warmEager, warmOurs []float64
	dropped             int
	why                 string // the last block was dropped
}

// add takes an answer of the referee that has been checked.
func (e *evidence) add(got *Confirmed) {
	for i := range got.EagerNS {
		if len(got.Readings) > 0 {
			if why := disturbance(got.Readings[i].telemetry(), got.Readings[i+1].telemetry()); why != "" {
				e.dropped, e.why = e.dropped+1, why
				continue
			}
		}
		e.eager, e.ours, e.again = append(e.eager, got.EagerNS[i]), append(e.ours, got.OursNS[i]), append(e.again, got.AgainNS[i])
	}
	e.warmEager, e.warmOurs = append(e.warmEager, got.Warm.EagerNS...), append(e.warmOurs, got.Warm.OursNS...)
}

// look fills in what the blocks say, and tells whether that is a decision. tries: finalists that share the chance of a false acceptance.
// Where it is none, more blocks may help: a device cools down, a machine quietens.
func (e *evidence) look(c *Confirmation, marginUS float64, tries int) (done bool) {
	c.Samples, c.Dropped, c.Decision, c.Accepted = len(e.eager), e.dropped, Ambiguous, false
	if tooManyDropped(e.dropped, len(e.eager)) || len(e.eager) < leastAA {
		c.Detail = fmt.Sprintf("%d of %d blocks were measured under %s and dropped, so this device cannot tell", e.dropped, e.dropped+len(e.eager), e.why)
		return false
	}
	ratios, control := logRatios(e.eager, e.ours), logRatios(e.eager, e.again)
	c.EagerUS, c.OursUS = median(e.eager)/1e3, median(e.ours)/1e3
	c.AAHalfWidth = halfWidth(control)
	bar := marginOf(c.EagerUS, c.AAHalfWidth, marginUS)
	end, low, high := decide(ratios, bar, tries)
	c.Ratio, c.Low, c.High, c.Margin = math.Exp(median(ratios)), bounded(low), bounded(high), bar.accept
	c.Detail = fmt.Sprintf("at least %.3f times eager's speed (median %.3f, margin %.3f, %d blocks, eager against eager +-%.2f %%)",
		c.Low, c.Ratio, 1+bar.accept, c.Samples, 100*c.AAHalfWidth)
	if e.dropped > 0 {
		c.Detail += fmt.Sprintf(", %d blocks under %s dropped", e.dropped, e.why)
	}
	for _, side := range [][]float64{control, logRatios(e.again, e.eager)} {
		if moved, _, _ := decide(side, bar, 1); moved == accepted {
			c.Detail = "eager against eager would have been accepted, so this machine cannot tell: " + c.Detail
			return false
		}
	}
	if len(e.warmEager) > 0 {
		c.WarmRatio = math.Exp(median(logRatios(e.warmEager, e.warmOurs)))
		if end == accepted && c.WarmRatio < 1-bar.accept {
			c.Decision = NotFaster
			c.Detail = fmt.Sprintf("slower than eager where its data is in the L2 cache already (%.3f): %s", c.WarmRatio, c.Detail)
			return true
		}
	}
	switch end {
	case accepted:
		c.Decision, c.Accepted = Faster, true
	case rejected:
		c.Decision, c.Detail = NotFaster, "not faster than eager by the margin: "+c.Detail
	}
	return end != undecided
}

// bounded is the ratio of a bound's logarithm: too few blocks have no bound, and JSON has no infinity.
func bounded(log float64) float64 {
	const none = 20 // a factor of 5e8
	return math.Exp(min(max(log, -none), none))
}

// leastAA is the number of blocks below which there is no 95 % interval.
const leastAA = 6

func (c *Confirmed) check(blocks int) error {
	lists := [][]float64{c.EagerNS, c.OursNS, c.AgainNS}
	for _, list := range lists {
		if len(list) != blocks {
			return fmt.Errorf("the referee answered %d times of eager, %d of the plan and %d of eager against eager (expected %d each)",
				len(c.EagerNS), len(c.OursNS), len(c.AgainNS), blocks)
		}
	}
	if len(c.Warm.EagerNS) != len(c.Warm.OursNS) {
		return fmt.Errorf("the referee answered %d and %d times on warm data (expected pairs)", len(c.Warm.EagerNS), len(c.Warm.OursNS))
	}
	if n := len(c.Readings); n != 0 && n != blocks+1 {
		return fmt.Errorf("the referee answered %d readings of the device (expected none, or %d: before the first block and after each)", n, blocks+1)
	}
	for _, list := range append(lists, c.Warm.EagerNS, c.Warm.OursNS) {
		if !positive(list) {
			return fmt.Errorf("the referee answered times that are not above 0: %v", list)
		}
	}
	return nil
}

// Weigh is the decision rule alone, on the blocks of one finalist so far: what a confirmation on this target says of them, and whether it would
// stop there. A confirmation that has not stopped at the last look is ambiguous.
func Weigh(blocks Confirmed, target string, tries int) (c Confirmation, done bool, err error) {
	marginUS, ok := map[string]float64{"host": hostMarginUS, "cuda": deviceMarginUS}[target]
	if !ok {
		return c, false, card.Fail(card.CodeRequest, "", "weigh blocks of the target %q (expected `host` or `cuda`)", target)
	}
	if err := blocks.check(len(blocks.EagerNS)); err != nil {
		return c, false, card.Fail(card.CodeRequest, "", "weigh blocks: %w", err)
	}
	var e evidence
	e.add(&blocks)
	done = e.look(&c, marginUS, tries)
	return c, done, nil
}

// Looks are the numbers of blocks at which a confirmation may stop.
func Looks() []int { return append([]int(nil), looks[:]...) }
