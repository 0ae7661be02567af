package forge

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// moody is an author that does all that authors do: good candidates, ones that it mends and does not mend, replies without one, twins, and none.
func moody() *writer {
	return &writer{answer: func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		switch chance := int(brief.Seed % 7); {
		case brief.Repair != nil && chance < 4:
			return gridCandidate(gridFamilies[chance%3], call%gridWide, call/gridWide%gridWide, "mended"), nil
		case brief.Repair != nil && chance < 5:
			return card.Candidate{}, &propose.Unusable{Reason: "still no block of code", Reply: "r-2"}
		case chance == 0:
			return card.Candidate{}, &propose.Unusable{Reason: "no block of code", Reply: "r-1"}
		case chance == 1:
			return card.Candidate{}, propose.ErrExhausted
		case chance < 5:
			return gridCandidate("broken", call, 0, "draft"), nil
		}
		return gridCandidate(gridFamilies[call%3], call%gridWide, call/gridWide%gridWide, "idea"), nil
	}}
}

// again runs a stored study again, as study `s-again` of the same store.
func again(t *testing.T, path string, table *tableJudge, settings Settings, cards ...*card.Card) (*StudyView, *Study) {
	t.Helper()
	config := configFor(t, path, table, settings, cards...)
	recording, err := Record(config.Store, "s-test")
	if err != nil {
		t.Fatal(err)
	}
	config.Recording, config.Study.ID, config.Proposer = recording, "s-again", nil // nobody can be asked
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, last := drive(t, s, nil); last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	opened, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	v, err := View(opened, "s-again")
	if err != nil {
		t.Fatal(err)
	}
	return v, s
}

// With the recorded costs a recording gives the recorded tree, steps of nodes included, and asks nobody.
func TestARecordingGivesTheSameTree(t *testing.T) {
	for name, inFlight := range map[string]int{"one call at once": 1, "four calls at once": 4} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			settings := Settings{Candidates: 40, Seed: 4, InFlight: inFlight}
			cards := []*card.Card{reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)}
			if _, last := run1(t, contested(configFor(t, path, tableFor(t), settings, cards...), moody())); last.Error != nil {
				t.Fatalf("it ended with %+v", last)
			}
			first := view(t, path)
			table := tableFor(t)
			second, _ := again(t, path, table, settings, cards...)
			repairs, mended := 0, 0
			for i, run := range first.Runs {
				if diff := cmp.Diff(treeText(run), treeText(second.Runs[i])); diff != "" {
					t.Errorf("run %s (-recorded +again):\n%s", run.Card, diff)
				}
				for n := range run.Nodes {
					if a, b := run.Nodes[n], second.Runs[i].Nodes[n]; a.Repairs != b.Repairs || a.Unfinished != b.Unfinished {
						t.Errorf("node %d is %+v (recorded %+v)", n, b, a)
					}
				}
				repairs += run.Sources[1].Repairs
				mended += run.Sources[1].Mended
			}
			if repairs < 5 || mended == 0 {
				t.Errorf("the recorded author did too little for a test: %d repairs, %d mended", repairs, mended)
			}
		})
	}
}

// A recording that was stopped half way goes on where it stopped.
func TestARecordingResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	settings := Settings{Candidates: 30, Seed: 4}
	run1(t, contested(configFor(t, path, tableFor(t), settings, reluCard("c-00000001", 0.5)), moody()))
	want := treeText(view(t, path).Runs[0])
	for _, stop := range []int{1, 7, 15} {
		table := tableFor(t)
		table.before = func(card.Candidate) {
			if len(table.judged) == stop {
				panic("the process ends here")
			}
		}
		config := configFor(t, path, table, settings, reluCard("c-00000001", 0.5))
		recording, err := Record(config.Store, "s-test")
		if err != nil {
			t.Fatal(err)
		}
		config.Recording, config.Study.ID, config.Proposer = recording, "s-again", nil
		if s, err := Start(config); err != nil {
			t.Fatal(err)
		} else if _, last := drive(t, s, nil); last.State != StateFailed {
			t.Fatalf("it ended with %+v (expected the panic)", last)
		}
	}
	v, _ := again(t, path, tableFor(t), settings, reluCard("c-00000001", 0.5))
	if diff := cmp.Diff(want, treeText(v.Runs[0])); diff != "" {
		t.Errorf("-recorded +again:\n%s", diff)
	}
}

func TestARecordingOfNothingIsNamed(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Record(s, "s-none"); card.AsError(err).Code != card.CodeNotFound || errors.Is(err, store.ErrLost) {
		t.Errorf("found %v", err)
	}
}
