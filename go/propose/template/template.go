// Package template proposes kernels from built-in families: no network, no model, the first source of every search.
//
// It owns the families, their parameters and the order in which points of their spaces are tried. It refuses clocks, files and
// chance other than the brief's seed: the same brief gives the same candidate.
//
//	root    the default of each family that applies, then the other points
//	below   the parent's family with other parameters
//
// Which of them comes first is what the candidates of this card that were judged promise (evidence.go). Before there are some, it is what a small cost model
// expects (prior.go; on the host the nearest to a default), and below a candidate one parameter is changed.
//
// A family is one page of code, host/<family>.cc or cuda/<family>.cu, and a Go file that knows where it applies (docs/templates.md). An idea
// that serves both targets is two families of one name, one in each target's list.
package template

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Author is the author of every candidate made here.
const Author = "template"

// Param is one parameter of a family: an action of the tree. Values are ordered, so that neighbours are alike; Default is one of them.
type Param struct {
	Name    string
	Values  []int
	Default int
}

// Point is a value for each parameter of a family.
type Point map[string]int

// Family is one idea for a kernel, with parameters.
type Family interface {
	// Name is the family's word in candidates, the same as its source file's.
	Name() string
	// Applies says whether the family computes this card exactly as eager does, all variants included. When in doubt: false.
	Applies(c *card.Card) bool
	// Params are the parameters that make a difference on this card. Their values span at most MaxPoints points.
	Params(c *card.Card, f propose.Facts) []Param
	// Build makes the candidate at a point. Equal points give equal candidates; id, author, family and params are filled in by Make.
	Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error)
}

// MaxPoints bounds the space of a family on one card; a test holds every family to it.
const MaxPoints = 4096

type proposer struct {
	facts    propose.Facts
	families func(*card.Card, propose.Facts) []Family // that a card can be computed by
	prices   *prices                                  // nil: no prior
}

// New makes the proposer. facts are used for briefs that name no target.
func New(facts propose.Facts) propose.Proposer { return builtIn{Of(facts, Runnable, true)} }

// Of makes the proposer of other families than the built-in ones, as those of a recorded table, with or without a prior. families gives those that
// apply to a card.
func Of(facts propose.Facts, families func(*card.Card, propose.Facts) []Family, prior bool) propose.Proposer {
	t := proposer{facts: facts, families: families}
	if prior {
		t.prices = &prices{cards: map[*card.Card]*sheet{}}
	}
	return t
}

// builtIn is the proposer of the families of this package.
type builtIn struct{ propose.Proposer }

// Serves says whether any family applies to a card. Which device will run it may not be known yet.
func (builtIn) Serves(c *card.Card) bool { return len(Applicable(c)) > 0 }

// Propose returns a candidate that is not in the tree yet, or propose.ErrExhausted.
func (t proposer) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	if err := ctx.Err(); err != nil {
		return card.Candidate{}, err
	}
	facts := brief.Facts
	if facts.Target == "" {
		facts = t.facts
	}
	chance := rand.New(rand.NewPCG(uint64(brief.Seed), 0x6b66))
	spaces := spacesOf(t.families(brief.Card, facts), brief.Card, facts)
	if t.prices != nil {
		t.prices.Lock()
		defer t.prices.Unlock()
	}
	expects := t.prices.of(brief.Card, facts, spaces, brief.Tried)
	known := evidenceOf(spaces, brief.Tried, expects)
	var first, rest []step
	if n := len(brief.Lineage); n > 0 {
		rest = changes(spaces, brief.Lineage[n-1].Candidate, known == nil)
	} else {
		first, rest = starts(spaces)
	}
	chance.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	if expects != nil && len(brief.Lineage) == 0 {
		first, rest = expects.starts(append(first, rest...), brief.Tried)
	}
	switch {
	case known != nil:
		known.order(rest)
	case expects != nil:
		expects.order(rest)
	default:
		slices.SortStableFunc(rest, func(a, b step) int { return a.far - b.far })
	}
	for _, step := range append(first, rest...) {
		candidate, err := Make(step.space.family, brief.Card, facts, step.space.point(step.at))
		if err != nil {
			return card.Candidate{}, err
		}
		if brief.Seen != nil && brief.Seen(candidate.ID) {
			continue
		}
		candidate.Change = step.change()
		return candidate, nil
	}
	return card.Candidate{}, propose.ErrExhausted
}

// Make builds the candidate of a family at a point and gives it its identity.
func Make(family Family, c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	candidate, err := family.Build(c, f, p)
	if err != nil {
		return card.Candidate{}, fmt.Errorf("build family `%s` on card `%s`: %w", family.Name(), c.ID, err)
	}
	candidate.Author, candidate.Family, candidate.Params = Author, family.Name(), maps.Clone(p)
	candidate.ID = card.CandidateID(candidate.Source, candidate.Spec)
	return candidate, nil
}
