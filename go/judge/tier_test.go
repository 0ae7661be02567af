package judge

import (
	"errors"
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// Whoever asks for a tier gets it or an error; only who asks for none gets what there is, best first.
func TestATierThatWasAskedForIsTheOnlyOneTried(t *testing.T) {
	for asked, want := range map[int][]int{BestTier: {2, 1, 0}, 0: {0}, 1: {1}, 2: {2}} {
		if order, err := tiers(asked); err != nil || !slices.Equal(order, want) {
			t.Errorf("asked for %d: %v, %v (expected %v)", asked, order, err, want)
		}
	}
	for _, asked := range []int{-2, 3} {
		_, err := tiers(asked)
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Hint == "" {
			t.Errorf("asked for %d: %v (expected an error with a hint)", asked, err)
		}
	}
}

// What stands in a verdict is the tier that worker and compiler hold, by their own attempts; a machine that offers more is not used for less.
func TestTheBestTierOfThisMachineIsInTheVerdict(t *testing.T) {
	b := real(t)
	b.judge.Shutdown()
	config := b.judge.config
	config.Tier = BestTier
	j, err := New(config, b.referee)
	if err != nil {
		t.Fatal(err)
	}
	best := j.config.Tier
	b.judge = j
	b.open(t)
	if verdict := b.verdict(t, kernel(good)); verdict.Status != card.OK || verdict.Tier != best {
		t.Errorf("found %+v (expected tier %d)", verdict, best)
	}
	for tier := best + 1; tier <= sandbox.Best; tier++ {
		config.Tier = tier
		other, err := New(config, b.referee)
		var coded *card.Error
		if err == nil {
			other.Shutdown()
		}
		if !errors.As(err, &coded) || coded.Hint == "" {
			t.Errorf("tier %d: %v (expected an error with a hint, since the best is %d)", tier, err, best)
		}
	}
}
