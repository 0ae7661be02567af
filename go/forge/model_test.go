package forge

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// modelStudy runs a study of three cards whose winners change the model's ratio by a factor each, and gives the cards that are served.
func modelStudy(t *testing.T, effect map[string]float64, status func(on []string) card.Status) (served []string, asked int, v *StudyView) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	config := configFor(t, path, tableFor(t), Settings{Candidates: 12, Scratch: t.TempDir()},
		reluCard("c-00000001", 0.2), reluCard("c-00000002", 0.3), reluCard("c-00000003", 0.4))
	s, err := Start(config)
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
		ratio, on := 1.0, []string{}
		for _, plan := range task.Plans {
			if !slices.Contains(on, plan.Plan.Card) {
				on = append(on, plan.Plan.Card)
				ratio *= effect[plan.Plan.Card]
			}
		}
		times := modelTimes(ratio)
		if status != nil {
			times.Status = status(on)
		}
		return times, nil
	}
	if _, last := drive(t, s, map[string]func(json.RawMessage) (any, error){"confirm_model": answer}); last.State != StateDone {
		t.Fatalf("it ended with %s, %+v", last.State, last.Error)
	}
	v = view(t, path)
	for _, run := range v.Runs {
		if len(run.Winners) > 0 {
			served = append(served, run.Card)
		}
	}
	return served, asked, v
}

func TestWinnersThatKeepTheirPromiseAreMeasuredOnce(t *testing.T) {
	served, asked, _ := modelStudy(t, map[string]float64{"c-00000001": 1.3, "c-00000002": 1.5, "c-00000003": 2}, nil)
	if len(served) != 3 || asked != 1 {
		t.Errorf("served %v after %d measurements (expected all, 1)", served, asked)
	}
}

func TestWinnerThatHurtsTheModelIsLeftOut(t *testing.T) {
	served, asked, v := modelStudy(t, map[string]float64{"c-00000001": 0.9, "c-00000002": 1.15, "c-00000003": 1.2}, nil)
	if fmt.Sprint(served) != "[c-00000002 c-00000003]" || asked > 5 {
		t.Errorf("served %v after %d measurements (expected the second and the third, at most 5)", served, asked)
	}
	if len(v.Approved) != 4 {
		t.Errorf("approved %v (expected the 4 plans that help)", v.Approved)
	}
}

func TestWinnersThatDoNotHelpTogetherAreTriedAlone(t *testing.T) {
	served, _, _ := modelStudy(t, map[string]float64{"c-00000001": 0.6, "c-00000002": 0.7, "c-00000003": 1.5}, nil)
	if fmt.Sprint(served) != "[c-00000003]" {
		t.Errorf("served %v (expected the third)", served)
	}
}

func TestNothingIsServedThatDoesNotHelp(t *testing.T) {
	served, _, v := modelStudy(t, map[string]float64{"c-00000001": 0.99, "c-00000002": 0.98, "c-00000003": 1}, nil)
	if len(served) != 0 || v.State != StateDone {
		t.Errorf("served %v, %s", served, v.State)
	}
}

func TestWinnerThatChangesTheOutputsIsLeftOut(t *testing.T) {
	wrong := func(on []string) card.Status {
		if slices.Contains(on, "c-00000003") {
			return card.WrongValue
		}
		return card.OK
	}
	served, _, _ := modelStudy(t, map[string]float64{"c-00000001": 1.3, "c-00000002": 1.5, "c-00000003": 2}, wrong)
	if fmt.Sprint(served) != "[c-00000001 c-00000002]" {
		t.Errorf("served %v (expected all but the one that changes the outputs)", served)
	}
}

// A done study whose model was measured is not measured again.
func TestModelIsMeasuredOnceForTheSameWinners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for session := range 2 {
		events, _ := run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 5}, reluCard("c-00000001", 0.5)))
		if n := kinds(events)[store.KindModel]; n != 1-session {
			t.Errorf("session %d measured the model %d times", session, n)
		}
	}
}

