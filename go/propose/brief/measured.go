package brief

// measured.go owns what is known of a judged kernel beyond its verdict: the rate at which it moves its bytes, and how far it fills a device, worked out
// from its binary and its launch. It refuses to measure. What the hardware counted is counters.go's.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Fill is how a launch fills a multiprocessor.
type Fill struct {
	Entry     string `json:"entry"`
	Threads   int    `json:"threads"`    // of a block
	Smem      int64  `json:"smem"`       // dynamic shared memory of a block, bytes
	Blocks    int    `json:"blocks"`     // that fit a multiprocessor at most; 0: none does
	Warps     int    `json:"warps"`      // theirs
	MostWarps int    `json:"most_warps"` // that a multiprocessor holds
	Bound     string `json:"bound"`      // what no further block finds room for: `registers`, `shared memory`, `warps` or `blocks`
}

// limits of a multiprocessor, by compute capability. Source: CUDA C++ programming guide, technical specifications per compute capability.
type limits struct{ warps, blocks int }

var limitsOf = map[string]limits{
	"sm_75": {32, 16}, "sm_80": {64, 32}, "sm_86": {48, 16}, "sm_87": {48, 16}, "sm_89": {48, 24}, "sm_90": {64, 32}, "sm_100": {64, 32}, "sm_103": {64, 32},
	"sm_120": {48, 24}, "sm_121": {48, 24},
}

const (
	warp          = 32
	partRegisters = 16384 // of each of a multiprocessor's four parts
	registerUnit  = 256   // registers that a warp gets at a time
	sharedUnit    = 128   // bytes that a block gets at a time
	ownShared     = 1024  // bytes of each block that are the system's, and of a multiprocessor beyond what one block may ask for; not on sm_75
)

// FillOf works out how a kernel fills a multiprocessor. ok is false where that is not known: a device of another kind, or a block that is no plain number.
func FillOf(facts propose.Facts, kernel card.Kernel, usage card.Usage) (fill Fill, ok bool) {
	most, known := limitsOf[strings.TrimSuffix(facts.Arch, "a")]
	if !known || len(kernel.Block) != 3 || facts.SmemOptin <= 0 {
		return fill, false
	}
	threads := int64(1)
	for _, text := range kernel.Block {
		size, err := strconv.ParseInt(text, 10, 32)
		if err != nil || size < 1 || size > 1024 {
			return fill, false
		}
		threads *= size
	}
	smem, err := strconv.ParseInt(kernel.Smem, 10, 64)
	if err != nil || smem < 0 || threads > 1024 {
		return fill, false
	}
	fill = Fill{Entry: kernel.Entry, Threads: int(threads), Smem: smem, MostWarps: most.warps, Blocks: most.blocks, Bound: "blocks"}
	warps := (fill.Threads + warp - 1) / warp
	room := func(blocks int, bound string) {
		if blocks < fill.Blocks {
			fill.Blocks, fill.Bound = blocks, bound
		}
	}
	room(most.warps/warps, "warps")
	if usage.Registers > 0 {
		each := up(usage.Registers*warp, registerUnit)
		room(partRegisters/each*4/warps, "registers")
	}
	all, own := facts.SmemOptin+ownShared, int64(ownShared)
	if facts.Arch == "sm_75" {
		all, own = facts.SmemOptin, 0
	}
	if shared := up(int64(usage.SharedBytes)+smem+own, sharedUnit); shared > 0 {
		room(int(all/shared), "shared memory")
	}
	fill.Warps = fill.Blocks * warps
	return fill, true
}

// fillsOf works it out for each launch of an entry, where it is known.
func fillsOf(facts propose.Facts, spec card.Spec, usage card.Usage) []Fill {
	var fills []Fill
	for _, kernel := range spec.Kernels {
		if fill, ok := FillOf(facts, kernel, usage); ok && kernel.Entry == usage.Entry {
			fills = append(fills, fill)
		}
	}
	return fills
}

func up[T int | int64](value, unit T) T { return (value + unit - 1) / unit * unit }

// RateGBS is the rate at which a call of this time moves the bytes that must move, 10^9 bytes a second.
func RateGBS(bytes int64, us float64) float64 { return float64(bytes) / us / 1e3 }

// Measured says in sentences what is known of a judged candidate: the rate of each variant, and what its kernels take and how they fill the device.
func Measured(c *card.Card, facts propose.Facts, spec card.Spec, v card.Verdict) []string {
	lines := []string{}
	for _, cost := range v.Variants {
		for _, variant := range c.Variants {
			if variant.ID != cost.ID || cost.CandidateUS <= 0 {
				continue
			}
			line := fmt.Sprintf("%s moves its bytes at %.4g GB/s", cost.ID, RateGBS(variant.Bytes, cost.CandidateUS))
			if variant.RoofUS > 0 {
				line += fmt.Sprintf(", %.3g %% of a copy's rate", 100*variant.RoofUS/cost.CandidateUS)
			}
			lines = append(lines, line)
		}
	}
	return append(lines, Kernels(facts, spec, v.Usage)...)
}

// Kernels says what the kernels of a binary take, and how each launch of them fills a multiprocessor.
func Kernels(facts propose.Facts, spec card.Spec, usage []card.Usage) []string {
	lines := []string{}
	for _, use := range usage {
		line := fmt.Sprintf("`%s` takes %d registers and %d bytes of stack (spilled registers, arrays that no register can hold) a thread, and %d bytes of static shared memory a block",
			use.Entry, use.Registers, use.StackBytes, use.SharedBytes)
		for _, fill := range fillsOf(facts, spec, use) {
			line += fmt.Sprintf("; %d blocks of %d threads", fill.Blocks, fill.Threads)
			if fill.Smem > 0 {
				line += fmt.Sprintf(" and %d bytes of dynamic shared memory", fill.Smem)
			}
			line += fmt.Sprintf(" fit a multiprocessor (%d of %d warps), bound by %s", fill.Warps, fill.MostWarps, fill.Bound)
		}
		lines = append(lines, line)
	}
	return lines
}
