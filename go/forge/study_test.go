package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

func kinds(events []store.Event) map[string]int {
	count := map[string]int{}
	for _, event := range events {
		count[event.Kind]++
	}
	return count
}

func TestStudyFindsConfirmsAndPacksWinners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	config := configFor(t, path, table, Settings{Candidates: 60, Scratch: t.TempDir()}, reluCard("c-00000001", 0.2), reluCard("c-00000002", 0.5))
	events, last := run1(t, config)
	if last.Progress.RunsDone != 2 || last.Progress.Runs != 2 || last.Progress.Candidates != last.Progress.CandidatesBudget || last.Progress.SecondsLeft != 0 {
		t.Errorf("progress is %+v", last.Progress)
	}
	var order []string
	for _, event := range events {
		if event.Kind == store.KindRun && strings.Contains(string(event.Data), runStarted) {
			order = append(order, event.Run)
		}
	}
	if fmt.Sprint(order) != "[c-00000002 c-00000001]" {
		t.Errorf("runs began in the order %v (expected the one with more to gain first)", order)
	}
	count := kinds(events)
	if count[store.KindVerdict] != last.Progress.Candidates || count[store.KindForecast] != 1 || count[store.KindPlan] != 4 || count[store.KindModel] != 1 {
		t.Errorf("events are %v", count)
	}
	v := view(t, path)
	if v.State != StateDone || v.Runs[0].Best > 0.34 || len(v.Runs[0].Winners) != 2 || len(v.Approved) != 4 {
		t.Errorf("found state %s, best %.3f, %d winners, approved %v", v.State, v.Runs[0].Best, len(v.Runs[0].Winners), v.Approved)
	}
	if table.shut != 1 || table.opened["c-00000001"] != 0 || table.opened["c-00000002"] != 0 {
		t.Errorf("the judge was shut %d times, cards left open: %v", table.shut, table.opened)
	}
	checkPack(t, path, 4, "approved")
}

// checkPack writes the pack and compares the fields with the documented example, both ways.
func checkPack(t *testing.T, path string, plans int, state string) {
	t.Helper()
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "net.kfpack")
	for range 2 { // the second replaces the first
		ids, err := WritePack(s, "s-test", folder, Wishes{})
		if err != nil || len(ids) != plans {
			t.Fatalf("wrote %v, %v (expected %d plans)", ids, err, plans)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "pack.json"))
	if err != nil {
		t.Fatal(err)
	}
	var found, documented map[string]any
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	formats, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(formats), "## plan and pack\n")
	_, section, _ = strings.Cut(section, "```json\n")
	section, _, _ = strings.Cut(section, "```")
	if err := json.Unmarshal([]byte(section), &documented); err != nil {
		t.Fatal(err)
	}
	sameFields(t, "pack.json", documented, found)
	for _, plan := range found["plans"].([]any) {
		fields := plan.(map[string]any)
		sameFields(t, "plan", documented["plans"].([]any)[0].(map[string]any), fields)
		sameFields(t, "evidence", documented["plans"].([]any)[0].(map[string]any)["evidence"].(map[string]any), fields["evidence"].(map[string]any))
		if fields["state"] != state {
			t.Errorf("plan %v is %v (expected %s)", fields["id"], fields["state"], state)
		}
		for folderName, extension := range map[string]string{"code": ".so", "source": ".cc"} {
			blob := fields[folderName].(map[string]any)
			info, err := os.Stat(filepath.Join(folder, folderName, blob["sha256"].(string)+extension))
			if err != nil || float64(info.Size()) != blob["bytes"] {
				t.Errorf("%s of plan %v: %v", folderName, fields["id"], err)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Dir(folder))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the pack lies %v, %v (expected nothing)", entries, err)
	}
}

func sameFields(t *testing.T, what string, documented, found map[string]any) {
	t.Helper()
	for name := range documented {
		if _, ok := found[name]; !ok {
			t.Errorf("%s lacks `%s`", what, name)
		}
	}
	for name := range found {
		if _, ok := documented[name]; !ok {
			t.Errorf("%s has `%s`, which docs/formats.md does not know", what, name)
		}
	}
}

func TestPackIsNotWrittenOverSomethingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 5}, reluCard("c-00000001", 0.5)))
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	home := t.TempDir()
	precious := filepath.Join(home, "thesis")
	if err := os.MkdirAll(filepath.Join(precious, "chapter"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	annotated := filepath.Join(home, "annotated")
	if _, err := WritePack(s, "s-test", annotated, Wishes{}); err != nil {
		t.Fatal(err)
	}
	if _, err := WritePack(s, "s-test", annotated, Wishes{}); err != nil {
		t.Errorf("writing over an own pack gives %v", err)
	}
	for _, name := range []string{"notes.txt", "source/draft.cc", "code/" + strings.Repeat("a", 64)} {
		if err := os.WriteFile(filepath.Join(annotated, name), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := WritePack(s, "s-test", annotated, Wishes{}); err == nil || !strings.Contains(err.Error(), "`"+name+"` lies in it, which no pack has") {
			t.Errorf("writing over a pack with `%s` gives %v", name, err)
		}
		if err := os.Remove(filepath.Join(annotated, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(annotated); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{precious, file, filepath.Join(file, "below")} {
		if _, err := WritePack(s, "s-test", target, Wishes{}); err == nil || card.AsError(err).Code != card.CodePack || card.AsError(err).Hint == "" {
			t.Errorf("writing over `%s` gives %v", target, err)
		}
	}
	if _, err := os.Stat(filepath.Join(precious, "chapter")); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBudgetsHoldBeforeTheSpend(t *testing.T) {
	t.Run("candidates", func(t *testing.T) {
		table := tableFor(t)
		run1(t, configFor(t, filepath.Join(t.TempDir(), "store.db"), table, Settings{Candidates: 7, Width: 3}, reluCard("c-00000001", 0.5)))
		if len(table.judged) != 7 {
			t.Errorf("%d candidates were judged (expected 7)", len(table.judged))
		}
	})
	t.Run("seconds", func(t *testing.T) { // the clock moves a second with each look: each candidate takes one
		path := filepath.Join(t.TempDir(), "store.db")
		table := tableFor(t)
		events, last := run1(t, configFor(t, path, table, Settings{Candidates: 60, Seconds: 20}, reluCard("c-00000001", 0.4), reluCard("c-00000002", 0.4)))
		if n := len(table.judged); n < 10 || n > 16 {
			t.Errorf("%d candidates were judged in 20 seconds (expected 10 to 16)", n)
		}
		if last.Progress.Seconds > 22 {
			t.Errorf("%v seconds were spent of 20", last.Progress.Seconds)
		}
		for _, run := range view(t, path).Runs {
			if !strings.Contains(run.Why, "seconds") || len(run.Nodes) < 5 {
				t.Errorf("run %s ended with %d nodes because `%s`", run.Card, len(run.Nodes), run.Why)
			}
		}
		if count := kinds(events); count[store.KindSamples] == 0 {
			t.Error("no seconds were left to confirm")
		}
	})
}

func TestRunsStopWhereNothingIsLeftToGain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	small := reluCard("c-00000001", 0.011) // 0.9 x 1.1 % is below 1 %
	near := reluCard("c-00000002", 0.9)
	for i := range near.Variants {
		near.Variants[i].RoofUS = 55 // the table's third candidate is within 4 % of it
	}
	table := tableFor(t)
	run1(t, configFor(t, path, table, Settings{Candidates: 60}, small, near))
	v := view(t, path)
	if len(v.Runs[0].Nodes) != 1 || !strings.Contains(v.Runs[0].Why, "of the model") {
		t.Errorf("the small card has %d nodes because `%s`", len(v.Runs[0].Nodes), v.Runs[0].Why)
	}
	if len(v.Runs[1].Nodes) > 30 || !strings.Contains(v.Runs[1].Why, "floor") || v.Runs[1].Best > 0.55*1.04 {
		t.Errorf("the near card has %d nodes, best %v, because `%s`", len(v.Runs[1].Nodes), v.Runs[1].Best, v.Runs[1].Why)
	}
	if table.opened["c-00000001"] != 0 {
		t.Error("a card that cannot gain was prepared")
	}
}

func TestBrokenCardEndsItsRunAndNotTheStudy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	table.open = func(c *card.Card) error {
		if c.ID == "c-00000001" {
			return card.Fail(card.CodeReferee, "", "no captured input")
		}
		return nil
	}
	_, last := run1(t, configFor(t, path, table, Settings{Candidates: 5}, reluCard("c-00000001", 0.9), reluCard("c-00000002", 0.1)))
	v := view(t, path)
	if last.State != StateDone || v.Runs[0].State != runFailed || !strings.Contains(v.Runs[0].Why, "no captured input") || len(v.Runs[1].Nodes) != 6 {
		t.Errorf("found %s, run %s: `%s`, %d nodes in the other run", last.State, v.Runs[0].State, v.Runs[0].Why, len(v.Runs[1].Nodes))
	}
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 5}, reluCard("c-00000001", 0.9), reluCard("c-00000002", 0.1)))
	if v := view(t, path); v.Runs[0].State != runEnded || len(v.Runs[0].Nodes) != 6 {
		t.Errorf("the next start left the broken run %s with %d nodes (expected ended, 6)", v.Runs[0].State, len(v.Runs[0].Nodes))
	}
}

func TestBrokenHarnessFailsTheStudyWithItsHint(t *testing.T) {
	for name, test := range map[string]struct {
		breaks func(*tableJudge, *Config)
		code   string
	}{
		"no compiler": {func(_ *tableJudge, c *Config) {
			c.Judge = func(judge.Referee) (Judge, error) {
				return nil, card.Fail(card.CodeJudge, "install g++", "no compiler")
			}
		}, card.CodeJudge},
		"every card": {func(j *tableJudge, _ *Config) {
			j.open = func(*card.Card) error { return card.Fail(card.CodeReferee, "do this", "out of memory") }
		}, card.CodeReferee},
		"a panic": {func(j *tableJudge, _ *Config) { j.before = func(card.Candidate) { panic("boom") } }, card.CodeInternal},
		"an impossible verdict": {func(j *tableJudge, _ *Config) {
			for key := range j.table {
				j.table[key] = card.Verdict{Status: card.OK, Cost: -1}
			}
		}, card.CodeJudge},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			table := tableFor(t)
			config := configFor(t, path, table, Settings{Candidates: 5}, reluCard("c-00000001", 0.5))
			test.breaks(table, &config)
			_, last := run1(t, config)
			if last.State != StateFailed || last.Error == nil || last.Error.Code != test.code {
				t.Fatalf("it ended with %s, %+v (expected failed, %s)", last.State, last.Error, test.code)
			}
			if v := view(t, path); v.State != StateFailed || v.Running {
				t.Errorf("the store says %s, running %v", v.State, v.Running)
			}
		})
	}
}

