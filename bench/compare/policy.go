package main

// policy.go owns the ways to search that are compared. All draw from the same actions, the points of a card's spaces. Those that grow a tree are go/search
// with the proposer of every study; the others are what it has to beat: greedy and beam change one parameter at a time, the nearest values first.

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
	"github.com/kernelforge/kernelforge/go/search"
)

// policy gives the candidates' costs in the order in which it tried them, at most `budget`; +Inf: no cost.
type policy func(t *table, budget int, seed int64) ([]float64, error)

var policies = map[string]policy{
	"mcts": func(t *table, budget int, seed int64) ([]float64, error) {
		return grow(begin(t, true, true), budget, seed, 1, func(r row) float64 { return r.Cost })
	},
	"mcts_raw_ms": func(t *table, budget int, seed int64) ([]float64, error) {
		return grow(begin(t, true, true), budget, seed, t.eagerMS(), func(r row) float64 {
			return t.rawMS(func(r row) []float64 { return r.CandidateUS }, r)
		})
	},
	"random": random,
	"greedy": func(t *table, budget int, seed int64) ([]float64, error) { return climb(t, budget, seed, 1) },
	"beam":   func(t *table, budget int, seed int64) ([]float64, error) { return climb(t, budget, seed, beamWidth) },

	// Parts of what "mcts" is, to see what each brings.
	"mcts_without_prior": func(t *table, budget int, seed int64) ([]float64, error) {
		return grow(begin(t, true, false), budget, seed, 1, func(r row) float64 { return r.Cost })
	},
	"mcts_without_evidence": func(t *table, budget int, seed int64) ([]float64, error) {
		return grow(begin(t, false, true), budget, seed, 1, func(r row) float64 { return r.Cost })
	},
	"evidence_without_tree": flat,
}

const beamWidth = 4

// state is what a policy has tried.
type state struct {
	table    *table
	proposer propose.Proposer
	tried    []propose.Attempt // [0] is eager
	seen     map[string]bool
	costs    []float64
	learns   bool // the proposer is told what was tried
}

func begin(t *table, learns, prior bool) *state {
	return &state{table: t, learns: learns, proposer: template.Of(t.facts(), t.families, prior), tried: []propose.Attempt{{}}, seen: map[string]bool{}}
}

// propose asks the proposer for a child of a node. What the table does not hold does not exist.
func (s *state) propose(lineage []search.NodeID, children []search.NodeID, seed int64) (card.Candidate, error) {
	brief := propose.Brief{Card: s.table.card, Facts: s.table.facts(), Seed: seed}
	if s.learns {
		brief.Tried = s.tried[1:]
	}
	for _, id := range lineage {
		brief.Lineage = append(brief.Lineage, s.tried[id])
	}
	for _, id := range children {
		brief.Children = append(brief.Children, s.tried[id])
	}
	brief.Seen = func(id string) bool {
		_, exists := s.table.rows[id]
		return !exists || s.seen[id]
	}
	return s.proposer.Propose(context.Background(), brief)
}

func (s *state) judge(candidate card.Candidate) card.Verdict {
	verdict := s.table.judge(candidate)
	s.seen[candidate.ID] = true
	s.tried = append(s.tried, propose.Attempt{Node: len(s.tried), Candidate: candidate, Verdict: verdict})
	s.costs = append(s.costs, costOf(verdict))
	return verdict
}

// grow is the loop of go/forge with one proposal at a time: select, propose, judge, attach. unit is the cost that the tree sees.
func grow(s *state, budget int, seed int64, eager float64, unit func(row) float64) ([]float64, error) {
	tree := search.New(search.Default, seed, eager)
	for len(s.costs) < budget {
		selection, err := tree.Select(0)
		if errors.Is(err, search.ErrExhausted) {
			break
		}
		if err != nil {
			return nil, err
		}
		candidate, err := s.propose(tree.Lineage(selection.Parent), tree.Node(selection.Parent).Children, selection.Seed)
		if errors.Is(err, propose.ErrExhausted) {
			err = tree.Drop(selection.Seq, true)
		} else if err == nil {
			verdict := s.judge(candidate)
			_, err = tree.Attach(selection.Seq, search.Result{OK: verdict.Status == card.OK, Cost: unit(s.table.rows[candidate.ID])})
		}
		if err != nil {
			return nil, err
		}
	}
	return s.costs, nil
}

// flat asks for one child of the root after another: what the proposer knows, without a tree.
func flat(t *table, budget int, seed int64) ([]float64, error) {
	s, chance := begin(t, true, true), rand.New(rand.NewPCG(uint64(seed), 3))
	for len(s.costs) < budget {
		candidate, err := s.propose(nil, nil, chance.Int64())
		if errors.Is(err, propose.ErrExhausted) {
			break
		}
		if err != nil {
			return nil, err
		}
		s.judge(candidate)
	}
	return s.costs, nil
}

// random draws points of the whole space, each once.
func random(t *table, budget int, seed int64) ([]float64, error) {
	s, chance := begin(t, false, false), rand.New(rand.NewPCG(uint64(seed), 1))
	for _, i := range chance.Perm(len(t.all))[:min(budget, len(t.all))] {
		candidate, err := template.Make(t.all[i].family, t.card, t.facts(), t.all[i].at)
		if err != nil {
			return nil, err
		}
		s.judge(candidate)
	}
	return s.costs, nil
}

// climb keeps the `width` best candidates and adds a neighbour to each in turn, beginning with each family's default; where none of them has a
// neighbour left, the next best has its turn, at last the root. Width 1 is greedy.
func climb(t *table, budget int, seed int64, width int) ([]float64, error) {
	s, chance := begin(t, false, false), rand.New(rand.NewPCG(uint64(seed), 2))
	add := func(parent search.NodeID) (bool, error) {
		var lineage []search.NodeID
		if parent != search.Root {
			lineage = []search.NodeID{parent}
		}
		candidate, err := s.propose(lineage, nil, chance.Int64())
		if errors.Is(err, propose.ErrExhausted) {
			return false, nil
		}
		if err == nil {
			s.judge(candidate)
		}
		return err == nil, err
	}
	for range t.Families {
		if _, err := add(search.Root); err != nil {
			return nil, err
		}
	}
	for len(s.costs) < budget {
		grown := 0
		order := append(s.best(), search.Root)
		for _, parent := range order {
			if grown == width || len(s.costs) == budget {
				break
			}
			added, err := add(parent)
			if err != nil {
				return nil, err
			}
			if added {
				grown++
			}
		}
		if grown == 0 {
			break
		}
	}
	return s.costs[:min(budget, len(s.costs))], nil
}

// best lists the candidates that have a cost, the least first.
func (s *state) best() []search.NodeID {
	var list []search.NodeID
	for id := 1; id < len(s.tried); id++ {
		if s.tried[id].Verdict.Status == card.OK {
			list = append(list, search.NodeID(id))
		}
	}
	slices.SortStableFunc(list, func(a, b search.NodeID) int {
		switch x, y := s.tried[a].Verdict.Cost, s.tried[b].Verdict.Cost; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return list
}
