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
	cause  error // a worker's end; else nil
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %s", f.status, f.detail) }
func (f *failure) Unwrap() error { return f.cause }

func (f *failure) verdict() card.Verdict {
	return card.Verdict{Status: f.status, Gate: string(f.gate), Detail: f.detail}
}

func fail(gate Gate, status card.Status, format string, args ...any) error {
	return &failure{gate: gate, status: status, detail: fmt.Sprintf(format, args...)}
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
