package judge

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// What the tests with a real worker need: `make test` names both; elsewhere the runtime must be named and the worker is built.
const (
	runtimeVariable = "KF_RUNTIME"
	workerVariable  = "KF_WORKER"
)

func realRuntime(t *testing.T) string {
	t.Helper()
	path := os.Getenv(runtimeVariable)
	if path == "" {
		t.Skipf("%s is not set (expected the path of libkfruntime.so)", runtimeVariable)
	}
	return path
}

var builtWorker = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(workerVariable); path != "" {
		return path, nil
	}
	folder, err := os.MkdirTemp("", "kernelforge-worker-")
	if err != nil {
		return "", err
	}
	temporary = append(temporary, folder)
	path := filepath.Join(folder, "kernelforge-worker")
	build := exec.Command("go", "build", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", path, "../cmd/kernelforge-worker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// shared is memory of libkfruntime, as the user's process makes it.
type shared struct {
	library  *kfr.Library
	parallel *kfr.Parallel
}

func (s shared) make(bytes uint64) (int, []byte, func(), error) {
	m, err := s.library.NewMemory(bytes, kfr.Host)
	if err != nil {
		return 0, nil, nil, err
	}
	address := s.library.Data(m)
	view := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), s.library.Bytes(m))
	return s.library.FD(m), view, func() { s.library.FreeMemory(m) }, nil
}

func (s shared) reference() (float64, error) {
	samples, err := s.library.TimeReference(kfr.Host, 3, s.parallel)
	if err != nil {
		return 0, err
	}
	return median(samples), nil
}

func real(t *testing.T) *bench { return realAt(t, sandbox.Limits) }

func realAt(t *testing.T, tier int) *bench {
	t.Helper()
	library, err := kfr.Open(realRuntime(t))
	if err != nil {
		t.Fatal(err)
	}
	pool, parallel, err := library.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { library.FreePool(pool) })
	program, err := builtWorker()
	if err != nil {
		t.Fatal(err)
	}
	referee := &scripted{memory: shared{library, parallel}, eagerNS: func(string) float64 { return 300_000 }}
	j, err := New(Config{Worker: program, Runtime: realRuntime(t), Compiler: os.Getenv("KERNELFORGE_CXX"), Cache: sharedCache(t), Scratch: t.TempDir(),
		Jobs: 2, Threads: 2, Target: "host", Tier: tier}, referee)
	if err != nil {
		t.Fatal(err)
	}
	j.patience = patience{}
	return &bench{judge: j, referee: referee, card: reluCard(), real: true}
}

var cacheFolder = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "kernelforge-cache-")
	temporary = append(temporary, folder)
	return folder, err
})

