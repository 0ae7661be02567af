package judge

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// served answers `confirm` with paired times of a kernel that is `ratio` times faster, with the noise given, out of a fixed seed.
func served(ratio, noise, aa float64) func(Plan, string, int, int64) (*Confirmed, error) {
	chance := rand.New(rand.NewPCG(11, 12))
	draw := func(us float64) float64 { return us * 1e3 * math.Exp(noise*chance.NormFloat64()) }
	return func(_ Plan, _ string, blocks int, _ int64) (*Confirmed, error) {
		c := &Confirmed{Status: card.OK, Exact: true}
		for range blocks {
			c.EagerNS, c.OursNS = append(c.EagerNS, draw(300)), append(c.OursNS, draw(300/ratio))
			c.AgainNS = append(c.AgainNS, draw(300/aa))
		}
		return c, nil
	}
}

func confirmOne(t *testing.T, b *bench, source string) Confirmation {
	t.Helper()
	got, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 7, Candidate: b.candidate(source), Variant: "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Node != 7 || got[0].Variant != "v1" {
		t.Fatalf("found %+v", got)
	}
	text(got[0]) // every number can be written as JSON
	return got[0]
}

func TestAFinalistThatIsClearlyFasterIsAcceptedAtTheFirstLook(t *testing.T) {
	b := fakeOnHost(t)
	b.referee.confirm = served(1.5, 0.01, 1)
	b.open(t)
	c := confirmOne(t, b, kernel(good))
	if !c.Accepted || c.Decision != Faster || c.Samples != looks[0] || c.Low < 1.45 || c.Ratio < c.Low || c.High < c.Ratio || math.Abs(c.EagerUS-300) > 5 || math.Abs(c.OursUS-200) > 5 {
		t.Errorf("found %+v", c)
	}
	p := c.Plan
	if p.Node != 7 || p.Variant != "v1" || p.Card != b.card.ID || p.Threads != 2 || len(p.Align) != 2 || !p.Deterministic || !p.Exact || len(c.Image) == 0 ||
		p.Call.Args[0].Sizes[0] != int64(sizes["v1"]) || p.State != "approved" || !strings.HasPrefix(p.ID, "p-") {
		t.Errorf("plan %s", text(p))
	}
	if len(b.referee.images) != 1 || !strings.HasPrefix(b.referee.images[0], b.judge.scratch.Path) {
		t.Errorf("images %v", b.referee.images)
	}
	if _, err := os.Stat(b.referee.images[0]); !os.IsNotExist(err) {
		t.Errorf("the image's file is left: %v", err)
	}
}

func TestWhatDoesNotGainTheMarginIsNotAccepted(t *testing.T) {
	for _, c := range []struct {
		name             string
		ratio, noise, aa float64
		samples          int
		decision         Decision
		detail           string
	}{
		{"equal", 1, 0.01, 1, looks[0], NotFaster, "not faster"},
		{"slower", 0.8, 0.01, 1, looks[0], NotFaster, "not faster"},
		{"at the margin", 1.0101, 0.01, 1, looks[3], Ambiguous, "undecided"},
		{"lost in noise", 1.05, 0.4, 1, looks[3], Ambiguous, "undecided"},
		{"a machine that cannot tell", 1.5, 0.01, 1.2, looks[3], Ambiguous, "eager against eager would have been accepted"},
		{"a machine that cannot tell, the other way", 1.5, 0.01, 0.8, looks[3], Ambiguous, "eager against eager would have been accepted"},
	} {
		b := fakeOnHost(t)
		b.referee.confirm = served(c.ratio, c.noise, c.aa)
		b.open(t)
		got := confirmOne(t, b, kernel(good))
		if got.Accepted || got.Decision != c.decision || got.Samples != c.samples || !strings.Contains(got.Detail, c.detail) {
			t.Errorf("%s: found %+v", c.name, got)
		}
	}
}

