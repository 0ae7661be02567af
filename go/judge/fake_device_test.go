package judge

import (
	"context"
	"sync"
	"testing"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/cuda/fake"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

// The judge on a device: real workers on the fake driver, so that gates, faults and the reuse of workers are those of a GPU.

// deviceMemory is memory of the fake device, which this process can look into.
type deviceMemory struct {
	library     *kfr.Library
	referenceNS float64
}

func (m deviceMemory) make(bytes uint64) (int, []byte, func(), error) {
	memory, err := m.library.NewMemory(bytes, 0)
	if err != nil {
		return 0, nil, nil, err
	}
	address := m.library.Data(memory)
	view := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), m.library.Bytes(memory))
	return m.library.FD(memory), view, func() { m.library.FreeMemory(memory) }, nil
}

// reference was measured once: the fake's clock moves by work alone, and never differs.
func (m deviceMemory) reference() (float64, error) { return m.referenceNS, nil }

// deviceCompiler makes cubins for the fake driver. Its device is what the first worker found.
type deviceCompiler struct {
	*onDevice
	t     *testing.T
	mutex sync.Mutex
	made  map[string][]byte
}

func (c *deviceCompiler) close() {}

func (c *deviceCompiler) Compile(_ context.Context, source string, _ []string) (compile.Built, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.made[source] == nil {
		c.made[source] = fake.Cubin(c.t, "8,8,8", source)
	}
	return compile.Built{Image: c.made[source]}, nil
}

func (c *deviceCompiler) control(context.Context) ([]byte, error) {
	return fake.Cubin(c.t, "8,8", "KERNEL(kf_main) { const uint8_t* x = ARG(const uint8_t*, 0); ARG(uint32_t*, 1)[0] = x[0]; }\n"), nil
}

// deviceBench is a judge on the fake device that remembers its workers.
type deviceBench struct {
	*bench
	mutex   sync.Mutex
	workers []*worker.Worker
	config  worker.Config
}

// onFakeDevice makes one; set changes the driver of its workers (csrc/tests/fake_cuda.h), not that of this process.
func onFakeDevice(t *testing.T, set map[string]string) *deviceBench {
	t.Helper()
	driver := fake.Driver(t)
	if set != nil {
		driver = fake.Wrap(t, driver, set)
	}
	return onDriver(t, driver)
}

// onDriver makes one whose workers use the driver of this path.
func onDriver(t *testing.T, driver string) *deviceBench {
	t.Helper()
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	program, err := builtWorker()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	b := &deviceBench{}
	config := worker.Config{Path: program, Runtime: realRuntime(t), Scratch: scratch, CUDA: true, Variables: map[string]string{"KERNELFORGE_LIBCUDA": driver}}
	b.config = config
	start := func(ctx context.Context) (runner, error) {
		w, err := worker.Start(ctx, config)
		if err != nil {
			return nil, err
		}
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.workers = append(b.workers, w)
		return w, nil
	}
	all := newWorkers(start, true, &sync.RWMutex{})
	device, err := all.device(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := fit(device); err != nil {
		t.Fatal(err)
	}
	on := &deviceCompiler{onDevice: &onDevice{arch: "sm_90a", device: *device}, t: t, made: map[string][]byte{}}
	reference, err := library.TimeReference(0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	referee := &scripted{memory: deviceMemory{library, reference[0]}, eagerNS: func(string) float64 { return 50_000 }}
	c := reluCard()
	c.Target, c.Variants = "cuda", c.Variants[:1]
	c.Variants[0].EagerUS = 50
	j := assemble(Config{Target: "cuda"}, referee, on, all, &Scratch{Path: scratch})
	j.patience = patience{}
	b.bench = &bench{judge: j, referee: referee, card: c}
	return b
}

const onDeviceHead = "KERNEL(kf_main) { const float* x = ARG(const float*, 0); float* y = ARG(float*, 1); int64_t n = ARG(int64_t, 2);\n"

// deviceKernel computes relu, element by element.
func deviceKernel(body string) string {
	return onDeviceHead + "for (int64_t i = 0; i < n; ++i) { " + body + " } }\n"
}

func deviceCandidate(source string) card.Candidate {
	spec := card.Spec{Schema: 1, Kernels: []card.Kernel{{Entry: "kf_main", Grid: []string{"ceildiv(out0_numel, 256)", "1", "1"}, Block: []string{"256", "1", "1"}, Smem: "0",
		Args: []card.SpecArg{{Slot: "self"}, {Slot: "out0"}, {Int: "out0_numel", Type: "i64"}}}}}
	return card.Candidate{ID: card.CandidateID(source, spec), Author: "person", Source: source, Spec: spec}
}

func (b *deviceBench) verdict(t *testing.T, source string) card.Verdict {
	t.Helper()
	verdict, err := b.judge.Judge(t.Context(), b.card, deviceCandidate(source))
	if err != nil {
		t.Fatalf("the harness is broken: %v", err)
	}
	if err := verdict.Validate(); err != nil {
		t.Fatal(err)
	}
	return verdict
}
