package template

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// plain is a family of four parameters with five values each, whose candidates say nothing but where they are.
type plain string

func (p plain) Name() string            { return string(p) }
func (p plain) Applies(*card.Card) bool { return true }
func (p plain) Params(*card.Card, propose.Facts) []Param {
	values := []int{1, 2, 4, 8, 16}
	return []Param{{"A", values, 4}, {"B", values, 4}, {"C", values, 4}, {"D", values, 4}}
}

func (p plain) Build(_ *card.Card, _ propose.Facts, at Point) (card.Candidate, error) {
	text := "// " + string(p)
	for _, name := range []string{"A", "B", "C", "D"} {
		text += " " + string(rune('a'+at[name]))
	}
	return card.Candidate{Source: text}, nil
}

// smooth is a cost with its least, 0.3, at A=16, B=1, C=4, D=8 of the family `good`: a parameter matters more the further it is off, and two act together.
func smooth(c card.Candidate) float64 {
	off := func(name string, best int) float64 {
		return math.Abs(math.Log2(float64(c.Params[name])) - math.Log2(float64(best)))
	}
	l := 0.15*off("A", 16) + 0.1*off("B", 1) + 0.05*off("C", 4) + 0.02*off("D", 8) + 0.02*off("A", 16)*off("B", 1)
	if c.Family != "good" {
		l += 0.3
	}
	return 0.3 * math.Exp(l)
}

// below asks for children of the root, or of the best, one after another, and gives the candidates with their verdicts.
func below(t *testing.T, count int, seed int64, informed, ofBest bool, judge func(card.Candidate) card.Verdict) []propose.Attempt {
	t.Helper()
	p := Of(propose.Facts{Target: "host"}, func(*card.Card, propose.Facts) []Family { return []Family{plain("fair"), plain("good")} }, true)
	var tried []propose.Attempt
	seen := map[string]bool{}
	for i := range count {
		brief := propose.Brief{Card: &card.Card{Target: "host"}, Seed: seed*1000 + int64(i), Seen: func(id string) bool { return seen[id] }}
		if informed {
			brief.Tried = tried
		}
		if best := leastOf(tried); ofBest && best != nil && i > 1 {
			brief.Lineage = []propose.Attempt{*best}
		}
		candidate, err := p.Propose(t.Context(), brief)
		if errors.Is(err, propose.ErrExhausted) {
			return tried
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[candidate.ID] = true
		tried = append(tried, propose.Attempt{Node: i + 1, Candidate: candidate, Verdict: judge(candidate)})
	}
	return tried
}

func leastOf(tried []propose.Attempt) (best *propose.Attempt) {
	for i := range tried {
		if tried[i].Verdict.Status == card.OK && (best == nil || tried[i].Verdict.Cost < best.Verdict.Cost) {
			best = &tried[i]
		}
	}
	return best
}

func fine(cost func(card.Candidate) float64) func(card.Candidate) card.Verdict {
	return func(c card.Candidate) card.Verdict { return card.Verdict{Status: card.OK, Cost: cost(c)} }
}

func TestEvidenceFindsWhatOneChangeAtATimeDoesNot(t *testing.T) {
	for _, ofBest := range []bool{false, true} {
		informed, blind := 0.0, 0.0
		const seeds = 4
		for seed := range int64(seeds) {
			informed += math.Log(leastOf(below(t, 24, seed, true, ofBest, fine(smooth))).Verdict.Cost/0.3) / seeds
			blind += math.Log(leastOf(below(t, 24, seed, false, ofBest, fine(smooth))).Verdict.Cost/0.3) / seeds
		}
		t.Logf("below the best %v: %.3f with evidence, %.3f without, times the least cost", ofBest, math.Exp(informed), math.Exp(blind))
		if informed > math.Log(1.05) || informed > blind {
			t.Errorf("below the best %v: of 24 of 1,250 points the best came to %.3f of the least cost (expected 1.05, and no more than the %.3f without evidence)",
				ofBest, math.Exp(informed), math.Exp(blind))
		}
	}
}

// Costs that follow no parameter: their spread must be read as noise, or the search runs after outliers.
func TestNoiseIsNotRead(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	spaces := spacesOf([]Family{plain("good")}, nil, propose.Facts{})
	tried := below(t, 40, 1, false, false, fine(func(card.Candidate) float64 { return math.Exp(0.3 * chance.NormFloat64()) }))
	if got := evidenceOf(spaces, tried, nil).by[spaces[0]].signal; got > 0.5 {
		t.Errorf("of costs that are noise %.0f %% were taken for the parameters' doing (expected 50 at most)", 100*got)
	}
	tried = below(t, 40, 1, false, false, fine(smooth))
	if got := evidenceOf(spaces, tried, nil).by[spaces[0]].signal; got < 0.85 {
		t.Errorf("of costs without noise %.0f %% were taken for the parameters' doing (expected 85 at least)", 100*got)
	}
}

func TestNeighboursOfFailuresComeLater(t *testing.T) {
	spaces := spacesOf([]Family{plain("good")}, nil, propose.Facts{})
	verdict := func(c card.Candidate) card.Verdict {
		if c.Params["A"] >= 8 {
			return card.Verdict{Status: card.LaunchError}
		}
		return card.Verdict{Status: card.OK, Cost: 0.5 + 0.01*float64(c.Params["B"])}
	}
	known := evidenceOf(spaces, below(t, 60, 1, false, false, verdict), nil).by[spaces[0]]
	failing, well := known.promise([]int{4, 1, 1, 1}), known.promise([]int{1, 1, 1, 1})
	if failing <= well {
		t.Errorf("a point where others failed promises %.3f, one where they did well %.3f (expected more)", failing, well)
	}
}

func TestKernelOfTwoPoints(t *testing.T) {
	// 0.7 * (exp(-1/2) + 1) / 2 + 0.3 * exp(-1/2)
	if got := likenessWithin(1).kernel([]int{0, 3}, []int{1, 3}); math.Abs(got-0.744245) > 1e-6 {
		t.Errorf("k = %.6f (expected 0.744245)", got)
	}
	if got := likenessWithin(1).kernel([]int{2, 3}, []int{2, 3}); got != 1 {
		t.Errorf("k of a point with itself = %v (expected 1)", got)
	}
}

func TestWithoutEvidenceOneParameterIsChanged(t *testing.T) {
	p := Of(propose.Facts{Target: "host"}, func(*card.Card, propose.Facts) []Family { return []Family{plain("good")} }, true)
	parent := propose.Attempt{Candidate: card.Candidate{Author: Author, Family: "good", Params: map[string]int{"A": 2, "B": 4, "C": 16, "D": 1}}}
	seen := map[string]bool{}
	count := 0
	for {
		candidate, err := p.Propose(context.Background(), propose.Brief{Card: &card.Card{Target: "host"}, Lineage: []propose.Attempt{parent},
			Seed: int64(count), Seen: func(id string) bool { return seen[id] }})
		if errors.Is(err, propose.ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[candidate.ID] = true
		count++
		changed := 0
		for name, value := range candidate.Params {
			if parent.Candidate.Params[name] != value {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("`%s` changes %d parameters (expected 1)", candidate.Change, changed)
		}
	}
	if count != 16 {
		t.Errorf("%d neighbours (expected 16: four other values of each of four parameters)", count)
	}
}
