package judge

import (
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
		GateFloor: {func(b *bench) card.Candidate {
			b.card.Variants[1].Bytes, b.card.Variants[1].RoofUS = 1<<40, 1e9
			return b.candidate(kernel(good))
		}, card.TooFast},
	} {
		if found := verdict(t, nil, c.damage); found.Status != c.status {
			t.Errorf("with all gates: %s, %q (expected %s by `%s`)", found.Status, found.Detail, c.status, gate)
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