func TestOnlyConfirmedNodesWin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	var asked []string
	table.confirms = func(f judge.Finalist, verdict card.Verdict) judge.Confirmation {
		asked = append(asked, confirmKey(f.Variant, f.Node))
		return judge.Confirmation{Variant: f.Variant, Node: f.Node, Ratio: 1 / verdict.Cost, Low: 1.001, Accepted: false, Detail: "below the band"}
	}
	config := configFor(t, path, table, Settings{Candidates: 20}, reluCard("c-00000001", 0.5))
	events, _ := run1(t, config)
	if v := view(t, path); len(v.Runs[0].Winners) != 0 || v.Runs[0].State != runEnded {
		t.Errorf("%d winners, run %s", len(v.Runs[0].Winners), v.Runs[0].State)
	} else if seen := v.Runs[0].Confirmed; len(seen) != 4 || seen[0].Accepted || seen[0].Low != 1.001 {
		t.Errorf("the view tells of the confirmations %+v (expected the four that were refused)", seen)
	}
	if kinds(events)[store.KindModel] != 0 || len(asked) != 4 {
		t.Errorf("events %v, confirmed %v (expected two nodes for each of two variants, no model)", kinds(events), asked)
	}
	for i := 0; i < len(asked); i += 2 {
		if asked[i][:2] != asked[i+1][:2] {
			t.Errorf("confirmed in the order %v (expected the next best of a variant right after the best was refused)", asked)
		}
	}
	first := len(asked)
	run1(t, configFor(t, path, table, Settings{Candidates: 21}, reluCard("c-00000001", 0.5)))
	for _, key := range asked[first:] {
		if slices.Contains(asked[:first], key) {
			t.Errorf("%s was confirmed twice", key)
		}
	}
}

// A candidate that takes all that was left of the seconds, and their reserve, does not cost the study its winner.
func TestTheBestIsConfirmedThoughTheSecondsAreSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	config := configFor(t, path, table, Settings{Candidates: 20, Seconds: 12}, reluCard("c-00000001", 0.5))
	tick, judged := config.Now, atomic.Int32{}
	table.before = func(card.Candidate) { judged.Add(1) }
	config.Now = func() time.Time {
		now := tick()
		if judged.Load() >= 4 {
			now = now.Add(time.Hour)
		}
		return now
	}
	run1(t, config)
	run := view(t, path).Runs[0]
	if len(run.Winners) != 1 || !strings.Contains(run.Why, "without a confirmation: 1") {
		t.Errorf("%d winners (expected 1 of 2 variants): %s", len(run.Winners), run.Why)
	}
}

// A resume whose seconds are spent owes nobody a confirmation when the best had its own: one more at each resume would be time without end.
func TestAResumeConfirmsNoOtherWhenTheSecondsAreSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table, confirmed := tableFor(t), 0
	var running *Study
	table.confirms = func(f judge.Finalist, verdict card.Verdict) judge.Confirmation {
		confirmed++
		running.Cancel(false)
		return judge.Confirmation{Variant: f.Variant, Node: f.Node, Accepted: true, Ratio: 2, Low: 2, High: 2, Image: []byte("x")}
	}
	for session := range 2 {
		config := configFor(t, path, table, Settings{Candidates: 20, Seconds: 12}, reluCard("c-00000001", 0.5))
		tick := config.Now
		config.Now = func() time.Time {
			now := tick()
			if confirmed > 0 {
				now = now.Add(time.Hour) // the first confirmation takes an hour
			}
			return now
		}
		var err error
		if running, err = Start(config); err != nil {
			t.Fatal(err)
		}
		drive(t, running, nil)
		if confirmed != 1 {
			t.Errorf("session %d: %d confirmations (expected 1)", session, confirmed)
		}
	}
	if run := view(t, path).Runs[0]; len(run.Winners) != 1 || run.State != runEnded || !strings.Contains(run.Why, "without a confirmation: 1 ") {
		t.Errorf("%d winners, %s: %s", len(run.Winners), run.State, run.Why)
	}
}

