package forge

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/store"
)

// session runs a study of three cards once. measured is called before each measurement of the model is answered.
func session(t *testing.T, path string, settings Settings, effect map[string]float64, measured func(s *Study, number int)) (asked int, last Poll) {
	t.Helper()
	settings.Candidates, settings.Scratch = 12, t.TempDir()
	s, err := Start(configFor(t, path, tableFor(t), settings, reluCard("c-00000001", 0.2), reluCard("c-00000002", 0.3), reluCard("c-00000003", 0.4)))
	if err != nil {
		t.Fatal(err)
	}
	answer := func(body json.RawMessage) (any, error) {
		var task struct {
			Plans []Loaded `json:"plans"`
		}
		if err := json.Unmarshal(body, &task); err != nil {
			return nil, err
		}
		asked++
		if measured != nil {
			measured(s, asked)
		}
		ratio, on := 1.0, []string{}
		for _, plan := range task.Plans {
			if !slices.Contains(on, plan.Plan.Card) {
				on = append(on, plan.Plan.Card)
				ratio *= effect[plan.Plan.Card]
			}
		}
		return modelTimes(ratio), nil
	}
	_, last = drive(t, s, map[string]func(json.RawMessage) (any, error){"confirm_model": answer})
	return asked, last
}

func servedCards(v *StudyView) (served []string) {
	for _, run := range v.Runs {
		if len(run.Winners) > 0 {
			served = append(served, run.Card)
		}
	}
	return served
}

// However a study is stopped while the model is measured, its resumed form serves what an undisturbed one serves: nothing that failed, and
// everything that helps.
func TestStoppedModelMeasurementDecidesNothing(t *testing.T) {
	effect := map[string]float64{"c-00000001": 0.9, "c-00000002": 1.2, "c-00000003": 0.8}
	undisturbed := filepath.Join(t.TempDir(), "store.db")
	all, _ := session(t, undisturbed, Settings{}, effect, nil)
	want := servedCards(view(t, undisturbed))
	if !slices.Equal(want, []string{"c-00000002"}) || all != 5 {
		t.Fatalf("undisturbed: serves %v after %d measurements (expected the one that helps, after all, three alone and it again)", want, all)
	}
	for at := 1; at <= all; at++ {
		for _, now := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d, now %v", at, now), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store.db")
				session(t, path, Settings{}, effect, func(s *Study, number int) {
					if number == at {
						s.Cancel(now)
					}
				})
				session(t, path, Settings{}, effect, nil)
				if served := servedCards(view(t, path)); !slices.Equal(served, want) {
					t.Errorf("serves %v (expected %v)", served, want)
				}
			})
		}
	}
}

// When the seconds are spent, winners that are not surely good together are left out rather than measured one by one.
func TestModelMeasurementsEndWithTheSeconds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	w := &work{settings: Settings{Seconds: 5}, past: &history{}}
	if w.outOfTime() {
		t.Error("out of time before anything was spent")
	}
	w.past.spent.Seconds = 5
	if !w.outOfTime() {
		t.Error("time is left after all of it was spent")
	}
	effect := map[string]float64{"c-00000001": 0.9, "c-00000002": 1.2, "c-00000003": 0.8}
	if asked, _ := session(t, path, Settings{Seconds: 1000}, effect, nil); asked != 5 {
		t.Errorf("%d measurements with time left (expected 5)", asked)
	}
}

// An approval that comes while the model is measured, long after the last candidate, reaches the log and the pack.
func TestApprovalDuringTheLastMeasurementCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	effect := map[string]float64{"c-00000001": 1.2, "c-00000002": 1.2, "c-00000003": 1.2}
	session(t, path, Settings{Review: true}, effect, func(*Study, int) {
		other, err := store.OpenExisting(path, store.PatienceCall)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		v, err := View(other, "s-test")
		if err != nil {
			t.Fatal(err)
		}
		if queued, err := Approve(other, "s-test", v.Waiting, "someone"); err != nil || !queued {
			t.Errorf("approve beside the running study: queued %v, %v", queued, err)
		}
	})
	if v := view(t, path); len(v.Waiting) != 0 || len(v.Approved) != 6 {
		t.Errorf("approved %v, waiting %v (expected all 6 approved)", v.Approved, v.Waiting)
	}
}

// Whether plans are proposed is the wish of whoever writes the pack, and of the newest session, not of the session that found them.
func TestReviewIsDecidedWhenThePackIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	effect := map[string]float64{"c-00000001": 1.2, "c-00000002": 1.2, "c-00000003": 1.2}
	session(t, path, Settings{}, effect, nil)
	checkPack(t, path, 6, "approved")
	session(t, path, Settings{Review: true}, effect, nil)
	checkPack(t, path, 6, "proposed")
	session(t, path, Settings{}, effect, nil)
	checkPack(t, path, 6, "approved")
}
