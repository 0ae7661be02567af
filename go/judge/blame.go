package judge

import (
	"context"
	"errors"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Why a candidate's values were wrong: by themselves, or by what lay around. Only candidates that have failed come here, so it costs a search nothing.

// tellings is how often both sides must say the same before dirt is blamed: threads that race give either result by chance.
const tellings = 3

// byDirt gives a failure of values or repeats to the gate `dirty` if the run passes whenever what lies around is what it was for the run that
// passed, and fails whenever it is what it was for the run that did not. turn: of the run that failed.
func (t *trial) byDirt(ctx context.Context, s step, turn int, err error) error {
	var failed *failure
	if t.judge.off(GateDirty) || s.gate != "" || s.crowd || s.left || s.repeat >= mostFinal || !errors.As(err, &failed) || failed.status != card.WrongValue {
		return err
	}
	dirt, _ := t.dirtOf(turn)
	other, _ := t.dirtOf(turn + 1)
	if s.repeat%patterns == 0 && s.repeat > 0 { // it differs from the first run of its case, which found the same
		return err
	}
	for range tellings {
		if !t.passesWith(ctx, s, turn, other) || t.passesWith(ctx, s, turn, dirt) {
			return err
		}
	}
	failed.gate = GateDirty
	return failed
}

// passesWith runs a step once more, with the same poison, and tells whether it is found right.
func (t *trial) passesWith(ctx context.Context, s step, turn int, dirt worker.Dirt) bool {
	v, k := s.variant, s.input
	if _, err := t.judge.referee.Check(ctx, t.card.ID, nil, &Poison{Case: k.ID, Pattern: turn % patterns}); err != nil {
		return false
	}
	if _, err := t.worker.Run(ctx, t.judge.runLimit(v), t.kernels[v.ID], slotsOf(k.Slots), dirt, t.session.before[dirt]); err != nil {
		return false
	}
	checked, err := t.judge.referee.Check(ctx, t.card.ID, s.compare(), nil)
	return err == nil && checked.Status == card.OK
}
