package template

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// timedCard is the card of a row of author-h200.json.
func timedCard(t *testing.T, name string) *card.Card {
	t.Helper()
	rows := timedCards(t)
	at := slices.IndexFunc(rows, func(r timed) bool { return r.Card == name })
	if at < 0 {
		t.Fatalf("there is no row `%s`", name)
	}
	return rows[at].card()
}

// atRoot asks for children of the root until there are `count`, or no more.
func atRoot(t *testing.T, c *card.Card, f propose.Facts, prior bool, count int, seed int64, judge func(card.Candidate) card.Verdict) []propose.Attempt {
	t.Helper()
	p, seen := Of(f, Runnable, prior), map[string]bool{}
	var tried []propose.Attempt
	for len(tried) < count {
		candidate, err := p.Propose(t.Context(), propose.Brief{Card: c, Facts: f, Seed: 1000*seed + int64(len(tried)), Tried: tried,
			Seen: func(id string) bool { return seen[id] }})
		if errors.Is(err, propose.ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[candidate.ID] = true
		tried = append(tried, propose.Attempt{Node: len(tried) + 1, Candidate: candidate, Verdict: judge(candidate)})
	}
	return tried
}

func failed(card.Candidate) card.Verdict { return card.Verdict{Status: card.LaunchError} }

func familiesOf(tried []propose.Attempt) string {
	var names []string
	for _, attempt := range tried {
		names = append(names, attempt.Candidate.Family)
	}
	return strings.Join(names, " ")
}

// In the order of the registry the first of these was reduce_rows (76.9 us on an H200, reduce_vectors 19.5), the third pointwise (123 us, transpose 18.9), and
// softmax_split the second (58.7 us, softmax_blocks 34.3).
func TestThePriorPutsFamiliesInOrder(t *testing.T) {
	for name, want := range map[string]string{
		"sum_of_8": "reduce_vectors reduce_vectors reduce_vectors", "transpose": "transpose transpose_packed transpose", "softmax": "softmax_blocks softmax_blocks softmax_blocks",
	} {
		if got := familiesOf(atRoot(t, timedCard(t, name), h200, true, 3, 1, failed)); got != want {
			t.Errorf("card `%s`: the first candidates are of %s (expected %s)", name, got, want)
		}
	}
}

func TestThePriorLeavesNothingOut(t *testing.T) {
	for _, name := range []string{"sum_of_8", "mean_of_64"} {
		c := timedCard(t, name)
		sets := [2]map[string]bool{{}, {}}
		for i, prior := range []bool{false, true} {
			for _, attempt := range atRoot(t, c, h200, prior, 1000, 1, failed) {
				sets[i][attempt.Candidate.ID] = true
			}
		}
		for id := range sets[0] {
			if !sets[1][id] {
				t.Errorf("card `%s`: candidate `%s` is proposed without a prior and not with one", name, id)
			}
		}
		if len(sets[0]) != len(sets[1]) || len(sets[0]) < 40 {
			t.Errorf("card `%s`: %d candidates without a prior, %d with one (expected as many, and 40 at least)", name, len(sets[0]), len(sets[1]))
		}
	}
}

func TestTheHostHasNoPrior(t *testing.T) {
	facts := propose.Facts{Target: "host", ISA: "avx2", Threads: 2}
	cost := func(c card.Candidate) float64 { return 0.3 + float64(len(c.Source)%97)/100 }
	for name, one := range normPoolCards {
		var orders [2][]string
		for i, prior := range []bool{false, true} {
			for _, attempt := range atRoot(t, one.card, facts, prior, 20, 1, fine(cost)) {
				orders[i] = append(orders[i], attempt.Candidate.ID)
			}
		}
		if !slices.Equal(orders[0], orders[1]) {
			t.Errorf("card `%s`: the candidates are others where a prior is asked for (expected the same)", name)
		}
	}
}

func TestSiblingsSayWhatFits(t *testing.T) {
	c := timedCard(t, "mean_of_64")
	spaces := spacesOf(Runnable(c, h200), c, h200)
	s := spaces[slices.IndexFunc(spaces, func(s *space) bool { return s.family.Name() == "reduce_rows" })]
	point := Point{"PARTS": 1, "TEAM": 16, "UNROLL": 4, "VEC": 4}
	tried := func(registers int) []propose.Attempt {
		near := card.Candidate{Author: Author, Family: "reduce_rows", Params: map[string]int{"PARTS": 1, "TEAM": 16, "UNROLL": 4, "VEC": 2}}
		return []propose.Attempt{{Candidate: near, Verdict: card.Verdict{Status: card.OK, Cost: 0.5, Usage: []card.Usage{{Entry: "kf_main", Registers: registers}}}}}
	}
	kept := &prices{cards: map[*card.Card]*sheet{}}
	few := kept.of(c, h200, spaces, tried(32)).expected(s, s.place(point))
	many := kept.of(c, h200, spaces, tried(128)).expected(s, s.place(point))
	if many < few+math.Log(1.5) {
		t.Errorf("after a sibling of 128 registers %.1f us are expected, after one of 32 %.1f (expected half as much again at least: a quarter of the threads fit)", math.Exp(many), math.Exp(few))
	}
	if len(kept.cards) != 1 {
		t.Errorf("prices of %d cards are kept (expected those of 1)", len(kept.cards))
	}
}

func TestTrust(t *testing.T) {
	for _, one := range []struct {
		expected, costs []float64
		want            float64
	}{
		{nil, nil, 1},
		{[]float64{0, 1, 2}, []float64{5, 6, 7}, 1},
		{[]float64{0, 1, 2}, []float64{5, 5, 5}, 0.1 / 2.1}, // belief / (sum of squares 2 + belief)
		{[]float64{0, 1, 2}, []float64{0, 0.5, 1}, 1.1 / 2.1},
		{[]float64{0, 1, 2}, []float64{2, 1, 0}, 0},
	} {
		if got := trust(one.expected, one.costs); math.Abs(got-one.want) > 1e-9 {
			t.Errorf("trust of %v in %v is %.4f (expected %.4f)", one.expected, one.costs, got, one.want)
		}
	}
}

// Costs that follow prices are found sooner with a prior, and costs that go against them are found all the same.
func TestAWrongPriorIsGivenUp(t *testing.T) {
	c := timedCard(t, "group_norm")
	spaces := spacesOf(Runnable(c, h200), c, h200)
	q := (&prices{cards: map[*card.Card]*sheet{}}).of(c, h200, spaces, nil)
	expected := func(candidate card.Candidate) float64 {
		s := spaceOf(spaces, candidate)
		return q.expected(s, s.place(candidate.Params))
	}
	least := math.Inf(1)
	most := math.Inf(-1)
	for _, point := range q.sheet.points {
		least, most = min(least, point.of[""]), max(most, point.of[""])
	}
	const seeds = 3
	for _, one := range []struct {
		name   string
		budget int
		over   float64 // of what is found without a prior
		cost   func(card.Candidate) float64
	}{
		{"as expected", 6, 0.99, func(c card.Candidate) float64 { return math.Exp(expected(c) - least) }},
		{"against the odds", 40, 1.1, func(c card.Candidate) float64 { return math.Exp(most - expected(c)) }},
	} {
		var found [2]float64
		for i, prior := range []bool{false, true} {
			for seed := range int64(seeds) {
				best := leastOf(atRoot(t, c, h200, prior, one.budget, seed, fine(one.cost)))
				found[i] += math.Log(best.Verdict.Cost) / seeds
			}
		}
		t.Logf("%s: the best of %d is %.3f of the least with a prior, %.3f without", one.name, one.budget, math.Exp(found[1]), math.Exp(found[0]))
		if found[1] > found[0]+math.Log(one.over) {
			t.Errorf("costs %s: the best of %d candidates is %.3f of the least with a prior, %.3f without (expected %.2f times that at most)", one.name, one.budget,
				math.Exp(found[1]), math.Exp(found[0]), one.over)
		}
	}
}
