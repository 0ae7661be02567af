// Command respawn measures how long the search stands still after a candidate crashed or hung: from the end of the candidate (the fault, or
// the deadline at which it is killed) to the answer of the next candidate in a fresh worker. It prints one JSON object; bench/search.py runs it.
//
//	go run ./bench/respawn [-device 0 [-nvrtc libnvrtc.so]] WORKER RUNTIME [TIMES]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

const (
	elements = 1 << 20
	limit    = 500 * time.Millisecond // deadline of a run; a hang stands for this long before it is killed, which is not counted
	head     = "KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {\n  const float* x = (const float*)args[0].p; float* y = (float*)args[1].p;\n"
	onDevice = "extern \"C\" __global__ void kf_main(const float* x, float* y, long long n) {\n  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
)

var (
	onHost = map[string]string{
		"good":  head + "  for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 ? x[i] : 0;\n}\n",
		"crash": head + "  for (int64_t i = begin; i < end; ++i) *(volatile float*)(y + (i << 20)) = x[i];\n}\n",
		"hang":  head + "  for (volatile int64_t i = begin;; i = i) y[0] = x[0];\n}\n",
	}
	onCUDA = map[string]string{
		"good":  onDevice + "  if (i < n) y[i] = x[i] > 0 ? x[i] : 0;\n}\n",
		"crash": onDevice + "  if (i < n) ((volatile float*)y)[(i + n) << 12] = x[i];\n}\n",
		"hang":  onDevice + "  for (;;) ((volatile float*)y)[0] = ((const volatile float*)x)[i & 1];\n}\n",
	}
)

var (
	device = flag.Int("device", kfr.Host, "CUDA device; -1 is the host target")
	nvrtc  = flag.String("nvrtc", "", "libnvrtc.so")
	tier   = flag.Int("tier", 1, "of the sandbox, as a search has it")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "respawn:", err)
		os.Exit(1)
	}
}

