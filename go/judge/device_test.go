package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/cuda/fake"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

// The judge on a device: real workers on the fake driver, so that gates, faults and the reuse of workers are those of a GPU.

// deviceMemory is memory of the fake device, which this process can look into.
type deviceMemory struct{ library *kfr.Library }

func (m deviceMemory) make(bytes uint64) (int, []byte, func(), error) {
	memory, err := m.library.NewMemory(bytes, 0)
	if err != nil {
		return 0, nil, nil, err
	}
	address := m.library.Data(memory)
	view := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), m.library.Bytes(memory))
	return m.library.FD(memory), view, func() { m.library.FreeMemory(memory) }, nil
}

func (m deviceMemory) reference() (float64, error) {
	samples, err := m.library.TimeReference(0, 3, nil)
	if err != nil {
		return 0, err
	}
	return median(samples), nil
}

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

// deviceBench is a judge on the fake device that remembers its workers.
type deviceBench struct {
	*bench
	mutex   sync.Mutex
	workers []*worker.Worker
}

func (b *deviceBench) started() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.workers)
}

func onFakeDevice(t *testing.T) *deviceBench {
	t.Helper()
	driver := fake.Driver(t)
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
	referee := &scripted{memory: deviceMemory{library}, eagerNS: func(string) float64 { return 50_000 }}
	c := reluCard()
	c.Target = "cuda"
	for i := range c.Variants {
		c.Variants[i].EagerUS = 50
	}
	b.bench = &bench{judge: assemble(Config{Target: "cuda"}, referee, on, all, scratch), referee: referee, card: c}
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

func TestOneWorkerServesManyCandidatesOnADevice(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	for i := range 3 {
		verdict := b.verdict(t, deviceKernel(good)+strings.Repeat("\n", i))
		if verdict.Status != card.OK || !(verdict.Cost > 0.15 && verdict.Cost < 0.3) { // 10 us of the fake's clock against 50 us
			t.Fatalf("found %+v", verdict)
		}
	}
	if live := b.judge.workers.live; live == nil || live.runner != runner(b.workers[0]) {
		t.Error("the worker was replaced although every candidate passed")
	}
	if facts := b.judge.Facts(); facts.Target != "cuda" || facts.Arch != "sm_90a" || facts.SMCount != 132 || facts.SmemOptin != 232448 || facts.L2Bytes == 0 {
		t.Errorf("facts %+v", facts)
	}
}

func TestCandidatesOnADeviceEndAsTheyMust(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	for name, c := range map[string]struct {
		source, detail string
		status         card.Status
	}{
		"right":            {deviceKernel(good), "", card.OK},
		"drops NaN":        {deviceKernel("y[i] = x[i] > 0 ? x[i] : 0;"), "special input", card.WrongValue},
		"writes nothing":   {onDeviceHead + "}", "element", card.WrongValue},
		"past the end":     {deviceKernel(good + " if (i == n - 1) *(volatile float*)(y + i + 1) = 0;"), "`out0`", card.Crash},
		"writes its input": {deviceKernel(good + " *(volatile float*)(x + i) = 0;"), "`self`, which is read-only", card.Crash},
		"device fault":     {onDeviceHead + "fault_next(700); }", "illegal memory access", card.Crash},
		"never ends":       {onDeviceHead + "for (volatile int64_t i = 0;; ++i) {} }", "killed", card.Timeout},
	} {
		verdict := b.verdict(t, c.source)
		// the kernel that arms a fault writes nothing: it is caught at its first comparison, or by the fault at its second run
		if name == "device fault" && verdict.Status == card.WrongValue {
			continue
		}
		if verdict.Status != c.status || !strings.Contains(verdict.Detail, c.detail) {
			t.Errorf("%s: %s, %q (expected %s, %q)", name, verdict.Status, verdict.Detail, c.status, c.detail)
		}
		if next := b.verdict(t, deviceKernel(good)); next.Status != card.OK {
			t.Errorf("after %s: %+v", name, next)
		}
	}
	armed := deviceKernel(good) // faults at the launch after its first, which was right
	armed = strings.Replace(armed, "KERNEL(kf_main) {", "KERNEL(kf_main) { fault_next(700);", 1)
	if verdict := b.verdict(t, armed); verdict.Status != card.Crash || !strings.Contains(verdict.Detail, "illegal memory access") {
		t.Errorf("a device fault: %+v", verdict)
	}
}

func TestAFailureReplacesTheWorkerByOneThatWasReady(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	b.verdict(t, deviceKernel(good))
	first := b.judge.workers.live
	if b.judge.workers.spare == nil {
		t.Fatal("no worker is made ready")
	}
	b.verdict(t, onDeviceHead+"}") // wrong
	if b.judge.workers.live != nil {
		t.Error("a worker in which a candidate failed is kept")
	}
	if verdict := b.verdict(t, deviceKernel(good)); verdict.Status != card.OK {
		t.Fatalf("found %+v", verdict)
	}
	if b.judge.workers.live == first {
		t.Error("the old worker serves on")
	}
}

func TestAWorkerThatDiesBetweenCandidatesIsReplaced(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	b.verdict(t, deviceKernel(good))
	b.judge.workers.live.runner.Kill()
	// its buffers are mapped as far as the judge knows: the load finds out
	verdict := b.verdict(t, deviceKernel(good)+"\n")
	if verdict.Status != card.OK && verdict.Status != card.Crash {
		t.Fatalf("found %+v", verdict)
	}
	if verdict := b.verdict(t, deviceKernel(good)+"\n\n"); verdict.Status != card.OK {
		t.Fatalf("found %+v", verdict)
	}
}

func TestAFinalistGetsAFreshWorker(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	candidate := deviceCandidate(deviceKernel(good))
	b.verdict(t, candidate.Source)
	before := b.judge.workers.live
	b.referee.confirm = func(plan Plan, image string, blocks int, _ int64) (*Confirmed, error) {
		if plan.Threads != 0 || strings.Contains(text(plan), "threads") || !strings.HasSuffix(image, ".cubin") {
			return nil, fmt.Errorf("plan %s in %s", text(plan), image)
		}
		if _, err := os.Stat(image); err != nil {
			return nil, err
		}
		c := &Confirmed{Status: card.OK, Rule: 1}
		for i := range blocks {
			noise := 1 + 0.001*float64(i%5)
			c.EagerNS, c.OursNS = append(c.EagerNS, 50_000*noise), append(c.OursNS, 25_000*noise)
			c.AANS[0], c.AANS[1] = append(c.AANS[0], 50_000*noise), append(c.AANS[1], 50_000*(1+0.001*float64(i%3)))
		}
		return c, nil
	}
	all, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: candidate, Variant: "v0"}})
	if err != nil || len(all) != 1 || !all[0].Accepted {
		t.Fatalf("found %+v, %v", all, err)
	}
	if b.judge.workers.live == before {
		t.Error("the finalist ran in a worker in which others had run")
	}
}

