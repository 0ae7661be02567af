package redteam

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
)

// Judge is what a run needs of go/judge.
type Judge interface {
	Open(ctx context.Context, c *card.Card, seed int64) error
	Ahead(ctx context.Context, candidate card.Candidate)
	Prove(ctx context.Context, c *card.Card, candidate card.Candidate, speed bool) (judge.Proof, error)
	Close(ctx context.Context, cardID string) error
}

// Result is what became of one file.
type Result struct {
	File
	Status   card.Status `json:"status"`
	KilledBy judge.Gate  `json:"killed_by"` // "": it passed
	Detail   string      `json:"detail"`
	Seconds  float64     `json:"seconds"`
	Right    bool        `json:"right"` // a bad one was killed, a good one passed
	Meant    bool        `json:"meant"` // and by the gate, and with a status, that the file names
}

// Run judges files, those of one call together: their card is opened once. emit is called with each result, in order.
//
// cards: by the name of the call.
func Run(ctx context.Context, j Judge, cards map[string]*card.Card, files []File, seed int64, emit func(Result) error) error {
	files = slices.SortedStableFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Call, b.Call) })
	for len(files) > 0 {
		call := files[0].Call
		count := slices.IndexFunc(files, func(f File) bool { return f.Call != call })
		if count < 0 {
			count = len(files)
		}
		if err := runCall(ctx, j, cards[call], files[:count], seed, emit); err != nil {
			return err
		}
		files = files[count:]
	}
	return nil
}

func runCall(ctx context.Context, j Judge, c *card.Card, files []File, seed int64, emit func(Result) error) (err error) {
	if c == nil {
		return card.Fail(card.CodeRequest, "", "judge the corpus: no card was given for the call `%s` of `%s`", files[0].Call, files[0].Name)
	}
	if err := j.Open(ctx, c, seed); err != nil {
		return fmt.Errorf("judge the corpus: %w", err)
	}
	defer func() {
		if closed := j.Close(ctx, c.ID); err == nil {
			err = closed
		}
	}()
	for i, file := range files {
		if i+1 < len(files) {
			j.Ahead(ctx, files[i+1].Candidate)
		}
		proof, err := j.Prove(ctx, c, file.Candidate, file.Gate == judge.GateTiming)
		if err != nil {
			return fmt.Errorf("corpus file `%s`: %w", file.Name, err)
		}
		if err := emit(file.result(proof)); err != nil {
			return err
		}
	}
	return nil
}

// result says whether what a judge found is right for the file.
func (f File) result(p judge.Proof) Result {
	r := Result{File: f, Status: p.Status, KilledBy: judge.Gate(p.Gate), Detail: p.Detail, Seconds: p.Seconds}
	if f.Good {
		r.Right = p.Status == card.OK // no gain is asked of it
		r.Meant = r.Right
		return r
	}
	if f.Gate == judge.GateTiming && p.Status == card.OK && !p.Faster { // of the others it is luck that they are slow besides
		r.KilledBy = judge.GateTiming
	}
	r.Right = r.KilledBy != ""
	r.Meant = f.meant(r.KilledBy, p.Status) && slices.Contains(f.Dies, p.Status)
	return r
}

// meant says whether a gate is the file's. A device tells no address of an illegal access: a write to an input that may only be read, which the file's gate
// would have seen afterwards, is told as one beyond a tensor (judge.crashGate).
func (f File) meant(gate judge.Gate, status card.Status) bool {
	untold := strings.HasPrefix(f.Name, "cuda/") && status == card.Crash && f.Gate == judge.GateInputs
	return gate == f.Gate || (untold && gate == judge.GateGuardPages)
}
