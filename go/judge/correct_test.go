package judge

import (
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/worker"
)

// A finalist's changed input comes right after what it was changed from, and finds what that has left; each part of an old output is poison once. A
// search does neither but for the first part, and gates that are off leave out what is theirs.
func TestWhatARunFindsOfTheRunsBefore(t *testing.T) {
	b := fakeOnHost(t)
	b.open(t)
	open := b.judge.cards[b.card.ID]
	v := heaviestFirst(b.card.Variants)[0]
	own := slices.DeleteFunc(slices.Clone(open.prepared.Cases), func(k Case) bool { return k.Variant != v.ID })
	changed := own[0]
	changed.ID, changed.Kind, changed.Final = 1000, changedInput, true
	open.prepared.Cases = append(open.prepared.Cases, changed)
	for _, c := range []struct {
		final bool
		off   Gates
		pairs int
		parts []int
	}{{true, nil, 1, []int{2, 3, 4}}, {false, nil, 0, []int{2}}, {true, Gates{GateDirty}, 0, []int{2, 3, 4}}, {true, Gates{GatePoison}, 1, nil}} {
		b.judge.config.Off = c.off
		trial := &trial{judge: b.judge, card: b.card, open: open, session: &session{}, final: c.final, variants: b.card.Variants}
		pairs, parts := 0, []int(nil)
		steps := trial.steps()
		seen := map[[2]int]bool{}
		for i, s := range steps {
			if at := [2]int{s.input.ID, s.repeat}; seen[at] {
				t.Errorf("final %t, without %v: case %d has its run %d twice", c.final, c.off, at[0], at[1])
			} else {
				seen[at] = true
			}
			if s.stale > 0 && s.variant.ID == v.ID {
				parts = append(parts, s.stale)
			}
			if s.input.Kind != changedInput {
				continue
			}
			pairs++
			if before := steps[i-1]; !s.left || !before.left || before.input.ID != own[0].ID || before.repeat == 0 || s.repeat != 0 {
				t.Errorf("found %+v before %+v", before, s)
			}
		}
		if pairs != c.pairs || !slices.Equal(parts, c.parts) {
			t.Errorf("final %t, without %v: %d changed inputs (expected %d), parts %v (expected %v)", c.final, c.off, pairs, c.pairs, parts, c.parts)
		}
		if dirt, before := trial.dirtOf(noTurn); dirt != worker.NoDirt || before != 0 {
			t.Errorf("a run that finds what was left finds %v, after %d", dirt, before)
		}
	}
	b.judge.config.Off = nil
	number := 77
	err := (&trial{judge: b.judge, open: open}).verdict(&Checked{Status: "wrong_value", Gate: GateValues, Number: &number}, v, changed, 0)
	if failed, ok := err.(*failure); !ok || failed.gate != GateDirty || failed.at.Number != number {
		t.Errorf("found %+v", err)
	}
}
