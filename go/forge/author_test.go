package forge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// writer is an author that answers with a function of the brief. It counts its calls and how many flew at once.
type writer struct {
	answer func(ctx context.Context, brief propose.Brief, call int) (card.Candidate, error)

	mutex        sync.Mutex
	calls        int
	fly, mostFly int
}

func (w *writer) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	w.mutex.Lock()
	w.calls++
	w.fly++
	w.mostFly = max(w.mostFly, w.fly)
	call := w.calls
	w.mutex.Unlock()
	defer func() {
		w.mutex.Lock()
		w.fly--
		w.mutex.Unlock()
	}()
	return w.answer(ctx, brief, call)
}

// contested lets an author compete with the grid.
func contested(config Config, author propose.Proposer) Config {
	grid := config.Proposer
	config = hired(config, author)
	config.Proposer = grid
	return config
}

func authored(family string, n int) card.Candidate {
	c := gridCandidate(family, n%gridWide, n/gridWide, "idea")
	c.Author = "llm"
	c.Source = fmt.Sprintf("// authored %s %d", family, n)
	c.ID = card.CandidateID(c.Source, c.Spec)
	return c
}

// An author that takes for ever holds up no candidate of the templates, and ends with the study.
func TestACallThatHangsHoldsUpNoTemplate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	hang := &writer{answer: func(ctx context.Context, _ propose.Brief, _ int) (card.Candidate, error) {
		<-ctx.Done()
		return card.Candidate{}, ctx.Err()
	}}
	table := tableFor(t)
	config := contested(configFor(t, path, table, Settings{Candidates: 20, InFlight: 3}, reluCard("c-00000001", 0.5)), hang)
	started := make(chan *Study, 1)
	table.before = func(card.Candidate) {
		if len(table.judged) == 16 { // with 3 calls that fly, 17 candidates are all that fit
			for begun := 0; begun < 3; time.Sleep(time.Millisecond) { // a call that was logged may not have come to run yet
				hang.mutex.Lock()
				begun = hang.mostFly
				hang.mutex.Unlock()
			}
			(<-started).Cancel(false)
		}
	}
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	started <- s
	if _, last := drive(t, s, nil); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	v := view(t, path)
	if len(v.Runs[0].Nodes) != 18 || hang.mostFly != 3 || v.State != stateStopped {
		t.Errorf("%d nodes, %d calls at once, %s (expected 18, 3, stopped)", len(v.Runs[0].Nodes), hang.mostFly, v.State)
	}
}

// Templates and an author compete at the same nodes; what each brought is told.
func TestAuthorsAndTemplatesGrowOneTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	parents := map[bool]int{} // of the author's: templates' nodes or eager
	author := &writer{}
	author.answer = func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		author.mutex.Lock()
		defer author.mutex.Unlock()
		parents[len(brief.Lineage) > 0]++
		if brief.Direction == "" {
			return card.Candidate{}, errors.New("no direction was asked for")
		}
		return authored("rows", call), nil
	}
	config := contested(configFor(t, path, tableFor(t), Settings{Candidates: 40}, reluCard("c-00000001", 0.5)), author)
	if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	run := view(t, path).Runs[0]
	by := map[string]int{}
	for _, n := range run.Nodes[1:] {
		by[n.Author]++
	}
	if by["llm"] == 0 || by["template"] == 0 || by["llm"]+by["template"] != 40 || parents[true]+parents[false] < by["llm"] {
		t.Errorf("nodes by author %v, asked at eager and below other nodes: %v", by, parents)
	}
	if len(run.Sources) != 2 || run.Sources[0].Judged != by["template"] || run.Sources[1].Author != "test:author" || run.Sources[1].Judged != by["llm"] ||
		run.Sources[0].Gain <= 1 || run.Sources[1].Valid+run.Sources[1].Mended+run.Sources[1].Unfinished != run.Sources[1].Judged {
		t.Errorf("sources are %+v", run.Sources)
	}
}

// Five ideas that could not be brought to work are enough: more iterations do not help an author that cannot write valid code for this card.
func TestAnAuthorStopsOnACardAfterFiveIdeasInARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	told := map[string]int{}
	again := 0
	bad := &writer{}
	bad.answer = func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		bad.mutex.Lock()
		defer bad.mutex.Unlock()
		if brief.Repair != nil {
			told[brief.Repair.Verdict.Detail]++
		}
		if brief.Again != nil {
			again++
		}
		return gridCandidate("broken", call, 0, "draft"), nil
	}
	config := hired(configFor(t, path, tableFor(t), Settings{Candidates: 30, InFlight: 1}, reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)), bad)
	events, last := run1(t, config)
	if last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	v := view(t, path)
	for _, run := range v.Runs {
		if len(run.Nodes) != 6 || !strings.Contains(run.Why, "author `test:author` stopped: 5 ideas in a row") {
			t.Errorf("run %s has %d nodes and ended since %q", run.Card, len(run.Nodes), run.Why)
		}
		for _, n := range run.Nodes[1:] {
			if !n.Unfinished || n.Repairs != 3 || n.Status != card.CompileError {
				t.Errorf("node %+v (expected unfinished after 3 repairs)", n)
			}
		}
		if source := run.Sources[1]; source.Unfinished != 5 || source.Valid != 0 || source.Mended != 0 || source.Stopped == "" {
			t.Errorf("the source is %+v", source)
		}
	}
	if bad.calls != 2*5*4 || told["not in the table"] != 2*5*3 || kinds(events)[store.KindAuthor] != 2 || again != 0 {
		t.Errorf("%d calls, told %v, %d stops, %d tried again", bad.calls, told, kinds(events)[store.KindAuthor], again)
	}
}

