package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// confinedPool compiles by the built program, which alone can enter namespaces. The policy is off here: sources reach the compiler as they are.
func confinedPool(t *testing.T, tier int) *Pool {
	t.Helper()
	program := os.Getenv("KF_WORKER")
	if program == "" {
		t.Skip("KF_WORKER is not set (expected the built worker)")
	}
	p := pool(t, nil)
	p.program, p.tier = program, tier
	report, err := p.Try(t.Context())
	if err != nil {
		t.Skipf("this machine does not hold tier %d: %v", tier, err)
	}
	if len(report.Attempts) < 20 || len(report.Lacks(tier)) > 0 {
		t.Fatalf("%d attempts, possible: %v", len(report.Attempts), report.Lacks(tier))
	}
	return p
}

const harmless = "\nKF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) {}\n"

func TestACompilerWorksAtEveryTier(t *testing.T) {
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		t.Run(fmt.Sprint(tier), func(t *testing.T) {
			p := confinedPool(t, tier)
			built, err := p.Compile(t.Context(), double, options(t, map[string]string{"FACTOR": "2.0f"}))
			if err != nil || built.Failure != "" || len(built.Image) == 0 {
				t.Errorf("found %q, %v", built.Failure, err)
			}
			built, err = p.Compile(t.Context(), "not C++", nil)
			if err != nil || !strings.Contains(built.Failure, "candidate.cc:1:1: error") {
				t.Errorf("found %q, %v", built.Failure, err)
			}
			kept := keeping(t, t.TempDir())
			kept.program, kept.tier = p.program, tier
			readsNoText(t, kept)
			if built, err = kept.Compile(t.Context(), vectors, options(t, map[string]string{"FACTOR": "2.0f"})); err != nil || len(built.Image) == 0 {
				t.Errorf("with compiled headers: %q, %v", built.Failure, err)
			}
		})
	}
}

