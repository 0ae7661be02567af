package judge

// failure.go owns what a candidate's failure is inside the judge, and when it is not the candidate's.

import (
	"errors"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// failure is how a candidate failed, as an error inside the judge. Outside it is a verdict.
type failure struct {
	gate   Gate
	status card.Status
	detail string
	cause  error    // a worker's end; else nil
	at     *card.At // nil: it did not run
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.status, f.detail) }
func (f *failure) Unwrap() error { return f.cause }

func (f *failure) verdict() card.Verdict {
	return card.Verdict{Status: f.status, Gate: string(f.gate), Detail: f.detail, At: f.at}
}

func fail(gate Gate, status card.Status, format string, args ...any) error {
	return &failure{gate: gate, status: status, detail: fmt.Sprintf(format, args...)}
}

// at adds where a candidate failed; k is nil where it was on no case.
func (t *trial) at(err error, v card.Variant, k *Case, repeat int) error {
	var failed *failure
	if errors.As(err, &failed) && failed.at == nil {
		failed.at = &card.At{Variant: v.ID, Run: repeat + 1, Seed: t.open.seed, Moments: t.open.prepared.Moments[v.ID]}
		if k != nil {
			failed.at.Kind, failed.at.Number, failed.at.Placement = k.Kind, k.Number, k.Placement
		}
	}
	return err
}

// twice tries once more what failed because somebody killed the worker: an administrator, or the kernel when memory is short. The candidate is
// blamed when it happens again, since a greedy one can bring that about itself.
func twice(try func() error) error {
	err := try()
	var lost *worker.Lost
	if errors.As(err, &lost) && lost.Killed() {
		err = try()
	}
	return err
}
