package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if temporary != "" {
			os.RemoveAll(temporary)
		}
		os.Exit(code)
	}))
}

// realRuntime is libkfruntime.so: `make test` names it.
func realRuntime(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KF_RUNTIME")
	if path == "" {
		t.Skip("KF_RUNTIME is not set (expected the path of libkfruntime.so)")
	}
	return path
}

// client speaks with a loop in this process.
type client struct {
	*testing.T
	conn *worker.Conn
	last int64
}

func newClient(t *testing.T) *client {
	t.Helper()
	parent, child, err := worker.Pair()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := worker.NewConn(parent)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := worker.NewConn(child)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	gone := make(chan struct{}, 1)
	loop := New(theirs, nil, func(*kfr.Library) (sandbox.Report, error) { return sandbox.Report{}, nil })
	go func() { served <- loop.Serve(context.Background(), func() { gone <- struct{}{} }) }()
	t.Cleanup(func() {
		ours.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		<-gone // the parent's end was noticed
	})
	return &client{t, ours, 0}
}

// ask sends a request and reads its answer, which is a refusal with this code when code is not "".
func (c *client) ask(request worker.Request, fds []int, code string, answer any) {
	c.Helper()
	if err := c.conn.Send(request, fds); err != nil {
		c.Fatal(err)
	}
	body, err := c.conn.Receive()
	if err != nil {
		c.Fatal(err)
	}
	var first worker.Answer
	if err := json.Unmarshal(body, &first); err != nil {
		c.Fatal(err)
	}
	if code != "" {
		if first.OK || first.Error == nil || first.Error.Code != code {
			c.Errorf("%T: found %s (expected a refusal with `%s`)", request, body, code)
		}
		return
	}
	if err := card.Decode(body, answer); err != nil || !first.OK {
		c.Fatalf("%T: found %s, %v", request, body, err)
	}
}

func head(op string) worker.Header { return worker.Header{ID: 1, Op: op} }

func (c *client) hello() {
	c.Helper()
	var answer worker.HelloAnswer
	c.ask(&worker.Hello{Header: head("hello"), Runtime: realRuntime(c.T), Threads: 2, Device: kfr.Host}, nil, "", &answer)
	if answer.PID != os.Getpid() || answer.ABI != kfr.ABI {
		c.Fatalf("found %+v", answer)
	}
}

// doubles goes through a workspace that it fills first; leaks gives what the workspace held.
const (
	doubles = "w[i] = x[i]; y[i] = w[i] + w[i];"
	leaks   = "y[i] = w[i];"
)

