package judge

import (
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"pgregory.net/rapid"
)

func oneKernel(source string) card.Candidate {
	return card.Candidate{Source: source, Spec: card.Spec{Schema: 1, Kernels: []card.Kernel{{Entry: "kf_main", Work: "1", Grain: "1"}}}}
}

func TestKernelsAsPeopleWriteThemPass(t *testing.T) {
	for _, source := range []string{
		"KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {}",
		"#include \"kf_kernel.h\"\n#include <kf_kernel.h>\nint x;",
		"#pragma GCC unroll 8\n#pragma GCC ivdep\n#pragma omp simd reduction(+:sum)\n#pragma clang loop unroll(enable)\nint x;",
		"#define UNROLL _Pragma(\"GCC unroll 4\")\n#if VEC > 4 && defined(__AVX512F__)\n#else\n#endif",
		"typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));\nstatic inline __attribute__((__always_inline__)) int f() { return 1; }",
		"[[gnu::always_inline, maybe_unused]] inline void g(int a[4]) { if (a[a[0]] > 1) [[likely]] a[0] = 2; }",
		"// asm, #include <x>, \\\nthread_local and ä in comments\n/* ?? is not\n here */ int x;",
		"const char* s = \"asm #include __attribute__((constructor)) ä\"; char c = '\"'; char d = '\\'';",
		"float a = 1e-5f, b = 0x1.8p+3, c = .5f, d = 1'000'000; int e = d >> 1, g = a < b ? 1 : 2;",
		"__m512 v = _mm512_loadu_ps(p); _mm_prefetch((const char*)p, _MM_HINT_T0); __builtin_memcpy(&a, b, 4); float x = __builtin_expf(y);",
		"#define SQUARE(x) \\\n  ((x) * \\\n (x))\nint y = SQUARE(3);",
		"auto f = [](auto x) { return x; }; int y = a ?b :c; std::max<int64_t>(1, 2);",
	} {
		if err := hostRules.check(oneKernel(source)); err != nil {
			t.Errorf("refused: %v\n%s", err, source)
		}
	}
}

func TestWhatAKernelHasNoUseForIsRefusedByName(t *testing.T) {
	for _, c := range []struct{ source, names string }{
		{"", "empty"},
		{strings.Repeat("// filler\n", 30000), "bytes"},
		{"int x\x00;", "control character 0x00"},
		{"int x;\rint y;", "control character 0x0d"},
		{"int x; // \xff", "UTF-8"},
		// assembly, in every spelling
		{"void f() { asm(\"syscall\"); }", "asm"},
		{"void f() { __asm__ volatile(\"syscall\"); }", "__asm__"},
		{"int g() asm(\"fork\");", "asm"},
		{"void f() { a\\\nsm(\"nop\"); }", "asm"},
		{"void f() { a\\ \t\nsm(\"nop\"); }", "white space"},
		{"// a comment, or not \\ \nasm(\"nop\");", "white space"},
		{"#define A \\\t\n#include </etc/passwd>", "white space"},
		{"#define A asm\nvoid f() { A(\"nop\"); }", "asm"},
		{"#define J(a, b) a##b\nvoid f() { J(as, m)(\"nop\"); }", "##"},
		{"#define J(a, b) a%:%:b\n", "%:"},
		{"void f() { \\u0061sm(\"nop\"); }", `'\\'`},
		{"int a; ??=define X", "trigraph"},
		// files and paths
		{"#include </etc/passwd>", "include"},
		{"#include \"/etc/passwd\"", "include"},
		{"#include <immintrin.h>", "include"},
		{"# include <stdio.h>", "include"},
		{"/* c */ # /* c */ include <stdio.h>", "include"},
		{"/*\n*/#include <stdio.h>", "include"},
		{"#inclu\\\nde <stdio.h>", "include"},
		{"%:include <stdio.h>", "%:"},
		{"#define F \"/etc/passwd\"\n#include F", "include"},
		{"#include <kf_kernel.h> \"x\"", "include"},
		{"#include_next <kf_kernel.h>", "include_next"},
		{"#import <x>", "import"},
		{"#embed \"/etc/passwd\"", "embed"},
		{"#line 1 \"/etc/passwd\"", "line"},
		{"#ident \"x\"", "ident"},
		{"#if __has_include(\"/etc/passwd\")\n#endif", "__has_include"},
		{"const char* p = __FILE__;", "__FILE__"},
		// pragmas and attributes that change the compiler's rules
		{"#pragma GCC optimize(\"fast-math\")", "pragma"},
		{"#pragma GCC target(\"avx2\")", "pragma"},
		{"#pragma GCC push_options", "pragma"},
		{"#pragma STDC FP_CONTRACT ON", "pragma"},
		{"#pragma GCC dependency \"/etc/passwd\"", "pragma"},
		{"_Pragma(\"GCC optimize(3)\") int x;", "pragma"},
		{"#define P(x) _Pragma(#x)\nP(GCC optimize(3))", "_Pragma"},
		{"#define P _Pragma\nP(\"GCC optimize(3)\")", "_Pragma"},
		{"__attribute__((constructor)) void f() {}", "constructor"},
		{"__attribute__((__constructor__(101))) void f() {}", "__constructor__"},
		{"__attribute__((unused, optimize(\"fast-math\"))) void f() {}", "optimize"},
		{"#define A(x) __attribute__((x))\nA(constructor) void f() {}", "attribute `x`"},
		{"__attribute__ A void f() {}", "without"},
		{"[[gnu::constructor]] void f() {}", "constructor"},
		{"[ [ gnu :: constructor ] ] void f() {}", "constructor"},
		{"[[using gnu: destructor]] void f() {}", "using"},
		{"<:<:gnu::constructor:>:> void f() {}", "digraph"},
		{"__attribute__((section(\".init_array\"))) void* p = 0;", "section"},
		{"__attribute__((ifunc(\"r\"))) void f();", "ifunc"},
		{"__attribute__((visibility(\"default\"))) void f() {}", "visibility"},
		// state, clocks, the caller's machine
		{"static thread_local int x;", "thread_local"},
		{"long long t = __rdtsc();", "clock"},
		{"auto t = __builtin_ia32_rdtsc();", "__builtin_ia32_rdtsc"},
		{"_mm_setcsr(0x8040);", "rounding mode"},
		{"_MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);", "rounding mode"},
		{"unsigned x; _rdrand32_step(&x);", "chance"},
		{"char* p = (char*)alloca(n);", "alloca"},
		{"_mm_clflush(p);", "caches"},
		{"auto s = R\"(raw)\";", "raw string"},
		{"auto s = u8R\"x(raw)x\";", "raw string"},
		{"/* no end", "comment"},
		{"char* s = \"no end\n\";", "literal"},
	} {
		err := hostRules.check(oneKernel(c.source))
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("found %v (expected a refusal that names %q) for\n%.200s", err, c.names, c.source)
		}
	}
}