func TestCardsShareAWorkerOneAfterTheOther(t *testing.T) {
	b := onFakeDevice(t)
	b.open(t)
	other := *b.card
	other.ID = "c-00000002"
	second := &scripted{memory: b.referee.memory, eagerNS: b.referee.eagerNS}
	b.judge.referee = perCard{b.card.ID: b.referee, other.ID: second}
	if err := b.judge.Open(t.Context(), &other, 6); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for _, c := range []*card.Card{b.card, &other} {
			verdict, err := b.judge.Judge(t.Context(), c, deviceCandidate(deviceKernel(good)+strings.Repeat("\n", i)))
			if err != nil || verdict.Status != card.OK {
				t.Fatalf("%s: %+v, %v", c.ID, verdict, err)
			}
		}
	}
	if live := b.judge.workers.live; live == nil || live.mapped != other.ID || live.runner != runner(b.workers[0]) {
		t.Error("the worker was replaced, or has another card's buffers")
	}
	if err := b.judge.Close(t.Context(), other.ID); err != nil || b.judge.workers.live.mapped != "" {
		t.Errorf("after the close: %v, buffers of `%s` are mapped", err, b.judge.workers.live.mapped)
	}
}

// perCard gives each card its own referee.
type perCard map[string]*scripted

func (p perCard) Prepare(ctx context.Context, c *card.Card, seed int64) (*Prepared, error) {
	return p[c.ID].Prepare(ctx, c, seed)
}
func (p perCard) Check(ctx context.Context, id string, compare *Compare, poison *Poison) (*Checked, error) {
	return p[id].Check(ctx, id, compare, poison)
}
func (p perCard) TimeEager(ctx context.Context, id, variant string, samples, inner int) (*Timed, error) {
	return p[id].TimeEager(ctx, id, variant, samples, inner)
}
func (p perCard) Confirm(ctx context.Context, id, variant string, plan Plan, image string, blocks int, seed int64) (*Confirmed, error) {
	return p[id].Confirm(ctx, id, variant, plan, image, blocks, seed)
}
func (p perCard) Release(ctx context.Context, id string) error { return p[id].Release(ctx, id) }

// hot is a fake worker whose device is slowed down in some blocks.
type hot struct {
	*act
	reads *int
}

func (h hot) Telemetry(context.Context, time.Duration) (*worker.Telemetry, string, error) {
	*h.reads++
	read := &worker.Telemetry{Throttle: []string{"gpu_idle", "sw_power_cap"}}
	if *h.reads%4 == 0 {
		read.Throttle = append(read.Throttle, "hw_thermal_slowdown")
	}
	return read, "", nil
}

// warm is the host with a device's sensors.
type warm struct{ *onHost }

func (w warm) traits() traits {
	t := w.onHost.traits()
	t.telemetry = true
	return t
}

func TestBlocksUnderThrottlingAreDroppedAndCounted(t *testing.T) {
	b := fakeOnHost(t)
	reads := 0
	inner := b.judge.workers.begin
	b.judge.workers.begin = func(ctx context.Context) (runner, error) {
		r, err := inner(ctx)
		return hot{r.(*act), &reads}, err
	}
	b.judge.target = warm{b.judge.target.(*onHost)}
	b.open(t)
	verdict := b.verdict(t, kernel(good))
	if verdict.Status != card.OK || !strings.Contains(verdict.Detail, "under `hw_thermal_slowdown` and dropped") || reads == 0 {
		t.Errorf("found %+v after %d readings", verdict, reads)
	}
	for _, v := range verdict.Variants {
		if v.Samples < leastBlocks {
			t.Errorf("%d blocks are left of variant `%s` (expected %d: others in place of the dropped)", v.Samples, v.ID, leastBlocks)
		}
	}
}

func TestADeviceThatIsNotOnesOwnIsRefused(t *testing.T) {
	for name, device := range map[string]worker.Device{
		"exclusive": {Mode: "exclusive_process"}, "prohibited": {Mode: "prohibited"}, "MPS": {Mode: "default", MPS: true},
	} {
		err := fit(&device)
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Hint == "" {
			t.Errorf("%s: found %v", name, err)
		}
	}
	if err := fit(&worker.Device{Mode: "default"}); err != nil {
		t.Error(err)
	}
	if err := fit(&worker.Device{}); err != nil {
		t.Errorf("without NVML: %v", err)
	}
}
