package cuda

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// confined is a pool of the built program, which alone can enter namespaces. The policy is off here: sources reach NVRTC as they are.
func confined(t *testing.T, tier int) *Pool {
	t.Helper()
	c := config(t)
	if c.Program = os.Getenv("KF_WORKER"); c.Program == "" {
		t.Skip("KF_WORKER is not set (expected the built worker)")
	}
	c.Tier = tier
	p, err := NewPool(t.Context(), c)
	if err != nil && strings.Contains(err.Error(), "does not offer") {
		t.Skipf("this machine does not hold tier %d: %v", tier, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestNVRTCWorksAtEveryTier(t *testing.T) {
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		t.Run(fmt.Sprint(tier), func(t *testing.T) {
			p := confined(t, tier)
			report := p.Sandbox()
			if report.Tier != tier || len(report.Lacks(tier)) > 0 || len(report.Attempts) < 20 {
				t.Errorf("tier %d, %d attempts, possible: %v", report.Tier, len(report.Attempts), report.Lacks(tier))
			}
			if len(image(t, p, double, two)) == 0 {
				t.Error("no image")
			}
			built, err := p.Compile(t.Context(), "not CUDA", nil)
			if err != nil || !strings.Contains(built.Failure, "candidate.cu(1)") {
				t.Errorf("found %q, %v", built.Failure, err)
			}
		})
	}
}

// Without the policy a source asks NVRTC for files in every way that it has; confinement alone keeps what is in them from the image and the log, and
// whether they are there.
func TestASourceCannotReadFilesThroughNVRTC(t *testing.T) {
	folder := t.TempDir()
	secret := filepath.Join(folder, "secret.h")
	if err := os.WriteFile(secret, []byte("1234567 sentinel_of_the_user\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := confined(t, sandbox.Walls)
	for name, source := range map[string]string{
		"include":          "#include \"" + secret + "\"",
		"of the system":    "#include \"/etc/passwd\"",
		"computed include": "#define F \"" + secret + "\"\n#include F",
		"digraph":          "%:include \"" + secret + "\"",
		"spliced":          "#inc\\\nlude \"" + secret + "\"",
		"through /proc":    "#include \"/proc/self/root" + secret + "\"",
		"its environment":  "#include \"/proc/self/environ\"",
	} {
		built, err := p.Compile(t.Context(), source+"\n"+double, two)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, leak := range []string{"sentinel_of", "1234567", "root:x:", "LC_ALL=C"} {
			if strings.Contains(built.Failure, leak) || bytes.Contains(built.Image, []byte(leak)) {
				t.Errorf("%s: %q came out\n%s", name, leak, built.Failure)
			}
		}
		if built.Failure == "" {
			t.Errorf("%s: compiled (expected a compiler that finds no file)", name)
		}
		if strings.Contains(built.Failure, folder) || strings.Contains(built.Failure, "/etc") {
			t.Errorf("%s: a path is in the log\n%s", name, built.Failure)
		}
	}
	ask := "#if __has_include(\"%s\")\n#define FOUND 3\n#else\n#define FOUND 4\n#endif\nextern \"C\" __global__ void kf_main(int* y) { y[0] = FOUND; }\n"
	there, err := p.Compile(t.Context(), fmt.Sprintf(ask, secret), nil)
	missing, err2 := p.Compile(t.Context(), fmt.Sprintf(ask, "/no/such/file"), nil)
	if err != nil || err2 != nil || there.Failure != missing.Failure || !bytes.Equal(there.Image, missing.Image) {
		t.Errorf("a file that is there and one that is not differ: %q and %q, %d and %d bytes, %v, %v", there.Failure, missing.Failure, len(there.Image), len(missing.Image), err, err2)
	}
}

// Bombs end by memory, size of output or the clock, and the next job is served.
func TestBombsForNVRTCEnd(t *testing.T) {
	p := confined(t, sandbox.Walls)
	p.limit = worker.Limit{CPU: 2 * time.Second, Wall: 16 * time.Second}
	for name, source := range map[string]string{
		"templates": "template <long N, int D> struct F { static constexpr long v = F<2 * N, D - 1>::v + F<2 * N + 1, D - 1>::v; };\n" +
			"template <long N> struct F<N, 0> { static constexpr long v = N; };\nconstexpr long x = F<1, 30>::v;\n",
		"recursion": "template <int N> struct T { using type = typename T<N + 1>::type; }; T<0>::type x;\n",
		"constant":  "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i % 7; return s; }\nconstexpr long x = f(1l << 60);\n",
	} {
		began := time.Now()
		built, err := p.Compile(t.Context(), source+double, two)
		if err != nil || built.Failure == "" {
			t.Errorf("%s: %d bytes of image, %v", name, len(built.Image), err)
		}
		if took := time.Since(began); took > p.limit.Wall+startLimit {
			t.Errorf("%s: %s", name, took)
		}
	}
	p.limit = jobLimit
	if len(image(t, p, double, two)) == 0 {
		t.Error("no image after the bombs")
	}
}
