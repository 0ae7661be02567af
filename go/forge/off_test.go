package forge

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// What a test judged without a gate is never served: the referee learns of the gate with each task, and the study writes no pack, now or later.
func TestAStudyWithAGateSwitchedOffTellsTheRefereeAndWritesNoPack(t *testing.T) {
	path, folder := filepath.Join(t.TempDir(), "store.db"), filepath.Join(t.TempDir(), "net.kfpack")
	settings := Settings{Candidates: 8, Scratch: t.TempDir(), Off: judge.Gates{judge.GatePoison, judge.GateFloor}}
	study, err := Start(configFor(t, path, tableFor(t), settings, reluCard("c-00000001", 0.5)))
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	drive(t, study, map[string]func(json.RawMessage) (any, error){"confirm_model": func(body json.RawMessage) (any, error) {
		told = string(body)
		return modelTimes(3), nil
	}})
	if !strings.Contains(told, `"off":["poison","floor"]`) {
		t.Errorf("the referee was told %s", told)
	}
	settings.Off, settings.Candidates = nil, 12
	run1(t, configFor(t, path, tableFor(t), settings, reluCard("c-00000001", 0.5))) // a later session judges by all gates; what was accepted stays
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := WritePack(s, "s-test", folder, Wishes{}); err == nil || card.AsError(err).Code != card.CodePack || !strings.Contains(err.Error(), "`poison`") {
		t.Errorf("writing a pack gives %v", err)
	}
	if _, err := (Settings{Off: judge.Gates{"poisons"}}).complete(); err == nil || card.AsError(err).Code != card.CodeRequest {
		t.Errorf("a gate that is none: %v", err)
	}
}