func TestFailingTaskOfTheRefereeReachesTheJudgeAsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	config := configFor(t, path, tableFor(t), Settings{Candidates: 5}, reluCard("c-00000001", 0.5))
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	_, last := drive(t, s, map[string]func(json.RawMessage) (any, error){
		"confirm_model": func(json.RawMessage) (any, error) { return nil, errors.New("the model raised ValueError") }})
	if last.State != StateFailed || last.Error.Code != card.CodeReferee || !strings.Contains(last.Error.Text, "the model raised ValueError") {
		t.Errorf("it ended with %s, %+v", last.State, last.Error)
	}
	if err := s.Answer(1, []byte("{}"), nil); err == nil || card.AsError(err).Code != card.CodeNotFound {
		t.Errorf("answering a task twice gives %v", err)
	}
}

func TestArrowsGoOneWay(t *testing.T) {
	const module = "github.com/kernelforge/kernelforge/go/"
	allowed := map[string][]string{
		"card":   {},
		"search": {},
		"store":  {"card"},
		"forge":  {"card", "search", "store", "propose", "judge", "worker", "compile", "host", "cuda"}, // the last four are the judge's
	}
	for room, may := range allowed {
		out, err := exec.Command("go", "list", "-deps", module+room).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, dep := range strings.Fields(string(out)) {
			inner, ours := strings.CutPrefix(dep, module)
			inner, _, _ = strings.Cut(inner, "/")
			if !ours || inner == room {
				if strings.Contains(dep, "NVIDIA/go-nvml") || strings.Contains(dep, "net/http") {
					t.Errorf("%s depends on %s", room, dep)
				}
				continue
			}
			found := false
			for _, name := range may {
				found = found || name == inner
			}
			if !found {
				t.Errorf("%s depends on %s (expected %v)", room, inner, may)
			}
		}
	}
}
