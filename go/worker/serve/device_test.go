package serve

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda/fake"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

// Tests of a worker on a device, with the fake driver of csrc's tests in both processes.

const patience = 30 * time.Second

// devicePlan is a plan of aten::relu: kf_main(x, y, n) in blocks of 256.
func devicePlan(workspaces, args string) map[string]any {
	tensor := map[string]any{"dtype": "float32", "sizes": []int{1000}, "strides": []int{1}}
	input, output := map[string]any{"name": "self", "kind": "tensor"}, map[string]any{"alias": -1}
	for key, value := range tensor {
		input[key], output[key] = value, value
	}
	spec := fmt.Sprintf(`{"schema": 1, "constants": {}, "workspaces": [%s], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"],
	  "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i64"}%s]}]}`, workspaces, args)
	return map[string]any{"id": "p-00000001", "card": "c-00000001", "variant": "v0", "node": 1, "state": "approved",
		"call": map[string]any{"overload": "aten::relu", "args": []any{input}, "outputs": []any{output}},
		"spec": jsonRaw(spec), "align": []int{16, 16}, "deterministic": true, "exact": true}
}

type jsonRaw string

func (j jsonRaw) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// temporary is removed when the tests end.
var temporary string

var builtProgram = sync.OnceValues(func() (string, error) {
	if program := os.Getenv("KF_WORKER"); program != "" {
		return program, nil
	}
	folder, err := os.MkdirTemp("", "kernelforge-worker-")
	if err != nil {
		return "", err
	}
	temporary = folder
	program := filepath.Join(folder, "kernelforge-worker")
	build := exec.Command("go", "build", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", program, "../../cmd/kernelforge-worker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return program, nil
})

func deviceConfig(t *testing.T, driver string) worker.Config {
	t.Helper()
	program, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return worker.Config{Path: program, Runtime: realRuntime(t), Scratch: t.TempDir(), CUDA: true, Variables: map[string]string{"KERNELFORGE_LIBCUDA": driver}}
}

// onDevice is a worker on the fake device, with an input and an output of 1,000 floats mapped: buffers 1 (read-only) and 2.
type onDevice struct {
	*worker.Worker
	in, out  []float32
	memories []kfr.Memory
	slots    []worker.Slot
	image    []byte
	kernel   int
}

var deviceLibrary = sync.OnceValues(func() (*kfr.Library, error) { return kfr.Open(os.Getenv("KF_RUNTIME")) })

// startOnDevice starts a worker, maps two buffers of the device and loads a kernel.
func startOnDevice(t *testing.T, source string) *onDevice {
	t.Helper()
	w, err := worker.Start(t.Context(), deviceConfig(t, fake.Driver(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	d := &onDevice{Worker: w, image: fake.Cubin(t, "8,8,8", source)}
	library, err := deviceLibrary()
	if err != nil {
		t.Fatal(err)
	}
	var buffers []worker.Buffer
	var fds []int
	for id := 1; id <= 2; id++ {
		memory, err := library.NewMemory(4000, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { library.FreeMemory(memory) })
		d.memories = append(d.memories, memory)
		bytes := library.Bytes(memory)
		address := library.Data(memory) + uintptr(bytes-4000)
		view := unsafe.Slice(*(**float32)(unsafe.Pointer(&address)), 1000)
		if id == 1 {
			d.in = view
		} else {
			d.out = view
		}
		buffers, fds = append(buffers, worker.Buffer{ID: id, Bytes: bytes, Writable: id == 2}), append(fds, library.FD(memory))
		d.slots = append(d.slots, worker.Slot{Buffer: id, Offset: int64(bytes) - 4000})
	}
	for i := range d.in {
		d.in[i] = float32(i)
	}
	if err := w.Map(t.Context(), patience, buffers, fds); err != nil {
		t.Fatal(err)
	}
	if d.kernel, err = w.Load(t.Context(), patience, devicePlan("", ""), d.image); err != nil {
		t.Fatal(err)
	}
	return d
}

const head2 = "KERNEL(kf_main) { const float* x = ARG(const float*, 0); float* y = ARG(float*, 1); int64_t n = ARG(int64_t, 2); "

func TestWithoutSharedMemoryEachSideHasItsOwn(t *testing.T) {
	t.Setenv("KERNELFORGE_BUFFERS", "copy") // the worker tells by the descriptors
	d := startOnDevice(t, head2+"for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; ((float*)x)[7] = 1; }")
	library, _ := deviceLibrary()
	carry := func(way func(kfr.Memory) error) {
		for _, memory := range d.memories {
			if err := way(memory); err != nil {
				t.Fatal(err)
			}
		}
	}
	carry(library.Push)
	if _, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0); err != nil {
		t.Fatal(err)
	}
	if d.out[999] != 0 || d.in[7] != 7 {
		t.Fatalf("the worker wrote to our memory: %g, %g", d.out[999], d.in[7])
	}
	carry(library.Pull)
	if d.out[999] != 2*999 || d.in[7] != 1 {
		t.Errorf("pulled %g and %g (expected 1998, and the input's 1 that the kernel should not have written)", d.out[999], d.in[7])
	}
}

func TestAKernelOnADeviceIsLoadedRunAndTimed(t *testing.T) {
	d := startOnDevice(t, head2+"for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }")
	device := d.Hello.Device
	if device == nil || device.Name != "Fake GPU 0" || device.Major != 9 || device.SMCount != 132 || device.Driver != 13000 || !device.VMM || !device.ReadOnly ||
		device.UUID != "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f" || device.PCI != "0000:19:00.0" || device.SmemOptin != 232448 || device.L2Bytes == 0 || device.Warp != 32 {
		t.Errorf("found %+v", device)
	}
	if us, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0); err != nil || !(us > 0) || d.out[999] != 2*999 {
		t.Fatalf("run: %g us, %v, last element %g", us, err, d.out[999])
	}
	sets := [][]*worker.Slot{{&d.slots[0], nil}, {&d.slots[0], &d.slots[1]}}
	samples, reference, err := d.Time(t.Context(), patience, d.kernel, sets, 4, 3, true)
	if err != nil || len(samples) != 4 || !(reference > 0) {
		t.Fatalf("time: %v, %g, %v", samples, reference, err)
	}
	for _, ns := range samples {
		if ns < 9_990 || ns > 11_000 { // the fake's clock: 10 us a kernel
			t.Errorf("a sample of %g ns (expected 10,000)", ns)
		}
	}
	telemetry, why, err := d.Telemetry(t.Context(), patience)
	if err != nil || telemetry != nil || !strings.Contains(why, "NVML") {
		t.Errorf("telemetry: %+v, %q, %v (expected none, and why)", telemetry, why, err)
	}
	if err := d.Unload(t.Context(), patience, d.kernel); err != nil {
		t.Error(err)
	}
	if err := d.Unmap(t.Context(), patience, []int{1, 2}); err != nil {
		t.Error(err)
	}
	var fault *worker.Fault
	if _, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0); !errors.As(err, &fault) || fault.Code != worker.FaultRequest {
		t.Errorf("after the unload: found %v", err)
	}
}

func TestAnAccessPastABufferOfTheDeviceIsToldByItsName(t *testing.T) {
	for body, want := range map[string]string{
		"*(volatile float*)(y + n) = 1; }":    "0 bytes past the end of buffer 2",
		"y[0] = *(volatile float*)(x + n); }": "0 bytes past the end of buffer 1",
		"*(volatile float*)x = 1; }":          "of buffer 1, which is read-only",
	} {
		d := startOnDevice(t, head2+body)
		_, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0)
		var lost *worker.Lost
		if !errors.As(err, &lost) || lost.Timeout || !strings.Contains(lost.Detail, want) {
			t.Errorf("%s: found %v (expected %q)", body, err, want)
		}
	}
}

