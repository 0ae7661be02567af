package judge

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// The numbers of the decision rule. The simulation in statistics_test.go holds what they do.
const (
	alphaTotal   = 0.005 // one-sided chance to accept a kernel that gains nothing beyond the margin, over all looks and finalists of a variant
	alphaReject  = 0.05  // one-sided, for stopping early on a kernel that gains nothing
	leastMargin  = 0.01  // a gain below this is not worth a kernel
	marginAA     = 3     // times the half-width of eager against eager
	priorWidth   = 0.10  // of the log ratio in search: most candidates are within 10 % of eager
	mostLag      = 0.3   // autocorrelation of neighbouring blocks from which on every other block is used
	madToSigma   = 1.4826
	medianSpread = 1.2533 // standard error of a median / standard error of a mean, for a normal distribution
)

// looks are the numbers of paired blocks at which a finalist may be accepted or rejected.
var looks = [...]int{16, 32, 64, 128}

// lowerMedian is a lower bound of the median of what the values are drawn from, wrong with a chance of at most alpha: the k-th smallest
// value, k the largest number with P(Binomial(n, 1/2) <= k-1) <= alpha. No distribution is assumed. -Inf if there are too few values.
func lowerMedian(values []float64, alpha float64) float64 {
	n := len(values)
	if n == 0 {
		return math.Inf(-1)
	}
	coin := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for k < n && coin.CDF(float64(k)) <= alpha {
		k++
	}
	if k == 0 {
		return math.Inf(-1)
	}
	return slices.Sorted(slices.Values(values))[k-1]
}

// upperMedian is the mirror image of lowerMedian.
func upperMedian(values []float64, alpha float64) float64 {
	negated := make([]float64, len(values))
	for i, v := range values {
		negated[i] = -v
	}
	return -lowerMedian(negated, alpha)
}

// median of values that are not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// logRatios of paired samples: positive where the second is faster.
func logRatios(first, second []float64) []float64 {
	ratios := make([]float64, min(len(first), len(second)))
	for i := range ratios {
		ratios[i] = math.Log(first[i] / second[i])
	}
	return ratios
}

// spread is a standard deviation that outliers do not move: the median distance to the median, scaled.
func spread(values []float64) float64 {
	middle := median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - middle)
	}
	return madToSigma * median(distances)
}

// shrink is the posterior mean of a log ratio: prior centred on 0 (eager's speed), its width priorWidth, the data's the standard error of
// their median. It is what the search sees: the best of many equal kernels should not look fast.
func shrink(ratios []float64) float64 {
	n := float64(len(ratios))
	if n == 0 {
		return 0
	}
	const floor = 0.005 // few samples may agree by chance
	deviation := medianSpread * max(spread(ratios), floor) / math.Sqrt(n)
	return median(ratios) * priorWidth * priorWidth / (priorWidth*priorWidth + deviation*deviation)
}

// thin keeps every other value if neighbours are correlated, since the bound assumes independent blocks.
func thin(values []float64) []float64 {
	if len(values) < 8 {
		return values
	}
	if lag := stat.Correlation(values[:len(values)-1], values[1:], nil); !(lag >= mostLag) { // NaN when all are equal
		return values
	}
	kept := make([]float64, 0, (len(values)+1)/2)
	for i := 0; i < len(values); i += 2 {
		kept = append(kept, values[i])
	}
	return kept
}

// halfWidth of the 95 % interval of a median.
func halfWidth(ratios []float64) float64 {
	return (upperMedian(ratios, alphaReject/2) - lowerMedian(ratios, alphaReject/2)) / 2
}

// margin is the gain that must be exceeded, as a ratio above 1. Its part that comes from eager against eager shrinks with more blocks: it may
// hold back an acceptance, but is no reason to give up early.
type margin struct{ accept, giveUp float64 }

func marginOf(eagerUS, aaHalfWidth, marginUS float64) margin {
	least := max(leastMargin, marginUS/eagerUS)
	return margin{accept: max(least, marginAA*aaHalfWidth), giveUp: least}
}

// The margin in microseconds. On a device: what a guarded call may cost more than eager's. On the host eager's own time of one call differs more than
// that from process to process, which no pairing inside one process sees: 8.6 us where a study had run, 5.7 us in a fresh process (a batch norm of
// 4x64x14x14 on two threads, whose kernel of 7.9 us had been accepted).
const (
	deviceMarginUS = 0.2
	hostMarginUS   = 3.0
)

type decision int

const (
	undecided decision = iota
	accepted
	rejected
)

// decide looks at the log ratios of one finalist out of `tries`, once per look. low and high are the bounds that decided.
func decide(ratios []float64, m margin, tries int) (end decision, low, high float64) {
	alpha := alphaTotal / float64(len(looks)) / float64(max(tries, 1))
	used := thin(ratios)
	low, high = lowerMedian(used, alpha), upperMedian(used, alpha)
	if low > math.Log1p(m.accept) {
		return accepted, low, high
	}
	if early := upperMedian(used, alphaReject); early < math.Log1p(m.giveUp) {
		return rejected, low, early
	}
	return undecided, low, high
}