// image compiles a kernel from `x` to `y` with the workspace `w`.
func image(t *testing.T, element string) []byte {
	t.Helper()
	folder := t.TempDir()
	source := `KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = (const float*)args[0].p; float* y = (float*)args[1].p; float* w = (float*)args[2].p;
  (void)x;
  for (int64_t i = begin; i < end; ++i) { ` + element + ` }
}`
	for name, text := range map[string]string{"kf_kernel.h": host.Prelude, "k.cc": source} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compiler, err := host.FindCompiler(t.Context(), os.Getenv("KERNELFORGE_CXX"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(compiler.Path, append(append([]string{}, host.Flags...), "-o", "k.so", "k.cc")...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(folder, "k.so"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const plan = `{"id": "p-00000001", "card": "c-00000001", "variant": "v0", "node": 1, "state": "approved",
 "call": {"overload": "aten::mul", "args": [{"name": "self", "kind": "tensor", "dtype": "float32", "sizes": [1000], "strides": [1]}],
  "outputs": [{"dtype": "float32", "sizes": [1000], "strides": [1], "alias": -1}]},
 "spec": {"schema": 1, "constants": {}, "workspaces": [{"bytes": "4 * self_numel", "zeroed": false}],
  "kernels": [{"entry": "kf_main", "work": "self_numel", "grain": "256", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}]}]},
 "threads": 2, "align": [16, 16], "deterministic": true, "exact": true}`

func TestAKernelIsLoadedRunAndTimedOnSharedMemory(t *testing.T) {
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t)
	c.hello()
	fds := make([]int, 2)
	views := make([][]float32, 2)
	for i := range fds {
		m, err := library.NewMemory(4000, kfr.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer library.FreeMemory(m)
		address := library.Data(m)
		fds[i], views[i] = library.FD(m), unsafe.Slice(*(**float32)(unsafe.Pointer(&address)), 1000)
	}
	for i := range views[0] {
		views[0][i] = float32(i)
	}
	var mapped worker.MapAnswer
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{{ID: 1, Bytes: 4000}, {ID: 2, Bytes: 4000, Writable: true}}, FDs: 2}, fds, "", &mapped)
	if len(mapped.Data) != 2 || mapped.Data[0] == 0 || mapped.Data[0] == mapped.Data[1] {
		t.Errorf("addresses %x", mapped.Data)
	}
	code := image(t, doubles)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(code); err != nil {
		t.Fatal(err)
	}
	var loaded worker.LoadAnswer
	c.ask(&worker.Load{Header: head("load"), Plan: json.RawMessage(plan), FDs: 1}, []int{int(file.Fd())}, "", &loaded)
	slots := []worker.Slot{{Buffer: 1}, {Buffer: 2}}
	var ran worker.RunAnswer
	c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: slots}, nil, "", &ran)
	for i, y := range views[1] {
		if y != 2*float32(i) {
			t.Fatalf("element %d is %g", i, y)
		}
	}
	if !(ran.US > 0) {
		t.Errorf("%g us", ran.US)
	}
	var timed worker.TimeAnswer
	sets := [][]*worker.Slot{{&slots[0], nil}, {&slots[0], &slots[1]}}
	c.ask(&worker.Time{Header: head("time"), Kernel: loaded.Kernel, Sets: sets, Samples: 4, Inner: 3, Warm: true}, nil, "", &timed)
	if len(timed.SamplesNS) != 4 || !(timed.ReferenceNS > 0) {
		t.Errorf("found %+v", timed)
	}

	// what a parent must not ask
	c.ask(&worker.Run{Header: head("run"), Kernel: 99, Slots: slots}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: slots[:1]}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: []worker.Slot{{Buffer: 9}, {Buffer: 2}}}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: []worker.Slot{{Buffer: 1, Offset: 1 << 30}, {Buffer: 2}}}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{{ID: 1, Bytes: 4000}}, FDs: 1}, fds[:1], worker.FaultRequest, nil)
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{{ID: 3, Bytes: 4000}}, FDs: 1}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{{ID: 3, Bytes: 1 << 40}}, FDs: 1}, fds[:1], worker.FaultRequest, nil)
	c.ask(&worker.Load{Header: head("load"), Plan: json.RawMessage(`{}`), FDs: 1}, []int{int(file.Fd())}, worker.FaultSpec, nil)
	c.ask(&worker.Load{Header: head("load"), Plan: json.RawMessage(strings.Replace(plan, "kf_main", "kf_other", 1)), FDs: 1}, []int{int(file.Fd())}, worker.FaultCode, nil)
	if _, err := file.WriteAt([]byte("\x7fELG"), 0); err != nil {
		t.Fatal(err)
	}
	c.ask(&worker.Load{Header: head("load"), Plan: json.RawMessage(plan), FDs: 1}, []int{int(file.Fd())}, worker.FaultCode, nil)
	c.ask(&worker.Unmap{Header: head("unmap"), Buffers: []int{7}}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Hello{Header: head("hello"), Runtime: realRuntime(t), Threads: 2, Device: kfr.Host}, nil, worker.FaultRequest, nil)

	c.ask(&worker.Unload{Header: head("unload"), Kernel: loaded.Kernel}, nil, "", &worker.Answer{})
	c.ask(&worker.Unmap{Header: head("unmap"), Buffers: []int{1, 2}}, nil, "", &worker.Answer{})
	c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: slots}, nil, worker.FaultRequest, nil)
}

func TestNothingIsServedBeforeHello(t *testing.T) {
	c := newClient(t)
	c.ask(&worker.Run{Header: head("run"), Kernel: 1}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Unload{Header: head("unload"), Kernel: 1}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{}}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Hello{Header: head("hello"), Runtime: "/nonexistent.so", Threads: 2, Device: kfr.Host}, nil, worker.FaultRequest, nil)
	c.ask(&worker.Hello{Header: head("hello"), Runtime: "libc.so.6", Threads: 2, Device: kfr.Host}, nil, worker.FaultRequest, nil)
}

func TestThisProcessIsNotConfinedAndTheCheckSaysSo(t *testing.T) {
	if holds([]string{"kernelforge-worker", "serve"}) == nil {
		t.Fatal("an unconfined process is said to be at tier 0")
	}
}

func TestAWorkspaceEndsAtItsGuard(t *testing.T) {
	page := os.Getpagesize()
	for _, bytes := range []uint64{0, 1, 64, uint64(page), uint64(page) + 1} {
		w, err := newWorkspace(bytes)
		if err != nil {
			t.Fatal(err)
		}
		end := w.first + int((bytes+63)/64*64)
		if end != len(w.mapping)-page || w.first < page || w.address(false)%64 != 0 {
			t.Errorf("%d bytes: [%d, %d) in a mapping of %d", bytes, w.first, end, len(w.mapping))
		}
		if bytes > 0 {
			w.mapping[w.first], w.mapping[w.first+int(bytes)-1] = 1, 1
		}
		w.free()
	}
	if _, err := (&Loop{device: kfr.Host}).newScratch(maxWorkspace + 1); err == nil {
		t.Error("a workspace of more than the limit was made")
	}
}

