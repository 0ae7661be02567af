package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// Confirm decides about finalists: each is judged again in a fresh worker, then timed against eager in the user's process by the real dispatch
// path, in paired blocks of fresh data, at most at four looks. Search costs play no part. All finalists that are tried for a variant share the
// chance of a false acceptance.
func (j *Judge) Confirm(ctx context.Context, c *card.Card, finalists []Finalist) ([]Confirmation, error) {
	open, err := j.opened(c)
	if err != nil {
		return nil, err
	}
	var all []Confirmation
	for _, f := range finalists {
		confirmation, err := j.confirm(ctx, c, open, f)
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

func (j *Judge) confirm(ctx context.Context, c *card.Card, open *opened, f Finalist) (Confirmation, error) {
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
	exact, sanitized, err := j.finalist(ctx, c, open, f.Candidate, compiled.Image, variant)
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
	defer j.hush(ctx)()
	if err = j.sequence(ctx, &confirmation, path, open.seed, f.Tries); err == nil && sanitized != "" {
		confirmation.Detail += "; " + sanitized
	}
	return confirmation, err
}

// finalist takes one variant of a candidate through the gates of a finalist that need no user's process. sanitized: what the tools had to say, in words.
// Under the lease.
func (j *Judge) finalist(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte, v card.Variant) (exact bool, sanitized string, err error) {
	tools := j.underSanitizerOf(ctx, c, open, candidate, image)
	if tools != nil {
		defer tools.kill()
	}
	err = twice(func() (err error) {
		exact, err = j.judgeAgain(ctx, c, open, candidate, image, v)
		return err
	})
	if err == nil {
		sanitized, err = j.sanitize(ctx, c, open, candidate, tools)
	}
	return exact, sanitized, err
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
func (j *Judge) sequence(ctx context.Context, c *Confirmation, path string, seed int64, tries int) error {
	var seen evidence
	asked := 0
	for _, look := range looks {
		got, err := j.referee.Confirm(ctx, c.Plan.Card, c.Variant, c.Plan, path, look-asked, freshSeed(seed, c.Plan.ID, look))
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
		c.Plan.Exact = c.Plan.Exact && got.Exact
		if err := j.exactly(c.Plan.Exact); err != nil {
			return err
		}
		if got.Exhaustive != nil { // of the first look
			c.Exhaustive = got.Exhaustive
		}
		if err := got.check(look - asked); err != nil {
			return card.Fail(card.CodeReferee, "", "%w", err)
		}
		asked, c.Rule, c.PoolBytes = look, got.Rule, got.PoolBytes
		seen.add(got)
		done := seen.look(c, j.target.traits().marginUS, tries)
		if j.off(GateTiming) {
			c.Accepted, c.Decision, done = true, Faster, true
		}
		if done {
			return nil
		}
	}
	c.Detail = fmt.Sprintf("undecided after %d blocks, so eager stays: %s", asked, c.Detail)
	return nil
}

// freshSeed gives data that the search has not used, another for each look.
func freshSeed(seed int64, plan string, look int) int64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "confirm %d %s %d", seed, plan, look)
	return int64(sum.Sum64() >> 1)
}
