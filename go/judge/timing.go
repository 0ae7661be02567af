package judge

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Search timing: interleaved blocks of candidate and eager, the reference kernel's check, and the cost.

// The plan of the search's timing. A block is both sides once, in random order; it counts as one paired sample.
const (
	leastBlocks  = 8 // on the host
	mostBlocks   = 16
	enoughError  = 0.02   // standard error of the cost at which the least number of blocks is enough
	glanceBlocks = 3      // after these a hopeless candidate is given up
	hopeless     = 1.25   // times eager's time, in every block so far
	sampleUS     = 200.0  // a sample lasts at least this long, as long as mostInner allows
	longUS       = 20_000 // above this one sample makes a side of a block
	mostInner    = 200
	perSide      = 3
	floorShare   = 0.7 // of the roof: no kernel moves its bytes that much faster than a copy does

	// No launch is below these, whatever it does: an empty kernel in a replayed graph takes 0.8 us and more of a device; on the host a call through
	// the pool takes about 20 ns.
	deviceLaunchUS = 0.3
	hostLaunchUS   = 0.003
)

// cost times the trial's variants against eager and weighs them by what they take of the model.
func (t *trial) cost(ctx context.Context) (card.Verdict, error) {
	verdict := card.Verdict{Status: card.OK}
	var weights, weighted float64
	least := t.leastBlocks()
	for _, v := range t.variants {
		measured, err := t.time(ctx, v, least[v.ID])
		if err != nil {
			return card.Verdict{}, err
		}
		if t.impossible(v, measured.candidateUS) {
			err := fail(GateFloor, card.TooFast, "%.4g us for %d bytes: below %.4g us, in which it cannot have moved what lies outside the last cache of %d bytes, or been launched (the copy time of all is %.4g us)",
				measured.candidateUS, v.Bytes, t.floorUS(v), t.judge.target.traits().cacheBytes, v.RoofUS)
			return card.Verdict{}, t.at(err, v, nil, 0)
		}
		evidence := card.VariantCost{ID: v.ID, Cost: math.Exp(-shrink(measured.ratios)), CandidateUS: measured.candidateUS, EagerUS: measured.eagerUS,
			Samples: len(measured.ratios), Dropped: measured.noisy + measured.throttled}
		verdict.Variants = append(verdict.Variants, evidence)
		weight := float64(max(v.Calls, 1)) * measured.eagerUS
		weights += weight
		weighted += weight * evidence.Cost
		if dropped := measured.dropped(); dropped != "" && verdict.Detail == "" {
			verdict.Detail = fmt.Sprintf("of variant `%s` %s", v.ID, dropped)
		}
	}
	if err := t.stillCorrect(ctx); err != nil {
		return card.Verdict{}, err
	}
	verdict.Cost = weighted / weights
	return verdict, nil
}

// leastBlocks gives each variant's least number of blocks: those that weigh little may be known less well.
func (t *trial) leastBlocks() map[string]int {
	traits, least := t.judge.target.traits(), map[string]int{}
	for i, v := range heaviestFirst(t.variants) {
		if least[v.ID] = traits.blocks; i >= traits.thorough {
			least[v.ID] = (traits.blocks + 1) / 2
		}
	}
	return least
}

// impossible says whether a time is below the physical floor.
func (t *trial) impossible(v card.Variant, us float64) bool {
	return !t.judge.off(GateFloor) && us < t.floorUS(v)
}

// floorUS is the time below which a variant cannot be: that of launching its kernels, and that of moving the bytes which the last cache cannot have
// held from the call before; data that fits it can be faster than memory is.
func (t *trial) floorUS(v card.Variant) float64 {
	traits := t.judge.target.traits()
	uncached := max(0, 1-float64(traits.cacheBytes)/float64(max(v.Bytes, 1)))
	return max(traits.launchUS, floorShare*uncached*v.RoofUS)
}

// measured is the timing of one variant.
type measured struct {
	ratios               []float64 // log(eager / candidate), one a block
	eagerUS, candidateUS float64   // medians
	noisy                int       // blocks dropped because one process was disturbed
	throttled            int       // blocks dropped because the device was slowed down, or its clock moved
	reason               string    // the last of them: why
}