// started starts the real program.
func started(t *testing.T) *worker.Worker {
	t.Helper()
	program, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.Start(t.Context(), worker.Config{Path: program, Runtime: realRuntime(t), Scratch: t.TempDir(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	return w
}

func TestTheStartedProgramIsConfined(t *testing.T) {
	realRuntime(t)
	w := started(t)
	if w.Hello.Tier != 0 || w.Hello.PID != w.PID() {
		t.Errorf("found %+v", w.Hello)
	}
	folder := filepath.Join("/proc", strconv.Itoa(w.PID()))
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("status: %v\n%s", err, status)
	}
	limits, err := os.ReadFile(filepath.Join(folder, "limits"))
	words := strings.Join(strings.Fields(string(limits)), " ")
	for _, limit := range []string{"Max core file size 0 0", "Max open files 1024 1024", "Max locked memory 0 0", "Max msgqueue size 0 0",
		fmt.Sprintf("Max file size %d %d", 2*worker.MaxImage, 2*worker.MaxImage)} {
		if err != nil || !strings.Contains(words, limit) {
			t.Errorf("limits do not say `%s`: %v\n%s", limit, err, limits)
		}
	}
	if name, err := os.ReadFile(filepath.Join(folder, "comm")); err != nil || strings.TrimSpace(string(name)) != "kernelforge-wor" { // 15 bytes
		t.Errorf("it is called %q, %v", name, err)
	}
	environment, err := os.ReadFile(filepath.Join(folder, "environ"))
	for _, variable := range strings.Split(strings.TrimRight(string(environment), "\x00"), "\x00") {
		if name, _, _ := strings.Cut(variable, "="); err == nil && !worker.Allowed(name) {
			t.Errorf("the environment has %q", variable)
		}
	}
	group, err := os.ReadFile(filepath.Join(folder, "stat"))
	if fields := strings.Fields(string(group[strings.LastIndex(string(group), ")")+1:])); err != nil || fields[2] != strconv.Itoa(w.PID()) {
		t.Errorf("process group %v, %v", fields, err)
	}
	links, err := os.ReadDir(filepath.Join(folder, "fd"))
	if os.Geteuid() != 0 { // not dumpable: another process of this user may not look into it; root may
		if !os.IsPermission(err) {
			t.Errorf("this user can read the worker's descriptors (%v)", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		to, _ := os.Readlink(filepath.Join(folder, "fd", link.Name()))
		// Go's runtime keeps the cgroup's CPU limits open
		ok := to == "/dev/null" || strings.HasPrefix(to, "/sys/fs/cgroup/") || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "anon_inode:") || strings.Contains(to, "libkfruntime")
		if !ok {
			t.Errorf("descriptor %s is %s", link.Name(), to)
		}
	}
}

func TestARequestThatIsRefusedLeavesTheWorkerAlive(t *testing.T) {
	realRuntime(t)
	w := started(t)
	for range 2 {
		_, err := w.Run(t.Context(), 20*time.Second, 5, nil, worker.NoDirt, 0)
		var fault *worker.Fault
		if !errors.As(err, &fault) || fault.Code != worker.FaultRequest {
			t.Fatalf("found %v", err)
		}
	}
}

// A kernel that counts on zeros in its workspace, or on what its last run left there, must see neither.
func TestWorkspacesAreDirtyBeforeEveryRun(t *testing.T) {
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t)
	c.hello()
	memory, err := library.NewMemory(8000, kfr.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer library.FreeMemory(memory)
	address := library.Data(memory)
	out := unsafe.Slice(*(**uint32)(unsafe.Pointer(&address)), 1000)
	c.ask(&worker.Map{Header: head("map"), Buffers: []worker.Buffer{{ID: 1, Bytes: 8000, Writable: true}}, FDs: 1}, []int{library.FD(memory)}, "", &worker.MapAnswer{})
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(image(t, leaks)); err != nil {
		t.Fatal(err)
	}
	for zeroed, want := range map[string][]uint32{"false": {0xFFFFFFFF, 0x4B4B4B4B, 0xFFFFFFFF}, "true": {0, 0, 0}} {
		var loaded worker.LoadAnswer
		own := strings.Replace(plan, `"zeroed": false`, `"zeroed": `+zeroed, 1)
		c.ask(&worker.Load{Header: head("load"), Plan: json.RawMessage(own), FDs: 1}, []int{int(file.Fd())}, "", &loaded)
		for run, expected := range want {
			c.ask(&worker.Run{Header: head("run"), Kernel: loaded.Kernel, Slots: []worker.Slot{{Buffer: 1, Offset: 4000}, {Buffer: 1}}, Dirt: worker.Dirt(1 + run%2)}, nil, "", &worker.RunAnswer{})
			for _, i := range []int{0, 999} {
				if out[i] != expected {
					t.Errorf("zeroed %s, run %d: element %d was %#x (expected %#x)", zeroed, run, i, out[i], expected)
				}
			}
		}
	}
}
