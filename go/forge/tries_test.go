package forge

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
)

// A second finalist is a second chance to accept a kernel that gains nothing: each must know of the other, and of those that earlier sessions tried.
func TestFinalistsKnowHowManyAreTried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	tries := map[string][]int{} // by variant
	session := func(candidates int) {
		table := tableFor(t)
		table.confirms = func(f judge.Finalist, verdict card.Verdict) judge.Confirmation {
			tries[f.Variant] = append(tries[f.Variant], f.Tries)
			return judge.Confirmation{Variant: f.Variant, Node: f.Node, Detail: "refused", Decision: judge.NotFaster}
		}
		if _, last := run1(t, configFor(t, path, table, Settings{Candidates: candidates}, reluCard("c-00000001", 0.4))); last.State != StateDone {
			t.Fatalf("it ended with %s, %+v", last.State, last.Error)
		}
	}
	session(10)
	for variant, got := range tries {
		if fmt.Sprint(got) != "[2 2]" {
			t.Errorf("variant %s: %v (expected two finalists that know of each other)", variant, got)
		}
	}
	first := len(tries["v0"]) + len(tries["v1"])
	session(40)
	if more := len(tries["v0"]) + len(tries["v1"]) - first; more == 0 {
		t.Fatal("the larger budget brought no other finalist")
	}
	for variant, got := range tries {
		for i := 2; i < len(got); i++ { // with k new ones of the two best: those two, and the 2 - (2 - k) that were tried and are not among them
			if got[i] <= 2 {
				t.Errorf("variant %s: %v (expected those of the first session to count)", variant, got)
			}
		}
	}
}

// alike judges as if all candidates of a family had one binary.
type alike struct {
	*tableJudge
	first map[string]string // by family: the candidate that was judged
}

func (a alike) Judge(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error) {
	verdict, err := a.tableJudge.Judge(ctx, c, candidate)
	if known, ok := a.first[candidate.Family]; ok {
		verdict.Twin = known
	} else {
		a.first[candidate.Family] = candidate.ID
	}
	return verdict, err
}

// The same code is no second chance: of the candidates of one binary one is a finalist.
func TestOfTwinsOneIsAFinalist(t *testing.T) {
	families := map[string][]string{} // of a variant's finalists
	table := tableFor(t)
	table.confirms = func(f judge.Finalist, verdict card.Verdict) judge.Confirmation {
		families[f.Variant] = append(families[f.Variant], f.Candidate.Family)
		return judge.Confirmation{Variant: f.Variant, Node: f.Node, Detail: "refused", Decision: judge.NotFaster}
	}
	path := filepath.Join(t.TempDir(), "store.db")
	if _, last := run1(t, configFor(t, path, alike{table, map[string]string{}}, Settings{Candidates: 30}, reluCard("c-00000001", 0.4))); last.State != StateDone {
		t.Fatalf("it ended with %s, %+v", last.State, last.Error)
	}
	if len(families) != 2 {
		t.Fatalf("finalists of %v (expected of both variants)", families)
	}
	for variant, got := range families {
		if len(got) == 2 && got[0] == got[1] {
			t.Errorf("variant `%s`: both finalists are of the family `%s`, which is one binary here", variant, got[0])
		}
	}
}