func (m measured) dropped() string {
	var parts []string
	if m.noisy > 0 {
		parts = append(parts, fmt.Sprintf("%d blocks were disturbed and dropped", m.noisy))
	}
	if m.throttled > 0 {
		parts = append(parts, fmt.Sprintf("%d blocks were measured under %s and dropped", m.throttled, m.reason))
	}
	return strings.Join(parts, ", ")
}

// time measures one variant in interleaved blocks, with no compile of ours beside it.
func (t *trial) time(ctx context.Context, v card.Variant, least int) (measured, error) {
	defer t.judge.hush(ctx)()
	b := newBlocks(v, t)
	var kept, all measuredBlocks
	throttled, why := 0, ""
	before, err := t.reading(ctx)
	if err != nil {
		return measured{}, err
	}
	for attempt := 0; attempt < 2*mostBlocks && !enough(kept.ratios(), least); attempt++ {
		if err := ctx.Err(); err != nil {
			return measured{}, err
		}
		block, err := b.next(ctx)
		if err != nil {
			return measured{}, err
		}
		after, err := t.reading(ctx)
		if err != nil {
			return measured{}, err
		}
		all = append(all, block)
		switch reason := disturbance(before, after); {
		case reason != "":
			throttled, why = throttled+1, reason
		case t.judge.band.holds(block.reference):
			kept = append(kept, block)
		}
		before = after
	}
	noisy := len(all) - len(kept) - throttled
	if len(kept) < glanceBlocks { // the machine is never quiet: all blocks say more than none
		kept = all
	}
	result := kept.sum(noisy)
	result.throttled, result.reason = throttled, why
	return result, nil
}

// reading is what the device's sensors say now; nothing where there are none.
func (t *trial) reading(ctx context.Context) (worker.Telemetry, error) {
	if !t.judge.target.traits().telemetry {
		return worker.Telemetry{}, nil
	}
	telemetry, _, err := t.worker.Telemetry(ctx, runFloor)
	if err != nil {
		return worker.Telemetry{}, t.ended(err, "read telemetry")
	}
	if telemetry == nil {
		return worker.Telemetry{}, nil
	}
	return *telemetry, nil
}

// enough decides after each block whether the next is worth its time.
func enough(ratios []float64, least int) bool {
	n := len(ratios)
	switch {
	case n < min(least, glanceBlocks):
		return false
	case n == mostBlocks:
		return true
	}
	best := math.Inf(-1)
	for _, r := range ratios {
		best = max(best, r)
	}
	if best < -math.Log(hopeless) {
		return true
	}
	// The error that matters is the cost's: a candidate ten times as fast as eager is known well enough ten times as soon.
	cost := math.Exp(-median(ratios))
	return n >= least && min(1, cost)*medianSpread*spread(ratios)/math.Sqrt(float64(n)) < enoughError
}

// blocks makes paired blocks of one variant.
type blocks struct {
	trial          *trial
	variant        card.Variant
	kernel         int
	sets           [][]*worker.Slot
	samples, inner int
	limit          time.Duration
	chance         *rand.Rand
	warm           bool
}

func newBlocks(v card.Variant, t *trial) *blocks {
	traits := t.judge.target.traits()
	us := max(v.EagerUS, t.runUS[v.ID]-traits.overheadUS, 0.01)
	b := &blocks{trial: t, variant: v, kernel: t.kernels[v.ID], samples: perSide, inner: int(min(max(math.Ceil(sampleUS/us), 1), mostInner))}
	if all := min(len(t.open.prepared.Timing[v.ID]), mostInner); traits.rotate && us*float64(all) <= longUS {
		b.inner = max(b.inner, all)
	}
	if us*float64(b.inner) > longUS {
		b.samples = 1
	}
	for _, set := range t.open.prepared.Timing[v.ID] {
		row := make([]*worker.Slot, len(set))
		for i, s := range set {
			if s != nil {
				row[i] = &worker.Slot{Buffer: s.Buffer, Offset: s.Offset}
			}
		}
		b.sets = append(b.sets, row)
	}
	launches := float64(b.samples*b.inner + len(b.sets))
	b.limit = 2*runFloor + time.Duration(launches*slowest*us*float64(time.Microsecond))
	seed := fnv.New64a()
	fmt.Fprint(seed, t.card.ID, v.ID, t.open.seed)
	b.chance = rand.New(rand.NewPCG(seed.Sum64(), 1))
	return b
}

type measuredBlock struct {
	eagerNS, candidateNS float64
	reference            float64 // log ratio of the reference kernel's times in the two processes
}