func sharedCache(t *testing.T) string {
	t.Helper()
	folder, err := cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestContractWithARealWorker(t *testing.T) {
	realRuntime(t)
	contract(t, real)
}

func TestACrashNamesTheTensorAndTheDistance(t *testing.T) {
	b := real(t)
	b.open(t)
	for _, c := range []struct{ body, want string }{
		{"if (i == N - 1) y[i] += 0 * *(volatile const float*)(x + i + 1);", "SIGSEGV, 0 bytes past the end of `self`"},
		{"if (i == N - 1) *(volatile float*)(y + i + 3) = 0;", "SIGSEGV, 8 bytes past the end of `out0`"},
		{"if (i == 0) ((volatile float*)x)[4] = 0;", "of `self`, which is read-only"},
		{"if (i == 0) *(volatile float*)(y - 2000) = 0;", "bytes before the start of `out0`"},
	} {
		verdict := b.verdict(t, kernel(good+" "+c.body))
		if verdict.Status != card.Crash || !strings.Contains(verdict.Detail, c.want) {
			t.Errorf("%s: %s, %q (expected a crash, %q)", c.body, verdict.Status, verdict.Detail, c.want)
		}
	}
}

func TestASpecThatCsrcRefusesIsALaunchError(t *testing.T) {
	b := real(t)
	b.open(t)
	for name, change := range map[string]func(*card.Kernel){
		"an unknown name":  func(k *card.Kernel) { k.Work = "other_numel" },
		"division by zero": func(k *card.Kernel) { k.Grain = "1 / 0" },
		"an unknown slot":  func(k *card.Kernel) { k.Args[0].Slot = "weight" },
	} {
		candidate := b.candidate(kernel(good))
		change(&candidate.Spec.Kernels[0])
		verdict, err := b.judge.Judge(t.Context(), b.card, candidate)
		if err != nil || verdict.Status != card.LaunchError || verdict.Detail == "" {
			t.Errorf("%s: found %+v, %v", name, verdict, err)
		}
	}
}

func TestAWorkspaceIsTheCandidatesOwnAndGuarded(t *testing.T) {
	b := real(t)
	b.open(t)
	for _, c := range []struct {
		at   string
		want card.Status
	}{{"0", card.OK}, {"255", card.OK}, {"256", card.Crash}} {
		candidate := b.candidate(kernel(good + " ((volatile char*)args[3].p)[" + c.at + "] = 1;"))
		candidate.Spec.Workspaces = []card.Workspace{{Bytes: "256"}}
		candidate.Spec.Kernels[0].Args = append(candidate.Spec.Kernels[0].Args, card.SpecArg{Slot: "ws0"})
		verdict, err := b.judge.Judge(t.Context(), b.card, candidate)
		if err != nil || verdict.Status != c.want {
			t.Errorf("byte %s of 256: found %+v, %v (expected %s)", c.at, verdict, err, c.want)
		}
	}
}

// The mechanism of the budget `crash or hang to the next candidate running`: the next judgement starts a new worker and needs nothing of the
// dead one. The time is measured and logged, not asserted: bench/search.py holds the number.
func TestTheNextCandidateRunsAfterACrash(t *testing.T) {
	b := real(t)
	b.open(t)
	for _, body := range []string{"__builtin_trap();", "for (volatile int k = 0;; ++k) {}"} {
		b.verdict(t, kernel(body))
		b.verdict(t, kernel(good)) // both are compiled now
		lost := b.verdict(t, kernel(body))
		began := time.Now()
		checks := b.referee.checks
		verdict := b.verdict(t, kernel(good))
		if verdict.Status != card.OK || b.referee.checks == checks {
			t.Errorf("after %s: found %+v", lost.Status, verdict)
		}
		t.Logf("after %s (%.3f s with its detection): whole judgement of the next candidate %.3f s", lost.Status, lost.Seconds, time.Since(began).Seconds())
	}
}

func TestPathsMayBeRelative(t *testing.T) {
	b := real(t)
	b.judge.Shutdown()
	config := b.judge.config
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []*string{&config.Worker, &config.Runtime, &config.Cache, &config.Scratch} {
		if *path, err = filepath.Rel(here, *path); err != nil {
			t.Fatal(err)
		}
	}
	j, err := New(config, b.referee)
	if err != nil {
		t.Fatal(err)
	}
	b.judge = j
	b.open(t)
	if verdict := b.verdict(t, kernel(good)); verdict.Status != card.OK {
		t.Errorf("found %+v", verdict)
	}
}

func TestNoCompilerNoWorkerNoRuntimeAreErrorsWithHints(t *testing.T) {
	good := real(t).judge.config
	for name, change := range map[string]func(*Config){
		"compiler": func(c *Config) { c.Compiler = "/nonexistent/g++" },
		"worker":   func(c *Config) { c.Worker = "/nonexistent/kernelforge-worker"; c.Cache = "" },
		"cache":    func(c *Config) { c.Cache = "/proc/nothing" },
		"scratch":  func(c *Config) { c.Scratch = "/proc/nothing" },
		"target":   func(c *Config) { c.Target = "tpu" },
		"tier":     func(c *Config) { c.Tier = 3 },
	} {
		config := good
		change(&config)
		_, err := New(config, &scripted{})
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Hint == "" {
			t.Errorf("%s: found %v (expected an error with a hint)", name, err)
		}
	}
	b := real(t)
	b.judge.Shutdown()
	config := b.judge.config
	for name, change := range map[string]func(*Config){
		"runtime": func(c *Config) { c.Runtime = "/nonexistent/libkfruntime.so" },
	} {
		config := config
		change(&config)
		j, err := New(config, b.referee)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{judge: j, referee: b.referee, card: b.card, real: true}
		b.open(t)
		_, err = j.Judge(t.Context(), b.card, b.candidate(kernel("y[i] = x[i];")))
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Hint == "" || coded.Code != card.CodeJudge {
			t.Errorf("%s: found %v (expected an error with a hint)", name, err)
		}
	}
}

// Somebody ends the worker of a good candidate, whatever it does then, behind the walls of the best tier too: it is judged again, and passes.
func TestAnEndFromOutsideAtAnyMomentBlamesNoCandidate(t *testing.T) {
	b := realAt(t, BestTier)
	b.open(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL} {
		moment := time.Duration(rand.Float64() * float64(150*time.Millisecond))
		struck := make(chan struct{})
		go func() {
			defer close(struck)
			pid := 0
			for pid == 0 {
				pid = serving()
			}
			<-time.After(moment)
			_ = syscall.Kill(pid, signal) // or it has ended
		}()
		verdict := b.verdict(t, kernel(good))
		<-struck
		if verdict.Status != card.OK {
			t.Errorf("%s %s after the start: %+v", signal, moment, verdict)
		}
	}
}

// serving is a worker of this process, or 0.
func serving() int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		words, _ := os.ReadFile(file)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		if strings.Contains(string(words), "\x00serve\x00") && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}
