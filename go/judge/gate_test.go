package judge

import (
	"math"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// Each gate of the judge's own, switched off, lets through what it alone kills.
func TestAGateThatIsSwitchedOffLetsItsCandidatesThrough(t *testing.T) {
	verdict := func(t *testing.T, off Gates, damage func(*bench) card.Candidate) card.Verdict {
		t.Helper()
		b := fakeOnHost(t)
		b.judge.config.Off = off
		candidate := damage(b)
		b.open(t)
		found, err := b.judge.Judge(t.Context(), b.card, candidate)
		if err != nil {
			t.Fatalf("the harness is broken: %v", err)
		}
		return found
	}
	played := func(source, act string) func(b *bench) card.Candidate {
		return func(b *bench) card.Candidate {
			c := b.candidate(source)
			b.judge.target.(*onHost).compiler = actor{also: map[string]string{c.Source: act}}
			return c
		}
	}
	for gate, c := range map[Gate]struct {
		damage func(*bench) card.Candidate
		status card.Status
	}{
		GatePolicy:  {played("asm(\"nop\");"+kernel(good), "right"), card.Rejected},
		GateRepeats: {played(kernel(good+" // late"), "late"), card.WrongValue},
		GateDirty:   {played(kernel(good+" // dirty"), "dirty"), card.WrongValue},
		GateFloor: {func(b *bench) card.Candidate {
			b.card.Variants[1].Bytes, b.card.Variants[1].RoofUS = 1<<40, 1e9
			return b.candidate(kernel(good))
		}, card.TooFast},
	} {
		if found := verdict(t, nil, c.damage); found.Status != c.status || found.Gate != string(gate) {
			t.Errorf("with all gates: %s by `%s`, %q (expected %s by `%s`)", found.Status, found.Gate, found.Detail, c.status, gate)
		}
		if found := verdict(t, Gates{gate}, c.damage); found.Status != card.OK {
			t.Errorf("without `%s`: %s, %q (expected ok)", gate, found.Status, found.Detail)
		}
		others := Gates{}
		for _, other := range gates {
			if other != gate && (Gates{other}).CheckOff() == nil {
				others = append(others, other)
			}
		}
		if found := verdict(t, others, c.damage); found.Status != c.status {
			t.Errorf("with no gate but `%s`: %s, %q (expected %s)", gate, found.Status, found.Detail, c.status)
		}
	}
}

// A finalist's first input is run again when its process has served others, and its outputs must be those that the search saw elsewhere.
func TestAKernelThatRemembersItsInputsIsNoFinalist(t *testing.T) {
	for _, off := range []Gates{nil, {GateFresh}} {
		b := fakeOnHost(t)
		b.judge.config.Off = off
		b.referee.confirm = served(1.5, 0.01, 1)
		worn := b.candidate(kernel(good + " // worn"))
		b.judge.target.(*onHost).compiler = actor{also: map[string]string{worn.Source: "worn"}}
		b.open(t)
		got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: worn, Variant: "v1"}})
		if err != nil || got[0].Accepted != (off != nil) || (off == nil && !strings.Contains(got[0].Detail, "differs")) {
			t.Errorf("without %v: found %+v, %v", off, got, err)
		}
	}
	b := fakeOnHost(t)
	b.referee.confirm = served(1.5, 0.01, 1)
	b.open(t)
	b.verdict(t, kernel(good))
	id := b.candidate(kernel(good)).ID
	seen := b.judge.cards[b.card.ID].outputs[id]
	if len(seen) != len(b.referee.prepared.Cases) {
		t.Fatalf("the search remembers %d outputs (expected one of each case)", len(seen))
	}
	for k := range seen {
		seen[k] = "other bits"
	}
	if c := confirmOne(t, b, kernel(good)); c.Accepted || !strings.Contains(c.Detail, "other bits than the one that the search used") {
		t.Errorf("found %+v", c)
	}
}

func TestAFailureSaysWhichGateWhereAndHowToDrawItAgain(t *testing.T) {
	b := fakeOnHost(t)
	b.open(t)
	for source, want := range map[string]Gate{kernel("if (i + 1 < N) " + good): GateValues, kernel("y[i] = x[i] > 0 ? x[i] : 0.0f;"): GateSpecial,
		kernel("for (volatile int k = 0;; ++k) {}"): GateDeadline} {
		v := b.verdict(t, source)
		if v.Gate != string(want) || v.At == nil || v.At.Variant == "" || v.At.Kind == "" || v.At.Placement == "" || v.At.Run < 1 || v.At.Seed != 5 {
			t.Errorf("%s: found gate %q, %+v (expected %s)", v.Detail, v.Gate, v.At, want)
		}
	}
}

func TestTheFloorLeavesOutWhatTheCacheMayHold(t *testing.T) {
	b := fakeOnHost(t) // its last cache has 1 MiB
	trial := &trial{judge: b.judge}
	for _, c := range []struct {
		bytes int64
		floor float64
	}{{1 << 19, hostLaunchUS}, {1 << 20, hostLaunchUS}, {2 << 20, 35}, {10 << 20, 63}} {
		if found := trial.floorUS(card.Variant{Bytes: c.bytes, RoofUS: 100}); math.Abs(found-c.floor) > 1e-9 {
			t.Errorf("%d bytes: %g us (expected %g)", c.bytes, found, c.floor)
		}
	}
}

func TestAGateThatIsNoneOrCannotBeOffIsRefused(t *testing.T) {
	for _, gate := range []Gate{"", "polices", GateCompile, GateDeadline} {
		if err := (Gates{GatePolicy, gate}).CheckOff(); err == nil || !strings.Contains(err.Error(), "`"+string(gate)+"`") {
			t.Errorf("%q: found %v", gate, err)
		}
	}
	if _, err := New(Config{Target: "host", Off: Gates{"polices"}}, &scripted{}); err == nil || !strings.Contains(err.Error(), "polices") {
		t.Errorf("a judge with a gate that is none: %v", err)
	}
}
