package given

import (
	"errors"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

func TestEachIsProposedOnceAndOnlyBelowEager(t *testing.T) {
	seen := map[string]bool{}
	brief := propose.Brief{Seen: func(id string) bool { return seen[id] }}
	all := Candidates{{ID: "k-1"}, {ID: "k-2"}}
	for _, want := range all {
		got, err := all.Propose(t.Context(), brief)
		if err != nil || got.ID != want.ID {
			t.Fatalf("found %q, %v (expected %q)", got.ID, err, want.ID)
		}
		seen[got.ID] = true
	}
	if _, err := all.Propose(t.Context(), brief); !errors.Is(err, propose.ErrExhausted) {
		t.Errorf("after the last: %v", err)
	}
	clear(seen)
	brief.Lineage = []propose.Attempt{{Candidate: card.Candidate{ID: "k-1"}}}
	if _, err := all.Propose(t.Context(), brief); !errors.Is(err, propose.ErrExhausted) {
		t.Errorf("below another node: %v", err)
	}
}
