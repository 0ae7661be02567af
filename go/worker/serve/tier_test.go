package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/cuda/fake"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// A candidate that means harm: machine code that asks the kernel itself, past every rule about sources and imports. Element i of the output is what
// the kernel answered to its attempt i; the code runs on a thread of csrc's pool.
const hostile = `
  auto call = [](long n, long a, long b, long c, long d) {
    long r; register long r10 asm("r10") = d;
    asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return r;
  };
  const long parent = call(110, 0, 0, 0, 0);
  long r = 0;
  if (i == 0) r = call(257, -100, (long)"/etc/passwd", 0, 0);
  if (i == 1) r = call(41, 2, 1, 0, 0);                                   // an inet socket
  if (i == 2) r = call(41, 1, 1, 0, 0);                                   // a unix socket
  if (i == 3) r = call(62, parent, 0, 0, 0);                              // a signal to its parent
  if (i == 4) { r = call(56, 17, 0, 0, 0); if (r == 0) call(231, 0, 0, 0, 0); } // a process
  if (i == 5) r = call(59, (long)"/bin/sh", 1, 0, 0);                     // a shell (its arguments are nowhere: EFAULT if it may)
  if (i == 6) r = call(257, -100, (long)"kf-escape", 0101, 0600);         // a file in its folder
  if (i == 7) r = call(157, 1, 0, 0, 0);                                  // a life beyond its parent's
  if (i == 8) r = call(310, parent, (long)&r, 0, 0);                      // its parent's memory
  if (i == 9) r = call(319, (long)"mine", 0, 0, 0);                       // a file in memory: allowed
  y[i] = r;`

var hostileWants = []string{"read /etc/passwd", "open a socket to the network", "open a socket to a server of this machine", "signal its parent", "start a process",
	"run a shell", "write into its folder", "outlive its parent", "read its parent's memory"}

// atTier starts the built program, or skips where the machine does not hold the tier.
func atTier(t *testing.T, config worker.Config) *worker.Worker {
	t.Helper()
	w, err := worker.Start(t.Context(), config)
	if err != nil && config.Tier > sandbox.Limits && strings.Contains(err.Error(), "does not offer") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	return w
}

func hostConfig(t *testing.T, tier int) worker.Config {
	t.Helper()
	program, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return worker.Config{Path: program, Runtime: realRuntime(t), Scratch: t.TempDir(), Threads: 2, Tier: tier}
}

func TestWhatAHostileCandidateCanDoAtEachTier(t *testing.T) {
	code := image(t, hostile)
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		t.Run(fmt.Sprint(tier), func(t *testing.T) {
			config := hostConfig(t, tier)
			w := atTier(t, config)
			var buffers []worker.Buffer
			var fds []int
			var output []float32
			for id := 1; id <= 2; id++ {
				m, err := library.NewMemory(4000, kfr.Host)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { library.FreeMemory(m) })
				address := library.Data(m)
				output = unsafe.Slice(*(**float32)(unsafe.Pointer(&address)), 1000)
				buffers, fds = append(buffers, worker.Buffer{ID: id, Bytes: 4000, Writable: id == 2}), append(fds, library.FD(m))
			}
			if err := w.Map(t.Context(), 20*time.Second, buffers, fds); err != nil {
				t.Fatal(err)
			}
			kernel, err := w.Load(t.Context(), 20*time.Second, json.RawMessage(plan), code) // a sealed file in memory, mapped as code
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Run(t.Context(), 20*time.Second, kernel, []worker.Slot{{Buffer: 1}, {Buffer: 2}}, worker.NoDirt, 0); err != nil {
				t.Fatal(err)
			}
			for i, what := range hostileWants {
				refused := output[i] == -float32(unix.EPERM) || output[i] == -float32(unix.EACCES)
				if refused != (tier >= sandbox.Walls) {
					t.Errorf("%s: the kernel answered %g (expected it to be refused: %t)", what, output[i], tier >= sandbox.Walls)
				}
			}
			if output[len(hostileWants)] < 0 {
				t.Errorf("a file in memory: %g", output[len(hostileWants)])
			}
			if left, err := filepath.Glob(filepath.Join(config.Scratch, "*")); err != nil || len(left) != map[bool]int{true: 0, false: 1}[tier >= sandbox.Walls] {
				t.Errorf("left in its folder: %v, %v", left, err)
			}
		})
	}
}

// From outside: every thread is behind a filter, has no capability, and the namespaces are its own.
func TestATierHoldsOnEveryThread(t *testing.T) {
	driver := fake.Driver(t)
	for tier := sandbox.Walls; tier <= sandbox.Best; tier++ {
		for name, config := range map[string]worker.Config{"host": hostConfig(t, tier), "cuda": deviceConfig(t, driver)} {
			t.Run(fmt.Sprintf("%s %d", name, tier), func(t *testing.T) {
				config.Tier, config.Scratch = tier, t.TempDir()
				w := atTier(t, config)
				if w.Hello.Tier != tier || len(w.Hello.Attempts) < 20 {
					t.Errorf("tier %d after %d attempts", w.Hello.Tier, len(w.Hello.Attempts))
				}
				files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", w.PID()))
				if err != nil || len(files) < 2 {
					t.Fatalf("threads %v, %v", files, err)
				}
				for _, file := range files {
					text, err := os.ReadFile(file)
					if os.IsNotExist(err) {
						continue
					}
					for _, line := range []string{"Seccomp:\t2", "NoNewPrivs:\t1", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"} {
						if err != nil || !strings.Contains(string(text), line) {
							t.Errorf("%s does not say `%s`, %v", file, line, err)
						}
					}
				}
				if left, err := os.ReadDir(config.Scratch); err != nil || len(left) != 0 {
					t.Errorf("left %v, %v (expected no secret any more)", left, err)
				}
			})
		}
	}
}

func TestATierThatCannotBeIsAnErrorWithAHint(t *testing.T) {
	config := hostConfig(t, sandbox.Best+1)
	w, err := worker.Start(t.Context(), config)
	if err == nil {
		w.Kill()
		t.Fatal("a worker started at a tier that does not exist")
	}
	if !strings.Contains(err.Error(), "tier 3") {
		t.Errorf("found %v", err)
	}
}
