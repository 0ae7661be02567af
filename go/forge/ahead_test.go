package forge

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// hinted is a judge that keeps what it was told to compile ahead.
type hinted struct {
	*tableJudge
	hints  []string
	missed int // candidates that came without a hint before
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
		if hints {
			config.Facts = propose.Facts{} // the judge is made for them, before the first proposal
		}
		_, last := run1(t, config)
		if last.State != StateDone {
			t.Fatalf("it ended with %s, %+v", last.State, last.Error)
		}
		trees[hints] = treeText(view(t, path).Runs[0])
		if hints && (table.missed > 0 || len(table.hints) < 13) {
			t.Errorf("%d candidates came without a hint, %d hints (expected none, and more hints than candidates)", table.missed, len(table.hints))
		}
	}
	if trees[true] != trees[false] {
		t.Errorf("with hints the tree is\n%s(expected\n%s)", trees[true], trees[false])
	}
}
