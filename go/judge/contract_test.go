package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// kernel wraps the body of a loop over [begin, end) with x, the input, and y, the output.
func kernel(body string) string {
	return "KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {\n  const float* x = (const float*)args[0].p;\n" +
		"  float* y = (float*)args[1].p;\n  for (int64_t i = begin; i < end; ++i) {\n    " + body + "\n  }\n}\n"
}

const good = "y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] : 0.0f;"

// again is the same kernel as another binary, since one whose binary was judged is not judged again.
func again(number int) string { return fmt.Sprintf("if (i == %d) y[i] = 0; %s", 1<<30+number, good) }

// nearly is right by the rule, but not bitwise equal.
var nearly = kernel("y[i] = (x[i] > 0 || x[i] != x[i]) ? x[i] * 1.0000002f : 0.0f;")

// deliberate are candidates with one fault each, and how they must end. A fake worker plays the act; a real one runs the source.
var deliberate = []struct {
	name, source string
	act          string // what the fake worker does instead of running it
	status       card.Status
	detail       string // a part of the verdict's detail
}{
	{"right", kernel(good), "right", card.OK, ""},
	{"is near", nearly, "near", card.OK, ""},
	{"writes nothing", kernel(""), "nothing", card.WrongValue, "element"},
	{"leaves the last element", kernel("if (i + 1 < N) " + good), "partial", card.WrongValue, "element"},
	{"returns zeros", kernel("y[i] = 0;"), "zeros", card.WrongValue, "element"},
	{"drops NaN", kernel("y[i] = x[i] > 0 ? x[i] : 0.0f;"), "nan", card.WrongValue, "special input"},
	{"depends on what the output held", kernel("unsigned o = old[i]; " + good + " if (o & 1) y[i] = y[i] * 1.0000001f;"), "old", card.WrongValue, "differs"},
	{"reads past the end", kernel(good + " if (i == N - 1) y[i] += 0 * *(volatile const float*)(x + i + 1);"), "crash", card.Crash, "`self`"},
	{"writes past the end", kernel(good + " if (i == N - 1) *(volatile float*)(y + i + 1) = 0;"), "crash", card.Crash, "`out0`"},
	{"writes before the start", kernel(good + " if (i == 0) *(volatile float*)(y - 1) = 0;"), "gap", "", ""},
	{"writes its input", kernel(good + " ((volatile float*)x)[i] = 0;"), "crash", card.Crash, "SIGSEGV"},
	{"follows a wild pointer", kernel("*(volatile float*)(0x123450000000 + i) = 1;"), "crash", card.Crash, "far from every buffer"},
	{"divides by zero", kernel("volatile int zero = 0; y[i] = (float)(100 / zero);"), "crash", card.Crash, "SIGFPE"},
	{"traps", kernel("__builtin_trap();"), "crash", card.Crash, "SIGILL"},
	{"overflows the stack", "static float deep(volatile float* p, int n) { volatile float a[4096]; a[n & 4095] = *p; return deep(a, n + 1) + a[n & 4095]; }\n" +
		kernel("volatile float z = 1; y[i] = deep(&z, 1);"), "crash", card.Crash, "SIGSEGV"},
	{"never ends", kernel("for (volatile int k = 0;; ++k) {}"), "hang", card.Timeout, "killed"},
	{"forks", "extern \"C\" int fork(void);\n" + kernel("y[i] = (float)fork();"), "", card.Rejected, "`fork`"},
	{"aborts", "extern \"C\" void abort(void);\n" + kernel("abort();"), "", card.Rejected, "`abort`"},
	{"aborts by a built-in", kernel("__builtin_abort();"), "", card.Rejected, "`abort`"},
	{"opens a file", "extern \"C\" int open(const char*, int, ...);\n" + kernel("y[i] = (float)open(\"/etc/passwd\", 0);"), "", card.Rejected, "`open`"},
	{"counts its calls", "static int calls;\n" + kernel("y[i] = ++calls > 100 ? 0.0f : x[i];"), "", card.Rejected, "writable"},
	{"has a constructor", "struct S { float f; S() : f(__builtin_sqrtf(*(volatile float*)&f)) {} };\nstatic const S s;\n" + kernel("y[i] = s.f;"), "", card.Rejected, ""},
	{"makes a system call", kernel("asm(\"syscall\");"), "", card.Rejected, "policy"},
	{"includes a file", "#include \"/etc/passwd\"\n" + kernel(good), "", card.Rejected, "policy"},
	{"does not compile", kernel("y[i] = undeclared;"), "", card.CompileError, "undeclared"},
	{"lacks its entry", "KF_ENTRY void other(int64_t, int64_t, const kf_arg*) {}", "", card.Rejected, "`other`"},
}

