package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// Confirm decides about finalists: each is judged again in a fresh worker, then timed against eager in the user's process by the real dispatch
// path, in paired blocks of fresh data, at most at four looks. Search costs play no part. Finalists of one call share the chance of a false
// acceptance.
func (j *Judge) Confirm(ctx context.Context, c *card.Card, finalists []Finalist) ([]Confirmation, error) {
	open, err := j.opened(c)
	if err != nil {
		return nil, err
	}
	var all []Confirmation
	for _, f := range finalists {
		confirmation, err := j.confirm(ctx, c, open, f, len(finalists))
		var failed *failure
		if errors.As(err, &failed) {
			confirmation, err = Confirmation{Variant: f.Variant, Node: f.Node, Detail: failed.Error()}, nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("confirm node %d on variant `%s`: %w", f.Node, f.Variant, err)
		}
		confirmation.Tier = j.config.Tier
		all = append(all, confirmation)
	}
	return all, nil
}

func (j *Judge) confirm(ctx context.Context, c *card.Card, open *opened, f Finalist, finalists int) (Confirmation, error) {
	variant, err := variantOf(c, f.Variant)
	if err != nil {
		return Confirmation{}, err
	}
	compiled, err := j.compile(ctx, f.Candidate)
	if err != nil {
		return Confirmation{}, err
	}
	j.lease.Lock()
	defer j.lease.Unlock()
	var exact bool
	err = twice(func() (err error) {
		exact, err = j.judgeAgain(ctx, c, open, f.Candidate, compiled.Image, variant)
		return err
	})
	if err != nil {
		return Confirmation{}, err
	}
	plan := j.plan(c, variant, f.Candidate, open.prepared.Align[variant.ID])
	plan.Node, plan.Exact = f.Node, exact
	path, err := j.writeImage(compiled.Image)
	if err != nil {
		return Confirmation{}, err
	}
	defer os.Remove(path)
	confirmation := Confirmation{Variant: f.Variant, Node: f.Node, Plan: plan, Image: compiled.Image}
	j.quiet.Lock()
	defer j.quiet.Unlock()
	err = j.sequence(ctx, &confirmation, path, open.seed, finalists)
	return confirmation, err
}

func variantOf(c *card.Card, id string) (card.Variant, error) {
	for _, v := range c.Variants {
		if v.ID == id {
			return v, nil
		}
	}
	return card.Variant{}, fmt.Errorf("card `%s` has no variant `%s`", c.ID, id)
}

// judgeAgain takes a finalist through the correctness gate in a worker of its own. What an earlier process found is not taken on trust.
func (j *Judge) judgeAgain(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte, v card.Variant) (exact bool, err error) {
	t, err := j.begin(ctx, c, open, candidate, image, []card.Variant{v}, true)
	if err != nil {
		return false, err
	}
	if exact, err = t.correct(ctx); err == nil {
		err = j.exactly(exact)
	}
	t.end(ctx, err == nil)
	return exact, err
}

// writeImage puts an image where the user's process finds it, as it will find it in a pack.
func (j *Judge) writeImage(image []byte) (string, error) {
	sum := sha256.Sum256(image)
	path := filepath.Join(j.scratch.Path, hex.EncodeToString(sum[:])+j.target.traits().image)
	if err := os.WriteFile(path, image, 0o600); err != nil {
		return "", card.Fail(card.CodeJudge, compile.ScratchHint, "write an image: %w", err)
	}
	return path, nil
}

// sequence asks for paired blocks until the rule has decided, and fills in what it saw.
func (j *Judge) sequence(ctx context.Context, c *Confirmation, path string, seed int64, finalists int) error {
	var eager, ours, first, second []float64
	for _, look := range looks {
		more := look - len(eager)
		got, slowed, err := j.ask(ctx, c, path, more, look, seed)
		if err != nil {
			return err
		}
		switch got.Status {
		case card.OK:
		case card.WrongValue, card.WrongShape, card.LaunchError, card.Rejected:
			return fail(cmp.Or(got.Gate, GateTiming), got.Status, "in the user's process: %s", got.Detail)
		default:
			return card.Fail(card.CodeReferee, "", "the referee answered the status %q", got.Status)
		}
		c.Rule, c.Plan.Exact = got.Rule, c.Plan.Exact && got.Exact
		if err := j.exactly(c.Plan.Exact); err != nil {
			return err
		}
		if got.Exhaustive != nil { // of the first look
			c.Exhaustive = got.Exhaustive
		}
		if err := got.check(more); err != nil {
			return card.Fail(card.CodeReferee, "", "%w", err)
		}
		eager, ours = append(eager, got.EagerNS...), append(ours, got.OursNS...)
		first, second = append(first, got.AANS[0]...), append(second, got.AANS[1]...)
		decided := j.look(c, eager, ours, first, second, finalists)
		if slowed != "" {
			c.Detail += ", " + slowed
		}
		if decided {
			return nil
		}
	}
	c.Detail = fmt.Sprintf("undecided after %d blocks, so eager stays: %s", c.Samples, c.Detail)
	return nil
}

