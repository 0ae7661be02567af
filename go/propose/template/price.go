package template

// price.go owns what a candidate is expected to take before it was compiled: microseconds, worked out from its launch spec, the sizes of a call and what
// the device says of itself. It refuses to choose (prior.go orders), and knows nothing of a family but what its spec and its point say.
//
//	t      = sum over kernels of  start + (move^s + wait^s)^(1/s)      whichever is longer, and a little more where both are long
//	s      = blocks / multiprocessors, 1 to 4                          a multiprocessor with one block moves nothing while that waits, unless it has
//	                                                                   several rows on their way (DEPTH)
//	move   = bytes / rate                                              what comes and goes, at the device's own copy rate
//	wait   = ceil(waves) * (begin + rounds * latency + folds * fold)   what it takes however fast memory is
//	waves  = blocks / (multiprocessors * blocks that fit one)          rounded up: the last, partly empty one is the tail
//	rounds = elements / (blocks * threads * what a thread has in flight)
//
// wait is Little's law by another name: at the copy rate a multiprocessor has latency * rate / multiprocessors bytes in flight, and a launch that has
// fewer (small vectors, few blocks, registers that let few in, threads without work) needs more waves or rounds than move leaves time for.
//
// A tensor is moved once for each kernel that names it; a second kernel finds it in the L2 where it fits. Left out: instructions (a half type's norm
// takes as long to compute as to move), caches within a kernel, what the compiler does.

