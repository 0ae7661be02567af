package search

import (
	"errors"
	"math"
	"testing"
)

// Whoever takes minutes must hold up nobody: results of source 0 stay in order, the others enter when they come, with their virtual visits till then.
func TestResultsOfOtherSourcesEnterWhenTheyCome(t *testing.T) {
	tree := New(Default, 1, 1)
	slow, _ := tree.SelectAt(1, Root)
	first, _ := tree.SelectAt(0, Root)
	second, _ := tree.SelectAt(0, Root)
	if _, err := tree.Attach(second.Seq, Result{OK: true, Cost: 0.9}); err == nil {
		t.Fatal("the second result of source 0 entered before the first")
	}
	for _, s := range []Selection{first, slow, second} {
		if _, err := tree.Attach(s.Seq, Result{OK: true, Cost: 0.9}); err != nil {
			t.Fatal(err)
		}
	}
	if root := tree.Node(Root); root.Virtual != 0 || root.pending != 0 || root.Visits != 4 {
		t.Errorf("the root is %+v (expected no virtual visit left)", root)
	}
	if _, err := tree.Attach(slow.Seq, Result{}); err == nil {
		t.Error("a result entered twice")
	}
}

func TestASourceWithNothingLeftClosesNoNodeForTheOthers(t *testing.T) {
	tree := New(Default, 1, 1)
	for !errors.Is(selectAndDrop(tree, 0), ErrExhausted) {
		if tree.next > 3 {
			t.Fatal("source 0 goes on below a node that it has closed")
		}
	}
	if s, err := tree.Select(1); err != nil || s.Parent != Root || s.Source != 1 {
		t.Errorf("source 1 found %+v, %v (expected the root)", s, err)
	}
}

func selectAndDrop(tree *Tree, source int) error {
	s, err := tree.Select(source)
	if err == nil {
		err = tree.Drop(s.Seq, true)
	}
	return err
}

// The numbers are those of the formula in source.go.
func TestTheSourceThatPaysProposesAndOneThatStallsFades(t *testing.T) {
	s := NewSources(DefaultRates)
	for range 2 {
		s.Add()
	}
	all := func(int) bool { return true }
	if s.Score(0) != 0.05 || s.Best(all) != 0 {
		t.Fatalf("the first score is %v of %d (expected G/T = 0.05, the first of equals)", s.Score(0), s.Best(all))
	}
	s.Begin(0)
	s.Judged(0, 1, 0.5)
	s.Spend(0, 2, 0)
	want := (0.1 + math.Ln2) / 4 * (1 + 0.5*math.Sqrt(math.Ln2/2))
	if math.Abs(s.Score(0)-want) > 1e-12 || s.Best(all) != 0 {
		t.Errorf("after a gain of 2x in two seconds the score is %v (expected %v)", s.Score(0), want)
	}
	stalled := 0
	for ; s.Best(all) == 0; stalled++ {
		if stalled > 20 {
			t.Fatal("a source that brings nothing is asked for ever")
		}
		s.Begin(0)
		s.Judged(0, 0.5, 0.5)
		s.Spend(0, 2, 0)
	}
	if stalled < 2 {
		t.Errorf("it was given up after %d candidates without a gain", stalled)
	}
	if got := s.Best(func(source int) bool { return source == 0 }); got != 0 {
		t.Errorf("only source 0 may propose, and %d does", got)
	}
	cheap := s.Score(1)
	if s.Spend(1, 0, 0.01); s.Score(1) >= cheap/5 {
		t.Errorf("a cent weighs like ten seconds: the score fell from %v to %v", cheap, s.Score(1))
	}
}
