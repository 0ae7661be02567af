package forge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/store"
)

// Code for the whole model lies where nobody else can write, and is gone when the study has ended.
func TestCodeForTheModelIsPrivateAndDoesNotStay(t *testing.T) {
	scratch := t.TempDir()
	s, err := Start(configFor(t, filepath.Join(t.TempDir(), "store.db"), tableFor(t), Settings{Candidates: 12, Scratch: scratch}, reluCard("c-00000001", 0.9)))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	_, last := drive(t, s, map[string]func(json.RawMessage) (any, error){"confirm_model": func(body json.RawMessage) (any, error) {
		var task struct {
			Plans []Loaded `json:"plans"`
		}
		if err := json.Unmarshal(body, &task); err != nil {
			return nil, err
		}
		for _, plan := range task.Plans {
			seen++
			file, err := os.Stat(plan.Image)
			if err != nil || file.Mode().Perm() != 0o600 || filepath.Ext(plan.Image) != ".so" {
				t.Errorf("image `%s`: %v, %v", plan.Image, file, err)
			}
			folder, err := os.Stat(filepath.Dir(plan.Image))
			if err != nil || folder.Mode().Perm() != 0o700 || filepath.Dir(filepath.Dir(plan.Image)) != scratch {
				t.Errorf("its folder: %v, %v (expected a private one in `%s`)", folder, err, scratch)
			}
		}
		return modelTimes(3), nil
	}})
	if last.State != StateDone || seen == 0 {
		t.Fatalf("it ended with %s, %+v; %d images", last.State, last.Error, seen)
	}
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestCodeForADeviceIsACubin(t *testing.T) {
	opened, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	about := study(reluCard("c-00000001", 0.9))
	if err := opened.Create(about); err != nil {
		t.Fatal(err)
	}
	hash, err := opened.Put(about.ID, []byte("code"))
	if err != nil {
		t.Fatal(err)
	}
	about.Target = "cuda"
	w := &work{Study: &Study{ID: about.ID}, store: opened, study: about, settings: Settings{Scratch: t.TempDir()}}
	path, err := w.imageFile(hash)
	if err != nil {
		t.Fatal(err)
	}
	defer w.scratch.Remove()
	if filepath.Base(path) != hash+".cubin" {
		t.Errorf("`%s` (expected a name in .cubin)", path)
	}
}

// Two seconds are the guess before the first candidate: a budget below that judges none, and says why.
func TestABudgetTooSmallForOneCandidateSaysSo(t *testing.T) {
	table := tableFor(t)
	path := filepath.Join(t.TempDir(), "store.db")
	_, last := run1(t, configFor(t, path, table, Settings{Candidates: 12, Seconds: 0.5}, reluCard("c-00000001", 0.9)))
	if last.State != StateDone || len(table.judged) != 0 {
		t.Fatalf("it ended with %s, %+v; %d candidates", last.State, last.Error, len(table.judged))
	}
	if why := view(t, path).Runs[0].Why; !strings.Contains(why, "0.5 seconds are left, and a candidate takes about 2.0") {
		t.Errorf("why: %q", why)
	}
	_, _ = run1(t, configFor(t, path, table, Settings{Candidates: 12, Seconds: 100}, reluCard("c-00000001", 0.9)))
	if len(table.judged) == 0 {
		t.Error("with more seconds the same study judged none")
	}
}
