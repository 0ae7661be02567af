package judge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/worker"
)

// target is everything in which the host and a CUDA device differ for a judge. The gates, their order and the statistics are the same.
type target interface {
	compiler
	facts() propose.Facts
	policy(candidate card.Candidate) error
	bind(plan *Plan) // fills in what only plans of this target have
	traits() traits
	dirt() []byte                                // the image of the kernel that leaves dirt on a device; nil: the worker does it
	control(ctx context.Context) ([]byte, error) // the image of the kernel on which the sanitizer's tools are tried
	usage(image []byte) []card.Usage
	close()
}

// compiler turns sources into images.
type compiler interface {
	Compile(ctx context.Context, source string, options []string) (compile.Built, error)
}

// traits are the numbers and habits of a target.
type traits struct {
	image      string        // the extension of an image's file
	cacheBytes int64         // of the last cache: data that does not fit comes from memory
	marginUS   float64       // a gain that no timing can tell from none
	runFloor   time.Duration // of what a run may take
	overheadUS float64       // of a run, beside what its kernels take
	launchUS   float64       // below which no launch of a kernel can be
	crowd      bool          // other threads of this machine take CPUs from the candidate's
	reuse      bool          // a worker that served a candidate which passed may serve the next
	beside     bool          // a compile beside a measurement does not show in it: the device's own clock tells the time
	telemetry  bool          // the worker reads the device's own sensors
	rotate     bool          // a sample goes through all sets, so that none is left in a cache by the sample before
	repeats    int           // in a search, of a case that is not its variant's first
	thorough   int           // in a search, variants that are run on more than their first case, the heaviest ones
	blocks     int           // of timing at least, before their spread may say that they are enough; of variants beyond `thorough` half as many
}

// onHost is the target that every machine has.
type onHost struct {
	compiler
	machine host.Machine
	threads int
}

func newHost(ctx context.Context, config Config, scratch string) (target, error) {
	if config.Threads < 1 || config.Threads > worker.MaxThreads {
		return nil, card.Fail(card.CodeJudge, "", "make a judge: %d threads (expected 1 to %d)", config.Threads, worker.MaxThreads)
	}
	found, err := host.FindCompiler(ctx, config.Compiler)
	if err != nil {
		return nil, err
	}
	cache, err := compile.OpenCache(config.Cache, ".so")
	if err != nil {
		return nil, err
	}
	if err := tried(ctx, config, scratch); err != nil {
		return nil, err
	}
	machine := host.ThisMachine("/")
	pool := host.NewPool(config.Worker, found, machine, scratch, cache, config.Jobs, config.Tier)
	if _, err := pool.Try(ctx); err != nil {
		return nil, err
	}
	if err := pool.Probe(ctx); err != nil {
		return nil, err
	}
	return &onHost{pool, machine, config.Threads}, nil
}

func (h *onHost) facts() propose.Facts          { return h.machine.Facts(h.threads) }
func (h *onHost) policy(c card.Candidate) error { return hostRules.check(c) }
func (h *onHost) bind(plan *Plan)               { plan.Threads = h.threads }
func (h *onHost) traits() traits {
	return traits{image: ".so", marginUS: hostMarginUS, crowd: true, runFloor: runFloor, launchUS: hostLaunchUS, cacheBytes: h.machine.LLCBytes, repeats: repeats, thorough: math.MaxInt, blocks: leastBlocks}
}
func (h *onHost) dirt() []byte                            { return nil }
func (h *onHost) control(context.Context) ([]byte, error) { return nil, nil }

func (h *onHost) usage([]byte) []card.Usage { return nil }
func (h *onHost) close()                    {}

// onDevice is one CUDA device, as a worker found it.
type onDevice struct {
	*cuda.Pool
	arch    string
	ordinal int
	device  worker.Device
	dirty   []byte
}