// mostAsked is how often blocks are asked for again because the device was slowed down under them; then they are taken, since both sides of a
// pair ran under it.
const mostAsked = 3

// ask asks for more blocks. slowed says how many answers were dropped, and under what.
func (j *Judge) ask(ctx context.Context, c *Confirmation, path string, more, look int, seed int64) (got *Confirmed, slowed string, err error) {
	for try := 0; try < mostAsked; try++ {
		before := j.slowed(ctx)
		got, err = j.referee.Confirm(ctx, c.Plan.Card, c.Variant, c.Plan, path, more, freshSeed(seed, c.Plan.ID, look+1000*try))
		if err != nil || got.Status != card.OK {
			return got, slowed, err
		}
		reason := cmp.Or(before, j.slowed(ctx))
		if reason == "" {
			break
		}
		slowed = fmt.Sprintf("%d times measured under `%s`", try+1, reason)
	}
	return got, slowed, nil
}

// slowed asks the worker that waits what slows the device down, if anything does.
func (j *Judge) slowed(ctx context.Context) string {
	if live := j.workers.live; live != nil && j.target.traits().telemetry {
		if telemetry, _, err := live.runner.Telemetry(ctx, runFloor); err == nil {
			return telemetry.Throttled()
		}
	}
	return ""
}

// look fills in what the blocks so far say, and tells whether that is a decision.
func (j *Judge) look(c *Confirmation, eager, ours, first, second []float64, finalists int) bool {
	ratios, control := logRatios(eager, ours), logRatios(first, second)
	c.Samples = len(ratios)
	c.EagerUS, c.OursUS = median(eager)/1e3, median(ours)/1e3
	c.AAHalfWidth = halfWidth(control)
	bar := marginOf(c.EagerUS, c.AAHalfWidth, j.target.traits().marginUS)
	end, low, high := decide(ratios, bar, finalists)
	c.Ratio, c.Low, c.High = math.Exp(median(ratios)), math.Exp(low), math.Exp(high)
	c.Detail = fmt.Sprintf("%.3f times eager's speed, at least %.3f (margin %.3f, %d blocks, eager against eager +-%.2f %%)",
		c.Ratio, c.Low, 1+bar.accept, c.Samples, 100*c.AAHalfWidth)
	for _, side := range [][]float64{control, logRatios(second, first)} {
		if moved, _, _ := decide(side, bar, finalists); moved == accepted && !j.off(GateTiming) {
			c.Detail = "eager against eager would have been accepted, so this machine cannot tell: " + c.Detail
			return false // more blocks may quieten it; if not, eager stays
		}
	}
	if j.off(GateTiming) {
		end = accepted
	}
	c.Accepted = end == accepted
	if end == rejected {
		c.Detail = "not faster than eager by the margin: " + c.Detail
	}
	return end != undecided
}

// leastAA is the number of pairs of eager against eager that each answer must have: below it there is no 95 % interval.
const leastAA = 6

func (c *Confirmed) check(blocks int) error {
	if len(c.EagerNS) != blocks || len(c.OursNS) != blocks || len(c.AANS[0]) != len(c.AANS[1]) || len(c.AANS[0]) < min(blocks, leastAA) {
		return fmt.Errorf("the referee answered %d and %d times, and %d and %d of eager against eager (expected %d each)",
			len(c.EagerNS), len(c.OursNS), len(c.AANS[0]), len(c.AANS[1]), blocks)
	}
	for _, list := range [][]float64{c.EagerNS, c.OursNS, c.AANS[0], c.AANS[1]} {
		if !positive(list) {
			return fmt.Errorf("the referee answered times that are not above 0: %v", list)
		}
	}
	return nil
}

// freshSeed gives data that the search has not used, another for each look.
func freshSeed(seed int64, plan string, look int) int64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "confirm %d %s %d", seed, plan, look)
	return int64(sum.Sum64() >> 1)
}
