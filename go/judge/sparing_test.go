package judge

// What a search spares or does beside other work, and finalists do not.

import (
	"context"
	"math"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// beside is the host as if its compiler disturbed nothing.
type beside struct {
	*onHost
	count *int
}

func (b beside) traits() traits {
	t := b.onHost.traits()
	t.beside = true
	return t
}

func (b beside) Compile(ctx context.Context, source string, options []string) (compile.Built, error) {
	*b.count++
	return b.onHost.Compile(ctx, source, options)
}

func TestACompileThatWasBegunAheadIsUsedOnce(t *testing.T) {
	b := fakeOnHost(t)
	compiles := 0
	b.judge.target = beside{b.judge.target.(*onHost), &compiles}
	b.open(t)
	candidate := b.candidate(kernel(good))
	b.judge.Ahead(t.Context(), candidate)
	b.judge.Ahead(t.Context(), candidate)
	refused := b.candidate(kernel("asm(\"nop\");"))
	b.judge.Ahead(t.Context(), refused)
	for range 2 {
		verdict, err := b.judge.Judge(t.Context(), b.card, candidate)
		if err != nil || verdict.Status != card.OK {
			t.Fatalf("found %+v, %v", verdict, err)
		}
	}
	if compiles != 2 { // the second judgement asks again: a cache is the compiler's own
		t.Errorf("%d compiles (expected 2)", compiles)
	}
	if verdict, err := b.judge.Judge(t.Context(), b.card, refused); err != nil || verdict.Status != card.Rejected {
		t.Errorf("a refusal that was found ahead: %+v, %v", verdict, err)
	}
	b.judge.Ahead(t.Context(), b.candidate(kernel(good+"// never judged"))) // its end is waited for at the shutdown
}

func TestTheHostCompilesNothingBesideItsMeasurements(t *testing.T) {
	b := fakeOnHost(t)
	b.open(t)
	b.judge.Ahead(t.Context(), b.candidate(kernel(good)))
	if len(b.judge.ahead) != 0 {
		t.Error("a compile was begun beside the measurements")
	}
}

// frugal is the host with a device's sparing search.
type frugal struct{ *onHost }

func (f frugal) traits() traits {
	t := f.onHost.traits()
	t.repeats, t.thorough = 1, 1
	return t
}

func TestASearchMaySpareWhatFinalistsGetInFull(t *testing.T) {
	b := fakeOnHost(t)
	b.card.Variants[1].Calls = 100 // the heaviest
	b.judge.target = frugal{b.judge.target.(*onHost)}
	b.open(t)
	if verdict := b.verdict(t, kernel(good)); verdict.Status != card.OK {
		t.Fatalf("found %+v", verdict)
	}
	heavy, light, after, stale := repeats+3, patterns, 2, 1 // of the heaviest alone once more after the timing, and one on outputs that are nearly right
	if want := heavy + light + 1 + after + stale; b.referee.checks != want {
		t.Errorf("%d checks in the search (expected %d)", b.referee.checks, want)
	}
	b.referee.checks = 0
	b.referee.confirm = func(Plan, string, int, int64) (*Confirmed, error) {
		return &Confirmed{Status: card.WrongValue, Detail: "stop"}, nil
	}
	if _, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: b.candidate(kernel(good)), Variant: "v0"}}); err != nil {
		t.Fatal(err)
	}
	if want := 4*repeats + crowded + 1 + 1 + parts; b.referee.checks != want {
		t.Errorf("%d checks of a finalist (expected %d: every case as often)", b.referee.checks, want)
	}
	if first := heaviestFirst(b.card.Variants)[0].ID; first != "v1" {
		t.Errorf("the heaviest variant is `%s` (expected v1)", first)
	}
}

func TestAHopelessCandidateGetsAFewBlocks(t *testing.T) {
	times := func(factor float64, n int) []float64 { // log(eager / candidate) of blocks that agree
		ratios := make([]float64, n)
		for i := range ratios {
			ratios[i] = -math.Log(factor) + 0.3*float64(i%2) // a spread at which no least number is enough
		}
		return ratios
	}
	for name, test := range map[string]struct {
		ratios []float64
		want   bool
	}{
		"two blocks, three times as slow":   {times(3, 2), false},
		"three blocks, three times as slow": {times(3, 3), true},
		"three blocks, one of them as fast": {append(times(3, 2), 0), false},
		"three blocks, 1.2 times as slow":   {times(1.2, 3), false},
		"sixteen blocks":                    {times(1, mostBlocks), true},
		"eight blocks that agree":           {make([]float64, leastBlocks), true},
		"eight blocks that do not agree":    {times(1, leastBlocks), false},
		"seven blocks that agree":           {make([]float64, leastBlocks-1), false},
	} {
		if got := enough(test.ratios, leastBlocks); got != test.want {
			t.Errorf("%s: enough is %v (expected %v)", name, got, test.want)
		}
	}
}
