package template

// evidence.go owns what the candidates that were judged say of those that were not. It refuses to decide where the tree grows: that is go/search's.
//
// A Gaussian process over each family's parameters predicts the logarithm of the cost, or how it differs from what the prior (prior.go) expects, which is
// believed as far as costs follow it; steps are tried in the order of
//
//	trust * prior + mean - explore * deviation                        the least first
//	k(a, b) = additive * mean_i k_i + (1 - additive) * prod_i k_i,    k_i = exp(-d_i^2 / (2 reach^2))
//
// d_i being how many places the values of parameter i lie apart. The first part says that a parameter does much the same whatever the others are, the
// second that near points are alike. A candidate that failed counts as the worst that has a cost: its neighbours are tried later, not never. How much of
// the costs is noise is taken from them as well: with it fixed, the search did worse than chance on a table that was mostly noise (TestNoiseIsNotRead).
//
// Source: Bayesian optimisation as of kernel tuners (Willemsen, van Nieuwpoort, van Werkhoven 2021, arXiv 2111.14991); additive kernels: Duvenaud,
// Nickisch, Rasmussen 2011.

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

const (
	leastEvidence = 3    // candidates with a cost before they say anything of others
	mostEvidence  = 64   // the newest of a family, so that a step costs no more however long a run is
	additive      = 0.7  // part of the kernel in which parameters act alone
	explore       = 1.0  // deviations that an unknown point is given credit for
	leastSpread   = 0.05 // of the logarithms of costs: below, differences are mostly the timing's
)

// What of the spread is the parameters' doing, the rest being noise, and over how many places a parameter's effect stays much the same: of these the
// likeliest is taken, so that costs which follow no parameter are not read as if they did.
var (
	signals = []float64{0.97, 0.85, 0.5, 0.15}
	reaches = []float64{1, 2.5}
)

// evidence predicts by family. Nil: nothing is known, and what the prior expects, or the nearest, comes first.
type evidence struct {
	by    map[*space]*surface
	prior *prior
	trust float64 // in the prior
}

// surface is what is known of one family.
type surface struct {
	at           [][]int
	weights      []float64 // K^-1 (y - mean)
	inverse      []float64 // K^-1, row by row
	signal       float64
	likeness     likeness
	mean, spread float64
	row          []float64 // of the point that is asked about; a surface is asked by one goroutine
}

func evidenceOf(spaces []*space, tried []propose.Attempt, expects *prior) *evidence {
	costs := map[*space][]float64{}
	places := map[*space][][]int{}
	var all, expected []float64
	for _, attempt := range tried {
		s := spaceOf(spaces, attempt.Candidate)
		if s == nil {
			continue
		}
		y := math.NaN()
		if attempt.Verdict.Status == card.OK {
			y = math.Log(attempt.Verdict.Cost)
			all, expected = append(all, y), append(expected, expects.expected(s, s.place(attempt.Candidate.Params)))
		}
		costs[s], places[s] = append(costs[s], y), append(places[s], s.place(attempt.Candidate.Params))
	}
	if len(all) < leastEvidence {
		return nil
	}
	e := &evidence{by: map[*space]*surface{}, prior: expects, trust: trust(expected, all)}
	worst := slices.Max(all)
	for i := range all {
		all[i] -= e.trust * expected[i]
	}
	mean, deviation := stat.PopMeanStdDev(all, nil)
	spread := max(deviation, leastSpread)
	for _, s := range spaces {
		e.by[s] = &surface{mean: mean, spread: spread}
		if n := len(costs[s]); n > 0 {
			from := max(0, n-mostEvidence)
			at, y := places[s][from:], costs[s][from:]
			for i := range y {
				if math.IsNaN(y[i]) {
					y[i] = worst
				}
				y[i] -= e.trust * expects.expected(s, at[i])
			}
			e.by[s].fit(at, y)
		}
	}
	return e
}

// fit takes the evidence of one family in. The family's own mean is drawn to that of all.
func (s *surface) fit(at [][]int, costs []float64) {
	n, sum := len(at), s.mean
	for _, y := range costs {
		sum += y
	}
	s.mean = sum / float64(n+1)
	y := mat.NewVecDense(n, nil)
	for i := range n {
		y.SetVec(i, (costs[i]-s.mean)/s.spread)
	}
	likeliest := math.Inf(-1)
	for _, reach := range reaches {
		near := likenessWithin(reach)
		for _, signal := range signals {
			k, weights := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
			for i := range n {
				for j := range i {
					k.SetSym(i, j, signal*near.kernel(at[i], at[j]))
				}
				k.SetSym(i, i, 1)
			}
			var factor mat.Cholesky
			if !factor.Factorize(k) || factor.SolveVecTo(weights, y) != nil {
				continue // cannot be: there is noise on the diagonal
			}
			likely := -mat.Dot(y, weights) - factor.LogDet()
			if inverse := mat.NewSymDense(n, nil); likely > likeliest && factor.InverseTo(inverse) == nil {
				likeliest = likely
				s.at, s.weights, s.signal, s.likeness = at, weights.RawVector().Data, signal, near
				s.inverse, s.row = mat.DenseCopyOf(inverse).RawMatrix().Data, make([]float64, n)
			}
		}
	}
}

// promise is how little a point may cost: the logarithm.
func (s *surface) promise(at []int) float64 {
	if len(s.at) == 0 {
		return s.mean - explore*s.spread
	}
	mean, known := 0.0, 0.0
	for i := range s.row {
		s.row[i] = s.signal * s.likeness.kernel(at, s.at[i])
		mean += s.row[i] * s.weights[i]
	}
	for i, k := range s.row {
		inner := 0.0
		for j, inverse := range s.inverse[i*len(s.row) : (i+1)*len(s.row)] {
			inner += inverse * s.row[j]
		}
		known += k * inner
	}
	return s.mean + s.spread*(mean-explore*math.Sqrt(max(0, s.signal-known)))
}

// likeness is exp(-d^2 / (2 reach^2)) for d = 0, 1, ...; beyond its end it is 0 for all that matters.
type likeness []float64

func likenessWithin(reach float64) likeness {
	a := make(likeness, 1+int(5*reach))
	for d := range a {
		a[d] = math.Exp(-float64(d*d) / (2 * reach * reach))
	}
	return a
}

// kernel says how alike two points of a family are, which has a parameter at least where it has two points.
func (a likeness) kernel(x, y []int) float64 {
	if len(x) == 0 {
		return 1
	}
	sum, product := 0.0, 1.0
	for i := range x {
		one := 0.0
		if d := max(x[i]-y[i], y[i]-x[i]); d < len(a) {
			one = a[d]
		}
		sum += one
		product *= one
	}
	return additive*sum/float64(len(x)) + (1-additive)*product
}

// order puts steps that were shuffled into the order in which they are worth a try.
func (e *evidence) order(steps []step) {
	for i, one := range steps {
		steps[i].promise = e.by[one.space].promise(one.at) + e.trust*e.prior.expected(one.space, one.at)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.promise, b.promise) })
}