func TestAFaultOfTheDeviceEndsTheWorker(t *testing.T) {
	for _, c := range []struct {
		result int
		want   string
	}{{700, "illegal memory access"}, {716, ""}, {719, ""}} {
		d := startOnDevice(t, fmt.Sprintf("%sfault_next(%d); }", head2, c.result))
		if _, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0); err != nil {
			t.Fatal(err)
		}
		_, err := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0)
		var lost *worker.Lost
		if !errors.As(err, &lost) || lost.Timeout || lost.Signal != "device fault" || !strings.Contains(lost.Detail, c.want) {
			t.Errorf("%d: found %#v", c.result, err)
		}
		if _, again := d.Run(t.Context(), patience, d.kernel, d.slots, worker.NoDirt, 0); !errors.Is(again, err) {
			t.Errorf("%d: a second request gave %v (expected the same end)", c.result, again)
		}
	}
}

func TestAHangingKernelIsKilledAndTheNextWorkerRuns(t *testing.T) {
	d := startOnDevice(t, head2+"for (volatile int64_t i = 0;; ++i) y[0] = x[0]; }")
	_, err := d.Run(t.Context(), 100*time.Millisecond, d.kernel, d.slots, worker.NoDirt, 0)
	var lost *worker.Lost
	if !errors.As(err, &lost) || !lost.Timeout {
		t.Fatalf("found %v (expected a timeout)", err)
	}
	next := startOnDevice(t, head2+"for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1; }")
	if _, err := next.Run(t.Context(), patience, next.kernel, next.slots, worker.NoDirt, 0); err != nil || next.out[10] != 11 {
		t.Errorf("the next one: %v, %g", err, next.out[10])
	}
}

func TestAWorkspaceOfTheDeviceIsGuarded(t *testing.T) {
	for at, crash := range map[string]bool{"0": false, "767": false, "768": true} {
		d := startOnDevice(t, head2+"}")
		image := fake.Cubin(t, "8,8,8,8", head2+"ARG(volatile char*, 3)["+at+"] = 1; }")
		kernel, err := d.Load(t.Context(), patience, devicePlan(`{"bytes": "700", "zeroed": false}`, `, {"slot": "ws0"}`), image) // 256 bytes is what it is aligned to
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Run(t.Context(), patience, kernel, d.slots, worker.NoDirt, 0)
		if (err != nil) != crash {
			t.Errorf("byte %s of 700, rounded to 768: found %v", at, err)
		}
	}
	d := startOnDevice(t, head2+"}")
	for _, bytes := range []string{"1099511627776", "9000000000"} {
		_, err := d.Load(t.Context(), patience, devicePlan(`{"bytes": "`+bytes+`", "zeroed": false}`, ""), d.image)
		var fault *worker.Fault
		if !errors.As(err, &fault) || fault.Code != worker.FaultLaunch || !strings.Contains(fault.Text, bytes) {
			t.Errorf("a workspace of %s bytes: found %v (expected a launch error)", bytes, err)
		}
	}
}

