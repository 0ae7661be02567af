package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// machine draws pairs of times as the simulation of the research does: a drift that both sides share (2 %, autocorrelation 0.97), noise of
// 2 % on each sample, and 3 % of the samples delayed by an exponential of mean 15 %.
type machine struct {
	chance *rand.Rand
	drift  float64
}

func newMachine(seed uint64) *machine { return &machine{chance: rand.New(rand.NewPCG(seed, 1))} }

func (m *machine) sample(time float64) float64 {
	time *= math.Exp(0.02 * m.chance.NormFloat64())
	if m.chance.Float64() < 0.03 {
		time *= 1 + 0.15*m.chance.ExpFloat64()
	}
	return time
}

func (m *machine) step() float64 {
	const rho = 0.97
	m.drift = rho*m.drift + 0.02*math.Sqrt(1-rho*rho)*m.chance.NormFloat64()
	return math.Exp(m.drift)
}

// pairs gives log ratios of n blocks for a kernel that is `ratio` times faster.
func (m *machine) pairs(n int, ratio float64) []float64 {
	r := make([]float64, n)
	for i := range r {
		now := m.step()
		r[i] = math.Log(m.sample(now*ratio) / m.sample(now))
	}
	return r
}

// The table of the research, section 3.7: how often a kernel of a true ratio is accepted by the paired lower bound (99.5 %, 64 blocks)
// above 1 and above 1.02. Its numbers have a standard error of at most 0.01 here.
func TestThePairedBoundAcceptsAsOftenAsTheSimulationSays(t *testing.T) {
	const trials, alpha = 3000, 0.005
	for _, row := range []struct{ ratio, above1, above102 float64 }{
		{1.00, 0.005, 0.000}, {1.01, 0.295, 0.000}, {1.02, 0.929, 0.004}, {1.03, 0.999, 0.281}, {1.05, 1.000, 1.000}, {1.10, 1.000, 1.000},
	} {
		m := newMachine(uint64(row.ratio * 1000))
		var above1, above102 float64
		for range trials {
			low := lowerMedian(m.pairs(64, row.ratio), alpha)
			if low > 0 {
				above1 += 1.0 / trials
			}
			if low > math.Log(1.02) {
				above102 += 1.0 / trials
			}
		}
		t.Logf("ratio %.2f: above 1 %.3f (%.3f), above 1.02 %.3f (%.3f)", row.ratio, above1, row.above1, above102, row.above102)
		if math.Abs(above1-row.above1) > 0.04 || math.Abs(above102-row.above102) > 0.04 {
			t.Errorf("ratio %.2f: accepted %.3f above 1 (expected %.3f) and %.3f above 1.02 (expected %.3f)",
				row.ratio, above1, row.above1, above102, row.above102)
		}
	}
}

// The second half of the table: the group-sequential rule with a margin of 2 %, and the blocks that it uses.
func TestTheSequentialRuleIsHonestAndCheapOnClearCases(t *testing.T) {
	const trials = 1000
	for _, row := range []struct{ ratio, accepts, blocks float64 }{
		{1.00, 0, 28}, {1.01, 0, 71}, {1.02, 0.002, 120}, {1.03, 0.44, 116}, {1.05, 1, 35}, {1.10, 1, 17},
	} {
		m := newMachine(uint64(row.ratio*1000) + 7)
		var accepts, blocks float64
		for range trials {
			var ratios []float64
			for _, look := range looks {
				ratios = append(ratios, m.pairs(look-len(ratios), row.ratio)...)
				end, _, _ := decide(ratios, margin{0.02, 0.02}, 1)
				if end == accepted {
					accepts += 1.0 / trials
				}
				if end != undecided {
					break
				}
			}
			blocks += float64(len(ratios)) / trials
		}
		t.Logf("ratio %.2f: accepted %.3f (%.3f), blocks %.0f (%.0f)", row.ratio, accepts, row.accepts, blocks, row.blocks)
		if math.Abs(accepts-row.accepts) > 0.08 || math.Abs(blocks-row.blocks) > 0.25*row.blocks {
			t.Errorf("ratio %.2f: accepted %.3f (expected %.3f) with %.0f blocks (expected %.0f)", row.ratio, accepts, row.accepts, blocks, row.blocks)
		}
	}
}

// Eager against eager under the margin that is really used: over a whole card with five finalists, false acceptances stay below alpha.
func TestEqualKernelsAreNotAccepted(t *testing.T) {
	const trials = 2000
	m := newMachine(42)
	wrong := 0
	for range trials {
		for range 5 {
			var ratios []float64
			for _, look := range looks {
				ratios = append(ratios, m.pairs(look-len(ratios), 1)...)
				end, _, _ := decide(ratios, margin{leastMargin, leastMargin}, 5)
				if end == accepted {
					wrong++
				}
				if end != undecided {
					break
				}
			}
		}
	}
	if share := float64(wrong) / trials; share > alphaTotal {
		t.Errorf("%.4f of the cards accepted an equal kernel (expected at most %.4f)", share, alphaTotal)
	}
}

