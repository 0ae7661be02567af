package judge

import "github.com/kernelforge/kernelforge/go/card"

// Finalist is a node that may become the winner of a variant.
type Finalist struct {
	Node      int
	Candidate card.Candidate
	Variant   string
}

// Confirmation is what the user's process found for a finalist, by the real dispatch path. Ratio is eager time / our time, with the interval
// [Low, High] of its median. Plan and Image are what would be served.
type Confirmation struct {
	Variant     string
	Node        int
	Accepted    bool
	Ratio       float64
	Low         float64
	High        float64
	Samples     int
	EagerUS     float64
	OursUS      float64
	AAHalfWidth float64
	Detail      string
	Rule        int // version of the tolerance rule
	Tier        int // of the sandbox in which it was judged
	Exhaustive  *Exhaustive
	Plan        Plan
	Image       []byte
}