// bench is one way to judge: with a fake worker or a real one.
type bench struct {
	judge   *Judge
	referee *scripted
	card    *card.Card
	real    bool
}

func (b *bench) candidate(source string) card.Candidate {
	source = strings.ReplaceAll(source, "old[i]", "((const volatile unsigned*)OLD)[i]")
	source = strings.ReplaceAll(source, "float* y = (float*)args[1].p;", "float* y = (float*)args[1].p; const void* OLD = y; const int64_t N = args[2].i; (void)OLD; (void)N;")
	spec := reluSpec()
	spec.Kernels[0].Args = append(spec.Kernels[0].Args, card.SpecArg{Int: "out0_numel"})
	return card.Candidate{ID: card.CandidateID(source, spec), Author: "person", Source: source, Spec: spec}
}

func (b *bench) open(t *testing.T) {
	t.Helper()
	if err := b.judge.Open(t.Context(), b.card, 5); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.judge.Close(context.Background(), b.card.ID); err != nil {
			t.Error(err)
		}
		b.judge.Shutdown()
		if _, err := os.Stat(b.judge.scratch.Path); !os.IsNotExist(err) {
			t.Errorf("the scratch folder is left: %v", err)
		}
	})
}

func (b *bench) verdict(t *testing.T, source string) card.Verdict {
	t.Helper()
	verdict, err := b.judge.Judge(t.Context(), b.card, b.candidate(source))
	if err != nil {
		t.Fatalf("the harness is broken: %v", err)
	}
	if err := verdict.Validate(); err != nil {
		t.Fatal(err)
	}
	return verdict
}

