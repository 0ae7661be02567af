package forge

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// knowing is a judge that has opened a device.
type knowing struct{ *tableJudge }

func (knowing) Facts() propose.Facts {
	return propose.Facts{Target: "cuda", Arch: "sm_90a", SMCount: 132}
}

// told is a proposer that keeps what it is told of the device.
type told struct {
	grid
	seen *[]propose.Facts
}

func (p told) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	*p.seen = append(*p.seen, brief.Facts)
	return p.grid.Propose(ctx, brief)
}

// What a device is only its judge knows, which is made at the first proposal: no brief goes out before.
func TestFactsOfADeviceComeFromItsJudge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	config := configFor(t, path, knowing{tableFor(t)}, Settings{Candidates: 6, Scratch: t.TempDir()}, reluCard("c-00000001", 0.5))
	var seen []propose.Facts
	config.Facts, config.Proposer = propose.Facts{}, told{seen: &seen}
	_, last := run1(t, config)
	if last.State != StateDone || len(seen) < 6 {
		t.Fatalf("it ended with %s, %+v after %d briefs", last.State, last.Error, len(seen))
	}
	for _, facts := range seen {
		if facts.Arch != "sm_90a" || facts.SMCount != 132 {
			t.Fatalf("a brief with %+v", facts)
		}
	}
}
