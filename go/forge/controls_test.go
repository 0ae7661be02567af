package forge

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// controlled is a judge whose referee has tried negative controls.
type controlled struct {
	*tableJudge
	ends map[string]map[string]string
}

func (c controlled) Controls(string) map[string]map[string]string { return c.ends }

func packOf(t *testing.T, path string, wishes Wishes) (plans []string, text string) {
	t.Helper()
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "net.kfpack")
	plans, err = WritePack(s, "s-test", folder, wishes)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "pack.json"))
	if err != nil {
		t.Fatal(err)
	}
	return plans, string(data)
}

func TestControlsAreLoggedShownAndGoIntoTheEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	ends := map[string]map[string]string{"v0": {"zeros": judge.ControlFails, "input copy": judge.ControlEqual}, "v1": {"zeros": judge.ControlFails}}
	config := configFor(t, path, nil, Settings{Candidates: 8, Scratch: t.TempDir()}, reluCard("c-00000001", 0.5))
	config.Judge = func(judge.Referee) (Judge, error) { return controlled{tableFor(t), ends}, nil }
	run1(t, config)
	if run := view(t, path).Runs[0]; !same(run.Controls, ends) {
		t.Errorf("shown: %v (expected %v)", run.Controls, ends)
	}
	plans, text := packOf(t, path, Wishes{})
	var pack struct {
		Plans []struct {
			Variant  string
			Evidence struct{ Controls map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(text), &pack); err != nil || len(plans) != 2 {
		t.Fatal(err, plans)
	}
	for _, p := range pack.Plans {
		if !same(p.Evidence.Controls, ends[p.Variant]) {
			t.Errorf("evidence of %s: %v (expected %v)", p.Variant, p.Evidence.Controls, ends[p.Variant])
		}
	}
}

// Nothing is judged on inputs that let a wrong output pass, and the other cards are searched all the same.
func TestInputsThatDoNotDiscriminateEndTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	ends := map[string]map[string]string{"v0": {"zeros": judge.ControlFails}, "v1": {"zeros": judge.ControlPasses}}
	config := configFor(t, path, nil, Settings{Candidates: 8, Scratch: t.TempDir()}, reluCard("c-00000001", 0.5))
	config.Judge = func(judge.Referee) (Judge, error) { return controlled{table, ends}, nil }
	_, last := run1(t, config)
	run := view(t, path).Runs[0]
	if last.State != StateDone || run.State != runEnded || !strings.Contains(run.Why, "cannot tell right from wrong") || !strings.Contains(run.Why, "`zeros` on variant `v1`") {
		t.Errorf("the study is %s, its run `%s`: %s", last.State, run.State, run.Why)
	}
	if len(table.judged) != 0 || len(run.Winners) != 0 || table.opened["c-00000001"] != 0 {
		t.Errorf("%d candidates were judged, %d won, the card is open %d times", len(table.judged), len(run.Winners), table.opened["c-00000001"])
	}
}

// inexact says of every plan that it is right, but not eager's bits; but for one family.
type inexact struct{ *tableJudge }

func (j inexact) Confirm(ctx context.Context, c *card.Card, finalists []judge.Finalist) ([]judge.Confirmation, error) {
	all, err := j.tableJudge.Confirm(ctx, c, finalists)
	for i := range all {
		all[i].Plan.Exact = all[i].Variant == "v1"
	}
	return all, err
}

func TestAPackForExactPlansHoldsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	config := configFor(t, path, nil, Settings{Candidates: 8, Scratch: t.TempDir()}, reluCard("c-00000001", 0.5))
	config.Judge = func(judge.Referee) (Judge, error) { return inexact{tableFor(t)}, nil }
	run1(t, config)
	if plans, _ := packOf(t, path, Wishes{}); len(plans) != 2 {
		t.Errorf("wrote %v (expected both)", plans)
	}
	plans, text := packOf(t, path, Wishes{Exact: true})
	if len(plans) != 1 || strings.Contains(text, `"exact": false`) || strings.Count(text, `"exact": true`) != 1 {
		t.Errorf("wrote %v (expected the one that is exact):\n%s", plans, text)
	}
}
