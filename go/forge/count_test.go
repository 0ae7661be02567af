package forge

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// countingJudge is a table's on a device whose counters can be read, or not.
type countingJudge struct {
	*tableJudge
	cannot  string // for all
	why     string // for one
	counted []string
}

func (j *countingJudge) Uncountable() string { return j.cannot }
func (j *countingJudge) Count(_ context.Context, c *card.Card, candidate card.Candidate) (card.Counters, error) {
	if j.opened[c.ID] == 0 {
		return card.Counters{}, fmt.Errorf("card `%s` was not prepared", c.ID)
	}
	j.counted = append(j.counted, candidate.ID)
	if j.why != "" {
		return card.Counters{Why: j.why}, nil
	}
	return card.Counters{Variant: "v0", Kernels: []card.KernelCounters{{Entry: "kf_main", Values: map[string]float64{"memory_pct": 91, "dram_pct": 91, "sm_pct": 20}}}}, nil
}

// onDevice makes a study one of a device's.
func onDevice(config Config) Config {
	config.Study.Target = "cuda"
	for _, c := range config.Study.Cards {
		c.Target, c.Threads = "cuda", 0
	}
	config.Facts = propose.Facts{Target: "cuda", Arch: "sm_90a"}
	return config
}

// briefed notes what the counters of each brief's parent were, and answers with another candidate each time.
func briefed(seen *[]string) *writer {
	return &writer{answer: func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		told := "eager"
		if n := len(brief.Lineage); n > 0 {
			told = "nothing"
			if parent := brief.Lineage[n-1]; parent.Counters != nil {
				told = fmt.Sprintf("%d: %d kernels %s", parent.Node, len(parent.Counters.Kernels), parent.Counters.Why)
			}
		}
		*seen = append(*seen, told)
		return authored([]string{"rows", "tiles", "plain"}[call%3], call), nil
	}}
}

func TestAParentsCountersAreReadOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	j := &countingJudge{tableJudge: tableFor(t)}
	for session, candidates := range []int{8, 16} {
		var seen []string
		events, _ := run1(t, onDevice(hired(configFor(t, path, j, Settings{Candidates: candidates, InFlight: 1}, reluCard("c-00000001", 0.5)), briefed(&seen))))
		below := 0
		for _, told := range seen {
			if told != "eager" {
				below++
			}
			if told != "eager" && !strings.HasSuffix(told, ": 1 kernels ") {
				t.Errorf("session %d: an author was told %q", session, told)
			}
		}
		if below == 0 {
			t.Fatalf("session %d: nobody was asked below a node: %v", session, seen)
		}
		last, spent := map[string]bool{}, 0.0
		for _, event := range events {
			switch event.Kind {
			case store.KindCounters:
				data, err := decode[countersEvent](event)
				if err != nil || last[fmt.Sprint(data.Node)] {
					t.Errorf("session %d: the counters of node %d came twice, %v", session, data.Node, err)
				}
				last[fmt.Sprint(data.Node)] = true
			case store.KindSpend:
				if data, err := decode[spendEvent](event); err != nil {
					t.Error(err)
				} else if data.What == "count" {
					spent += data.Seconds
				}
			}
		}
		if spent == 0 {
			t.Errorf("session %d: nothing was spent on counters", session)
		}
	}
	once := slices.Clone(j.counted)
	slices.Sort(once)
	if len(slices.Compact(once)) != len(j.counted) {
		t.Errorf("over two sessions these were counted: %v (expected each once)", j.counted)
	}
	s := guests(t, path)
	v := view(t, path)
	node := slices.IndexFunc(v.Runs[0].Nodes, func(n NodeLine) bool { return n.Visits > 1 && n.Node > 0 })
	got, err := Node(s, "s-test", "c-00000001", node)
	if err != nil || got.Counters == nil || got.Counters.Kernels[0].Values["dram_pct"] != 91 {
		t.Errorf("node %d is shown with %+v, %v", node, got.Counters, err)
	}
	brief, err := Brief(s, "s-test", "c-00000001", node, nobody)
	if parent := brief.Lineage[len(brief.Lineage)-1]; err != nil || parent.Counters == nil || len(parent.Counters.Kernels) != 1 {
		t.Errorf("its brief has %+v, %v", parent, err)
	}
	unread := slices.IndexFunc(v.Runs[0].Nodes, func(n NodeLine) bool { return n.Visits == 1 && n.Node > 0 && n.Status == card.OK })
	if brief, err := Brief(s, "s-test", "c-00000001", unread, nobody); err != nil || brief.Lineage[len(brief.Lineage)-1].Counters.Why != notRead {
		t.Errorf("the brief of a node that nobody asked for is %+v, %v", brief.Lineage, err)
	}
}

// A session that takes a call up again asks the same: the brief has what the log had when its place was selected.
func TestACallThatIsTakenUpAgainIsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	j := &countingJudge{tableJudge: tableFor(t), cannot: "ncu is not on this machine"}
	var first, again []string
	hang := briefed(&first)
	answer := hang.answer
	var s *Study
	hang.answer = func(ctx context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		c, err := answer(ctx, brief, call)
		if len(brief.Lineage) > 0 {
			s.Cancel(true)
			<-ctx.Done()
			return c, ctx.Err()
		}
		return c, err
	}
	s, err := Start(onDevice(hired(configFor(t, path, j, Settings{Candidates: 12, InFlight: 1}, reluCard("c-00000001", 0.5)), hang)))
	if err != nil {
		t.Fatal(err)
	}
	drive(t, s, nil)
	j.cannot = "" // now it is there
	run1(t, onDevice(hired(configFor(t, path, j, Settings{Candidates: 12, InFlight: 1}, reluCard("c-00000001", 0.5)), briefed(&again))))
	if n := len(first); n == 0 || !strings.HasSuffix(first[n-1], ": 0 kernels ncu is not on this machine") || again[0] != first[n-1] {
		t.Errorf("it was asked with %v, and then with %v", first, again)
	}
	if len(j.counted) == 0 {
		t.Error("a later call is told no counters, though they can be read now")
	}
}