// secretFile is a file of the user that no compile may see.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret.h")
	if err := os.WriteFile(path, []byte("1234567 sentinel_of_the_user\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Without the policy a source asks the compiler for files in every way that it has; confinement alone keeps what is in them from the image and the log.
func TestASourceCannotReadFilesThroughTheCompiler(t *testing.T) {
	secret := secretFile(t)
	p := confinedPool(t, sandbox.Walls)
	for name, source := range map[string]string{
		"include":              "#include \"" + secret + "\"",
		"include of a system":  "#include \"/etc/passwd\"",
		"computed include":     "#define F \"" + secret + "\"\n#include F",
		"digraph":              "%:include \"" + secret + "\"",
		"spliced":              "#inc\\\nlude \"" + secret + "\"",
		"include_next":         "#include_next \"" + secret + "\"",
		"import":               "#import \"" + secret + "\"",
		"relative":             "#include \"../../../../../../../.." + secret + "\"",
		"through /proc":        "#include \"/proc/self/root" + secret + "\"",
		"its parent's":         "#include \"/proc/self/environ\"",
		"embed":                "const char data[] = {\n#embed \"" + secret + "\"\n};",
		"binary into assembly": "#undef asm\n#pragma GCC diagnostic ignored \"-Wall\"\nextern \"C\" { __extension__ __asm(\".incbin \\\"" + secret + "\\\"\"); }",
		"section attribute":    "__attribute__((section(\".data,\\\"aw\\\"\\n.incbin \\\"" + secret + "\\\"\\n#\"))) int leak = 1; int* use() { return &leak; }",
	} {
		built, err := p.Compile(t.Context(), source+harmless, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, leak := range []string{"sentinel_of", "1234567", "root:x:", "LC_ALL=C"} {
			if strings.Contains(built.Failure, leak) || bytes.Contains(built.Image, []byte(leak)) {
				t.Errorf("%s: %q came out\n%s", name, leak, built.Failure)
			}
		}
		if built.Failure == "" {
			t.Errorf("%s: compiled (expected a compiler that finds no file)", name)
		}
		if strings.Contains(built.Failure, "/tmp") || strings.Contains(built.Failure, "/etc") {
			t.Errorf("%s: a path is in the log\n%s", name, built.Failure)
		}
	}
}

// That the same sources do read files where nothing confines the compiler shows that the test above is one.
func TestWithoutWallsACompilerReadsFiles(t *testing.T) {
	secret := secretFile(t)
	p := confinedPool(t, sandbox.Limits)
	source := "__attribute__((section(\".data,\\\"aw\\\"\\n.incbin \\\"" + secret + "\\\"\\n#\"))) int leak = 1; KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* a) { *(int**)a[0].p = &leak; }\n"
	built, err := p.Compile(t.Context(), source, nil)
	if err != nil || !bytes.Contains(built.Image, []byte("sentinel_of_the_user")) {
		t.Errorf("found %q, %v (expected the file in the image: tier 0 does not keep files from a compiler, the policy does)", built.Failure, err)
	}
}

// Whether a file is there can be asked at no tier: the words are poisoned in front of every source.
func TestASourceCannotAskWhetherAFileIsThere(t *testing.T) {
	secret := secretFile(t)
	p := confinedPool(t, sandbox.Walls)
	for word, path := range map[string]string{"__has_include": secret, "__has_include_next": "/no/such/file"} {
		built, err := p.Compile(t.Context(), "#if "+word+"(\""+path+"\")\nconstexpr int there = 1;\n#endif"+harmless, nil)
		if err != nil || !strings.Contains(built.Failure, "poisoned") {
			t.Errorf("%s of %s: %q, %v", word, path, built.Failure, err)
		}
	}
}

// Bombs end by CPU time, memory, size of output or the clock; nothing of them stays.
func TestCompileBombsEndWithinTheirLimitsAtTierOne(t *testing.T) {
	p := confinedPool(t, sandbox.Walls)
	p.seconds, p.wall = 1, 20*time.Second
	for name, source := range map[string]string{
		"recursion of templates": "template <int N> struct T { using type = typename T<N + 1>::type; }; T<0>::type x;",
		"two templates each":     "template <long N, int D> struct F { static constexpr long v = F<2 * N, D - 1>::v + F<2 * N + 1, D - 1>::v; };\ntemplate <long N> struct F<N, 0> { static constexpr long v = N; };\nconstexpr long x = F<1, 30>::v;",
		"a large unroll":         "KF_ENTRY void work(float* y) {\n#pragma GCC unroll 65534\nfor (int i = 0; i < 65534; ++i)\n#pragma GCC unroll 65534\nfor (int j = 0; j < 65534; ++j) y[i * j] = y[j] / y[i]; }",
		"a large constant":       "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i % 7; return s; }\nconstexpr long x = f(1l << 60);",
		"an endless include":     "#include \"candidate.cc\"",
	} {
		began := time.Now()
		built, err := p.Compile(t.Context(), source+harmless, nil)
		if err != nil || built.Failure == "" || len(built.Failure) > maxFailure {
			t.Errorf("%s: %d bytes of image, %d of log, %v", name, len(built.Image), len(built.Failure), err)
		}
		if took := time.Since(began); took > p.wall+2*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
	p.wall = 300 * time.Millisecond
	p.seconds = 30
	built, err := p.Compile(t.Context(), "template <long N, int D> struct F { static constexpr long v = F<2 * N, D - 1>::v + F<2 * N + 1, D - 1>::v; };\n"+
		"template <long N> struct F<N, 0> { static constexpr long v = N; };\nconstexpr long x = F<1, 30>::v;"+harmless, nil)
	if err != nil || !strings.Contains(built.Failure, "did not end within 300ms") {
		t.Errorf("the clock: %q, %v", built.Failure, err)
	}
	left, err := os.ReadDir(p.scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