// slowedIn gives readings of a device whose clock falls, or that is throttled, in the blocks named.
func slowedIn(blocks int, disturbed func(block int) bool) []Reading {
	readings := []Reading{{ClocksSMMHz: 1980}}
	for i := range blocks {
		next := Reading{ClocksSMMHz: 1980, Throttle: []string{"sw_power_cap"}}
		if disturbed(i) {
			next.ClocksSMMHz = readings[i].ClocksSMMHz - 60 // 3 %
		}
		readings = append(readings, next)
	}
	return readings
}

func TestBlocksInWhichTheClockMovedAreDroppedAndCounted(t *testing.T) {
	b := fakeOnHost(t)
	answer := served(1.5, 0.01, 1)
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		c, err := answer(p, image, blocks, seed)
		c.Readings = slowedIn(blocks, func(i int) bool { return i == 3 }) // it falls in block 3 and is back in block 4
		c.EagerNS[3], c.OursNS[4] = 1, 1
		return c, err
	}
	b.open(t)
	c := confirmOne(t, b, kernel(good))
	if !c.Accepted || c.Dropped != 2 || c.Samples != looks[0]-2 || !strings.Contains(c.Detail, "2 blocks under an SM clock that went from 1920 to 1980 MHz dropped") {
		t.Errorf("found %+v", c)
	}
}

func TestADeviceThatIsSlowedDownTooOftenCannotTell(t *testing.T) {
	b := fakeOnHost(t)
	answer := served(1.5, 0.01, 1)
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		c, err := answer(p, image, blocks, seed)
		c.Readings = slowedIn(blocks, func(i int) bool { return i%8 == 1 }) // two blocks of eight
		return c, err
	}
	b.open(t)
	c := confirmOne(t, b, kernel(good))
	if c.Accepted || c.Decision != Ambiguous || c.Dropped != 32 || !strings.Contains(c.Detail, "32 of 128 blocks") {
		t.Errorf("found %+v", c)
	}
	// A device that cools down is measured after all: four in sixteen are too many, four in thirty-two are not.
	first := true
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		c, err := answer(p, image, blocks, seed)
		c.Readings = slowedIn(blocks, func(i int) bool { return first && i%8 == 1 })
		first = false
		return c, err
	}
	if c := confirmOne(t, b, kernel(good)); !c.Accepted || c.Dropped != 4 || c.Samples != looks[1]-4 {
		t.Errorf("found %+v", c)
	}
}

func TestAWinnerOnColdDataMustNotLoseOnWarm(t *testing.T) {
	for _, c := range []struct {
		warm     float64
		decision Decision
	}{{1.3, Faster}, {0.995, Faster}, {0.9, NotFaster}} {
		b := fakeOnHost(t)
		cold, warm := served(1.5, 0.005, 1), served(c.warm, 0.001, 1)
		b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
			got, err := cold(p, image, blocks, seed)
			other, _ := warm(p, image, blocks/2, seed)
			got.Warm, got.PoolBytes = Warm{other.EagerNS, other.OursNS}, 1<<20
			return got, err
		}
		b.open(t)
		got := confirmOne(t, b, kernel(good))
		if got.Decision != c.decision || math.Abs(got.WarmRatio-c.warm) > 0.01 || math.Abs(got.Ratio-1.5) > 0.02 || got.PoolBytes != 1<<20 {
			t.Errorf("warm %.3f: found %+v", c.warm, got)
		}
		if got.Decision == NotFaster && !strings.Contains(got.Detail, "in the L2 cache already (0.9") {
			t.Errorf("found %q", got.Detail)
		}
	}
}

// Blocks that come in pairs of equal noise: half of them are used, and half of 16 are too few for a bound.
func TestBoundsThatThereAreNotCanBeWritten(t *testing.T) {
	b := fakeOnHost(t)
	answer := served(1.5, 0.02, 1)
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		c, err := answer(p, image, blocks, seed)
		for i := 1; i < blocks; i += 2 {
			c.EagerNS[i], c.OursNS[i] = c.EagerNS[i-1], c.OursNS[i-1]
		}
		return c, err
	}
	b.open(t)
	if c := confirmOne(t, b, kernel(good)); !c.Accepted || c.Samples <= looks[0] {
		t.Errorf("found %+v (expected a decision at a later look)", c)
	}
	c, done, err := Weigh(pairedUp(t), "host", 1)
	if text(c); err != nil || done || c.Low > 1e-6 || c.High < 1e6 {
		t.Errorf("found %+v, %v, %v", c, done, err)
	}
}

