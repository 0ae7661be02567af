package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/compile"
)

// keeping is a pool with a cache, which is what compiled headers need.
func keeping(t *testing.T, folder string) *Pool {
	t.Helper()
	cache, err := compile.OpenCache(folder, ".so")
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, cache)
	if !strings.HasPrefix(p.compiler.Pin, "g++ ") {
		t.Skipf("the compiler is `%s` (g++ alone is given compiled headers)", p.compiler.Path)
	}
	return p
}

// vectors uses all that the system's headers give: intrinsics, a function of <cmath>, fixed-width integers.
const vectors = `KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = (const float*)args[0].p;
  float* y = (float*)args[1].p;
  for (int64_t i = begin; i + 4 <= end; i += 4) _mm_storeu_ps(y + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
  kf_v<float> v = kf_load<float>(x + begin);
  kf_store(y + begin, kf_exp(v) + std::fabs(x[begin]) * FACTOR);
}
`

// readsNoText makes compiled headers, and an error of the text that g++ reads where it does not take them.
func readsNoText(t *testing.T, p *Pool) {
	t.Helper()
	folder := p.headers(t.Context())
	if folder == "" {
		t.Fatal("there are no compiled headers")
	}
	text := filepath.Join(folder, headersText)
	if err := os.Remove(text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("#error the text was read\n"), 0o400); err != nil {
		t.Fatal(err)
	}
}

func TestCompiledHeadersAreUsedAndChangeNoBitOfAnImage(t *testing.T) {
	p, plain := keeping(t, t.TempDir()), pool(t, nil)
	readsNoText(t, p)
	for _, constants := range []map[string]string{{"FACTOR": "2.0f"}, {"FACTOR": "2.0f", "KF_LANES": "4"}} { // a word of the prelude itself
		want, err := plain.Compile(t.Context(), vectors, options(t, constants))
		if err != nil || want.Image == nil {
			t.Fatalf("without: %q, %v", want.Failure, err)
		}
		got, err := p.Compile(t.Context(), vectors, options(t, constants))
		if err != nil || !bytes.Equal(got.Image, want.Image) {
			t.Errorf("with %v: %q, %v; %d bytes (expected the same %d)", constants, got.Failure, err, len(got.Image), len(want.Image))
		}
	}
	if plain.folder != "" {
		t.Errorf("without a cache they were made all the same: `%s`", plain.folder)
	}
}

// The next search finds them in the cache.
func TestCompiledHeadersAreMadeOnce(t *testing.T) {
	cache := t.TempDir()
	first, next := keeping(t, cache), keeping(t, cache)
	a := first.headers(t.Context())
	next.compiler.Path = "/no/such/compiler" // it is in the key
	if found := next.headers(t.Context()); found != "" {
		t.Errorf("another compiler found `%s`", found)
	}
	next = keeping(t, cache)
	next.program = "/no/such/program" // that could make them
	b := next.headers(t.Context())
	if a == "" || b == "" || a == b {
		t.Fatalf("in `%s` and `%s` (expected a folder of each pool)", a, b)
	}
	was, err := os.ReadFile(filepath.Join(a, headersMade))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(b, headersMade))
	if err != nil || !bytes.Equal(was, is) {
		t.Errorf("%d and %d bytes, %v", len(was), len(is), err)
	}
}

// Half of a file, as after a crash of the machine, and a file that is no such thing: the source is compiled, and not blamed.
func TestHeadersThatCannotBeReadBlameNoSource(t *testing.T) {
	p := keeping(t, t.TempDir())
	made := filepath.Join(p.headers(t.Context()), headersMade)
	whole, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"half": whole[:len(whole)/2], "no such thing": []byte("headers"), "empty": nil} {
		if err := os.Remove(made); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(made, content, 0o600); err != nil {
			t.Fatal(err)
		}
		built, err := p.Compile(t.Context(), vectors+"// "+name+"\n", options(t, map[string]string{"FACTOR": "2.0f"}))
		if err != nil || built.Image == nil {
			t.Errorf("%s: %q, %v", name, built.Failure, err)
		}
	}
	if _, said, _ := strings.Cut(log(1).Filter("exit status 1", "cc1plus: fatal error: /tmp/x/kf_system.h.gch: cannot read PCH file\n"), "\n"); !ofHeaders.MatchString(said) {
		t.Errorf("the log leaves out what g++ says of them: %q", said)
	}
}

// An error in a source reads as it does without them: it says the line, and no folder.
func TestErrorsReadAsWithoutCompiledHeaders(t *testing.T) {
	p, plain := keeping(t, t.TempDir()), pool(t, nil)
	for _, source := range []string{"not C++", "KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) { return 1; }", "#if __has_include(<cmath>)\n#endif", "int f() { asm(\"nop\"); }"} {
		want, err := plain.Compile(t.Context(), source, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Compile(t.Context(), source, nil)
		if err != nil || got.Failure != want.Failure || want.Failure == "" {
			t.Errorf("%s\nwith:    %q, %v\nwithout: %q", source, got.Failure, err, want.Failure)
		}
	}
}
