package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

// Proof is how a candidate ended that went through every gate, a finalist's too.
type Proof struct {
	card.Verdict
	Faster bool // the confirmation accepted it on every variant; false where it was not asked about its speed
}

// proofBlocks is how often a candidate is timed in the user's process that is not asked about its speed: what it does under the clock counts, the
// times do not.
const proofBlocks = 8

// Prove takes a candidate all the way: through the gates of a search, then on each variant through a finalist's, in a fresh worker and in the
// user's process. speed: also through the decision whether it is faster than eager, which fails nothing here but is told.
func (j *Judge) Prove(ctx context.Context, c *card.Card, candidate card.Candidate, speed bool) (Proof, error) {
	began := time.Now()
	verdict, err := j.Judge(ctx, c, candidate)
	if err != nil || verdict.Status != card.OK {
		return Proof{Verdict: verdict}, err
	}
	proof := Proof{Verdict: verdict, Faster: speed}
	for _, v := range c.Variants {
		if speed {
			err = j.decide(ctx, c, candidate, v, &proof)
		} else {
			err = j.serve(ctx, c, candidate, v)
		}
		if err != nil {
			break
		}
	}
	var failed *failure
	if errors.As(err, &failed) {
		proof, err = Proof{Verdict: failed.verdict()}, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return Proof{}, ctx.Err()
		}
		return Proof{}, fmt.Errorf("prove candidate `%s`: %w", candidate.ID, err)
	}
	proof.Seconds = time.Since(began).Seconds()
	return proof, nil
}

// decide has one variant confirmed as a finalist's.
func (j *Judge) decide(ctx context.Context, c *card.Card, candidate card.Candidate, v card.Variant, proof *Proof) error {
	open, err := j.opened(c)
	if err != nil {
		return err
	}
	confirmed, err := j.confirm(ctx, c, open, Finalist{Candidate: candidate, Variant: v.ID})
	proof.Faster, proof.Detail = proof.Faster && confirmed.Accepted, confirmed.Detail
	return err
}

// serve takes one variant through a finalist's gates, the user's process included, without asking about its speed.
func (j *Judge) serve(ctx context.Context, c *card.Card, candidate card.Candidate, v card.Variant) error {
	open, err := j.opened(c)
	if err != nil {
		return err
	}
	compiled, err := j.compile(ctx, candidate)
	if err != nil {
		return err
	}
	j.lease.Lock()
	defer j.lease.Unlock()
	if _, _, err := j.finalist(ctx, c, open, candidate, compiled.Image, v); err != nil {
		return err
	}
	path, err := j.writeImage(compiled.Image)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	plan := j.plan(c, v, candidate, open.prepared.Align[v.ID])
	got, err := j.referee.Confirm(ctx, c.ID, v.ID, plan, path, proofBlocks, freshSeed(open.seed, plan.ID, 0))
	switch {
	case err != nil:
		return err
	case got.Status == card.OK:
		return nil
	}
	return fail(GateTiming, got.Status, "in the user's process: %s", got.Detail)
}

// Policy says why a target's first gate refuses a candidate, or gives nil.
func Policy(target string, candidate card.Candidate) error {
	if target == "cuda" {
		return cudaRules.check(candidate)
	}
	return hostRules.check(candidate)
}
