// Package template proposes kernels from built-in families: no network, no model, the first source of every search.
//
// It owns the families, their parameters and the order in which points of their spaces are tried. It refuses clocks, files and
// chance other than the brief's seed: the same brief gives the same candidate.
//
//	root    the default of each family that applies, then the other points, nearest to a default first
//	below   the parent with one parameter changed, neighbouring values first
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

type proposer struct{ facts propose.Facts }

// New makes the proposer. facts are used for briefs that name no target.
func New(facts propose.Facts) propose.Proposer { return proposer{facts} }

// Serves says whether any family applies to a card.
func (t proposer) Serves(c *card.Card) bool { return len(Applicable(c)) > 0 }

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
	steps := starts(brief.Card, facts, chance)
	if n := len(brief.Lineage); n > 0 {
		steps = changes(brief.Lineage[n-1].Candidate, brief.Card, facts, chance)
	}
	for _, step := range steps {
		candidate, err := Make(step.family, brief.Card, facts, step.point)
		if err != nil {
			return card.Candidate{}, err
		}
		if brief.Seen != nil && brief.Seen(candidate.ID) {
			continue
		}
		candidate.Change = step.change
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

// step is a point to try and what it changes, in words.
type step struct {
	family Family
	point  Point
	change string
	far    int // from the default, or from the parent's value
}

// starts are the children of the root: defaults in the order of the registry, then every other point, fewest changes first, shuffled.
func starts(c *card.Card, f propose.Facts, chance *rand.Rand) []step {
	var first, rest []step
	for _, family := range Runnable(c, f) {
		params := family.Params(c, f)
		for i, point := range Points(params) {
			s := step{family: family, point: point, change: "default of " + family.Name()}
			if i == 0 {
				first = append(first, s)
				continue
			}
			s.change = "start"
			for _, param := range params {
				if value := point[param.Name]; value != param.Default {
					s.far++
					s.change += fmt.Sprintf(" %s %d", param.Name, value)
				}
			}
			rest = append(rest, s)
		}
	}
	return append(first, nearestFirst(rest, chance)...)
}

// changes are the children of a candidate: one parameter differs, neighbouring values first, shuffled. A parent that is not a template's
// has none.
func changes(parent card.Candidate, c *card.Card, f propose.Facts, chance *rand.Rand) []step {
	family := Lookup(c.Target, parent.Family)
	if parent.Author != Author || family == nil || !family.Applies(c) {
		return nil
	}
	params := family.Params(c, f)
	base := Point{}
	for _, param := range params {
		base[param.Name] = param.Default
		if value, ok := parent.Params[param.Name]; ok && slices.Contains(param.Values, value) {
			base[param.Name] = value
		}
	}
	var steps []step
	for _, param := range params {
		at := slices.Index(param.Values, base[param.Name])
		for i, value := range param.Values {
			if i == at {
				continue
			}
			point := maps.Clone(base)
			point[param.Name] = value
			steps = append(steps, step{family, point, fmt.Sprintf("%s %d -> %d", param.Name, base[param.Name], value), max(i-at, at-i)})
		}
	}
	return nearestFirst(steps, chance)
}

func nearestFirst(steps []step, chance *rand.Rand) []step {
	chance.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	slices.SortStableFunc(steps, func(a, b step) int { return a.far - b.far })
	return steps
}