// A variant that cannot save anything to speak of, and one that comes when the seconds are spent, is left to eager.
func TestVariantsThatAreNotWorthItAreNotConfirmed(t *testing.T) {
	for name, settings := range map[string]Settings{"small": {Candidates: 20}, "late": {Candidates: 20, Seconds: 12}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			c := reluCard("c-00000001", 0.5)
			if name == "small" {
				c.Variants[1].EagerUS, c.Variants[1].RoofUS = 0.01, 0.001
			}
			table := tableFor(t)
			config := configFor(t, path, table, settings, c)
			if name == "late" {
				tick, late := config.Now, false
				config.Now = func() time.Time {
					now := tick()
					if late {
						now = now.Add(time.Hour) // the first confirmation takes an hour
					}
					return now
				}
				table.confirms = func(f judge.Finalist, verdict card.Verdict) judge.Confirmation {
					late = true
					return judge.Confirmation{Variant: f.Variant, Node: f.Node, Accepted: true, Ratio: 2, Low: 2, High: 2, Image: []byte("x")}
				}
			}
			run1(t, config)
			v := view(t, path)
			if len(v.Runs[0].Winners) != 1 || !strings.Contains(v.Runs[0].Why, "without a confirmation: 1 ") {
				t.Errorf("%d winners, `%s` (expected one, and a word about the other variant)", len(v.Runs[0].Winners), v.Runs[0].Why)
			}
		})
	}
}

func TestMedianInterval(t *testing.T) {
	values := func(n int) []float64 {
		var list []float64
		for i := range n {
			list = append(list, float64((i*7)%n)) // shuffled when n is no multiple of 7
		}
		return list
	}
	for _, test := range []struct {
		n                 int
		median, low, high float64
	}{{12, 5.5, 2, 9}, {6, 2.5, 0, 5}, {5, 2, 0, 4}, {1, 0, 0, 0}, {20, 9.5, 5, 14}, {64, 31.5, 23, 40}} { // ranks 3/10, 1/6, 6/15, 24/41: binomial tables
		got := medianInterval(values(test.n))
		if got != (interval{test.median, test.low, test.high}) {
			t.Errorf("of 0..%d: %+v (expected %v in [%v, %v])", test.n-1, got, test.median, test.low, test.high)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 80).Draw(rt, "list")
		got := medianInterval(list)
		if !(got.low <= got.median && got.median <= got.high) || math.IsNaN(got.median) {
			rt.Fatalf("%+v of %v", got, list)
		}
	})
}

func TestGainIsShareTimesWhatTheRoofLeaves(t *testing.T) {
	c := reluCard("c-00000001", 0.4)
	c.Variants[0].Calls, c.Variants[0].EagerUS, c.Variants[0].RoofUS = 1, 300, 30
	c.Variants[1].Calls, c.Variants[1].EagerUS, c.Variants[1].RoofUS = 7, 100, 10
	floor, saves := gain(c)
	if math.Abs(floor-0.1) > 1e-12 || math.Abs(saves-0.36) > 1e-12 {
		t.Errorf("floor %v, saves %v (expected 0.1, 0.36)", floor, saves)
	}
	c.Variants[0].RoofUS = 500 // a roof above eager is no reason to be slower
	if floor, _ := gain(c); math.Abs(floor-0.37) > 1e-12 {
		t.Errorf("floor %v (expected 0.37)", floor)
	}
	if got := saved(c, []Winner{{Plan: judge.Plan{Variant: "v1"}, Evidence: Evidence{Measured: Measured{Ratio: 2}}}}); math.Abs(got-0.14) > 1e-12 {
		t.Errorf("the winner of 70 %% of the time saves %v (expected 0.14)", got)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	negative := -1.0
	for name, settings := range map[string]Settings{
		"candidates": {Candidates: -1}, "seconds": {Seconds: -1}, "max_cost": {MaxCost: new(math.NaN())}, "min_gain": {MinGain: &negative}, "c": {C: &negative},
	} {
		if _, err := settings.complete(); err == nil || !strings.Contains(err.Error(), "settings."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
