package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda/fake"
	"github.com/kernelforge/kernelforge/go/worker"
)

func TestOneWorkerServesManyCandidatesOnADevice(t *testing.T) {
	b := onFakeDevice(t, nil)
	b.open(t)
	for i := range 3 {
		verdict := b.verdict(t, deviceKernel(again(i)))
		if verdict.Status != card.OK || !(verdict.Cost > 0.15 && verdict.Cost < 0.3) || verdict.Detail != "" { // 10 us of the fake's clock against 50 us
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
	b := onFakeDevice(t, nil)
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
		"never ends":       {onDeviceHead + "for (volatile int64_t i = 0;; ++i) {} }", "killed", card.Timeout},
	} {
		verdict := b.verdict(t, c.source)
		if verdict.Status != c.status || !strings.Contains(verdict.Detail, c.detail) {
			t.Errorf("%s: %s, %q (expected %s, %q)", name, verdict.Status, verdict.Detail, c.status, c.detail)
		}
		if next := b.verdict(t, deviceKernel(good)); next.Status != card.OK {
			t.Errorf("after %s: %+v", name, next)
		}
	}
	armed := deviceKernel(good) // faults at the launch after its first, which was right
	armed = strings.Replace(armed, "KERNEL(kf_main) {", "KERNEL(kf_main) { fault_next(700);", 1)
	if verdict := b.verdict(t, armed); verdict.Status != card.Crash || !strings.Contains(verdict.Detail, illegalAccess) || verdict.Gate != string(GateGuardPages) {
		t.Errorf("a device fault: %+v", verdict)
	}
}

func TestAFailureReplacesTheWorkerByOneThatWasReady(t *testing.T) {
	b := onFakeDevice(t, nil)
	b.open(t)
	b.verdict(t, deviceKernel(good))
	first := b.judge.workers.live
	if len(b.judge.workers.spares) == 0 {
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
	b := onFakeDevice(t, nil)
	b.open(t)
	b.verdict(t, deviceKernel(good))
	b.judge.workers.live.runner.Kill()
	if verdict := b.verdict(t, deviceKernel(again(1))); verdict.Status != card.OK { // its buffers are mapped, as far as the judge knows
		t.Fatalf("found %+v", verdict)
	}
}

// Memory that is not there is the machine's fault: an error with a hint, for workers and their buffers. A workspace is the candidate's wish.
func TestNoMemoryOnTheDeviceIsAnErrorWithAHint(t *testing.T) {
	b := onFakeDevice(t, map[string]string{"KF_FAKE_FAIL": "cuMemImportFromShareableHandle=2"})
	b.open(t)
	verdict, err := b.judge.Judge(t.Context(), b.card, deviceCandidate(deviceKernel(good)))
	var coded *card.Error
	if !errors.As(err, &coded) || coded.Code != card.CodeJudge || !strings.Contains(card.AsError(err).Hint, "free memory") {
		t.Errorf("found %+v, %v, hint %q", verdict, err, card.AsError(err).Hint)
	}
	b = onFakeDevice(t, map[string]string{"KF_FAKE_CUDA": "memory=4194304"})
	b.open(t)
	greedy := deviceCandidate(deviceKernel(good))
	greedy.Spec.Workspaces = []card.Workspace{{Bytes: "8388608"}}
	verdict, err = b.judge.Judge(t.Context(), b.card, greedy)
	if err != nil || verdict.Status != card.LaunchError || !strings.Contains(verdict.Detail, "a workspace of 8388608 bytes") {
		t.Errorf("found %+v, %v", verdict, err)
	}
}

func TestAFinalistGetsAFreshWorker(t *testing.T) {
	b := onFakeDevice(t, nil)
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
		c := &Confirmed{Status: card.OK, Rule: 1, Exact: true}
		for i := range blocks {
			noise := 1 + 0.001*float64(i%5)
			c.EagerNS, c.OursNS = append(c.EagerNS, 50_000*noise), append(c.OursNS, 25_000*noise)
			c.AgainNS = append(c.AgainNS, 50_000*(1+0.001*float64(i%3)))
		}
		return c, nil
	}
	all, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: candidate, Variant: "v0"}})
	if err != nil || len(all) != 1 || !all[0].Accepted {
		t.Fatalf("found %+v, %v", all, err)
	}
	finalists := b.judge.workers.live
	if finalists == before {
		t.Error("the finalist ran in the search's worker")
	}
	if n := len(b.judge.workers.spares); n != sparesOfFinalists {
		t.Errorf("%d workers are made ready for the next finalists (expected %d)", n, sparesOfFinalists)
	}
	b.judge.workers.leaving.Wait()
	if _, _, err := before.runner.Telemetry(t.Context(), time.Second); err == nil {
		t.Error("the search's worker lives on beside the finalist's")
	}
	if took := b.judge.Took(); !(took[partServe] > 0 && took[partCheck] > 0 && took[partRun] > 0 && took[partLoad] > 0 && took[partTime] > 0 && took[partEager] > 0) {
		t.Errorf("the judge's account of its time: %v", took)
	}
	if took := b.judge.Took(); len(took) != 0 {
		t.Errorf("what was told is told again: %v", took)
	}
	if _, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: candidate, Variant: "v0"}}); err != nil {
		t.Fatal(err)
	}
	if b.judge.workers.live != finalists {
		t.Error("the finalist's worker was not kept for its next variant")
	}
	other := deviceCandidate(deviceKernel(good + " "))
	if _, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 2, Candidate: other, Variant: "v0"}}); err != nil {
		t.Fatal(err)
	}
	if b.judge.workers.live == finalists {
		t.Error("a finalist ran in a worker in which another had run")
	}
}

