package forge

import (
	"path/filepath"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/store"
)

func TestReviewLeavesWinnersProposedUntilApproved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 20, Review: true}, reluCard("c-00000001", 0.5)))
	v := view(t, path)
	if len(v.Waiting) != 2 || len(v.Approved) != 0 {
		t.Fatalf("approved %v, waiting %v (expected none, 2)", v.Approved, v.Waiting)
	}
	checkPack(t, path, 2, "proposed")
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Approve(s, "s-test", []string{"p-00000000"}, "someone"); err == nil || card.AsError(err).Code != card.CodeNotFound {
		t.Errorf("approving an unknown plan gives %v", err)
	}
	queued, err := Approve(s, "s-test", v.Waiting, "someone")
	if err != nil || queued {
		t.Fatalf("approved: queued %v, %v", queued, err)
	}
	checkPack(t, path, 2, "approved")
}

func TestOtherProcessesReachTheRunningStudy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	submitted := gridCandidate("plain", 4, 4, "by hand")
	submitted.Author = "person"
	other, err := store.Open(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	table.before = func(card.Candidate) {
		if len(table.judged) != 3 {
			return
		}
		second := configFor(t, path, tableFor(t), Settings{}, reluCard("c-00000001", 0.5))
		if _, err := Start(second); err == nil || card.AsError(err).Code != card.CodeLocked {
			t.Errorf("a second search of one study gives %v", err)
		}
		if err := second.Store.Close(); err != nil {
			t.Error(err)
		}
		queued, err := Submit(other, "s-test", Submission{Run: "c-00000001", Parent: 0, Candidate: submitted, By: "someone"})
		if err != nil || !queued {
			t.Errorf("submit: queued %v, %v (expected to be queued)", queued, err)
		}
		if _, err := Submit(other, "s-test", Submission{Run: "c-00000001", Parent: 99, Candidate: submitted}); err == nil || card.AsError(err).Code != card.CodeNotFound {
			t.Errorf("submitting below a node that is not there gives %v", err)
		}
		if v, err := View(other, "s-test"); err != nil || !v.Running || len(v.Runs[0].Nodes) != 4 {
			t.Errorf("a reader beside the search: %v", err)
		}
	}
	events, _ := run1(t, configFor(t, path, table, Settings{Candidates: 10}, reluCard("c-00000001", 0.5)))
	if kinds(events)[store.KindSubmission] != 1 {
		t.Errorf("events are %v", kinds(events))
	}
	var at int
	for i, id := range table.judged {
		if id == submitted.ID {
			at = i
		}
	}
	if at != 4 {
		t.Errorf("the submitted candidate was judged as number %d of %v (expected right after the one in flight)", at, table.judged)
	}
	node, err := Node(other, "s-test", "c-00000001", 5)
	if err != nil || node.Candidate.ID != submitted.ID || node.Candidate.Source != submitted.Source || node.Candidate.Author != "person" {
		t.Errorf("node 5 is %+v, %v", node, err)
	}
}

// A study that is done takes a submission up with its next start.
func TestSubmissionReopensARunThatEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 4}, reluCard("c-00000001", 0.5)))
	other, err := store.Open(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	best := gridCandidate("rows", 4, 2, "by hand")
	if queued, err := Submit(other, "s-test", Submission{Run: "c-00000001", Parent: 1, Candidate: best, By: "someone"}); err != nil || queued {
		t.Fatalf("queued %v, %v", queued, err)
	}
	table := tableFor(t)
	run1(t, configFor(t, path, table, Settings{Candidates: 4}, reluCard("c-00000001", 0.5)))
	v := view(t, path)
	if len(table.judged) != 1 || v.Runs[0].Best != 0.3066 || v.Runs[0].Nodes[5].Parent != 1 || v.Runs[0].Winners[0].Node != 5 {
		t.Errorf("judged %v, best %v, nodes %+v", table.judged, v.Runs[0].Best, v.Runs[0].Nodes)
	}
}
