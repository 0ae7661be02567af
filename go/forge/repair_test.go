package forge

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/given"
	"github.com/kernelforge/kernelforge/go/store"
)

// mender is an author whose candidates do not compile, and that mends them after `after` tries (0: never).
type mender struct {
	after  int
	asked  int
	failed []propose.Attempt
}

func (m *mender) Propose(_ context.Context, brief propose.Brief) (card.Candidate, error) {
	if brief.Repair == nil {
		return gridCandidate("broken", len(brief.Children), 0, "draft"), nil
	}
	m.asked++
	m.failed = append(m.failed, *brief.Repair)
	if m.after != 0 && m.asked >= m.after {
		return gridCandidate("rows", 4, 2, "mended"), nil
	}
	return gridCandidate("broken", 100+m.asked, 0, "mended"), nil
}

// hired makes a proposer the only source of a study, as an author.
func hired(config Config, proposer propose.Proposer) Config {
	config.Proposer = given.Candidates(nil)
	config.Authors = []Author{{Name: "test:author", Make: func(*Ledger) (propose.Proposer, error) { return proposer, nil }}}
	return config
}

func TestRepairGetsTheLogAndThreeTries(t *testing.T) {
	for after, want := range map[int]struct {
		asked  int
		status card.Status
	}{2: {2, card.OK}, 0: {3, card.CompileError}} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			m := &mender{after: after}
			config := hired(configFor(t, path, tableFor(t), Settings{Candidates: 1}, reluCard("c-00000001", 0.5)), m)
			events, _ := run1(t, config)
			v := view(t, path)
			if m.asked != want.asked || len(v.Runs[0].Nodes) != 2 || v.Runs[0].Nodes[1].Status != want.status {
				t.Fatalf("%d repairs, nodes %+v (expected %d, one node %s)", m.asked, v.Runs[0].Nodes, want.asked, want.status)
			}
			if kinds(events)[store.KindAttempt] != want.asked {
				t.Errorf("events are %v", kinds(events))
			}
			if m.failed[0].Verdict.Detail != "not in the table" || m.failed[0].Candidate.Source == "" {
				t.Errorf("the repair was given %+v", m.failed[0])
			}
			s, err := store.OpenExisting(path, store.PatienceCall)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			node, err := Node(s, "s-test", "c-00000001", 1)
			if err != nil || !strings.Contains(node.Log, "before repair 2") {
				t.Errorf("the node's log is %q, %v", node.Log, err)
			}
			if want.status != card.OK && !strings.Contains(node.Log, "does not prove that the idea cannot work") {
				t.Errorf("the node's log is %q", node.Log)
			}
		})
	}
}

// A store that refuses to be written (here: another program holds it; a full disk takes the same way) fails the study with a hint. With the
// store writable again the study goes on where it stopped.
func TestStoreThatRefusesFailsTheStudyAndALaterStartResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	config := configFor(t, path, table, Settings{Candidates: 12}, reluCard("c-00000001", 0.5))
	config.Patience = 5 * time.Millisecond
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	table.before = func(card.Candidate) {
		if len(table.judged) == 5 {
			if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
				t.Error(err)
			}
		}
	}
	_, last := run1(t, config)
	if last.State != StateFailed || last.Error.Code != card.CodeStore || !strings.Contains(last.Error.Text, "another process keeps writing") || last.Error.Hint == "" {
		t.Fatalf("it ended with %s, %+v", last.State, last.Error)
	}
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if nodes := len(view(t, path).Runs[0].Nodes); nodes != 6 {
		t.Errorf("%d nodes are there (expected eager and 5)", nodes)
	}
	again := tableFor(t)
	run1(t, configFor(t, path, again, Settings{Candidates: 12}, reluCard("c-00000001", 0.5)))
	if v := view(t, path); len(v.Runs[0].Nodes) != 13 || len(again.judged) != 7 {
		t.Errorf("resumed to %d nodes with %d judged (expected 13, 7)", len(v.Runs[0].Nodes), len(again.judged))
	}
}
