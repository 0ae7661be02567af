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
			c.AANS[0], c.AANS[1] = append(c.AANS[0], draw(300)), append(c.AANS[1], draw(300/aa))
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
	if !c.Accepted || c.Samples != looks[0] || c.Low < 1.45 || c.Ratio < c.Low || c.High < c.Ratio || math.Abs(c.EagerUS-300) > 5 || math.Abs(c.OursUS-200) > 5 {
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
		detail           string
	}{
		{"equal", 1, 0.01, 1, looks[0], "not faster"},
		{"slower", 0.8, 0.01, 1, looks[0], "not faster"},
		{"at the margin", 1.0101, 0.01, 1, looks[3], "undecided"},
		{"lost in noise", 1.05, 0.4, 1, 0, "eager"},
		{"a machine that cannot tell", 1.5, 0.01, 1.2, looks[3], "eager against eager would have been accepted"},
	} {
		b := fakeOnHost(t)
		b.referee.confirm = served(c.ratio, c.noise, c.aa)
		b.open(t)
		got := confirmOne(t, b, kernel(good))
		if got.Accepted || c.samples > 0 && got.Samples != c.samples || !strings.Contains(got.Detail, c.detail) {
			t.Errorf("%s: found %+v", c.name, got)
		}
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
		"no times":        {Status: card.OK},
		"too few":         {Status: card.OK, EagerNS: []float64{1}, OursNS: []float64{1}},
		"unknown status":  {Status: "fine"},
		"a negative time": func() Confirmed { c, _ := served(1, 0, 1)(Plan{}, "", 16, 0); c.OursNS[3] = -1; return *c }(),
		"no control":      func() Confirmed { c, _ := served(1, 0, 1)(Plan{}, "", 16, 0); c.AANS[0] = nil; return *c }(),
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
