package host

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"go.uber.org/goleak"
)

// The test program is its own compile process, and a user's process that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "user" {
		os.Stderr.WriteString(user(os.Args[2:]).Error())
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == "compile" {
		if err := Compile(os.Args, os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const maxFailure = 4<<10 + 3 // of a filtered log, with the dots of a cut

const double = `KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = (const float*)args[0].p;
  float* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = FACTOR * x[i];
}
`

func pool(t *testing.T, cache *compile.Cache) *Pool {
	t.Helper()
	compiler, err := FindCompiler(t.Context(), os.Getenv("KERNELFORGE_CXX"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return NewPool(self, compiler, ThisMachine("/"), t.TempDir(), cache, 2, sandbox.Limits)
}

func options(t *testing.T, constants map[string]string) []string {
	t.Helper()
	options, err := compile.Options(constants)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

func TestASourceBecomesAnImageThatExportsItsEntryOnly(t *testing.T) {
	p := pool(t, nil)
	built, err := p.Compile(t.Context(), double, options(t, map[string]string{"FACTOR": "2.0f"}))
	if err != nil || built.Failure != "" || built.Cached {
		t.Fatalf("found %q, %v", built.Failure, err)
	}
	image, err := elf.NewFile(bytes.NewReader(built.Image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := image.DynamicSymbols()
	if err != nil || len(symbols) != 1 || symbols[0].Name != "kf_main" {
		t.Errorf("dynamic symbols %v, %v (expected kf_main alone)", symbols, err)
	}
	if needed, err := image.ImportedLibraries(); err != nil || len(needed) != 0 {
		t.Errorf("needs %v, %v (expected nothing)", needed, err)
	}
	if left, err := os.ReadDir(p.scratch); err != nil || len(left) != 0 {
		t.Errorf("left %v in the scratch folder, %v", left, err)
	}
}

func TestAnImageIsTakenFromTheCacheOnlyWhenEverythingIsEqual(t *testing.T) {
	cache, err := compile.OpenCache(t.TempDir(), ".so")
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, cache)
	two := options(t, map[string]string{"FACTOR": "2.0f"})
	first, err := p.Compile(t.Context(), double, two)
	if err != nil || first.Cached {
		t.Fatalf("cached %t, %v", first.Cached, err)
	}
	second, err := p.Compile(t.Context(), double, two)
	if err != nil || !second.Cached || !bytes.Equal(first.Image, second.Image) {
		t.Fatalf("the same again: cached %t, %v", second.Cached, err)
	}
	for name, c := range map[string]struct {
		source, factor, compiler string
	}{"source": {double + "\n", "2.0f", ""}, "constant": {double, "3.0f", ""}, "compiler": {double, "2.0f", "another 1.2"}} {
		other := pool(t, cache)
		if c.compiler != "" {
			other.compiler.Version = c.compiler
		}
		built, err := other.Compile(t.Context(), c.source, options(t, map[string]string{"FACTOR": c.factor}))
		if err != nil || built.Cached {
			t.Errorf("another %s: cached %t, %v", name, built.Cached, err)
		}
	}
}

func TestADamagedCacheEntryIsCompiledAgain(t *testing.T) {
	folder := t.TempDir()
	cache, err := compile.OpenCache(folder, ".so")
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, cache)
	two := options(t, map[string]string{"FACTOR": "2.0f"})
	first, err := p.Compile(t.Context(), double, two)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*", "*.so"))
	if len(files) != 1 {
		t.Fatalf("cache holds %v", files)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	for name, damaged := range map[string][]byte{"a flipped bit": content, "a torn file": content[:40], "an empty file": {}} {
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := p.Compile(t.Context(), double, two)
		if err != nil || again.Cached || !bytes.Equal(again.Image, first.Image) {
			t.Errorf("%s: cached %t, %v", name, again.Cached, err)
		}
	}
}

func TestAnUnusableCacheIsOneClearError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{file, filepath.Join(file, "below"), "/proc/nothing", open} {
		_, err := compile.OpenCache(folder, ".so")
		var hinted *card.Error
		if !errors.As(err, &hinted) || hinted.Hint == "" || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: found %v (expected an error that names the folder, with a hint)", folder, err)
		}
	}
}

func TestASourceThatDoesNotCompileIsAResultWithoutPaths(t *testing.T) {
	p := pool(t, nil)
	for name, source := range map[string]string{
		"syntax":   "KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) { not C++ }",
		"type":     "KF_ENTRY void kf_main(int64_t b, int64_t e, const kf_arg* args) { kf_arg x = \"text\"; }",
		"template": "template <int N> struct T { static constexpr int v = T<N + 1>::v; }; constexpr int x = T<0>::v;",
	} {
		built, err := p.Compile(t.Context(), source, nil)
		if err != nil || built.Image != nil || !strings.Contains(built.Failure, "candidate.cc:1:") {
			t.Errorf("%s: found %q, %v", name, built.Failure, err)
		}
		if strings.Contains(built.Failure, p.scratch) || strings.Contains(built.Failure, "/usr/") || len(built.Failure) > maxFailure {
			t.Errorf("%s: %d bytes, with a path:\n%s", name, len(built.Failure), built.Failure)
		}
	}
}

func TestAssemblyPastedTogetherByMacrosDoesNotCompile(t *testing.T) {
	p := pool(t, nil)
	source := "#define J(a, b) a##b\nKF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) { J(__as, m__)(\"nop\"); }"
	built, err := p.Compile(t.Context(), source, nil)
	if err != nil || built.Image != nil || !strings.Contains(built.Failure, "poisoned") {
		t.Fatalf("found %q, %v", built.Failure, err)
	}
}

func TestACompileBombEndsAtItsLimits(t *testing.T) {
	p := pool(t, nil)
	p.seconds = 1
	blow := "#define A0 1+1+1+1+1+1+1+1+1+1+\n"
	for i := range 8 {
		blow += strings.ReplaceAll("#define AY AX AX AX AX AX AX AX AX AX AX\n", "X", fmt.Sprint(i))
		blow = strings.ReplaceAll(blow, "Y", fmt.Sprint(i+1))
	}
	for name, source := range map[string]string{
		"output": "KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* a) { static volatile char big[1 << 30] = {1}; big[a[0].i] = 2; }",
		"time":   blow + "constexpr int x = A8 0;\n",
	} {
		built, err := p.Compile(t.Context(), source, nil)
		if err != nil || built.Image != nil || !strings.Contains(built.Failure, "limits: 1 s of CPU time") {
			t.Errorf("%s: found %q, %v", name, built.Failure, err)
		}
	}
}

func TestACancelledCompileEndsAtOnce(t *testing.T) {
	p := pool(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	bomb := "template <int N> struct F { static constexpr long v = F<N - 1>::v + F<N - 2>::v * N; };\n" +
		"#define A(n) template <> struct F<n> { static constexpr long v = n; };\nA(0) A(1)\n" +
		"constexpr long slow() { long s = 0; for (long i = 0; i < 30000000; ++i) s += i % 7; return s; }\nconstexpr long x = slow();\n"
	_, err := p.Compile(ctx, bomb, []string{"-fconstexpr-ops-limit=100000000000", "-fconstexpr-loop-limit=2000000000"})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("found %v (expected context.Canceled)", err)
	}
}

func TestNoCompilerIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for name, set := range map[string]func() (Compiler, error){
		"none on PATH":   func() (Compiler, error) { t.Setenv("PATH", t.TempDir()); return FindCompiler(t.Context(), "") },
		"a wrong path":   func() (Compiler, error) { return FindCompiler(t.Context(), "/nonexistent/g++") },
		"not a compiler": func() (Compiler, error) { return FindCompiler(t.Context(), "/bin/sh") },
		"not a program":  func() (Compiler, error) { return FindCompiler(t.Context(), "/etc/hostname") },
	} {
		_, err := set()
		var hinted *card.Error
		if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "KERNELFORGE_CXX") {
			t.Errorf("%s: found %v (expected an error whose hint names KERNELFORGE_CXX)", name, err)
		}
	}
}

func TestACompilerThatCannotCompileIsFoundByTheProbe(t *testing.T) {
	p := pool(t, nil)
	if err := p.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.compiler.Path = "/bin/false"
	var hinted *card.Error
	if err := p.Probe(t.Context()); !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "KERNELFORGE_CXX") {
		t.Fatalf("found %v", err)
	}
}

func TestAnUnknownConstantIsRefusedBeforeTheCommandLine(t *testing.T) {
	for name, value := range map[string]string{"VEC": "8 -o /etc/passwd", "vec": "8", "VEC=1 -DX": "8", "": "8", "A": "", "B": "$(id)", "C": "\"x\""} {
		if _, err := compile.Options(map[string]string{name: value}); err == nil {
			t.Errorf("%q = %q was taken", name, value)
		}
	}
	good, err := compile.Options(map[string]string{"VEC": "8", "EPS": "0x1.0c6f7ap-20", "A": "-1"})
	if err != nil || strings.Join(good, " ") != "-DA=-1 -DEPS=0x1.0c6f7ap-20 -DVEC=8" {
		t.Errorf("found %v, %v", good, err)
	}
}

func TestALogIsFilteredToTheCandidate(t *testing.T) {
	text := strings.Join([]string{
		"In file included from <command-line>:",
		"/tmp/scratch/x/candidate.cc:1:2: error: from /home/user/.ssh/id_rsa: here",
		"candidate.cc:3:1: error: 'x' was not declared in '/home/ada/secret/file.h'",
		"    3 | x = 1;",
		"      | ^",
		"/etc/passwd:1:1: error: root:x:0:0",
		"    1 | root:x:0:0:root",
		"candidate.cc:4:1: \x1b[31mwarning\x1b[0m",
	}, "\n")
	got := log(30).Filter("exit status 1", text)
	for _, want := range []string{"candidate.cc:3:1: error", "x = 1;", "candidate.cc:4:1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for _, leak := range []string{"root:x", "/root", "/home", "secret/", "\x1b", "/etc"} {
		if strings.Contains(got, leak) {
			t.Errorf("%q is left in\n%s", leak, got)
		}
	}
	if long := log(30).Filter("exit status 1", strings.Repeat("candidate.cc:1:1: error: again\n", 10000)); len(long) > maxFailure {
		t.Errorf("%d bytes", len(long))
	}
}

func TestTheMachineIsReadFromProcAndSys(t *testing.T) {
	root := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU 9000\nflags\t\t: sse2 avx2 fma avx512f avx512bw avx512dq avx512vl\n\nprocessor\t: 1\nmodel name\t: Another\n")
	for i, c := range [][3]string{{"1", "Data", "48K"}, {"1", "Instruction", "64K"}, {"2", "Unified", "1024K"}, {"3", "Unified", "32M"}} {
		folder := "sys/devices/system/cpu/cpu0/cache/index" + string(rune('0'+i)) + "/"
		write(folder+"level", c[0]+"\n")
		write(folder+"type", c[1]+"\n")
		write(folder+"size", c[2]+"\n")
		write(folder+"coherency_line_size", "64\n")
	}
	m := ThisMachine(root)
	if m.Device() != "A CPU 9000 avx512" || m.L1Bytes != 48<<10 || m.L2Bytes != 1<<20 || m.LLCBytes != 32<<20 || m.CacheLine != 64 {
		t.Errorf("found %+v", m)
	}
	if bare := ThisMachine(t.TempDir()); bare.ISA != "sse2" || bare.L1Bytes == 0 || bare.LLCBytes == 0 || bare.CacheLine == 0 {
		t.Errorf("without /proc: %+v", bare)
	}
	if isa := instructionSet("sse2 avx2 fma avx512f"); isa != "avx2" {
		t.Errorf("AVX-512F alone is %s (expected avx2: the parts beyond F are used)", isa)
	}
}
