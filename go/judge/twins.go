package judge

// twins.go owns what is known of binaries on a card that is open: a candidate whose binary and launch were judged is not judged again.

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
)

// binary is what decides how a candidate behaves: its image, and its spec but for the constants, which the image holds.
type binary [sha256.Size]byte

// first is the candidate of a binary that was judged.
type first struct {
	candidate string
	verdict   card.Verdict
}

func binaryOf(candidate card.Candidate, image []byte) binary {
	spec := candidate.Spec
	spec.Constants = nil
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // strings and numbers that came from JSON or from a template
	}
	sum := sha256.New()
	sum.Write(text)
	sum.Write(image)
	return binary(sum.Sum(nil))
}

// twin gives the verdict on another candidate of the same binary. One that failed by the clock is judged again: the machine may have been busy.
func (j *Judge) twin(open *opened, candidate string, made binary) (card.Verdict, bool) {
	j.lease.Lock() // its twin may be under judgement
	defer j.lease.Unlock()
	before, ok := open.binaries[made]
	if !ok || before.candidate == candidate || before.verdict.Gate == string(GateDeadline) {
		return card.Verdict{}, false
	}
	if outputs := open.outputs[before.candidate]; outputs != nil {
		open.outputs[candidate] = outputs // what a search saw of it is what a finalist is held to
	}
	verdict := before.verdict
	verdict.Twin = before.candidate
	return verdict, true
}

// judged remembers a verdict by its binary. Under the lease.
func (o *opened) judged(candidate string, made binary, verdict card.Verdict) {
	if o.binaries == nil {
		o.binaries = map[binary]first{}
	}
	o.binaries[made] = first{candidate, verdict}
}