// Bad input: one clear error each, with a hint, and no verdict.
func TestADeviceThatCannotBeOpenedIsOneClearError(t *testing.T) {
	driver := fake.Driver(t)
	for name, c := range map[string]struct {
		change     func(*worker.Config)
		text, hint string
	}{
		"no driver":      {func(c *worker.Config) { c.Variables["KERNELFORGE_LIBCUDA"] = "/nonexistent/libcuda.so.1" }, "open the CUDA driver", "install the NVIDIA driver"},
		"another file":   {func(c *worker.Config) { c.Variables["KERNELFORGE_LIBCUDA"] = "libc.so.6" }, "open the CUDA driver", "driver"},
		"no such device": {func(c *worker.Config) { c.Device = 7 }, "no such ordinal", "CUDA_VISIBLE_DEVICES"},
		"another device": {func(c *worker.Config) { c.UUID = "GPU-ffffffff-0405-0607-0809-0a0b0c0d0e0f" }, "as in your process", "CUDA_VISIBLE_DEVICES"},
		"old driver": {func(c *worker.Config) {
			c.Variables["KERNELFORGE_LIBCUDA"] = fake.Wrap(t, driver, map[string]string{"KF_FAKE_CUDA": "driver=11040"})
		}, "11.4", "newer NVIDIA driver"},
		"hidden device": {func(c *worker.Config) {
			c.Variables["KERNELFORGE_LIBCUDA"] = fake.Wrap(t, driver, map[string]string{"KF_FAKE_FAIL": "cuInit=100"})
		}, "no CUDA-capable device", "CUDA_VISIBLE_DEVICES"},
		"exclusive mode": {func(c *worker.Config) {
			c.Variables["KERNELFORGE_LIBCUDA"] = fake.Wrap(t, driver, map[string]string{"KF_FAKE_FAIL": "cuDevicePrimaryCtxRetain=46"})
		}, "unavailable", "exclusive mode"},
		"MPS": {func(c *worker.Config) {
			c.Variables["KERNELFORGE_LIBCUDA"] = fake.Wrap(t, driver, map[string]string{"KF_FAKE_FAIL": "cuInit=805"})
		}, "MPS", "MPS"},
		"no memory": {func(c *worker.Config) {
			c.Variables["KERNELFORGE_LIBCUDA"] = fake.Wrap(t, driver, map[string]string{"KF_FAKE_FAIL": "cuDevicePrimaryCtxRetain=2"})
		}, "out of memory", "free memory"},
	} {
		config := deviceConfig(t, driver)
		c.change(&config)
		w, err := worker.Start(t.Context(), config)
		if err == nil {
			w.Kill()
		}
		var coded *card.Error
		if !errors.As(err, &coded) || !strings.Contains(err.Error(), c.text) || !strings.Contains(coded.Hint, c.hint) {
			t.Errorf("%s: found %v, hint %q (expected %q and %q)", name, err, hintOf(coded), c.text, c.hint)
		}
	}
}

func hintOf(e *card.Error) string {
	if e == nil {
		return ""
	}
	return e.Hint
}

func TestAWorkerOnADeviceIsConfined(t *testing.T) {
	d := startOnDevice(t, head2+"}")
	if d.Hello.Tier != 0 {
		t.Errorf("tier %d", d.Hello.Tier)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", d.PID()))
	words := strings.Join(strings.Fields(string(limits)), " ")
	if err != nil || !strings.Contains(words, "Max core file size 0 0") || strings.Contains(words, "Max locked memory 0 0") {
		t.Errorf("limits: %v\n%s", err, limits)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("status: %v", err)
	}
}

// The loop itself, in this process: what a parent must not ask of it, and that a request for a device needs one.
func TestALoopOpensTheDeviceThatIsAskedFor(t *testing.T) {
	fake.Driver(t)
	c := newClient(t)
	c.ask(&worker.Hello{Header: head("hello"), Runtime: realRuntime(t), Threads: 1, Device: 9}, nil, worker.FaultSystem, nil)
	var answer worker.HelloAnswer
	c.ask(&worker.Hello{Header: head("hello"), Runtime: realRuntime(t), Threads: 1, Device: 0}, nil, "", &answer)
	if answer.Device == nil || answer.Device.Mode != "" {
		t.Errorf("found %+v", answer)
	}
	var telemetry worker.TelemetryAnswer
	c.ask(&worker.ReadTelemetry{Header: head("telemetry")}, nil, "", &telemetry)
	if telemetry.Telemetry != nil || telemetry.Why == "" {
		t.Errorf("found %+v", telemetry)
	}
}