func pairedUp(t *testing.T) Confirmed {
	t.Helper()
	c, _ := served(1.5, 0.02, 1)(Plan{}, "", 16, 0)
	for i := 1; i < 16; i += 2 {
		c.EagerNS[i], c.OursNS[i] = c.EagerNS[i-1], c.OursNS[i-1]
	}
	return *c
}

// Two finalists of a variant are two chances: the second must not come for free.
func TestFinalistsShareTheChanceOfAFalseAcceptance(t *testing.T) {
	blocks, _ := served(1.5, 0.01, 1)(Plan{}, "", 64, 0)
	one, _, err := Weigh(*blocks, "cuda", 1)
	five, _, _ := Weigh(*blocks, "cuda", 5)
	if err != nil || !(five.Low < one.Low) || !(five.High > one.High) {
		t.Errorf("found [%g, %g] for one and [%g, %g] for five, %v (expected a wider interval)", one.Low, one.High, five.Low, five.High, err)
	}
	if _, _, err := Weigh(*blocks, "tpu", 1); err == nil {
		t.Error("blocks of an unknown target were weighed")
	}
}

// The answer as the referee writes it for a device (bindings/python/kernelforge/referee/confirm.py); answers are read strictly.
func TestAnAnswerOfADeviceIsRead(t *testing.T) {
	var got Confirmed
	text := `{"eager_ns": [2.5], "ours_ns": [1.5], "again_ns": [2.5], "readings": [{"clocks_sm_mhz": 1980, "throttle": []}, {"clocks_sm_mhz": 0, "throttle": ["gpu_idle"]}],
		"warm": {"eager_ns": [2], "ours_ns": [1]}, "pool_bytes": 4096, "status": "ok", "detail": "", "rule": 1}`
	if err := card.Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if err := got.check(1); err != nil || got.Readings[0].telemetry().ClocksSMMHz != 1980 || got.Readings[1].Throttle[0] != "gpu_idle" || got.Warm.OursNS[0] != 1 {
		t.Errorf("found %+v, %v", got, err)
	}
}

func TestASmallGainIsAcceptedWithMoreBlocks(t *testing.T) {
	b := fakeOnHost(t)
	b.referee.confirm = served(1.022, 0.01, 1)
	b.open(t)
	c := confirmOne(t, b, kernel(good))
	if !c.Accepted || c.Samples <= looks[0] || c.Low <= 1.01 {
		t.Errorf("found %+v", c)
	}
}

func TestAFinalistIsJudgedAgainBeforeItIsTimed(t *testing.T) {
	b := fakeOnHost(t)
	b.referee.confirm = served(2, 0.01, 1)
	b.open(t)
	c := confirmOne(t, b, kernel("if (i + 1 < N) "+good))
	if c.Accepted || !strings.Contains(c.Detail, "wrong_value") || len(b.referee.images) != 0 {
		t.Errorf("found %+v after %d confirmations", c, len(b.referee.images))
	}
}

func TestAWrongValueInTheUsersProcessIsNotAccepted(t *testing.T) {
	b := fakeOnHost(t)
	b.referee.confirm = func(Plan, string, int, int64) (*Confirmed, error) {
		return &Confirmed{Status: card.WrongValue, Detail: "element 3"}, nil
	}
	b.open(t)
	if c := confirmOne(t, b, kernel(good)); c.Accepted || !strings.Contains(c.Detail, "element 3") {
		t.Errorf("found %+v", c)
	}
}

