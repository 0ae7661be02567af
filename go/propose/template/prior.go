package template

// prior.go owns what is expected of points before the candidates of a card say anything, from their prices (price.go): the order in which the first are
// tried, and what evidence starts from. It refuses to leave anything out: what promises little comes late.
//
//	ln(price) + doubt * (parameters that are not the default's) + later * (families before its own)        the least first
//
// A default and the order of families are their writers' best guesses, and mostly measured; a price knows the card and the device. So a point has to promise
// something for each parameter in which it differs. At the root each family's best start comes first, and families that are far from the best wait among the other points.
//
// This orders the children of a node, as progressive unpruning does (Chaslot et al. 2008, Progressive strategies for Monte-Carlo tree search): the tree's own
// scores are of judged candidates, and know no prior. On the host there is none, nor on a card with a point that has no price: the order is as without.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

const (
	doubt     = 0.1 // of the logarithm, for each parameter that is not the default's
	later     = 0.1 // of the logarithm, for each family before this one in the list
	behind    = 0.4 // of the logarithm: a family's start that takes 1.5 times the best's is one point among others
	belief    = 0.1 // in prices: the sum of squares that their logarithms must have before costs outweigh it
	heaviest  = 3   // variants that are priced: those that take most of eager's time
	mostCards = 4   // whose prices are kept: one is searched, and the next is prepared beside it
)

// prices keeps what was worked out of a few cards: a space has up to thousands of points, and each step is chosen among all. Locked by who asks.
type prices struct {
	sync.Mutex
	cards map[*card.Card]*sheet
}

// sheet is a card on a device; no points: one of them has no price.
type sheet struct {
	facts   propose.Facts
	calls   []*pricing
	weights []float64 // calls of a forward
	points  map[string]*known
}

// known is a point with its spec, and the logarithm of its price by what its kernels take.
type known struct {
	spec card.Spec
	of   map[string]float64
}

// prior is what is expected of the points of a card. Nil: nothing is.
type prior struct {
	sheet    *sheet
	siblings map[*space][]sibling
}

// sibling is a point that was compiled.
type sibling struct {
	at    []int
	usage []card.Usage
	key   string
}

// of gives what is expected of a card's points, given what its candidates took that were compiled.
func (p *prices) of(c *card.Card, f propose.Facts, spaces []*space, tried []propose.Attempt) *prior {
	if p == nil || c.Target != "cuda" {
		return nil
	}
	s := p.cards[c]
	if s == nil || s.facts != f {
		if len(p.cards) >= mostCards {
			clear(p.cards)
		}
		s = sheetOf(c, f, spaces)
		p.cards[c] = s
	}
	if len(s.points) == 0 {
		return nil
	}
	q := &prior{s, map[*space][]sibling{}}
	for _, attempt := range tried {
		if s := spaceOf(spaces, attempt.Candidate); s != nil && len(attempt.Verdict.Usage) > 0 {
			q.siblings[s] = append(q.siblings[s], sibling{s.place(attempt.Candidate.Params), attempt.Verdict.Usage, fmt.Sprint(attempt.Verdict.Usage)})
		}
	}
	return q
}

// sheetOf prices all points of a card.
func sheetOf(c *card.Card, f propose.Facts, spaces []*space) *sheet {
	s := &sheet{facts: f, points: map[string]*known{}}
	variants := slices.Clone(c.Variants)
	slices.SortStableFunc(variants, func(a, b card.Variant) int {
		return cmp.Compare(float64(b.Calls)*b.EagerUS, float64(a.Calls)*a.EagerUS)
	})
	for _, v := range variants[:min(heaviest, len(variants))] {
		s.calls, s.weights = append(s.calls, pricingOf(v, f)), append(s.weights, float64(max(1, v.Calls)))
	}
	for _, space := range spaces {
		at := make([]int, len(space.params))
		for more := true; more; more = space.next(at) {
			candidate, err := space.family.Build(c, f, space.point(at))
			point := &known{candidate.Spec, map[string]float64{}}
			s.points[space.key(at)] = point
			if err != nil || !s.price(space, at, point, sibling{}) {
				return &sheet{facts: f}
			}
		}
	}
	return s
}

// price works out what a point takes if it takes what a sibling did.
func (s *sheet) price(space *space, at []int, point *known, like sibling) bool {
	sum := 0.0
	for i, call := range s.calls {
		us, ok := call.microseconds(priced{space.family.Name(), space.point(at), point.spec, like.usage})
		if !ok {
			return false
		}
		sum += us * s.weights[i]
	}
	point.of[like.key] = math.Log(sum)
	return true
}

// expected is the logarithm of a point's price; 0 without a prior.
func (q *prior) expected(s *space, at []int) float64 {
	if q == nil {
		return 0
	}
	var like sibling
	nearest := math.MaxInt
	for _, other := range q.siblings[s] {
		apart := 0
		for i := range at {
			apart += max(at[i]-other.at[i], other.at[i]-at[i])
		}
		if apart < nearest {
			like, nearest = other, apart
		}
	}
	point := q.sheet.points[s.key(at)]
	if _, done := point.of[like.key]; !done && !q.sheet.price(s, at, point, like) {
		return point.of[""]
	}
	return point.of[like.key]
}

// key names a point of a card.
func (s *space) key(at []int) string { return fmt.Sprint(s.family.Name(), at) }

// order puts steps into the order of what is expected of them.
func (q *prior) order(steps []step) {
	for i, one := range steps {
		steps[i].promise = q.expected(one.space, one.at) + doubt*float64(one.space.changed(one.at)) + later*float64(one.space.order)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.promise, b.promise) })
}

// changed counts the parameters that are not the default's.
func (s *space) changed(at []int) int {
	n := 0
	for i := range at {
		if at[i] != s.defaults[i] {
			n++
		}
	}
	return n
}

// starts divides the points of the root anew: first the best of each family of which none was tried, if it is not far behind the best of all.
func (q *prior) starts(points []step, tried []propose.Attempt) (first, rest []step) {
	q.order(points)
	begun := map[string]bool{}
	for _, attempt := range tried {
		begun[attempt.Candidate.Family] = begun[attempt.Candidate.Family] || attempt.Candidate.Author == Author
	}
	for _, one := range points {
		name := one.space.family.Name()
		if !begun[name] && one.promise <= points[0].promise+behind {
			begun[name] = true
			first = append(first, one)
		} else {
			rest = append(rest, one)
		}
	}
	return first, rest
}

// trust is how far the logarithms of costs follow those of prices, 0 to 1: the slope, drawn to 1 where prices have said little yet.
func trust(expected, costs []float64) float64 {
	n, meanX, meanY := float64(len(costs)), 0.0, 0.0
	for i := range costs {
		meanX, meanY = meanX+expected[i]/n, meanY+costs[i]/n
	}
	both, own := belief, belief
	for i := range costs {
		both += (expected[i] - meanX) * (costs[i] - meanY)
		own += (expected[i] - meanX) * (expected[i] - meanX)
	}
	return max(0, min(both/own, 1))
}
