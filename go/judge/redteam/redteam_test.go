package redteam

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
)

func corpusOf(t *testing.T, target string) []File {
	t.Helper()
	files, err := Files(target)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What the corpus promises: so many files, each a kernel of its own.
func TestTheCorpusIsWholeAndEachFileIsItsOwn(t *testing.T) {
	bad, good, kinds := 0, 0, map[string]bool{}
	for target := range extensions {
		seen := map[string]string{}
		for _, f := range corpusOf(t, target) {
			key := f.Candidate.ID + " " + f.Call
			if other := seen[key]; other != "" {
				t.Errorf("`%s` is the same kernel for the same call as `%s`", f.Name, other)
			}
			seen[key] = f.Name
			if strings.Contains(f.Candidate.Source, "// dies:") || strings.Contains(f.Candidate.Source, "// gate:") {
				t.Errorf("`%s`: the source says what is expected of it", f.Name)
			}
			if target != "host" {
				continue
			}
			if f.Good {
				good++
			} else {
				bad++
				kinds[f.Kind] = true
			}
		}
	}
	if bad < 60 || good < 100 || len(kinds) < 30 {
		t.Errorf("host: %d bad, %d good, %d kinds (expected at least 60, 100 and 30)", bad, good, len(kinds))
	}
}

const header = "// kind: noop\n// call: add_fp32\n// dies: wrong_value\n// gate: poison only\n// why: it is one\n" +
	`// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": []}]}` + "\n"

func TestAFileSaysWhatMustBecomeOfIt(t *testing.T) {
	f, err := Read("host/bad/noop.cc", header+"// a remark\nint x;\n")
	if err != nil || f.Good || f.Kind != "noop" || f.Gate != judge.GatePoison || !f.Only || len(f.Dies) != 1 || f.Candidate.Source != "// a remark\nint x;\n" {
		t.Fatalf("found %+v, %v", f, err)
	}
	const here = "host/bad/noop.cc"
	for _, c := range []struct{ place, cut, put, want string }{
		{here, "// call: add_fp32\n", "", "no `// call"},
		{here, "// kind: noop\n", "// kind: noop\n// kind: noop\n", "stands there twice"},
		{here, "poison only", "poisons", "no gate `poisons`"},
		{here, "poison only", "poison often", "`poison often`"},
		{here, "wrong_value", "wrong_value, slow", "dies of `slow`"},
		{here, "wrong_value", "ok", "only the gate `timing`"},
		{here, "kind: noop", "kind: No Op", "kind `No Op`"},
		{here, `"schema": 1`, `"schema": "one"`, "its spec"},
		{here, `"grain"`, `"grains"`, "`kernels[0].grains`"},
		{"host/noop.cc", "", "", "lies in no folder"},
		{"host/bad/noop.cu", "", "", "lies in no folder"},
		{"host/good/noop.cc", "", "", "neither dies nor has a"},
	} {
		if _, err := Read(c.place, strings.Replace(header, c.cut, c.put, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q for %q: found %v (expected %s)", c.place, c.put, c.cut, err, c.want)
		}
	}
}

// fakeJudge gives each candidate the proof of its kind.
type fakeJudge struct {
	proofs map[string]judge.Proof
	said   []string
	broken error
}

func (j *fakeJudge) Open(_ context.Context, c *card.Card, _ int64) error {
	j.said = append(j.said, "open "+c.ID)
	return nil
}
func (j *fakeJudge) Ahead(context.Context, card.Candidate) {}
func (j *fakeJudge) Prove(_ context.Context, _ *card.Card, candidate card.Candidate, _ bool) (judge.Proof, error) {
	j.said = append(j.said, candidate.Change)
	return j.proofs[candidate.Change], j.broken
}
func (j *fakeJudge) Close(_ context.Context, id string) error {
	j.said = append(j.said, "close "+id)
	return nil
}

func proof(status card.Status, gate judge.Gate, faster bool) judge.Proof {
	return judge.Proof{Verdict: card.Verdict{Status: status, Gate: string(gate)}, Faster: faster}
}

func TestWhatIsRightForAFile(t *testing.T) {
	poison := File{Gate: judge.GatePoison, Dies: []card.Status{card.WrongValue}}
	slow := File{Gate: judge.GateTiming, Dies: []card.Status{card.OK}}
	good := File{Good: true}
	writes := []card.Status{card.WrongValue, card.Crash}
	host, device := File{Name: "host/bad/w.cc", Gate: judge.GateInputs, Dies: writes}, File{Name: "cuda/bad/w.cu", Gate: judge.GateInputs, Dies: writes}
	for name, c := range map[string]struct {
		file         File
		proof        judge.Proof
		right, meant bool
	}{
		"a bad one is killed as meant":            {poison, proof(card.WrongValue, judge.GatePoison, false), true, true},
		"by another gate":                         {poison, proof(card.WrongValue, judge.GateValues, false), true, false},
		"with another status":                     {poison, proof(card.Crash, judge.GatePoison, false), true, false},
		"a bad one survives":                      {poison, proof(card.OK, "", true), false, false},
		"that it is slow as well saves nobody":    {poison, proof(card.OK, "", false), false, false},
		"a slow one is not accepted":              {slow, proof(card.OK, "", false), true, true},
		"a slow one is accepted":                  {slow, proof(card.OK, "", true), false, false},
		"a slow one is called wrong":              {slow, proof(card.WrongValue, judge.GateValues, false), true, false},
		"a device tells no address of a write":    {device, proof(card.Crash, judge.GateGuardPages, false), true, true},
		"but what was seen without a crash is":    {device, proof(card.WrongValue, judge.GateGuardPages, false), true, false},
		"the host tells it":                       {host, proof(card.Crash, judge.GateGuardPages, false), true, false},
		"a good one passes":                       {good, proof(card.OK, "", true), true, true},
		"a good one need not be faster":           {good, proof(card.OK, "", false), true, true},
		"a good one is refused":                   {good, proof(card.TooFast, judge.GateFloor, false), false, false},
		"a good one whose confirmation is broken": {good, proof(card.WrongValue, judge.GateTiming, false), false, false},
	} {
		if r := c.file.result(c.proof); r.Right != c.right || r.Meant != c.meant {
			t.Errorf("%s: right %t, meant %t", name, r.Right, r.Meant)
		}
	}
}

func TestFilesOfOneCallShareAnOpenCard(t *testing.T) {
	files := []File{{Name: "1", Call: "b", Candidate: card.Candidate{Change: "1"}}, {Name: "2", Call: "a", Candidate: card.Candidate{Change: "2"}},
		{Name: "3", Call: "b", Candidate: card.Candidate{Change: "3"}}}
	j := &fakeJudge{proofs: map[string]judge.Proof{"1": proof(card.Crash, judge.GateLaunch, false)}}
	cards := map[string]*card.Card{"a": {ID: "A"}, "b": {ID: "B"}}
	var told []string
	err := Run(t.Context(), j, cards, files, 1, func(r Result) error {
		told = append(told, r.Name)
		return nil
	})
	if want := "open A 2 close A open B 1 3 close B"; err != nil || strings.Join(j.said, " ") != want || strings.Join(told, "") != "213" {
		t.Errorf("found %v, told %v, %v (expected %s)", j.said, told, err, want)
	}
	stop := errors.New("stop")
	j.said = nil
	if err := Run(t.Context(), j, cards, files, 1, func(Result) error { return stop }); !errors.Is(err, stop) || strings.Join(j.said, " ") != "open A 2 close A" {
		t.Errorf("stopped by its caller: found %v, %v", j.said, err)
	}
	if err := Run(t.Context(), j, nil, files, 1, nil); err == nil || !strings.Contains(err.Error(), "call `a`") {
		t.Errorf("without cards: found %v", err)
	}
	j.broken = stop
	if err := Run(t.Context(), j, cards, files, 1, nil); !errors.Is(err, stop) || !strings.Contains(err.Error(), "`2`") {
		t.Errorf("a broken judge: found %v", err)
	}
}

// The first gate needs neither compiler nor device: it refuses what is meant for it, and nothing else.
func TestThePolicyRefusesItsOwnFilesAlone(t *testing.T) {
	for target := range extensions {
		for _, f := range corpusOf(t, target) {
			err := judge.Policy(target, f.Candidate)
			if meant := f.Gate == judge.GatePolicy; meant != (err != nil) {
				t.Errorf("`%s`: the policy said %v (its gate is `%s`)", f.Name, err, f.Gate)
			}
		}
	}
}
