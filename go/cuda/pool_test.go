package cuda

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
	"go.uber.org/goleak"
)

// The test program is its own compile server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "compile-cuda" {
		if err := Serve(os.Args); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// architectures are those that every kernel family must compile for.
var architectures = []string{"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"}

// realNVRTC is libnvrtc.so: `make test` names that of torch's environment.
func realNVRTC(t testing.TB) string {
	t.Helper()
	path := os.Getenv("KF_NVRTC")
	if path == "" {
		t.Skip("KF_NVRTC is not set (expected the path of libnvrtc.so; torch's CUDA wheels carry one)")
	}
	return path
}

func config(t testing.TB) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Program: self, NVRTC: realNVRTC(t), Arch: "sm_90a", Scratch: t.TempDir(), Jobs: 2}
}

func opened(t testing.TB, config Config) *Pool {
	t.Helper()
	p, err := NewPool(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func pool(t testing.TB) *Pool { return opened(t, config(t)) }

const double = `extern "C" __global__ void __launch_bounds__(256) kf_main(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i];
}
`

var two = []string{"-DFACTOR=2.0f"}

func image(t testing.TB, p *Pool, source string, options []string) []byte {
	t.Helper()
	built, err := p.Compile(t.Context(), source, options)
	if err != nil || built.Failure != "" {
		t.Fatalf("found %q, %v", built.Failure, err)
	}
	return built.Image
}

func TestASourceBecomesACubinOfEveryArchitecture(t *testing.T) {
	for _, arch := range architectures {
		c := config(t)
		c.Arch = arch
		code := image(t, opened(t, c), double, two)
		file, err := elf.NewFile(bytes.NewReader(code))
		if err != nil || file.Machine != 190 || file.Section(".text.kf_main") == nil {
			t.Errorf("%s: %v (expected a cubin with kf_main)", arch, err)
		}
	}
}

func TestACubinIsTakenFromTheCacheOnlyWhenEverythingIsEqual(t *testing.T) {
	cache, err := compile.OpenCache(t.TempDir(), ".cubin")
	if err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Cache = cache
	p := opened(t, c)
	first := image(t, p, double, two)
	again, err := p.Compile(t.Context(), double, two)
	if err != nil || !again.Cached || !bytes.Equal(first, again.Image) {
		t.Errorf("the same again: cached %t, %v", again.Cached, err)
	}
	c.Arch = "sm_80"
	for name, other := range map[string]struct {
		pool    *Pool
		source  string
		options []string
	}{
		"source": {p, double + "\n", two}, "constant": {p, double, []string{"-DFACTOR=3.0f"}}, "architecture": {opened(t, c), double, two},
		"NVRTC": {&Pool{config: p.config, found: p.found, key: p.key + "+", slots: p.slots, limit: p.limit, scratch: p.scratch}, double, two},
	} {
		built, err := other.pool.Compile(t.Context(), other.source, other.options)
		if err != nil || built.Cached {
			t.Errorf("another %s: cached %t, %v", name, built.Cached, err)
		}
		if other.pool != p {
			other.pool.Close()
		}
	}
}

func TestASourceThatDoesNotCompileIsAResultWithoutPaths(t *testing.T) {
	p := pool(t)
	for name, c := range map[string]struct{ source, wanted string }{
		"syntax":   {"extern \"C\" __global__ void kf_main() { not C++ }", "candidate.cu(1): error"},
		"type":     {"\n\nextern \"C\" __global__ void kf_main() { int x = \"text\"; }", "candidate.cu(3): error"},
		"shared":   {"extern \"C\" __global__ void kf_main(float* y) { __shared__ float a[65536]; a[threadIdx.x] = y[0]; __syncthreads(); y[1] = a[5]; }", "shared data"},
		"option":   {"extern \"C\" __global__ void kf_main() { static_assert(FACTOR == 3, \"three\"); }", "three"},
		"header":   {"#include \"cuda_fp16.h\"\nextern \"C\" __global__ void kf_main() {}", "cuda_fp16.h"},
		"assembly": {"#define J(a, b) a##b\nextern \"C\" __global__ void kf_main() { J(as, m)(\"trap;\"); J(__a, sm__) volatile(\"trap;\"); }", "kf_no_assembly"},
		"launch":   {"__global__ void other() {}\nextern \"C\" __global__ void kf_main() { other<<<1, 1>>>(); }", "candidate.cu(2)"},
		"a file":   {"#include \"/etc/passwd\"\nextern \"C\" __global__ void kf_main() {}", "NVRTC_ERROR_COMPILATION"},
	} {
		built, err := p.Compile(t.Context(), c.source, two)
		if err != nil || built.Image != nil || !strings.Contains(built.Failure, c.wanted) {
			t.Errorf("%s: found %q, %v (expected %q)", name, built.Failure, err, c.wanted)
		}
		if strings.Contains(built.Failure, p.scratch) || strings.Contains(built.Failure, "root:x") || len(built.Failure) > 5000 {
			t.Errorf("%s: %d bytes, with a path:\n%s", name, len(built.Failure), built.Failure)
		}
	}
}

// own is a kernel with a line of assembly, which the policy refuses and the compile options rename: spelled as here, as if both had been evaded.
func own(text string, around ...string) string {
	open, end := "", ""
	if len(around) == 2 {
		open, end = around[0], around[1]
	}
	return "#undef asm\nextern \"C\" __global__ void kf_main(unsigned long long* y) { unsigned long long t; asm volatile(\"" + open + text + end + "\" : \"=l\"(t)); y[0] = t; }"
}

const prefetch = "\n#undef asm\n asm volatile(\"prefetch.global.L2::evict_last [%0];\" :: \"l\"(y));\n"

func TestASourceWithStateOrCallsOfTheRuntimeIsRefused(t *testing.T) {
	p := pool(t)
	for name, c := range map[string]struct{ source, refused string }{
		"counter":           {"__device__ int calls;\nextern \"C\" __global__ void kf_main(int* y) { y[0] = atomicAdd(&calls, 1); }", "`calls`"},
		"array":             {"__device__ float memory[2][16];\nextern \"C\" __global__ void kf_main(float* y, int i) { y[0] = memory[1][i]; memory[0][i] = y[1]; }", "`memory`"},
		"hidden counter":    {"namespace { int calls = 3; }\nextern \"C\" __global__ void kf_main(int* y) { y[0] = ++calls; }", "keeps its value"},
		"static in block":   {"extern \"C\" __global__ void kf_main(int* y) { static int calls; y[0] = ++calls; }", "calls"},
		"a pointer to it":   {"int calls;\nint* where = &calls;\nextern \"C\" __global__ void kf_main(int* y) { y[0] = ++*where; }", "keeps its value"},
		"a static member":   {"template <int N> struct S { static int n; };\ntemplate <int N> int S<N>::n = N;\nextern \"C\" __global__ void kf_main(int* y) { y[0] = ++S<3>::n; }", "keeps its value"},
		"printf":            {"extern \"C\" __device__ int printf(const char*, ...);\nextern \"C\" __global__ void kf_main(int* y) { printf(\"%d\", y[0]); }", "`vprintf`"},
		"malloc":            {"extern \"C\" __device__ void* malloc(unsigned long);\nextern \"C\" __global__ void kf_main(long* y) { y[0] = (long)malloc(8); }", "`malloc`"},
		"clock":             {"extern \"C\" __global__ void kf_main(long long* y) { y[0] = clock64(); }", "`%clock64`"},
		"clock by assembly": {own("mov.u64 %0, %globaltimer;"), "`%globaltimer`"},
		"a trap":            {own("trap; mov.u64 %0, 1;"), "`trap`"},
		"one that waits":    {own("mov.u64 %0, 1; @!%%p nanosleep.u32 5;", "{.reg .pred %%p;", "}"), "`nanosleep.u32`"},
		"behind a label":    {own("{ over: trap; } mov.u64 %0, 2;"), "`trap`"},
		"cache priority":    {"extern \"C\" __global__ void kf_main(float* y) { " + prefetch + " y[0] = 1; }", "evict_last"},
		"constants":         {"__constant__ float table[4] = {1, 2, 3, 4};\nextern \"C\" __global__ void kf_main(float* y, int i) { y[0] = table[i]; }", ""},
		"constexpr":         {"constexpr int size = 4; constexpr bool big = size > 3;\nextern \"C\" __global__ void kf_main(float* y, int i) { const float table[size] = {1, 2, 3, 4}; y[0] = big ? table[i & 3] : 0; }", ""},
		"shared":            {"extern \"C\" __global__ void kf_main(float* y, int i) { extern __shared__ float a[]; __shared__ float b[64]; a[i] = b[i] = y[i]; __syncthreads(); y[0] = a[1] + b[2]; }", ""},
		"elementary":        {"extern \"C\" __global__ void kf_main(float* y, double* z) { y[0] = expf(y[1]) + erff(y[2]) + sinf(y[3]) + powf(y[4], y[5]); z[0] = exp(z[1]) + sin(z[2]) / z[3]; }", ""},
		"a call":            {"__device__ __noinline__ float f(float x) { return x * x; }\nextern \"C\" __global__ void kf_main(float* y) { y[0] = f(y[1]); }", ""},
	} {
		built, err := p.Compile(t.Context(), c.source, nil)
		if err != nil || built.Failure != "" || built.Image == nil || (built.Refused == "") != (c.refused == "") || !strings.Contains(built.Refused, c.refused) {
			t.Errorf("%s: found %q, %q, %v (expected %q)", name, built.Refused, built.Failure, err, c.refused)
		}
	}
}

func TestACompileThatDoesNotEndIsKilledAndTheNextOneRuns(t *testing.T) {
	p := pool(t)
	p.limit = worker.Limit{CPU: 300 * time.Millisecond, Wall: time.Minute}
	source := "template <int N> struct F { static constexpr long v = F<N - 1>::v + F<N - 2>::v; };\ntemplate <> struct F<0> { static constexpr long v = 0; };\n" +
		"template <> struct F<1> { static constexpr long v = 1; };\nconstexpr long slow(long n) { return n < 2 ? n : slow(n - 1) + slow(n - 2); }\n" +
		"extern \"C\" __global__ void kf_main(long* y) { float a[64];\n#pragma unroll\n for (int i = 0; i < 4000; ++i)\n#pragma unroll\n for (int j = 0; j < 4000; ++j) a[(i * j) % 64] += y[i] * j; y[0] = a[y[1] & 63]; }\n"
	built, err := p.Compile(t.Context(), source, nil)
	if err != nil || !strings.Contains(built.Failure, "300ms of CPU time") {
		t.Fatalf("found %q, %v", built.Failure, err)
	}
	p.limit = jobLimit
	image(t, p, double, two)
}

func TestAServerThatDiedWhileItWaitedIsReplaced(t *testing.T) {
	p := pool(t)
	image(t, p, double, two)
	p.idle[0].Kill()
	image(t, p, double+"\n", two)
}

// minorFaults is how often a process has taken a page of memory that was in no file.
func minorFaults(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	faults, err := strconv.Atoi(fields[7])
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// Without keepMemory each compile takes more than 1,000 pages anew, of a large kernel 3,000.
func TestACompileUsesTheMemoryOfTheOneBefore(t *testing.T) {
	p := opened(t, config(t))
	const warm, counted = 8, 8
	before := 0
	for i := range warm + counted {
		if i == warm {
			before = minorFaults(t, p.idle[0].PID())
		}
		if built, err := p.Compile(t.Context(), strings.Replace(empty, "kf_main", fmt.Sprintf("kf_%d", i), 1), nil); err != nil || built.Image == nil {
			t.Fatalf("%+v, %v", built, err)
		}
	}
	if faults := minorFaults(t, p.idle[0].PID()) - before; faults > counted*500 {
		t.Errorf("%d compiles took %d pages anew", counted, faults)
	}
}

func TestAServerIsReplacedAfterItsShare(t *testing.T) {
	p := pool(t)
	before := p.idle[0].PID()
	p.idle[0].served = mostServed - 1
	image(t, p, double, two)
	if len(p.idle) != 0 {
		t.Fatalf("%d servers wait (expected none)", len(p.idle))
	}
	image(t, p, double, two)
	if len(p.idle) != 1 || p.idle[0].PID() == before {
		t.Error("the old server lives on")
	}
}

func TestServersWorkSideBySide(t *testing.T) {
	p := pool(t)
	ends := make(chan error, 6)
	for i := range cap(ends) {
		go func() {
			built, err := p.Compile(t.Context(), double+strings.Repeat("\n", i), two)
			if err == nil && built.Failure != "" {
				err = errors.New(built.Failure)
			}
			ends <- err
		}()
	}
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if n := len(p.idle); n < 1 || n > 2 {
		t.Errorf("%d servers (expected at most 2, the jobs)", n)
	}
}

func TestACancelledCompileEndsAtOnce(t *testing.T) {
	p := pool(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Compile(ctx, double, two); !errors.Is(err, context.Canceled) {
		t.Fatalf("found %v (expected context.Canceled)", err)
	}
	image(t, p, double, two)
}

func TestNVRTCThatDoesNotFitIsOneClearError(t *testing.T) {
	good := config(t)
	text := filepath.Join(t.TempDir(), "libnvrtc.so.13")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		text   string
		hint   string
	}{
		"none":         {func(c *Config) { c.NVRTC = "/nonexistent/libnvrtc.so" }, "/nonexistent/libnvrtc.so", "KERNELFORGE_NVRTC"},
		"no library":   {func(c *Config) { c.NVRTC = text }, text, "KERNELFORGE_NVRTC"},
		"an empty dir": {func(c *Config) { c.NVRTC = t.TempDir() }, "none", "KERNELFORGE_NVRTC"},
		"other":        {func(c *Config) { c.NVRTC = "libc.so.6" }, "nvrtcVersion", "KERNELFORGE_NVRTC"},
		"old driver":   {func(c *Config) { c.Driver = 11040 }, "at most 11", "newer driver"},
		"new device":   {func(c *Config) { c.Arch = "sm_990" }, "sm_990", "newer NVRTC"},
		"no worker":    {func(c *Config) { c.Program = "/nonexistent/kernelforge-worker" }, "kernelforge-worker", "make build"},
		"not a worker": {func(c *Config) { c.Program = "/bin/true" }, "/bin/true", "doctor"},
	} {
		changed := good
		c.change(&changed)
		p, err := NewPool(t.Context(), changed)
		var coded *card.Error
		if !errors.As(err, &coded) || !strings.Contains(err.Error(), c.text) || !strings.Contains(coded.Hint, c.hint) {
			t.Errorf("%s: found %v, hint %q (expected %q and %q)", name, err, coded.Hint, c.text, c.hint)
		}
		if err == nil {
			p.Close()
		}
	}
	good.NVRTC = filepath.Dir(good.NVRTC) // a folder will do
	if err := opened(t, good).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheArchitectureIsTheChipsOwn(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{{7, 5, "sm_75"}, {8, 0, "sm_80"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {10, 3, "sm_103"}, {12, 0, "sm_120"}} {
		arch, err := Arch(c.major, c.minor)
		if err != nil || arch != c.want {
			t.Errorf("%d.%d is %q, %v (expected %s)", c.major, c.minor, arch, err, c.want)
		}
		if n := number(arch); n != 10*c.major+c.minor {
			t.Errorf("%s is number %d", arch, n)
		}
	}
	if _, err := Arch(7, 0); err == nil {
		t.Error("7.0 was taken")
	}
}

func TestWhereNVRTCIsLookedFor(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := places(folder, ""); !slices.Equal(got, []string{filepath.Join(folder, "libnvrtc.so.13"), filepath.Join(folder, "libnvrtc.so.12")}) {
		t.Errorf("in a folder: %v", got)
	}
	if got := places("/x/libnvrtc.so", ""); !slices.Equal(got, []string{"/x/libnvrtc.so"}) {
		t.Errorf("a file: %v", got)
	}
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "lib64"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(folder, "libnvrtc.so.12"), filepath.Join(home, "lib64", "libnvrtc.so.12")); err != nil {
		t.Fatal(err)
	}
	got := places("", home)
	if got[0] != filepath.Join(home, "lib64", "libnvrtc.so.12") || got[len(got)-1] != "libnvrtc.so.12" {
		t.Errorf("without a word: %v", got)
	}
}

// The budget: p50 at most 60 ms on a machine's core (bench/search.py holds the number).
func BenchmarkCompile(b *testing.B) {
	p := pool(b)
	image(b, p, double, two)
	for i := 0; b.Loop(); i++ {
		image(b, p, double+strings.Repeat("\n", i%1000+1)+"//"+strings.Repeat("x", i/1000), two)
	}
}
