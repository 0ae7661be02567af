package forge

import (
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