func TestWhereNothingCanBeCountedTheSearchGoesOn(t *testing.T) {
	for name, at := range map[string]struct {
		judge   *countingJudge
		seconds float64
		told    string
	}{
		"counted":      {&countingJudge{}, 0, ": 1 kernels "},
		"no ncu":       {&countingJudge{cannot: "ncu is not on this machine"}, 0, ": 0 kernels ncu is not on this machine"},
		"none of one":  {&countingJudge{why: "ncu saw no kernel of it"}, 0, ": 0 kernels ncu saw no kernel of it"},
		"little time":  {&countingJudge{}, 22, "nothing"},
		"another card": {nil, 0, "nothing"}, // the host's
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		var seen []string
		var by Judge = tableFor(t)
		if at.judge != nil {
			at.judge.tableJudge = tableFor(t)
			by = at.judge
		}
		config := hired(configFor(t, path, by, Settings{Candidates: 6, InFlight: 1, Seconds: at.seconds}, reluCard("c-00000001", 0.5)), briefed(&seen))
		if at.judge != nil {
			config = onDevice(config)
		}
		run1(t, config)
		below := slices.DeleteFunc(slices.Clone(seen), func(told string) bool { return told == "eager" })
		if len(below) == 0 || slices.ContainsFunc(below, func(told string) bool { return !strings.HasSuffix(told, at.told) }) {
			t.Errorf("%s: authors were told %v (expected %q)", name, seen, at.told)
		}
		if at.judge != nil && len(at.judge.counted) > 0 != (at.judge.cannot == "" && at.seconds == 0) {
			t.Errorf("%s: these were counted: %v", name, at.judge.counted)
		}
		if v := view(t, path); v.State != StateDone || at.seconds == 0 && len(v.Runs[0].Nodes) != 7 {
			t.Errorf("%s: it is %s after %d nodes (expected done, and 7 with eager)", name, v.State, len(v.Runs[0].Nodes))
		}
	}
}

// Somebody outside asks for the brief of a parent while a study attends.
func TestAGuestsWishForCountersIsFulfilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cards := []*card.Card{reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)}
	j := &countingJudge{tableJudge: tableFor(t)}
	run1(t, onDevice(configFor(t, path, j, Settings{Candidates: 4}, cards...)))
	s := guests(t, path)
	waits := func(run string, node int, send bool) bool {
		t.Helper()
		waits, err := Count(s, "s-test", run, node, send)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	before := view(t, path)
	if waits("c-00000001", 1, true) || len(j.counted) != 0 {
		t.Errorf("nobody runs the study, and %v were counted", j.counted)
	}
	config := onDevice(configFor(t, path, j, Settings{Candidates: 4, Attend: true}, cards...))
	config.Proposer = nil
	study, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(run string, node int) *NodeView {
		t.Helper()
		send := true
		for deadline := time.Now().Add(time.Minute); waits(run, node, send); send = false {
			if study.Poll(10 * time.Millisecond); time.Now().After(deadline) {
				t.Fatal("they were not read")
			}
		}
		view, err := Node(s, "s-test", run, node)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	failed := slices.IndexFunc(view(t, path).Runs[0].Nodes, func(n NodeLine) bool { return n.Status != card.OK && n.Node > 0 })
	if waits("c-00000001", 0, true) || failed > 0 && waits("c-00000001", failed, true) {
		t.Error("the counters of eager, or of a candidate that failed, are waited for")
	}
	if _, err := Count(s, "s-test", "c-00000001", 99, true); err == nil {
		t.Error("a node that is not there has no error")
	}
	for _, run := range []string{"c-00000001", "c-00000002", "c-00000001"} {
		if got := ask(run, 1); got.Counters == nil || len(got.Counters.Kernels) != 1 {
			t.Errorf("%s: found %+v", run, got.Counters)
		}
	}
	if len(j.counted) != 2 {
		t.Errorf("these were counted: %v (expected one of each card)", j.counted)
	}
	j.why = "it took longer than 20 s under ncu"
	if got := ask("c-00000002", 2); got.Counters == nil || got.Counters.Why != j.why {
		t.Errorf("found %+v", got.Counters)
	}
	if waits("c-00000002", 2, true) {
		t.Error("what could not be read is asked for again in the same session")
	}
	j.why = ""
	j.open = func(c *card.Card) error { return card.Fail(card.CodeReferee, "", "no room for card `%s`", c.ID) }
	if got := ask("c-00000001", 2); got.Counters == nil || got.Counters.Why != "its card could not be prepared" { // the other one was held
		t.Errorf("found %+v", got.Counters)
	}
	j.open = nil
	confirmed := 0
	j.confirms = func(f judge.Finalist, _ card.Verdict) judge.Confirmation {
		confirmed++
		return judge.Confirmation{Variant: f.Variant, Node: f.Node}
	}
	study.Conclude()
	drive(t, study, nil)
	after := view(t, path)
	for i, run := range after.Runs { // reading is no searching
		if run.State != runEnded || run.Why != before.Runs[i].Why || treeText(run) != treeText(before.Runs[i]) {
			t.Errorf("afterwards run `%s` is %s: %s (before: %s: %s)", run.Card, run.State, run.Why, before.Runs[i].State, before.Runs[i].Why)
		}
	}
	if confirmed != 0 || j.opened["c-00000001"]+j.opened["c-00000002"] != 0 {
		t.Errorf("%d finalists were confirmed again, and %v are held", confirmed, j.opened)
	}
}
