package judge

import (
	"context"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The gate `dirty`: before a run, whatever is not the candidate's own holds NaN, before the next one large finite numbers. Workspaces, free stack
// and registers of the host are the worker's to fill; on a device a kernel of ours fills the shared memory and the registers of every
// multiprocessor. Runs must agree bitwise all the same.

const noTurn = -1 // of a run that finds what the one before has left

// dirtOf is what a run finds, in turn.
func (t *trial) dirtOf(turn int) (dirt worker.Dirt, before int) {
	if t.judge.off(GateDirty) || turn == noTurn {
		return worker.NoDirt, 0
	}
	dirt = worker.DirtNaN
	if turn%patterns == 1 {
		dirt = worker.DirtLarge
	}
	return dirt, t.session.before[dirt]
}

// loadDirt gives a worker the kernels that leave dirt on its device, once in its life. Nothing of a candidate is in it yet.
func (s *session) loadDirt(ctx context.Context, on runner, image []byte) error {
	if image == nil || s.before != nil {
		return nil
	}
	s.before = map[worker.Dirt]int{}
	for _, dirt := range []worker.Dirt{worker.DirtNaN, worker.DirtLarge} {
		kernel, err := on.Load(ctx, loadLimit, dirtPlan(dirt), image)
		if err != nil {
			return err
		}
		s.before[dirt] = kernel
	}
	return nil
}

// dirtPlan launches the kernel of go/cuda/dirt.cu: a block takes a whole multiprocessor, so that as many blocks as there are multiprocessors reach
// each; twice as many, since the first may be done before the last has begun.
func dirtPlan(dirt worker.Dirt) Plan {
	word := map[worker.Dirt]string{worker.DirtNaN: "0 - 1", worker.DirtLarge: "1263225675"}[dirt] // four times the byte
	return Plan{ID: "p-d197d197", Card: "c-d197d197", Variant: "v0", State: "approved", Align: []int{4}, Deterministic: true,
		Call: card.Call{Overload: "kernelforge::dirt", Args: []card.Arg{},
			Outputs: []card.Output{{DType: "int32", Sizes: []int64{1}, Strides: []int64{1}, Alias: -1}}},
		Spec: card.Spec{Schema: 1, Constants: map[string]string{}, Workspaces: []card.Workspace{}, Kernels: []card.Kernel{{Entry: cuda.DirtEntry,
			Grid: []string{"2 * sm_count", "1", "1"}, Block: []string{"1024", "1", "1"}, Smem: "smem_optin",
			Args: []card.SpecArg{{Slot: "out0"}, {Int: word, Type: "i32"}, {Int: "smem_optin / 4", Type: "i32"}}}}}}
}
