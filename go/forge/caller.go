package forge

// caller.go owns an author that is a function in the user's process: it is asked by a task, as the referee is, and never while a candidate is timed.

import (
	"context"
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// Caller makes the author that the user's process knows by a name. One that raises is asked no more; a reply that is no candidate goes back to it.
func Caller(name string) Author {
	return Author{Name: name, Make: func(l *Ledger) (propose.Proposer, error) { return &caller{work: l.work, name: name}, nil }}
}

type caller struct {
	work   *work
	name   string
	raised string // the exception with which it ended; whoever holds the quiet owns it
}

// proposed is the answer to a task `propose`.
type proposed struct {
	Candidate *struct {
		Source string          `json:"source"`
		Spec   json.RawMessage `json:"spec"`
		Change string          `json:"change"`
	} `json:"candidate"` // null: it has none below this parent
	Raised string `json:"raised"` // the exception, in words
}

// Propose implements propose.Proposer.
func (c *caller) Propose(ctx context.Context, b propose.Brief) (card.Candidate, error) {
	select {
	case c.work.quiet <- struct{}{}: // the user's code would disturb a clock
	case <-ctx.Done():
		return card.Candidate{}, ctx.Err()
	}
	defer func() { <-c.work.quiet }()
	if c.raised != "" { // a call that flew already
		return card.Candidate{}, card.Fail(card.CodePropose, "", "it raised %s", c.raised)
	}
	reply, err := ask[proposed](ctx, c.work.queue, "propose", map[string]any{"author": c.name, "brief": brief.Of(b, nil)})
	switch {
	case err != nil:
		return card.Candidate{}, err
	case reply.Raised != "":
		c.raised = reply.Raised
		return card.Candidate{}, card.Fail(card.CodePropose, "", "it raised %s", reply.Raised)
	case reply.Candidate == nil:
		return card.Candidate{}, propose.ErrExhausted
	}
	candidate := card.Candidate{Author: c.name, Source: reply.Candidate.Source, Change: reply.Candidate.Change}
	if len(candidate.Source) > MaxSource {
		return card.Candidate{}, &propose.Unusable{Reason: "its source is too large"}
	}
	if err := card.Decode(reply.Candidate.Spec, &candidate.Spec); err != nil {
		return card.Candidate{}, &propose.Unusable{Reason: "its spec: " + err.Error()}
	}
	candidate.ID = card.CandidateID(candidate.Source, candidate.Spec)
	return candidate, nil
}