// contract is what both kinds of worker must pass.
func contract(t *testing.T, fresh func(t *testing.T) *bench) {
	t.Run("deliberate candidates end as they must", func(t *testing.T) {
		b := fresh(t)
		b.open(t)
		for _, c := range deliberate {
			if c.act == "" && !b.real {
				continue // ends before a worker sees it, by the real compiler or csrc
			}
			verdict := b.verdict(t, c.source)
			want := []card.Status{c.status}
			if c.act == "gap" { // at the start of its memory it faults; at the end it writes the gap, which comes first here
				want = []card.Status{card.WrongValue, card.Crash}
			}
			if (verdict.Status != want[0] && verdict.Status != want[len(want)-1]) || !strings.Contains(verdict.Detail, c.detail) && b.real {
				t.Errorf("%s: %s, %q (expected %v, %q)", c.name, verdict.Status, verdict.Detail, want, c.detail)
			}
			if strings.Contains(verdict.Detail, "/tmp") || strings.Contains(verdict.Detail, "/root") {
				t.Errorf("%s: a path in %q", c.name, verdict.Detail)
			}
		}
		if verdict := b.verdict(t, kernel(good)); verdict.Status != card.OK {
			t.Errorf("after all of them a good one: %s, %q", verdict.Status, verdict.Detail)
		}
	})

	t.Run("a right candidate has evidence on every variant", func(t *testing.T) {
		b := fresh(t)
		b.open(t)
		verdict := b.verdict(t, kernel(good))
		if verdict.Status != card.OK || !(verdict.Cost > 0) || len(verdict.Variants) != 2 {
			t.Fatalf("found %+v", verdict)
		}
		for _, v := range verdict.Variants {
			if !(v.Cost > 0) || !(v.CandidateUS > 0) || v.EagerUS != 300 || v.Samples < glanceBlocks || v.Samples > mostBlocks {
				t.Errorf("found %+v", v)
			}
		}
		if want := len(b.referee.prepared.Cases)*repeats + 1 + 1 + len(b.card.Variants) + 1; b.referee.checks != want {
			t.Errorf("%d checks (expected %d: every case %d times, the heaviest variant's first once on an old output, and after the timing once more for each variant, with one question more than there are)", b.referee.checks, want, repeats)
		}
	})

	t.Run("an equal binary is not judged twice", func(t *testing.T) {
		b := fresh(t)
		b.open(t)
		first := b.candidate(kernel(good))
		before := b.verdict(t, kernel(good))
		checks := b.referee.checks
		second := b.verdict(t, kernel(good+unread))
		if second.Status != card.OK || second.Cost != before.Cost || second.Twin != first.ID || before.Twin != "" {
			t.Errorf("found %+v after %+v (expected the first verdict, twin `%s`)", second, before, first.ID)
		}
		if b.referee.checks != checks {
			t.Errorf("%d more checks (expected none)", b.referee.checks-checks)
		}
		other := b.candidate(kernel(good + unread))
		other.Spec.Kernels[0].Grain = "64"
		other.ID = card.CandidateID(other.Source, other.Spec)
		third, err := b.judge.Judge(t.Context(), b.card, other)
		if err != nil || third.Status != card.OK || third.Twin != "" || b.referee.checks == checks {
			t.Errorf("another launch of the same code: %+v, %v (expected a judgement of its own)", third, err)
		}
	})

	t.Run("a hopeless candidate is given up early", func(t *testing.T) {
		b := fresh(t)
		b.referee.eagerNS = func(string) float64 { return 1 }
		b.open(t)
		verdict := b.verdict(t, kernel(good))
		if verdict.Status != card.OK || verdict.Cost < hopeless {
			t.Fatalf("found %+v", verdict)
		}
		for _, v := range verdict.Variants {
			if v.Samples != glanceBlocks && verdict.Detail == "" {
				t.Errorf("variant `%s` took %d blocks (expected %d)", v.ID, v.Samples, glanceBlocks)
			}
		}
	})

	t.Run("an impossible time is no win", func(t *testing.T) {
		b := fresh(t)
		b.card.Variants[1].Bytes, b.card.Variants[1].RoofUS = 1<<40, 1e9
		b.open(t)
		if verdict := b.verdict(t, kernel(good)); verdict.Status != card.TooFast || verdict.Cost != 0 {
			t.Fatalf("found %+v", verdict)
		}
	})

	t.Run("a broken referee is an error and no verdict", func(t *testing.T) {
		for _, method := range []string{"check", "time_eager"} {
			b := fresh(t)
			b.open(t)
			b.referee.broken = method
			verdict, err := b.judge.Judge(t.Context(), b.card, b.candidate(kernel(good)))
			if err == nil || verdict.Status != "" {
				t.Errorf("%s: found %+v, %v", method, verdict, err)
			}
		}
		b := fresh(t)
		b.referee.broken = "prepare"
		if err := b.judge.Open(t.Context(), b.card, 5); err == nil {
			t.Error("prepare: found no error")
		}
		b.judge.Shutdown()
	})

	t.Run("a cancelled judgement is no verdict", func(t *testing.T) {
		b := fresh(t)
		b.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.referee.eagerNS = func(string) float64 { cancel(); return 300 }
		_, err := b.judge.Judge(ctx, b.card, b.candidate(kernel(good)))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("found %v", err)
		}
	})

	t.Run("a candidate of a card that is not open is an error", func(t *testing.T) {
		b := fresh(t)
		defer b.judge.Shutdown()
		if _, err := b.judge.Judge(t.Context(), b.card, b.candidate(kernel(good))); err == nil || !strings.Contains(err.Error(), b.card.ID) {
			t.Fatalf("found %v", err)
		}
	})
}
