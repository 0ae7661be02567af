// Package propose says what a source of candidates is. The sources are its sub-packages: template and given now; llm later.
package propose

import (
	"context"
	"errors"

	"github.com/kernelforge/kernelforge/go/card"
)

// ErrExhausted means that this source has nothing more to propose below this parent. The tree may still grow elsewhere.
var ErrExhausted = errors.New("propose: nothing left to propose here")

// Attempt is a candidate with its verdict, as a proposer sees it.
type Attempt struct {
	Candidate card.Candidate
	Verdict   card.Verdict
}

// Brief is everything a proposer may know: the card, the path from the root, and what was tried below the parent.
type Brief struct {
	Card     *card.Card
	Facts    Facts
	Lineage  []Attempt                     // from the root's child down to the parent; empty at the root (eager)
	Children []Attempt                     // of the parent, in order
	Seen     func(candidateID string) bool // already in the tree: do not propose it again
	Seed     int64                         // chance for this proposal; the same brief and seed give the same candidate
}

// Facts are what the target says of itself, for parameters and expressions. Those of the other target are zero.
type Facts struct {
	Target  string // "host" or "cuda"
	L2Bytes int64

	// host
	ISA       string // "avx512", "avx2", "sse2"
	Threads   int
	L1Bytes   int64
	LLCBytes  int64
	CacheLine int64

	// cuda
	Arch       string // what code is compiled for: "sm_90a"
	Device     int    // ordinal, as the user's process counts
	SMCount    int
	SmemOptin  int64 // most dynamic shared memory of a block, bytes
	DeviceName string
}

// Proposer makes one candidate. It returns ErrExhausted when it has none; any other error means that the source is broken.
type Proposer interface {
	Propose(ctx context.Context, brief Brief) (card.Candidate, error)
}