func TestEachLookAsksForFreshDataAndOnlyForTheRest(t *testing.T) {
	b := fakeOnHost(t)
	var asked []int
	seeds := map[int64]bool{}
	answer := served(1.0101, 0.01, 1)
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		asked = append(asked, blocks)
		seeds[seed] = true
		return answer(p, image, blocks, seed)
	}
	b.open(t)
	confirmOne(t, b, kernel(good))
	if len(asked) != 4 || asked[0] != 16 || asked[1] != 16 || asked[2] != 32 || asked[3] != 64 || len(seeds) != 4 || seeds[5] {
		t.Errorf("asked for %v blocks with the seeds %v", asked, seeds)
	}
}

func TestAnAnswerToConfirmThatCannotBeIsAnError(t *testing.T) {
	for name, answer := range map[string]Confirmed{
		"no times":       {Status: card.OK},
		"too few":        {Status: card.OK, EagerNS: []float64{1}, OursNS: []float64{1}},
		"unknown status": {Status: "fine"},
		"readings of other blocks": func() Confirmed {
			c, _ := served(1, 0, 1)(Plan{}, "", 16, 0)
			c.Readings = make([]Reading, 16)
			return *c
		}(),
		"half a pair on warm data": func() Confirmed {
			c, _ := served(1, 0, 1)(Plan{}, "", 16, 0)
			c.Warm.EagerNS = []float64{1}
			return *c
		}(),
		"a negative time": func() Confirmed { c, _ := served(1, 0, 1)(Plan{}, "", 16, 0); c.OursNS[3] = -1; return *c }(),
		"no control":      func() Confirmed { c, _ := served(1, 0, 1)(Plan{}, "", 16, 0); c.AgainNS = nil; return *c }(),
	} {
		b := fakeOnHost(t)
		b.referee.confirm = func(Plan, string, int, int64) (*Confirmed, error) { return &answer, nil }
		b.open(t)
		_, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Node: 1, Candidate: b.candidate(kernel(good)), Variant: "v0"}})
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Code != card.CodeReferee {
			t.Errorf("%s: found %v", name, err)
		}
	}
	b := fakeOnHost(t)
	b.open(t)
	if _, err := b.judge.Confirm(t.Context(), b.card, []Finalist{{Candidate: b.candidate(kernel(good)), Variant: "v9"}}); err == nil {
		t.Error("an unknown variant was confirmed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.judge.Confirm(ctx, b.card, []Finalist{{Candidate: b.candidate(kernel(good)), Variant: "v0"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAConfirmationWithARealWorkerHandsOutTheImage(t *testing.T) {
	b := real(t)
	b.referee.confirm = func(p Plan, image string, blocks int, seed int64) (*Confirmed, error) {
		content, err := os.ReadFile(image)
		if err != nil || string(content[1:4]) != "ELF" {
			t.Errorf("image of %d bytes, %v", len(content), err)
		}
		return served(1.5, 0.01, 1)(p, image, blocks, seed)
	}
	b.open(t)
	if c := confirmOne(t, b, kernel(good)); !c.Accepted || !c.Plan.Exact || string(c.Image[1:4]) != "ELF" {
		t.Errorf("found %+v", c)
	}
}

// Right is not enough where eager's bits were asked for: neither for a candidate of a search, nor for a finalist.
func TestExactRefusesWhatIsOnlyNear(t *testing.T) {
	b := fakeOnHost(t)
	b.open(t)
	if v := b.verdict(t, nearly); v.Status != card.OK {
		t.Fatalf("found %+v (expected ok)", v)
	}
	b.judge.config.Exact = true
	if v := b.verdict(t, nearly); v.Status != card.WrongValue || v.Gate != string(GateExact) || !strings.Contains(v.Detail, "bitwise equal") {
		t.Errorf("found %+v", v)
	}
	if v := b.verdict(t, kernel(good)); v.Status != card.OK {
		t.Errorf("found %+v (expected ok)", v)
	}
	if c := confirmOne(t, b, nearly); c.Accepted || !strings.Contains(c.Detail, "bitwise equal") {
		t.Errorf("found %+v", c)
	}
}