func TestCardsShareAWorkerOneAfterTheOther(t *testing.T) {
	b := onFakeDevice(t, nil)
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
			verdict, err := b.judge.Judge(t.Context(), c, deviceCandidate(deviceKernel(again(i))))
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

// From the configuration to a judge: the first worker opens the device, NVRTC is compared with its driver and compiles for its architecture.
func TestAJudgeForADeviceIsMade(t *testing.T) {
	driver := fake.Driver(t)
	nvrtc := os.Getenv("KF_NVRTC")
	if nvrtc == "" {
		t.Skip("KF_NVRTC is not set (expected the path of libnvrtc.so; torch's CUDA wheels carry one)")
	}
	program, err := builtWorker()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Config)) (*Judge, error) {
		config := Config{Target: "cuda", Worker: program, Runtime: realRuntime(t), Scratch: t.TempDir(), Cache: t.TempDir(), Jobs: 2, NVRTC: nvrtc,
			Variables: map[string]string{"KERNELFORGE_LIBCUDA": driver}}
		change(&config)
		return New(config, &scripted{})
	}
	j, err := with(func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	built, err := j.compile(t.Context(), deviceCandidate("extern \"C\" __global__ void kf_main(const float* x, float* y, long n) { y[0] = x[0]; }"))
	if err != nil || len(built.Image) == 0 || j.Facts().Arch != "sm_90a" {
		t.Errorf("found %+v for %q, %v", built, j.Facts().Arch, err)
	}
	for status, source := range map[card.Status]string{
		card.Rejected: "__device__ int calls;\nextern \"C\" __global__ void kf_main(int* y) { y[0] = calls++; }", card.CompileError: "not C++",
	} {
		_, err := j.compile(t.Context(), deviceCandidate(source))
		var failed *failure
		if !errors.As(err, &failed) || failed.status != status {
			t.Errorf("%s: found %v (expected %s)", source, err, status)
		}
	}
	j.Shutdown()
	for name, c := range map[string]struct {
		change     func(*Config)
		text, hint string
	}{
		"old driver": {func(c *Config) {
			c.Variables = map[string]string{"KERNELFORGE_LIBCUDA": fake.Wrap(t, driver, map[string]string{"KF_FAKE_CUDA": "driver=12040"})}
		}, "at most 12", "newer driver"},
		"old device": {func(c *Config) {
			c.Variables = map[string]string{"KERNELFORGE_LIBCUDA": fake.Wrap(t, driver, map[string]string{"KF_FAKE_CUDA": "major=7"})}
		}, "7.0", "newer GPU"},
		"new device": {func(c *Config) {
			c.Variables = map[string]string{"KERNELFORGE_LIBCUDA": fake.Wrap(t, driver, map[string]string{"KF_FAKE_CUDA": "major=99"})}
		}, "sm_990", "newer NVRTC"},
		"no NVRTC":       {func(c *Config) { c.NVRTC = "/nonexistent/libnvrtc.so" }, "/nonexistent", "KERNELFORGE_NVRTC"},
		"no driver":      {func(c *Config) { c.Variables = map[string]string{"KERNELFORGE_LIBCUDA": "/nonexistent/libcuda.so.1"} }, "CUDA driver", "NVIDIA driver"},
		"no such device": {func(c *Config) { c.Device = 9 }, "no such ordinal", "CUDA_VISIBLE_DEVICES"},
		"another device": {func(c *Config) { c.UUID = "GPU-00000000-0000-0000-0000-000000000000" }, "as in your process", "CUDA_VISIBLE_DEVICES"},
	} {
		j, err := with(c.change)
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Code != card.CodeJudge || !strings.Contains(err.Error(), c.text) || !strings.Contains(card.AsError(err).Hint, c.hint) {
			t.Errorf("%s: found %v (expected %q, hint %q)", name, err, c.text, c.hint)
		}
		if err == nil {
			j.Shutdown()
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
