// Package propose says what a source of candidates is. The sources are its sub-packages: template, given and llm.
package propose

import (
	"context"
	"errors"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
)

// ErrExhausted means that this source has nothing more to propose below this parent. The tree may still grow elsewhere.
var ErrExhausted = errors.New("propose: nothing left to propose here")

// ErrBudget means that a budget refuses the next call of this source: it stops, the search goes on with the others.
var ErrBudget = errors.New("propose: a budget refuses the next call")

// Unusable is a reply that holds no candidate. It goes back to its author like a candidate that does not compile, and is a step of the node.
type Unusable struct {
	Reason string // for the author and for people: what the reply lacks
	Reply  string // key of the reply, as it is kept
}

func (u *Unusable) Error() string { return fmt.Sprintf("the reply holds no candidate: %s", u.Reason) }

// Attempt is a candidate with its verdict, as a proposer sees it.
type Attempt struct {
	Node      int // in the tree; 0 where it is none
	Candidate card.Candidate
	Verdict   card.Verdict
	Counters  *card.Counters // of a parent on a device; nil: nobody asked for them
}

// Brief is everything a proposer may know: the card, the path from the root, and what was tried below the parent.
type Brief struct {
	Card     *card.Card
	Facts    Facts
	Lineage  []Attempt                     // from the root's child down to the parent; empty at the root (eager)
	Children []Attempt                     // of the parent, in order
	Tried    []Attempt                     // all of this card that were judged, in order: evidence of what is worth a try
	Seen     func(candidateID string) bool // already in the tree: do not propose it again
	Seed     int64                         // chance for this proposal; the same brief and seed give the same candidate
	Attempt  int                           // failures of this proposal before, so that asking again is another question

	Repair *Attempt // the attempt to mend; nil: a new idea is asked for. One without a source was an unusable reply: the detail says why.
	// Every verdict that an author of code outside of us sees is as Told gives it.
	Again     *Attempt // an idea whose repairs ran out below another parent, which may be tried once more here; nil: none
	Direction string   // the kind of idea that is asked for, one of Directions; "": any
}

// Directions are the kinds of idea that an author may be asked for.
var Directions = []string{"algorithm", "memory", "occupancy", "intermediates", "passes"}

// Facts are what the target says of itself, for parameters and expressions. Those of the other target are zero.
type Facts struct {
	Target  string `json:"target,omitempty"` // "host" or "cuda"
	L2Bytes int64  `json:"l2_bytes,omitempty"`

	// host
	ISA       string `json:"isa,omitempty"` // "avx512", "avx2", "sse2"
	Threads   int    `json:"threads,omitempty"`
	L1Bytes   int64  `json:"l1_bytes,omitempty"`
	LLCBytes  int64  `json:"llc_bytes,omitempty"`
	CacheLine int64  `json:"cache_line,omitempty"`

	// cuda
	Arch       string `json:"arch,omitempty"`   // what code is compiled for: "sm_90a"
	Device     int    `json:"device,omitempty"` // ordinal, as the user's process counts
	SMCount    int    `json:"sm_count,omitempty"`
	SmemOptin  int64  `json:"smem_optin,omitempty"` // most dynamic shared memory of a block, bytes
	DeviceName string `json:"device_name,omitempty"`
}

// Proposer makes one candidate. It returns ErrExhausted when it has none; any other error means that the source is broken.
type Proposer interface {
	Propose(ctx context.Context, brief Brief) (card.Candidate, error)
}