import (
	"math"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// The constants, measured on an H200; in microseconds where no unit is said. price_test.go compares what comes of them with candidates that were timed.
const (
	start   = 2.4  // of a kernel until it moves at its rate: copies take 2.4 us + bytes / rate (bench/ops.py's first measurements, 114 cases)
	latency = 0.8  // of a load from memory that is busy: one float a thread at a time reaches 2.7 of 4.3 TB/s, which is 8 KiB of reads in 0.8 us
	begin   = 0.45 // of a block: blocks of one load and no barrier come and go in 1.25 us (author-h200.json: mean_of_64 TEAM 16 and 32, cumsum TEAM 128)
	fold    = 0.9  // of a sum or a maximum of a whole block, with its barriers (author-h200.json: norm_blocks THREADS 512, two of them in 3.07 us)
	meeting = 4.0  // of all blocks through memory, once a turn (author-h200.json: norm_team, 5.6 us a turn with 32 of them, 6.1 with 8)

	sharp      = 4.0     // the most of s: 19 % more where move and wait are equal
	packed     = 0.9     // of the multiprocessors that clusters of more than two find, which lie in one of the groups of 16 or 18; a guess: 32 of 4 took longer than 32 of 2
	copyRate   = 4.3e6   // bytes a microsecond, where a card has no `roof_us`: an H200's at 1 GB
	cacheRate  = 1.7     // of the L2 over that of memory: 5 to 10 TB/s, of which the middle (the QuACK notes on an H100)
	cachePart  = 0.6     // of the L2 that is still there for the next kernel: 30 of 50 MB
	ownRate    = 3.0     // what one multiprocessor can move over its part of the copy rate: about 64 bytes a clock
	sector     = 32      // bytes that come for a single element: a copy with VEC 1 of a turned matrix took what that says (author-h200.json)
	line       = 64      // bytes that memory brings at least (the QuACK notes on an H100), of which the L2 gives others the rest
	defaultSMs = 132     // where facts have none: an H200
	fewest     = 32      // registers of a thread where it keeps little, before a sibling was compiled: 29 to 34 of those that were
	ofKept     = 3.0 / 4 // registers a byte of a row that a thread keeps, beside `beside`: 56 for 64 bytes, 80 and 95 for 128
	ofLoads    = 3.0 / 8 // the same of loads that are summed at once: 31 to 64 for 64 bytes, 47 for 128
	beside     = 8
	firstFit   = "sm_90"   // whose limits are taken where an architecture is not known
	firstSmem  = 227 << 10 // bytes: its `smem_optin`
)

// blocksFit is a name in expressions whose value is the kernel's own.
const blocksFit = "max_blocks_per_sm"

// rowFolds are the sums or maxima of a whole row that a family's block takes one after the other, where the row is more than a warp's.
var rowFolds = map[string]float64{
	"softmax_blocks": 2, "softmax_cluster": 2, "softmax_columns": 2, "norm_blocks": 2, "norm_stream": 2, "norm_cluster": 2, "group_norm_cluster": 2,
}

// priced is a point whose price is asked for: with what its kernels take, as far as that is known.
type priced struct {
	family string
	point  Point
	spec   card.Spec
	usage  []card.Usage // of a sibling; nil: none was compiled yet
}

// pricing is a call on a device.
type pricing struct {
	call  card.Call
	facts propose.Facts
	rate  float64 // bytes a microsecond
	names map[string]int64
	found map[string]int64 // values of expressions that do not depend on what fits: many points share them
}

func pricingOf(v card.Variant, f propose.Facts) *pricing {
	if f.SMCount <= 0 {
		f.SMCount = defaultSMs
	}
	rate := copyRate
	if v.RoofUS > 0 && v.Bytes > 0 {
		rate = float64(v.Bytes) / v.RoofUS
	}
	return &pricing{v.Call, f, rate, callNames(v.Call, f), map[string]int64{}}
}

// launched is a kernel of a spec with its numbers.
type launched struct {
	kernel   card.Kernel
	blocks   float64
	threads  float64 // of a block
	resident float64 // blocks that fit a multiprocessor
}

// microseconds is the price of a point. false: its spec is none of a device, or has an expression that cannot be worked out.
func (c *pricing) microseconds(at priced) (float64, bool) {
	if len(at.spec.Kernels) == 0 {
		return 0, false
	}
	list, blocks := make([]launched, len(at.spec.Kernels)), map[string]float64{}
	for i, kernel := range at.spec.Kernels {
		var ok bool
		if list[i], ok = c.launched(at, kernel); !ok {
			return 0, false
		}
		blocks[kernel.Entry] += list[i].blocks
	}
	turns := 0.0
	if teams := at.point["TEAMS"]; teams > 0 {
		turns = math.Ceil(float64(normsOf(c.call)) / float64(teams))
	}
	total, readers := 0.0, map[string]string{} // slot -> the entry that had it first
	for _, l := range list {
		bytes, ok := c.bytes(at, l, l.blocks/blocks[l.kernel.Entry], readers)
		if !ok {
			return 0, false
		}
		used := math.Min(1, l.blocks*ownRate/float64(c.facts.SMCount))
		move := bytes / (c.rate * used)
		wait := c.wait(at, l, l.blocks/blocks[l.kernel.Entry]) + turns*meeting
		together := max(1, min(max(l.blocks/float64(c.facts.SMCount), float64(at.point["DEPTH"])), sharp))
		total += start + math.Pow(math.Pow(move, together)+math.Pow(wait, together), 1/together)
	}
	return total, true
}

// launched works out a kernel's launch: its blocks may depend on how many fit.
func (c *pricing) launched(at priced, kernel card.Kernel) (launched, bool) {
	l := launched{kernel: kernel, blocks: 1, threads: 1}
	use := card.Usage{Entry: kernel.Entry, Registers: at.registers(c.item())}
	for _, known := range at.usage {
		if known.Entry == kernel.Entry {
			use = known
		}
	}
	facts := c.facts
	fill, ok := brief.FillOf(facts, kernel, use)
	if !ok {
		facts.Arch, facts.SmemOptin = firstFit, firstSmem
		if fill, ok = brief.FillOf(facts, kernel, use); !ok {
			return l, false
		}
	}
	l.threads, l.resident = float64(fill.Threads), float64(max(1, fill.Blocks)) // one that does not fit is not launched, which the judge will say
	c.names[blocksFit] = int64(l.resident)
	for _, text := range kernel.Grid {
		n, ok := c.value(text)
		if !ok {
			return l, false
		}
		l.blocks *= float64(max(1, n))
	}
	return l, true
}

// value is that of an expression which is not negative.
func (c *pricing) value(text string) (int64, bool) {
	if value, ok := c.found[text]; ok {
		return value, true
	}
	value, err := evaluate(text, c.names)
	if err == nil && value >= 0 && !strings.Contains(text, blocksFit) {
		c.found[text] = value
	}
	return value, err == nil && value >= 0
}

// wait is what waves of blocks take whose loads come one latency after the other. part: of the call, that is this kernel's.
func (c *pricing) wait(at priced, l launched, part float64) float64 {
	rounds := 1.0
	if per := at.elements(); per > 0 {
		rounds = max(1, c.most(l.kernel)*part/(l.blocks*l.threads*float64(per)))
	}
	each := latency
	once := begin
	if f := rowFolds[at.family]; f > 0 && l.threads > 32 && (at.point["TEAM"] == 0 || at.point["TEAM"] > 32) {
		if at.point["UNROLL"] == 0 { // a round is a row
			each += f * fold
		} else {
			once += f * fold
		}
	}
	waves := l.blocks / (float64(c.facts.SMCount) * l.resident)
	if len(l.kernel.Cluster) > 0 && l.kernel.Cluster[0] != "2" {
		waves /= packed
	}
	return math.Ceil(waves) * (once + rounds*each)
}

// elements are what a thread asks for before it waits; 0: all that it ever does.
func (at priced) elements() int {
	vector := at.number("VEC")
	if vector == 0 || strings.Contains(at.family, "_pool") { // a pool's vectors are of what it writes
		return 0
	}
	for _, name := range []string{"UNROLL", "ITEMS", "LOADS", atOnce[at.family]} {
		if n := at.number(name); n > 0 {
			return vector * n
		}
	}
	return vector
}

// atOnce are parameters of families that have so many loads on their way, where the name does not say so everywhere.
var atOnce = map[string]string{"batch_norm_channels": "ROWS"}

// registers is a guess, from the bytes that a thread has in flight.
func (at priced) registers(item int) int {
	each := ofLoads
	if at.point["UNROLL"] == 0 && at.number("ITEMS") > 0 {
		each = ofKept
	}
	return max(fewest, min(beside+int(each*float64(at.elements()*item)), 255))
}

// number is a parameter of the point, or a constant of the spec; 0: it has none of the name.
func (at priced) number(name string) int {
	if n, ok := at.point[name]; ok {
		return n
	}
	n, _ := strconv.Atoi(at.spec.Constants[name])
	return n
}