type bench struct {
	config  worker.Config
	plan    judge.Plan
	buffers []worker.Buffer
	fds     []int
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("two arguments are missing (expected WORKER RUNTIME [TIMES])")
	}
	times := 10
	if len(args) > 2 {
		var err error
		if times, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
	}
	ctx := context.Background()
	scratch, err := os.MkdirTemp("", "kernelforge-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	library, err := kfr.Open(args[1])
	if err != nil {
		return err
	}
	build, sources := compileHost, onHost
	if *device >= 0 {
		build, sources = compileCUDA, onCUDA
	}
	images, err := build(ctx, library, args[0], scratch, sources)
	if err != nil {
		return err
	}
	b, err := prepare(library, args[0], args[1], scratch)
	if err != nil {
		return err
	}
	seconds := map[string][]float64{}
	for range times {
		for _, kind := range []string{"crash", "hang"} {
			s, err := b.once(ctx, images[kind], images["good"], kind == "hang")
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			seconds[kind+"_s"] = append(seconds[kind+"_s"], s)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(seconds)
}

type pool interface {
	Compile(ctx context.Context, source string, options []string) (compile.Built, error)
}

func compileHost(ctx context.Context, _ *kfr.Library, program, scratch string, sources map[string]string) (map[string][]byte, error) {
	compiler, err := host.FindCompiler(ctx, "")
	if err != nil {
		return nil, err
	}
	cache, err := compile.OpenCache(scratch+"/cache", ".so")
	if err != nil {
		return nil, err
	}
	return compileAll(ctx, host.NewPool(program, compiler, host.ThisMachine("/"), scratch, cache, 1, *tier), sources)
}

func compileCUDA(ctx context.Context, library *kfr.Library, program, scratch string, sources map[string]string) (map[string][]byte, error) {
	found, err := library.OpenDevice(int32(*device))
	if err != nil {
		return nil, err
	}
	arch, err := cuda.Arch(int(found.Major), int(found.Minor))
	if err != nil {
		return nil, err
	}
	pool, err := cuda.NewPool(ctx, cuda.Config{Program: program, NVRTC: *nvrtc, Arch: arch, Scratch: scratch, Jobs: 1, Tier: *tier})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return compileAll(ctx, pool, sources)
}

func compileAll(ctx context.Context, pool pool, sources map[string]string) (map[string][]byte, error) {
	images := map[string][]byte{}
	for name, source := range sources {
		built, err := pool.Compile(ctx, source, nil)
		if err != nil || built.Failure != "" {
			return nil, fmt.Errorf("compile `%s`: %s%w", name, built.Failure, err)
		}
		images[name] = built.Image
	}
	return images, nil
}

func prepare(library *kfr.Library, program, runtime, scratch string) (*bench, error) {
	b := &bench{config: worker.Config{Path: program, Runtime: runtime, Scratch: scratch, Threads: 2, Tier: *tier}}
	if *device >= 0 {
		b.config = worker.Config{Path: program, Runtime: runtime, Scratch: scratch, CUDA: true, Device: *device, Tier: *tier}
	}
	for id := range 2 {
		memory, err := library.NewMemory(4*elements, int32(*device))
		if err != nil {
			return nil, err
		}
		b.buffers = append(b.buffers, worker.Buffer{ID: id, Bytes: library.Bytes(memory), Writable: id == 1})
		b.fds = append(b.fds, library.FD(memory))
	}
	sizes, strides := []int64{elements}, []int64{1}
	b.plan = judge.Plan{
		ID: "p-00000000", Card: "c-00000000", Variant: "v0", State: "proposed", Align: []int{64, 64}, Threads: 2,
		Call: card.Call{Overload: "aten::relu",
			Args:    []card.Arg{{Name: "self", Kind: "tensor", DType: "float32", Sizes: sizes, Strides: strides}},
			Outputs: []card.Output{{DType: "float32", Sizes: sizes, Strides: strides, Alias: -1}}},
		Spec: card.Spec{Schema: 1, Constants: map[string]string{}, Workspaces: []card.Workspace{},
			Kernels: []card.Kernel{{Entry: "kf_main", Work: "out0_numel", Grain: "65536", Args: []card.SpecArg{{Slot: "self"}, {Slot: "out0"}}}}},
	}
	if *device >= 0 {
		slots := []card.SpecArg{{Slot: "self"}, {Slot: "out0"}, {Int: "out0_numel", Type: "i64"}}
		b.plan.Threads = 0
		b.plan.Spec.Kernels = []card.Kernel{{Entry: "kf_main", Grid: []string{"ceildiv(out0_numel, 256)", "1", "1"}, Block: []string{"256", "1", "1"},
			Smem: "0", Args: slots}}
	}
	return b, nil
}

// once runs a bad candidate to its end, then a good one; the time between the two answers is what a search loses.
func (b *bench) once(ctx context.Context, bad, good []byte, hangs bool) (float64, error) {
	w, kernel, err := b.start(ctx, bad)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := w.Run(ctx, limit, kernel, b.slots(), worker.NoDirt, 0); err == nil {
		return 0, errors.New("the bad candidate ended well")
	}
	w.Kill()
	next, kernel, err := b.start(ctx, good)
	if err != nil {
		return 0, err
	}
	defer next.Kill()
	if _, err := next.Run(ctx, limit, kernel, b.slots(), worker.NoDirt, 0); err != nil {
		return 0, err
	}
	lost := time.Since(began)
	if hangs {
		lost -= limit
	}
	return lost.Seconds(), nil
}

func (b *bench) slots() []worker.Slot { return []worker.Slot{{Buffer: 0}, {Buffer: 1}} }

func (b *bench) start(ctx context.Context, image []byte) (*worker.Worker, int, error) {
	w, err := worker.Start(ctx, b.config)
	if err != nil {
		return nil, 0, err
	}
	if err := w.Map(ctx, worker.StartLimit, b.buffers, b.fds); err != nil {
		return nil, 0, err
	}
	kernel, err := w.Load(ctx, worker.StartLimit, b.plan, image)
	return w, kernel, err
}
