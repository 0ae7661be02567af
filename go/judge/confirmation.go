package judge

import "github.com/kernelforge/kernelforge/go/card"

// Finalist is a node that may become the winner of a variant.
type Finalist struct {
	Node      int
	Candidate card.Candidate
	Variant   string
	Tries     int // finalists of the variant that were or may be tried, this one included: they share the chance of a false acceptance
}

// Confirmation is what the user's process found for a finalist, by the real dispatch path. Ratio is eager time / our time, with the interval
// [Low, High] of its median. Plan and Image are what would be served.
type Confirmation struct {
	Variant     string
	Node        int
	Accepted    bool
	Decision    Decision // "" if it did not come to the timing
	Ratio       float64
	Low         float64
	High        float64
	Samples     int
	EagerUS     float64
	OursUS      float64
	AAHalfWidth float64
	Margin      float64 // the gain that Low had to exceed
	Dropped     int     // blocks that did not count, since the device was slowed down
	WarmRatio   float64 // the same ratio where the data is in the cache already; 0: not measured
	PoolBytes   int64   // of the input sets that rotate: beyond the cache, Ratio is of cold data
	Detail      string
	Rule        int // version of the tolerance rule
	Tier        int // of the sandbox in which it was judged
	Exhaustive  *Exhaustive
	Plan        Plan
	Image       []byte
}
