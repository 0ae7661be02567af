package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// What reaches a worker from outside, by real processes: signals at any moment, and a machine that does other work.

// What the kernel of these tests does is its first input.
const (
	quick   = iota
	endless // it says that it runs, and never ends
	asleep  // poll(0, 0, -1): it waits for nothing, and uses no CPU time
	works   // 100 ms of a CPU, for the element that has them
	suicide // element i is what the kernel answers to a signal i + 1 of its own, if only somebody else sends that (sandbox.FromOutside, as bits)
)

const acts = `
  auto call = [](long n, long a, long b, long c) { long r; asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r; };
  struct { long s, ns; } time;
  auto now = [&] { call(228, 3, (long)&time, 0); return time.s * 1000000000 + time.ns; };
  const int act = (int)x[0];
  if (act == 1) { *(volatile float*)y = 1; for (volatile int k = 0;; ++k) {} }
  if (act == 2) call(7, 0, 0, -1);
  if (act == 3 && i == 0) { const long from = now(); while (now() - from < 100000000) {} }
  if (act == 4 && i < 31) y[i] = (float)call(62, call(39, 0, 0, 0), 0x8820e >> (i + 1) & 1 ? i + 1 : 0, 0);
  if (act != 4) y[i] = 1;`

var code []byte // of acts: compiled once

// outside is a worker with a kernel of two buffers of 1,000 floats; output is the second.
type outside struct {
	*worker.Worker
	kernel int
	output *float32
}

func (o *outside) run(limit time.Duration) error {
	_, err := o.Run(context.Background(), limit, o.kernel, []worker.Slot{{Buffer: 1}, {Buffer: 2}}, worker.NoDirt, 0)
	return err
}

// runs waits until the kernel says so.
func (o *outside) runs() {
	for atomic.LoadUint32((*uint32)(unsafe.Pointer(o.output))) == 0 {
		runtime.Gosched()
	}
}

// memories are the two buffers, which every worker of a test maps.
type memories struct {
	buffers []worker.Buffer
	fds     []int
	views   []*float32
}

func newMemories(t *testing.T) (made memories) {
	t.Helper()
	if code == nil {
		code = image(t, acts)
	}
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 2; id++ {
		m, err := library.NewMemory(4000, kfr.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { library.FreeMemory(m) })
		address := library.Data(m)
		made.views = append(made.views, *(**float32)(unsafe.Pointer(&address)))
		made.buffers, made.fds = append(made.buffers, worker.Buffer{ID: id, Bytes: 4000, Writable: id == 2}), append(made.fds, library.FD(m))
	}
	return made
}

// live starts a worker and loads the kernel; an error is the worker's end.
func (m memories) live(config worker.Config, act int) (*outside, error) {
	*m.views[0], *m.views[1] = float32(act), 0
	w, err := worker.Start(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	o := &outside{Worker: w, output: m.views[1]}
	if err = w.Map(context.Background(), 20*time.Second, m.buffers, m.fds); err == nil {
		o.kernel, err = w.Load(context.Background(), 20*time.Second, json.RawMessage(plan), code)
	}
	return o, err
}

func mustLive(t *testing.T, tier, act int) *outside {
	t.Helper()
	made, config := newMemories(t), hostConfig(t, tier)
	if tier > sandbox.Limits {
		atTier(t, config).Kill()
	}
	o, err := made.live(config, act)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Kill)
	return o
}

// Go would raise a signal again, which a sealed process may not, and then exit with 2: a crash, as if by its candidate.
func TestASignalFromOutsideIsToldByItsName(t *testing.T) {
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		for _, signal := range sandbox.FromOutside {
			t.Run(fmt.Sprintf("%d %s", tier, unix.SignalName(signal)), func(t *testing.T) {
				o := mustLive(t, tier, endless)
				go func() {
					o.runs()
					_ = unix.Kill(o.PID(), signal)
				}()
				err := o.run(time.Minute)
				var lost *worker.Lost
				if !errors.As(err, &lost) || !lost.Killed() || lost.Signal != unix.SignalName(signal) {
					t.Errorf("found %#v", err)
				}
			})
		}
	}
}

// child is the youngest process that this one has started with an argument.
func child(argument string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	youngest := 0
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		words, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(words), "\x00"+argument+"\x00") {
			youngest = max(youngest, pid)
		}
	}
	return youngest
}

