package forge

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// freshStudy runs a study of two cards whose winners fresh processes then serve. ratio: of a plan of this card in this process; 0: it crashed there.
func freshStudy(t *testing.T, path string, settings Settings, ratio func(cardID string, process int) float64) (asked []int, v *StudyView) {
	t.Helper()
	settings.Candidates, settings.Scratch = 12, t.TempDir()
	s, err := Start(configFor(t, path, tableFor(t), settings, reluCard("c-00000001", 0.3), reluCard("c-00000002", 0.4)))
	if err != nil {
		t.Fatal(err)
	}
	answer := func(body json.RawMessage) (any, error) {
		var task struct {
			Plans     []Loaded `json:"plans"`
			Processes int      `json:"processes"`
			Blocks    int      `json:"blocks"`
			Seconds   float64  `json:"seconds"`
		}
		if err := json.Unmarshal(body, &task); err != nil {
			return nil, err
		}
		if task.Blocks != freshBlocks || task.Seconds != 0 {
			t.Errorf("asked for %d blocks within %g s", task.Blocks, task.Seconds)
		}
		asked = append(asked, len(task.Plans))
		served := FreshServed{Processes: task.Processes}
		for process := range task.Processes {
			for _, plan := range task.Plans {
				r := FreshResult{Plan: plan.Plan.ID, Process: process, Status: card.OK, EagerNS: []float64{}, OursNS: []float64{}}
				if gain := ratio(plan.Plan.Card, process); gain > 0 {
					for i := range task.Blocks {
						r.EagerNS, r.OursNS = append(r.EagerNS, 1000*gain*(1+0.001*float64(i%3-1))), append(r.OursNS, 1000)
					}
				} else {
					r.Status, r.Detail = card.Crash, "a fresh process ended at it: code -11"
				}
				served.Results = append(served.Results, r)
			}
		}
		return served, nil
	}
	_, last := drive(t, s, map[string]func(json.RawMessage) (any, error){"confirm_fresh": answer})
	if last.State != StateDone {
		t.Fatalf("it ended with %s, %+v", last.State, last.Error)
	}
	return asked, view(t, path)
}

func TestWinnersOfEveryFreshProcessAreKeptWithItsEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	gains := []float64{1.5, 1.3, 1.4}
	always := func(_ string, process int) float64 { return gains[process] }
	asked, v := freshStudy(t, path, Settings{Processes: 3}, always)
	if len(asked) != 1 || asked[0] != 4 {
		t.Fatalf("asked for the plans %v (expected all four together, once)", asked)
	}
	for _, run := range v.Runs {
		if len(run.Winners) != 2 || len(run.LeftOut) != 0 {
			t.Errorf("found %d winners, left out %v", len(run.Winners), run.LeftOut)
		}
		for _, winner := range run.Winners {
			fresh := winner.Evidence.Fresh
			if fresh.Processes != 3 || fresh.Why != "" || text(t, fresh.Ratios) != "[1.5,1.3,1.4]" {
				t.Errorf("found %+v", fresh)
			}
		}
	}
	if asked, _ := freshStudy(t, path, Settings{Processes: 3}, always); len(asked) != 0 {
		t.Errorf("a study that is done asked again: %v", asked)
	}
}

// The batch norm of docs/decisions.md: faster where the search ran, slower in the next process.
func TestWinnerThatOneFreshProcessFindsSlowerIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	_, v := freshStudy(t, path, Settings{Processes: 3}, func(cardID string, process int) float64 {
		if cardID == "c-00000001" && process == 1 {
			return 0.7
		}
		return 1.4
	})
	if got := servedCards(v); len(got) != 1 || got[0] != "c-00000002" {
		t.Errorf("served %v", got)
	}
	for _, run := range v.Runs {
		for variant, why := range run.LeftOut {
			if run.Card != "c-00000001" || !strings.Contains(why, "(2 of 3) it is 0.70 times eager's speed") {
				t.Errorf("card %s, variant %s: %q", run.Card, variant, why)
			}
		}
	}
}

func TestWinnerThatAFreshProcessEndsAtIsLeftOut(t *testing.T) {
	_, v := freshStudy(t, filepath.Join(t.TempDir(), "store.db"), Settings{Processes: 2}, func(cardID string, process int) float64 {
		return map[string]float64{"c-00000001": 1.5}[cardID]
	})
	if got := servedCards(v); len(got) != 1 || got[0] != "c-00000001" || !strings.Contains(v.Runs[1].LeftOut["v0"], "crash in a fresh process") {
		t.Errorf("served %v, left out %v", got, v.Runs[1].LeftOut)
	}
}

func TestWithoutFreshProcessesTheEvidenceSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	asked, v := freshStudy(t, path, Settings{}, nil)
	if fresh := v.Runs[0].Winners[0].Evidence.Fresh; len(asked) != 0 || fresh.Processes != 0 || fresh.Why != "not re-checked in fresh processes" {
		t.Errorf("asked %v, found %+v", asked, fresh)
	}
	// A later session that wants them has them, without a new search.
	asked, v = freshStudy(t, path, Settings{Processes: 1}, func(string, int) float64 { return 2 })
	if fresh := v.Runs[0].Winners[0].Evidence.Fresh; len(asked) != 1 || fresh.Processes != 1 || fresh.Why != "" {
		t.Errorf("asked %v, found %+v", asked, fresh)
	}
}

func TestWhatFreshProcessesCannotHaveMeasuredIsRefused(t *testing.T) {
	for name, r := range map[string]FreshResult{
		"no times":      {Status: card.OK},
		"half a pair":   {Status: card.OK, EagerNS: []float64{1, 1}, OursNS: []float64{1}},
		"a time of 0":   {Status: card.OK, EagerNS: []float64{1}, OursNS: []float64{0}},
		"negative time": {Status: card.OK, EagerNS: []float64{-1}, OursNS: []float64{1}},
	} {
		r.Plan = "p-1"
		if _, _, err := (&FreshServed{Processes: 1, Results: []FreshResult{r}}).of("p-1"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	fresh, why, err := (&FreshServed{Why: "a fresh process could not start: code 1"}).of("p-1")
	if err != nil || why != "" || fresh.Processes != 0 || fresh.Why == "" {
		t.Errorf("found %+v, %q, %v", fresh, why, err)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