type measuredBlocks []measuredBlock

// next measures both sides once, in random order. The first block also warms the worker's side.
func (b *blocks) next(ctx context.Context) (measuredBlock, error) {
	var block measuredBlock
	var theirs, ours float64 // the reference kernel's time in the worker and here
	candidate := func() error {
		samples, reference, err := b.trial.worker.Time(ctx, b.limit, b.kernel, b.sets, b.samples, b.inner, !b.warm)
		if err != nil {
			return b.trial.ended(err, fmt.Sprintf("time variant `%s`", b.variant.ID))
		}
		b.warm = true
		block.candidateNS, theirs = median(samples), reference
		return nil
	}
	eager := func() error {
		timed, err := b.trial.judge.referee.TimeEager(ctx, b.trial.card.ID, b.variant.ID, b.samples, b.inner)
		if err != nil {
			return fmt.Errorf("time eager: %w", err)
		}
		if err := timed.check(b.samples); err != nil {
			return card.Fail(card.CodeReferee, "", "time eager on variant `%s`: %w", b.variant.ID, err)
		}
		block.eagerNS, ours = median(timed.SamplesNS), timed.ReferenceNS
		return nil
	}
	sides := []func() error{candidate, eager}
	if b.chance.IntN(2) == 1 {
		sides[0], sides[1] = sides[1], sides[0]
	}
	for _, side := range sides {
		if err := side(); err != nil {
			return block, err
		}
	}
	block.reference = math.Log(theirs / ours)
	return block, nil
}

func (t *Timed) check(samples int) error {
	if len(t.SamplesNS) != samples || !positive(t.SamplesNS) || !positive([]float64{t.ReferenceNS}) {
		return fmt.Errorf("the referee answered %v and the reference time %g ns (expected %d times above 0)", t.SamplesNS, t.ReferenceNS, samples)
	}
	return nil
}

func positive(values []float64) bool {
	for _, v := range values {
		if !(v > 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func (m measuredBlocks) ratios() []float64 {
	ratios := make([]float64, len(m))
	for i, b := range m {
		ratios[i] = math.Log(b.eagerNS / b.candidateNS)
	}
	return ratios
}

func (m measuredBlocks) sum(noisy int) measured {
	eager, candidate := make([]float64, len(m)), make([]float64, len(m))
	for i, b := range m {
		eager[i], candidate[i] = b.eagerNS, b.candidateNS
	}
	return measured{ratios: m.ratios(), eagerUS: median(eager) / 1e3, candidateUS: median(candidate) / 1e3, noisy: noisy}
}

// stillCorrect runs the first case of each variant that is looked at closely once more after the timing: a kernel that changes its ways after many launches is caught.
func (t *trial) stillCorrect(ctx context.Context) error {
	if t.judge.off(GateRepeats) {
		return nil
	}
	var before *step
	for i, v := range heaviestFirst(t.variants) {
		if i >= t.judge.target.traits().thorough {
			break
		}
		first := slices.IndexFunc(t.open.prepared.Cases, func(k Case) bool { return k.Variant == v.ID })
		now := step{variant: v, input: t.open.prepared.Cases[first], repeat: repeats}
		if err := t.between(ctx, before, &Poison{Case: now.input.ID, Pattern: repeats % patterns}); err != nil {
			return err
		}
		if err := t.run(ctx, v, now.input, repeats, repeats); err != nil {
			return err
		}
		before = &now
	}
	return t.between(ctx, before, nil)
}

// band is what the reference kernel's time in the worker / its time in the user's process was so far, as log ratios. A block outside the
// band was disturbed on one side.
type band struct{ seen []float64 }

const (
	bandMemory = 64
	bandFirst  = 8    // blocks before the band is the machine's own
	bandWide   = 0.25 // until then
	bandLeast  = 0.10
	bandSigmas = 4
)

// holds says whether a block's ratio lies in the band, and remembers it: a median and a spread of medians do not mind the outliers.
func (b *band) holds(ratio float64) bool {
	in := math.Abs(ratio) <= bandWide
	if len(b.seen) >= bandFirst {
		in = math.Abs(ratio-median(b.seen)) <= max(bandLeast, bandSigmas*spread(b.seen))
	}
	b.seen = append(b.seen, ratio)
	if len(b.seen) > bandMemory {
		b.seen = b.seen[1:]
	}
	return in
}
