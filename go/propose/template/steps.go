package template

// steps.go owns the points that may be tried from a place of the tree, as places in the lists of the parameters' values. It refuses to choose among them.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// space is a family with its parameters on a card. A point is a list of places, one for each parameter.
type space struct {
	family   Family
	params   []Param
	defaults []int
	order    int // in the list of families
}

func spacesOf(families []Family, c *card.Card, f propose.Facts) []*space {
	spaces := make([]*space, len(families))
	for i, family := range families {
		s := &space{family: family, params: family.Params(c, f), order: i}
		for _, param := range s.params {
			s.defaults = append(s.defaults, max(0, slices.Index(param.Values, param.Default)))
		}
		spaces[i] = s
	}
	return spaces
}

func (s *space) point(at []int) Point {
	point := Point{}
	for i, param := range s.params {
		point[param.Name] = param.Values[at[i]]
	}
	return point
}

// place is where the values of a candidate are; those that the space does not have count as the default.
func (s *space) place(values map[string]int) []int {
	at := slices.Clone(s.defaults)
	for i, param := range s.params {
		if value, ok := values[param.Name]; ok {
			if found := slices.Index(param.Values, value); found >= 0 {
				at[i] = found
			}
		}
	}
	return at
}

// step is a point to try.
type step struct {
	space *space
	at    []int
	from  []int // of the parent; nil: a start
	far   int   // parameters that differ from the default, or places from the parent's values

	promise float64 // where there is evidence
}

// change says what the step changes, in words.
func (s step) change() string {
	before, words := s.from, []string(nil)
	if before == nil {
		before = s.space.defaults
	}
	for i, param := range s.space.params {
		switch {
		case s.at[i] == before[i]:
		case s.from == nil:
			words = append(words, fmt.Sprintf("%s %d", param.Name, param.Values[s.at[i]]))
		default:
			words = append(words, fmt.Sprintf("%s %d -> %d", param.Name, param.Values[before[i]], param.Values[s.at[i]]))
		}
	}
	switch {
	case s.from != nil:
		return strings.Join(words, ", ")
	case len(words) == 0:
		return "default of " + s.space.family.Name()
	}
	return "start " + strings.Join(words, " ")
}

// starts are the children of the root: the defaults in the order of the registry, and every other point.
func starts(spaces []*space) (defaults, rest []step) {
	for _, s := range spaces {
		defaults = append(defaults, step{space: s, at: s.defaults})
		at := make([]int, len(s.params))
		for more := true; more; more = s.next(at) {
			far := 0
			for i := range at {
				if at[i] != s.defaults[i] {
					far++
				}
			}
			if far > 0 {
				rest = append(rest, step{space: s, at: slices.Clone(at), far: far})
			}
		}
	}
	return defaults, rest
}

// next moves on to the next point of the space; false after the last.
func (s *space) next(at []int) bool {
	for i := range at {
		if at[i]++; at[i] < len(s.params[i].Values) {
			return true
		}
		at[i] = 0
	}
	return false
}

// changes are the children of a candidate: the other points of its family, or those alone that differ from it in one parameter. A parent that is not a
// template's has none.
func changes(spaces []*space, parent card.Candidate, one bool) []step {
	s := spaceOf(spaces, parent)
	if s == nil {
		return nil
	}
	base := s.place(parent.Params)
	var steps []step
	at := make([]int, len(s.params))
	for more := true; more; more = s.next(at) {
		differ, far := 0, 0
		for i := range at {
			if at[i] != base[i] {
				differ++
				far += max(at[i]-base[i], base[i]-at[i])
			}
		}
		if differ == 1 || (differ > 1 && !one) {
			steps = append(steps, step{space: s, at: slices.Clone(at), from: base, far: far})
		}
	}
	return steps
}

// spaceOf is the space of a candidate; nil of one that no template made.
func spaceOf(spaces []*space, c card.Candidate) *space {
	at := slices.IndexFunc(spaces, func(s *space) bool { return s.family.Name() == c.Family })
	if c.Author != Author || at < 0 {
		return nil
	}
	return spaces[at]
}