// newDevice checks that a device is one to search on, and makes its compile pool.
func newDevice(ctx context.Context, config Config, scratch string, device *worker.Device) (target, error) {
	if err := fit(device); err != nil {
		return nil, card.Fail(card.CodeJudge, card.AsError(err).Hint, "search on device %d, %s: %w", config.Device, device.Name, err)
	}
	arch, err := cuda.Arch(device.Major, device.Minor)
	if err != nil {
		return nil, err
	}
	cache, err := compile.OpenCache(config.Cache, ".cubin")
	if err != nil {
		return nil, err
	}
	pool, err := cuda.NewPool(ctx, cuda.Config{Program: config.Worker, NVRTC: config.NVRTC, Arch: arch, Driver: device.Driver, Scratch: scratch, Cache: cache,
		Jobs: config.Jobs, Tier: config.Tier})
	if err != nil {
		return nil, err
	}
	err = pool.Probe(ctx)
	var dirt []byte
	if err == nil {
		dirt, err = ours(ctx, pool, cuda.Dirt, "leaves dirt")
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &onDevice{pool, arch, config.Device, *device, dirt}, nil
}

// ours compiles a kernel of ours, which does what the words say.
func ours(ctx context.Context, pool *cuda.Pool, source, does string) ([]byte, error) {
	built, err := pool.Compile(ctx, source, nil)
	if err == nil && (built.Failure != "" || built.Refused != "") {
		err = fmt.Errorf("compile the kernel of ours that %s: %s", does, cmp.Or(built.Failure, built.Refused))
	}
	return built.Image, err
}

// fit refuses modes in which a candidate's fault is not the worker's alone, or in which a second process cannot be.
func fit(device *worker.Device) error {
	switch {
	case device.Mode == "exclusive_process":
		return card.Fail(card.CodeJudge, "`nvidia-smi -c DEFAULT` (an administrator's command) lets candidates run in a process of their own",
			"its compute mode is exclusive (expected default: your process and the worker share the device)")
	case device.Mode == "prohibited":
		return card.Fail(card.CodeJudge, "`nvidia-smi -c DEFAULT` (an administrator's command) allows it", "its compute mode forbids computing")
	case device.MPS:
		return card.Fail(card.CodeJudge, "stop the MPS server (`echo quit | nvidia-cuda-mps-control`) while you search; packs may be served under it",
			"it is shared through MPS, under which a candidate's fault ends the other clients too (expected no MPS server)")
	}
	return nil
}

func (d *onDevice) facts() propose.Facts {
	return propose.Facts{Target: "cuda", Arch: d.arch, Device: d.ordinal, DeviceName: d.device.Name, SMCount: d.device.SMCount, L2Bytes: d.device.L2Bytes,
		SmemOptin: d.device.SmemOptin}
}

func (d *onDevice) policy(c card.Candidate) error { return cudaRules.check(c) }
func (d *onDevice) bind(*Plan)                    {}
func (d *onDevice) dirt() []byte                  { return d.dirty }
func (d *onDevice) control(ctx context.Context) ([]byte, error) {
	return ours(ctx, d.Pool, cuda.Control, "has no fault")
}

// usage tells what kernels take, for whoever improves them. Of an image that cannot be read the device will say more.
func (d *onDevice) usage(image []byte) []card.Usage {
	found, err := cuda.Usage(image)
	if err != nil {
		return nil
	}
	return found
}
func (d *onDevice) close() { d.Pool.Close() }

func (d *onDevice) traits() traits {
	const (
		launchAndWait = 20 // as the host's clock sees them around an empty kernel
		once          = 1  // the patterns of the poison take turns from case to case
		some          = 3  // variants: a network has a dozen of one operator, of which three take most of its time
		quietBlocks   = 4  // events around replayed graphs differ by 0.1 to 1 %, clocks around calls on the host by ten times that
	)
	return traits{image: ".cubin", marginUS: deviceMarginUS, cacheBytes: d.device.L2Bytes, overheadUS: launchAndWait, runFloor: deviceFloor, launchUS: deviceLaunchUS, reuse: true, beside: true, telemetry: true, rotate: true,
		repeats: once, thorough: some, blocks: quietBlocks}
}

// makeTarget makes what a configuration asks for. On CUDA the first worker says what the device is.
func makeTarget(ctx context.Context, config Config, scratch string, w *workers) (target, error) {
	switch config.Target {
	case "", "host":
		return newHost(ctx, config, scratch)
	case "cuda":
		device, err := w.device(ctx)
		if err != nil {
			return nil, err
		}
		if device == nil {
			return nil, fmt.Errorf("make a judge: the worker says nothing of device %d", config.Device)
		}
		return newDevice(ctx, config, scratch, device)
	}
	return nil, card.Fail(card.CodeJudge, "use the target `host` or `cuda`", "make a judge: there is no target `%s`", config.Target)
}