// An unfinished idea is offered once more, below another parent, and then never again.
func TestAnUnfinishedIdeaIsOfferedOnceFromAnotherParent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	offered := map[int][]int{} // node: parents
	author := &writer{}
	author.answer = func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
		author.mutex.Lock()
		defer author.mutex.Unlock()
		if brief.Again != nil && brief.Repair == nil {
			parent := 0
			if n := len(brief.Lineage); n > 0 {
				parent = brief.Lineage[n-1].Node
			}
			offered[brief.Again.Node] = append(offered[brief.Again.Node], parent)
		}
		if call <= 4 || brief.Repair != nil && brief.Again != nil { // the first idea is not finished, nor is its second trial
			return gridCandidate("broken", call, 0, "draft"), nil
		}
		return gridCandidate(gridFamilies[call%3], call%gridWide, call/gridWide%gridWide, "idea"), nil
	}
	config := hired(configFor(t, path, tableFor(t), Settings{Candidates: 15, InFlight: 1}, reluCard("c-00000001", 0.5)), author)
	if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	v := view(t, path)
	if len(offered) == 0 || !v.Runs[0].Nodes[1].Unfinished {
		t.Fatalf("offered %v, the first node %+v", offered, v.Runs[0].Nodes[1])
	}
	for node, parents := range offered {
		if len(parents) != 1 || parents[0] == int(v.Runs[0].Nodes[node].Parent) {
			t.Errorf("the idea of node %d (below %d) was offered below %v", node, v.Runs[0].Nodes[node].Parent, parents)
		}
	}
}

// A reply that holds no candidate is a step like a compile error; if none ever comes there is still a node that shows them.
func TestAnUnusableReplyIsAVisibleStep(t *testing.T) {
	for name, good := range map[string]int{"mended": 2, "never": 100} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			repairs := []string{}
			author := &writer{answer: func(_ context.Context, brief propose.Brief, call int) (card.Candidate, error) {
				if brief.Repair != nil {
					repairs = append(repairs, brief.Repair.Verdict.Detail)
				}
				if call < good {
					return card.Candidate{}, &propose.Unusable{Reason: "no block of code", Reply: "r-1"}
				}
				return authored("rows", 14), nil
			}}
			config := hired(configFor(t, path, tableFor(t), Settings{Candidates: 1}, reluCard("c-00000001", 0.5)), author)
			if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
				t.Fatalf("it ended with %+v", last)
			}
			s, err := store.OpenExisting(path, store.PatienceCall)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			node, err := Node(s, "s-test", "c-00000001", 1)
			if err != nil {
				t.Fatal(err)
			}
			want := min(good-1, 3)
			if len(node.Attempts) != want || len(repairs) != want || !strings.Contains(repairs[0], "no block of code") || node.Attempts[0].Reply != "r-1" {
				t.Errorf("attempts %+v, told %q", node.Attempts, repairs)
			}
			if ok := node.Verdict.Status == card.OK; ok != (name == "mended") || node.Verdict.Unfinished == ok {
				t.Errorf("the node is %+v", node.Verdict)
			}
		})
	}
}

// An author that answers with what failed just now is not judged twice for it.
func TestTheSameCandidateAgainIsNoRepair(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	author := &writer{answer: func(context.Context, propose.Brief, int) (card.Candidate, error) {
		return gridCandidate("broken", 1, 1, "draft"), nil
	}}
	run1(t, hired(configFor(t, path, table, Settings{Candidates: 1}, reluCard("c-00000001", 0.5)), author))
	node := view(t, path).Runs[0].Nodes[1]
	if len(table.judged) != 1 || author.calls != 4 || node.Repairs != 3 || !node.Unfinished {
		t.Errorf("judged %d times after %d calls: %+v", len(table.judged), author.calls, node)
	}
}

// A budget that refuses, or an endpoint that is broken, ends the author and not the search.
func TestAnAuthorThatMayNotOrCannotAnswerLeavesTheSearchToTheOthers(t *testing.T) {
	for name, trouble := range map[string]error{"budget": fmt.Errorf("spent: %w", propose.ErrBudget), "endpoint": errors.New("401: no such key")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			author := &writer{answer: func(context.Context, propose.Brief, int) (card.Candidate, error) { return card.Candidate{}, trouble }}
			config := contested(configFor(t, path, tableFor(t), Settings{Candidates: 12, InFlight: 1}, reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)), author)
			if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
				t.Fatalf("it ended with %+v", last)
			}
			v := view(t, path)
			if author.calls != 1 || len(v.Runs[0].Nodes) != 13 || len(v.Runs[1].Nodes) != 13 {
				t.Errorf("%d calls, %d and %d nodes (expected 1, 13 and 13)", author.calls, len(v.Runs[0].Nodes), len(v.Runs[1].Nodes))
			}
			if len(v.Stopped) != 1 || !strings.Contains(v.Stopped[0].Why, trouble.Error()) {
				t.Errorf("told %+v", v.Stopped)
			}
		})
	}
}
