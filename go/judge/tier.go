package judge

import (
	"context"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// Which walls candidates are behind (worker/sandbox). A tier is one of the whole judge: its workers and its compile pool both hold it, by their
// own attempts, or it is not claimed.

// BestTier asks for the best tier that this machine holds.
const BestTier = -1

// tiers are those to be tried, in order. One that was asked for by its number is the only one: less would be less than was asked for.
func tiers(asked int) ([]int, error) {
	switch {
	case asked == BestTier:
		return []int{sandbox.Namespaces, sandbox.Walls, sandbox.Limits}, nil
	case asked >= sandbox.Limits && asked <= sandbox.Best:
		return []int{asked}, nil
	}
	return nil, card.Fail(card.CodeRequest, "leave it out for the best tier of this machine", "make a judge: sandbox tier %d (expected %d to %d)", asked, sandbox.Limits, sandbox.Best)
}

// settle makes the target and its workers at the first tier that holds. The error is that of the last one tried.
func settle(ctx context.Context, config Config, scratch string, start func(Config) *workers) (on target, all *workers, tier int, err error) {
	order, err := tiers(config.Tier)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, config.Tier = range order {
		all = start(config)
		if on, err = makeTarget(ctx, config, scratch, all); err == nil {
			return on, all, config.Tier, nil
		}
		all.shutdown()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, 0, err
}

// tried starts a worker that runs nothing, so that a tier is known to hold before the first candidate.
func tried(ctx context.Context, config Config, scratch string) error {
	if config.Tier == sandbox.Limits {
		return nil // every worker checks that
	}
	w, err := worker.Start(ctx, config.worker(scratch))
	if err == nil {
		w.Kill()
	}
	return err
}

func (c Config) worker(scratch string) worker.Config {
	return worker.Config{Path: c.Worker, Runtime: c.Runtime, Scratch: scratch, Threads: c.Threads, Tier: c.Tier, CUDA: c.Target == "cuda", Device: c.Device,
		UUID: c.UUID, Variables: c.Variables, Unchecked: c.Off.Has(GateImage)}
}