// The winner's curse: the best of 50 equal kernels looks 1.46 % faster when pairs of 32 blocks are compared; shrunk search costs look less.
func TestShrinkageDampsTheBestOfManyEqualKernels(t *testing.T) {
	const trials, kernels, blocks = 200, 50, 8
	m := newMachine(3)
	var raw, shrunk []float64
	for range trials {
		best, bestShrunk := math.Inf(-1), math.Inf(-1)
		for range kernels {
			r := m.pairs(blocks, 1)
			best, bestShrunk = max(best, median(r)), max(bestShrunk, shrink(r))
		}
		raw, shrunk = append(raw, best), append(shrunk, bestShrunk)
	}
	if !(median(shrunk) < 0.99*median(raw)) || median(shrunk) <= 0 {
		t.Errorf("best of %d equal kernels: %.4f raw, %.4f shrunk", kernels, median(raw), median(shrunk))
	}
	clear := m.pairs(blocks, 3)
	if got := shrink(clear); math.Abs(got-math.Log(3)) > 0.05 {
		t.Errorf("a kernel 3 times faster is shrunk to %.3f", math.Exp(got))
	}
	noisy := []float64{0.1, 0.9, -0.6, 1.4}
	if got := shrink(noisy); got > 0.2*median(noisy) {
		t.Errorf("four samples all over the place are shrunk from %.3f to %.3f only", median(noisy), got)
	}
}

func TestTheLowerBoundIsTheOrderStatistic(t *testing.T) {
	values := []float64{5, 3, 1, 4, 2, 8, 7, 6, 10, 9} // n = 10: P(B <= 0) = 0.00098, P(B <= 1) = 0.0107, P(B <= 2) = 0.0547
	for _, c := range []struct{ alpha, want float64 }{{0.0005, math.Inf(-1)}, {0.001, 1}, {0.0108, 2}, {0.05, 2}, {0.055, 3}, {0.5, 5}} {
		if got := lowerMedian(values, c.alpha); got != c.want {
			t.Errorf("alpha %g: %g (expected %g)", c.alpha, got, c.want)
		}
		if got := upperMedian(values, c.alpha); got != 11-c.want {
			t.Errorf("alpha %g: upper bound %g (expected %g)", c.alpha, got, 11-c.want)
		}
	}
	if got := lowerMedian(nil, 0.5); !math.IsInf(got, -1) {
		t.Errorf("of nothing: %g", got)
	}
}

func TestTheMarginIsTheLargestOfItsThree(t *testing.T) {
	for _, c := range []struct{ eagerUS, aa, accept, giveUp float64 }{{1e6, 0, 0.01, 0.01}, {1e6, 0.02, 0.06, 0.01}, {4, 0.001, 0.05, 0.05}} {
		got := marginOf(c.eagerUS, c.aa, deviceMarginUS)
		if math.Abs(got.accept-c.accept) > 1e-12 || math.Abs(got.giveUp-c.giveUp) > 1e-12 {
			t.Errorf("eager %g us, A/A %g: %+v (expected %g, and %g for giving up)", c.eagerUS, c.aa, got, c.accept, c.giveUp)
		}
	}
}

// What the host's margin is for: a gain of 0.7 us of 8.6 us, seen in one process, was a loss in the next.
func TestAGainOfLessThanTwoProcessesDifferIsNoneOnTheHost(t *testing.T) {
	if got := marginOf(8.554, 0.0157, hostMarginUS); got.accept < 0.3 {
		t.Errorf("a margin of %g (expected more than the 0.07 that were seen)", got.accept)
	}
	if got := marginOf(1000, 0.001, hostMarginUS); got.accept != leastMargin {
		t.Errorf("a margin of %g for a millisecond (expected %g)", got.accept, leastMargin)
	}
}

func TestCorrelatedBlocksAreThinned(t *testing.T) {
	chance := rand.New(rand.NewPCG(9, 9))
	walk, noise := make([]float64, 64), make([]float64, 64)
	for i := range walk {
		noise[i] = chance.NormFloat64()
		walk[i] = noise[i]
		if i > 0 {
			walk[i] += 0.95 * walk[i-1]
		}
	}
	if got := len(thin(walk)); got != 32 {
		t.Errorf("%d of 64 correlated blocks are used (expected 32)", got)
	}
	if got := thin(noise); !slices.Equal(got, noise) {
		t.Errorf("%d of 64 independent blocks are used", len(got))
	}
	if same := thin(make([]float64, 64)); len(same) != 64 {
		t.Errorf("%d of 64 equal blocks are used", len(same))
	}
}