func TestARefusalNamesTheLineOfTheSource(t *testing.T) {
	err := hostRules.check(oneKernel("int a;\n/* two\nlines */\nint b = \\\n  1;\nasm(\"\");\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "candidate.cc:6: ") {
		t.Errorf("found %v (expected line 6)", err)
	}
}

func TestASpecThatReachesTheCommandLineIsRefused(t *testing.T) {
	for name, change := range map[string]func(*card.Candidate){
		"no kernel":          func(c *card.Candidate) { c.Spec.Kernels = nil },
		"entry":              func(c *card.Candidate) { c.Spec.Kernels[0].Entry = "a; b" },
		"constant's name":    func(c *card.Candidate) { c.Spec.Constants = map[string]string{"X -include": "1"} },
		"constant's value":   func(c *card.Candidate) { c.Spec.Constants = map[string]string{"X": "1 -fplugin=x"} },
		"the prelude's name": func(c *card.Candidate) { c.Spec.Constants = map[string]string{"KF_ENTRY": "x"} },
	} {
		candidate := oneKernel("int x;")
		change(&candidate)
		if err := hostRules.check(candidate); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
	good := oneKernel("int x;")
	good.Spec.Constants = map[string]string{"KF_LANES": "8", "VEC": "4"}
	if err := hostRules.check(good); err != nil {
		t.Error(err)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add("KF_ENTRY void kf_main(int64_t b, int64_t e, const kf_arg* a) { for (; b < e; ++b) ((float*)a[1].p)[b] = 1.5e-3f; }")
	f.Add("#define A(x) __attribute__((aligned(x)))\n#pragma GCC unroll 4\n[[likely]] \"s\\\"\" '\\'' /* */ // x\\\n")
	f.Fuzz(func(t *testing.T, source string) {
		tokens, err := tokenize(source)
		if err != nil {
			return
		}
		passed := hostRules.check(oneKernel(source)) == nil || cudaRules.check(oneKernel(source)) == nil
		for _, token := range tokens {
			if passed && token.kind == identifier && (strings.Contains(token.text, "__asm") || token.text == "asm") {
				t.Fatalf("passed with the token %q", token.text)
			}
		}
	})
}

// However a compiler would have to put it together again, what is refused in plain text is refused.
func TestNoSpellingEvadesThePolicy(t *testing.T) {
	spelled := func(t *rapid.T, word string) string { // a name, cut by line ends that compilers take away
		var text strings.Builder
		for i, c := range word {
			if i > 0 {
				text.WriteString(rapid.SampledFrom([]string{"", "", "", "\\\n", "\\\n\\\n", "\\\r\n"}).Draw(t, "cut"))
			}
			text.WriteRune(c)
		}
		return text.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		space := func() string {
			return rapid.SampledFrom([]string{"", " ", "\t", "/* c */", "\\\n", "/*\n*/", "// c\\\n c\n", "\n"}).Draw(t, "space")
		}
		inLine := func() string {
			return rapid.SampledFrom([]string{"", " ", "/* c */", "\\\n", "\t"}).Draw(t, "space in a line")
		}
		rules := rapid.SampledFrom([]*rules{hostRules, cudaRules}).Draw(t, "rules")
		var bad string
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			bad = spelled(t, rapid.SampledFrom([]string{"asm", "__asm__", "__asm", "alloca", "thread_local", "__FILE__", "__has_include"}).Draw(t, "name")) + space() + "(" + space() + "\"nop\")"
		case 1:
			bad = "\n" + inLine() + "#" + inLine() + spelled(t, "include") + inLine() + "</etc/passwd>\n"
		case 2:
			bad = spelled(t, "__attribute__") + space() + "(" + space() + "(" + space() + spelled(t, "constructor") + space() + ")) void g();"
		case 3:
			bad = "[" + space() + "[" + space() + spelled(t, "gnu") + space() + "::" + space() + spelled(t, "destructor") + "]] void g();"
		default:
			bad = "\n#" + inLine() + spelled(t, "pragma") + inLine() + "GCC optimize(\"fast-math\")\n"
		}
		before := rapid.SampledFrom([]string{"", "int x;\n", "/* \"*/", "const char* s = \"// \\\" /*\";", "#define Y 1\n", "// c\n"}).Draw(t, "before")
		if err := rules.check(oneKernel(before + bad + "\nint z;\n")); err == nil {
			t.Fatalf("passed:\n%s", before+bad)
		}
	})
}
