package judge

import (
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// What every author is shown as a right candidate passes every gate, as it is.
func TestTheExampleOfABriefPassesEveryGate(t *testing.T) {
	b := real(t)
	b.open(t)
	shown := brief.Of(propose.Brief{Card: b.card, Facts: b.judge.Facts()}, nil).Launch.Example
	verdict, err := b.judge.Judge(t.Context(), b.card, card.Candidate{ID: card.CandidateID(shown.Source, shown.Spec), Author: "person", Source: shown.Source, Spec: shown.Spec})
	if err != nil || verdict.Status != card.OK {
		t.Errorf("found %+v, %v", verdict, err)
	}
}
