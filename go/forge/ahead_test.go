package forge

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// hinted is a judge that keeps what it was told to compile ahead.
type hinted struct {
	*tableJudge
	hints  []string
	before int // hints that there were when the candidate before had its turn
	missed int // candidates that came without a hint before
	late   int // candidates whose hint came at their turn, and not at that of the one before
}

// unhurried is a proposer that is not done when the flight after it is asked for.
type unhurried struct{ propose.Proposer }

func (u unhurried) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	time.Sleep(2 * time.Millisecond)
	return u.Proposer.Propose(ctx, brief)
}

func (h *hinted) Ahead(_ context.Context, candidate card.Candidate) {
	h.hints = append(h.hints, candidate.ID)
}

func (*hinted) Facts() propose.Facts { return propose.Facts{Target: "cuda"} }

func (h *hinted) Judge(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error) {
	at := slices.Index(h.hints, candidate.ID)
	if at < 0 {
		h.missed++
	}
	if at >= h.before {
		h.late++
	}
	h.before = len(h.hints)
	return h.tableJudge.Judge(ctx, c, candidate)
}

// Hints change no tree, and side by side most candidates are told of before their turn: not only at it.
func TestCompilingAheadChangesNothingButTheTime(t *testing.T) {
	trees := map[bool]string{}
	for _, hints := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "store.db")
		table := &hinted{tableJudge: tableFor(t)}
		var judge Judge = table.tableJudge
		if hints {
			judge = table
		}
		config := configFor(t, path, judge, Settings{Seed: 5, Candidates: 12, Width: 2, Scratch: t.TempDir()}, reluCard("c-00000001", 0.5))
		config.Proposer = unhurried{config.Proposer}
		if hints {
			config.Facts = propose.Facts{} // the judge is made for them, before the first proposal
		}
		_, last := run1(t, config)
		if last.State != StateDone {
			t.Fatalf("it ended with %s, %+v", last.State, last.Error)
		}
		trees[hints] = treeText(view(t, path).Runs[0])
		if hints && (table.missed > 0 || table.late > 3 || len(table.hints) < 13) {
			t.Errorf("%d of 12 candidates came without a hint, %d with a late one; %d hints (expected none, few, and more hints than candidates)", table.missed, table.late, len(table.hints))
		}
	}
	if trees[true] != trees[false] {
		t.Errorf("with hints the tree is\n%s(expected\n%s)", trees[true], trees[false])
	}
}
