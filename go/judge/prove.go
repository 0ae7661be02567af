package judge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

// Proof is how a candidate ended that went through every gate, a finalist's too.
type Proof struct {
	card.Verdict
	Faster bool // it would have been accepted: the confirmation found it faster than eager on every variant
}

// Prove takes a candidate all the way: through the gates of a search, then on each variant through a finalist's, in a fresh worker and in the
// user's process. That it is not faster than eager fails nothing here, it is only told: a candidate is right or wrong before it is quick.
func (j *Judge) Prove(ctx context.Context, c *card.Card, candidate card.Candidate) (Proof, error) {
	began := time.Now()
	verdict, err := j.Judge(ctx, c, candidate)
	if err != nil || verdict.Status != card.OK {
		return Proof{Verdict: verdict}, err
	}
	open, err := j.opened(c)
	if err != nil {
		return Proof{}, err
	}
	proof := Proof{Verdict: verdict, Faster: true}
	for _, v := range c.Variants {
		confirmed, err := j.confirm(ctx, c, open, Finalist{Candidate: candidate, Variant: v.ID}, 1)
		var failed *failure
		switch {
		case errors.As(err, &failed):
			proof = Proof{Verdict: failed.verdict()}
		case ctx.Err() != nil:
			return Proof{}, ctx.Err()
		case err != nil:
			return Proof{}, fmt.Errorf("prove candidate `%s`: %w", candidate.ID, err)
		default:
			proof.Faster = proof.Faster && confirmed.Accepted
			proof.Detail = confirmed.Detail
		}
		if failed != nil {
			break
		}
	}
	proof.Seconds = time.Since(began).Seconds()
	return proof, nil
}