// A worker that is ended while it starts is started again; one that is ended later was killed, whatever it did then: nobody's candidate crashed.
func TestASignalAtAnyMomentBlamesNobody(t *testing.T) {
	made := newMemories(t)
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		config := hostConfig(t, tier)
		atTier(t, config).Kill()
		for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGKILL} {
			moment := time.Duration(rand.Float64() * float64(60*time.Millisecond))
			struck := make(chan bool)
			go func() {
				pid := 0
				for pid == 0 {
					pid = child("serve")
				}
				<-time.After(moment)
				struck <- unix.Kill(pid, signal) == nil
			}()
			o, err := made.live(config, quick)
			if o == nil {
				t.Fatalf("tier %d, %s after %s: %v", tier, signal, moment, err)
			}
			var hit, waited bool
			for err == nil && !(waited && !hit) {
				select {
				case hit = <-struck:
					waited = true
				default:
				}
				if err = o.run(20 * time.Second); err == nil && waited { // the one that was hit was replaced while it started
					break
				}
			}
			if !waited {
				<-struck
			}
			o.Kill()
			var lost *worker.Lost
			if err != nil && (!errors.As(err, &lost) || !lost.Killed() || lost.Signal != unix.SignalName(signal)) {
				t.Errorf("tier %d, %s after %s: %#v", tier, signal, moment, err)
			}
		}
	}
}

// A worker that never comes to its first answer since it is killed each time: no wall of a tier is to blame.
func TestWorkersThatAreKilledAtEachStartBlameNoWall(t *testing.T) {
	config := hostConfig(t, sandbox.Walls)
	atTier(t, config).Kill()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if pid := child("serve"); pid != 0 {
					_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
				}
			}
		}
	}()
	var err error
	for range 20 { // on a busy machine one may answer before it is hit
		var w *worker.Worker
		if w, err = worker.Start(t.Context(), config); err != nil {
			break
		}
		w.Kill()
	}
	close(stop)
	<-stopped
	if err == nil {
		t.Fatal("none was hit while it started")
	}
	if told := card.AsError(err); !strings.Contains(told.Hint, "memory limit") || !strings.Contains(told.Text, "SIGKILL") {
		t.Errorf("%s; hint: %s", told.Text, told.Hint)
	}
}

// What ends itself is no victim: from tier 1 on it cannot even look like one.
func TestACandidateThatKillsItselfIsNoVictim(t *testing.T) {
	o := mustLive(t, sandbox.Walls, suicide)
	if err := o.run(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	bits := 0
	answers := unsafe.Slice(o.output, 31)
	for _, signal := range sandbox.FromOutside {
		bits |= 1 << signal
		if answer := answers[signal-1]; answer != -float32(unix.EPERM) {
			t.Errorf("%s: the kernel answered %g (expected that it refuses)", signal, answer)
		}
	}
	if bits != 0x8820e {
		t.Errorf("the kernel of the test knows the signals %#x (expected %#x)", 0x8820e, bits)
	}
}

// A loop ends by its CPU time, a sleep by the time on the wall.
func TestAHangEndsByWhatItUses(t *testing.T) {
	for act, want := range map[int]string{endless: "more than 100ms of CPU time", asleep: fmt.Sprintf("within %s", worker.Patience*100*time.Millisecond)} {
		o := mustLive(t, sandbox.Walls, act)
		began := time.Now()
		err := o.run(100 * time.Millisecond)
		var lost *worker.Lost
		if !errors.As(err, &lost) || !lost.Timeout || !strings.Contains(lost.Detail, want) {
			t.Errorf("after %s: %v (expected `%s`)", time.Since(began), err, want)
		}
	}
}

// A machine with three times as many busy processes as CPUs gives a kernel a quarter of one. It needs no more of it than on a quiet machine.
func TestABusyMachineEndsNoGoodKernel(t *testing.T) {
	o := mustLive(t, sandbox.Limits, works)
	for range 3 * runtime.NumCPU() {
		busy := exec.Command("/bin/sh", "-c", "while :; do :; done")
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	}
	began := time.Now()
	if err := o.run(200 * time.Millisecond); err != nil {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	t.Logf("100 ms of CPU time took %s", time.Since(began))
}
