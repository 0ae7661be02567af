package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// The mode `tiers`, for `kernelforge doctor`: it plays the trusted process, starts a worker and a compile process at every tier, and prints
// what they could do. It is the one mode that is not confined itself.

// tierRow is one tier. It holds when every process reached it.
type tierRow struct {
	Tier      int            `json:"tier"`
	Holds     bool           `json:"holds"`
	Why       string         `json:"why"`  // it does not
	Room      sandbox.Room   `json:"room"` // of the worker
	Processes []tiersProcess `json:"processes"`
}

type tiersProcess struct {
	Name     string            `json:"name"`
	Tier     int               `json:"tier"` // that it reached
	Seconds  float64           `json:"seconds"`
	Attempts []sandbox.Attempt `json:"attempts"`
}

type tiersFound struct {
	Best  int       `json:"best"` // -1: none
	Tiers []tierRow `json:"tiers"`
}

func tiers(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tiers", flag.ContinueOnError)
	runtime := flags.String("runtime", "", "path of libkfruntime.so")
	compiler := flags.String("cxx", "", "C++ compiler of the host target")
	device := flags.Int("device", -1, "CUDA ordinal; -1: the host target")
	nvrtc := flags.String("nvrtc", "", "libnvrtc.so or its folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "kernelforge-tiers-")
	if err != nil {
		return fmt.Errorf("try the tiers: %w", err)
	}
	defer os.RemoveAll(scratch)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	found := tiersFound{Best: -1}
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		config := worker.Config{Path: program, Runtime: *runtime, Scratch: scratch, Threads: 1, Tier: tier, CUDA: *device >= 0, Device: max(*device, 0)}
		row := tierRow{Tier: tier, Room: config.Room(), Processes: []tiersProcess{}}
		if err := row.try(ctx, config, *compiler, *nvrtc); err != nil {
			row.Why = card.AsError(err).Text
		} else {
			row.Holds, found.Best = true, tier
		}
		found.Tiers = append(found.Tiers, row)
	}
	return json.NewEncoder(out).Encode(found)
}

// try starts one of each. What a process tried is kept even if it did not reach the tier.
func (r *tierRow) try(ctx context.Context, config worker.Config, compiler, nvrtc string) error {
	began := time.Now()
	w, err := worker.Start(ctx, config)
	if err != nil {
		return err
	}
	defer w.Kill()
	r.add("worker", began, sandbox.Report{Tier: w.Hello.Tier, Attempts: w.Hello.Attempts})
	if !config.CUDA {
		found, err := host.FindCompiler(ctx, compiler)
		if err != nil {
			return err
		}
		began = time.Now()
		report, err := host.NewPool(config.Path, found, host.Machine{}, config.Scratch, nil, 1, config.Tier).Try(ctx)
		r.add("compiler", began, report)
		return err
	}
	device := w.Device()
	arch, err := cuda.Arch(device.Major, device.Minor)
	if err != nil {
		return err
	}
	began = time.Now()
	pool, err := cuda.NewPool(ctx, cuda.Config{Program: config.Path, NVRTC: nvrtc, Arch: arch, Driver: device.Driver, Scratch: config.Scratch, Jobs: 1, Tier: config.Tier})
	if err != nil {
		return err
	}
	defer pool.Close()
	r.add("compiler", began, pool.Sandbox())
	return nil
}

func (r *tierRow) add(name string, began time.Time, report sandbox.Report) {
	if report.Attempts == nil {
		report.Attempts = []sandbox.Attempt{}
	}
	r.Processes = append(r.Processes, tiersProcess{name, report.Tier, time.Since(began).Seconds(), report.Attempts})
}
