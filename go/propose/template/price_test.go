package template

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// timed is a card of bench/results/author-h200.json with the templates that were judged on it, in the order of that time.
type timed struct {
	Card      string    `json:"card"`
	Bytes     int64     `json:"bytes"`
	EagerUS   float64   `json:"eager_us"`
	Call      card.Call `json:"call"`
	Templates []struct {
		Family      string         `json:"family"`
		Params      map[string]int `json:"params"`
		CandidateUS float64        `json:"candidate_us"`
		Usage       []card.Usage   `json:"usage"`
	} `json:"templates"`
}

func timedCards(t *testing.T) []timed {
	t.Helper()
	text, err := os.ReadFile("../../../bench/results/author-h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []timed }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(file.Rows, func(r timed) bool { return len(r.Templates) == 0 })
}

// card is the row's as a study has it. Its roof is by the copy rate of 1 GB: that of its own study was taken of copies that the L2 holds.
func (r timed) card() *card.Card {
	align := make([]int, len(r.Call.Args)+len(r.Call.Outputs))
	for i := range align {
		align[i] = 16
	}
	return &card.Card{Schema: 1, ID: r.Card, Target: "cuda", Overload: r.Call.Overload, Layout: "contiguous",
		Variants: []card.Variant{{ID: "v0", Call: r.Call, Calls: 1, EagerUS: r.EagerUS, Bytes: r.Bytes, Align: align}}}
}

// judged is a timed candidate with its prices: before anything of its card was compiled, and with what its kernels take.
type judged struct {
	step          step
	us            float64
	before, after float64
}

func judgedOn(t *testing.T, row timed) []judged {
	t.Helper()
	c := row.card()
	spaces := spacesOf(Runnable(c, h200), c, h200)
	list := make([]judged, 0, len(row.Templates))
	for _, one := range row.Templates {
		at := slices.IndexFunc(spaces, func(s *space) bool { return s.family.Name() == one.Family })
		if at < 0 {
			t.Fatalf("card `%s`: family `%s` does not apply any more", row.Card, one.Family)
		}
		s := spaces[at]
		candidate, err := Make(s.family, c, h200, one.Params)
		if err != nil {
			t.Fatal(err)
		}
		price := func(usage []card.Usage) float64 {
			us, ok := pricingOf(c.Variants[0], h200).microseconds(priced{one.Family, one.Params, candidate.Spec, usage})
			if !ok {
				t.Fatalf("card `%s`, family `%s`: it has no price", row.Card, one.Family)
			}
			return us
		}
		list = append(list, judged{step{space: s, at: s.place(one.Params)}, one.CandidateUS, price(nil), price(one.Usage)})
	}
	return list
}

// spearman is the rank correlation; equal values share the mean of their ranks.
func spearman(x, y []float64) float64 {
	ranks := func(v []float64) []float64 {
		r := make([]float64, len(v))
		for i := range v {
			for j := range v {
				switch {
				case v[j] < v[i]:
					r[i]++
				case v[j] == v[i] && j != i:
					r[i] += 0.5
				}
			}
		}
		return r
	}
	a, b := ranks(x), ranks(y)
	mean, ab, aa, bb := float64(len(a)-1)/2, 0.0, 0.0, 0.0
	for i := range a {
		ab, aa, bb = ab+(a[i]-mean)*(b[i]-mean), aa+(a[i]-mean)*(a[i]-mean), bb+(b[i]-mean)*(b[i]-mean)
	}
	return ab / math.Sqrt(aa*bb)
}

// What the model says against 40 candidates that an H200 timed (bench/results/author-h200.json). Four of its constants were read off some of them, and its
// rules and weights were chosen while looking at them: this says that so few numbers describe them, not how well others are predicted. Of the first
// candidates only that of sum_of_8 is another than the one that was judged first.
func TestPricesAgainstTimes(t *testing.T) {
	var off, correlation, alone float64
	var regret, registry [4]float64
	count, rows := 0, timedCards(t)
	for _, row := range rows {
		list := judgedOn(t, row)
		best := math.Inf(1)
		var expected, price, times []float64
		for _, j := range list {
			off += math.Abs(math.Log(j.after / j.us))
			count++
			best = min(best, j.us)
			expected = append(expected, math.Log(j.before)+doubt*float64(j.step.space.changed(j.step.at))+later*float64(j.step.space.order))
			price, times = append(price, j.before), append(times, j.us)
		}
		alone += spearman(price, times) / float64(len(rows))
		rho := spearman(expected, times)
		correlation += rho / float64(len(rows))
		order := make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(expected[a], expected[b]) })
		t.Logf("%-10s rank correlation %.2f, the first takes %.3f of the best, the first judged %.3f", row.Card, rho, times[order[0]]/best, times[0]/best)
		ours, theirs := math.Inf(1), math.Inf(1)
		for k := range regret {
			ours, theirs = min(ours, times[order[k]]), min(theirs, times[k])
			regret[k] += math.Log(ours/best) / float64(len(rows))
			registry[k] += math.Log(theirs/best) / float64(len(rows))
		}
	}
	for k := range regret {
		t.Logf("best of the first %d: %.3f of the best there is, in the order in which they were judged %.3f", k+1, math.Exp(regret[k]), math.Exp(registry[k]))
	}
	mean := math.Exp(off / float64(count))
	t.Logf("%d candidates, off by a factor of %.3f, mean rank correlation %.2f, by price alone %.2f", count, mean, correlation, alone)
	if mean > 1.15 {
		t.Errorf("with what kernels take, prices are off by a factor of %.3f (expected 1.15 at most)", mean)
	}
	if correlation < 0.7 {
		t.Errorf("the mean rank correlation before anything is compiled is %.2f (expected 0.7 at least)", correlation)
	}
	if first := math.Exp(regret[0]); first > 1.04 || regret[0] > registry[0] {
		t.Errorf("the first candidates take %.3f of the best time (expected 1.04 at most, and no more than %.3f, the first that was judged)", first, math.Exp(registry[0]))
	}
}

// largeGroups is a group norm of 32 groups in bfloat16 with one image.
func largeGroups(channels, side int64) card.Call {
	call := groupsOf(channels, side)
	sizes := []int64{1, channels, side, side}
	call.Args[0], call.Outputs[0] = dataArg("input", "float32", sizes...), output("float32", laid(sizes), sizes...)
	call.Args[3], call.Args[6] = plainArg("N", "int", 1), plainArg("group", "int", 32)
	call.Outputs[1], call.Outputs[2] = output("float32", laid([]int64{1, 32}), 1, 32), output("float32", laid([]int64{1, 32}), 1, 32)
	return typed("bfloat16", call)
}

// Times of an H200 that gave no constant: bench/results/ops-h200.json, cuda_norm_pool.go and norm_ring.cu. The last but one is not held out: a ring was
// expected to take 302 us, which led to the rule for DEPTH.
func TestPricesOfCallsThatNoConstantIsFrom(t *testing.T) {
	large, small := largeGroups(128, 1024), largeGroups(512, 128)
	found := map[string]float64{}
	for _, one := range []struct {
		call   card.Call
		family string
		point  Point
		us     float64
	}{
		{large, "group_norm_split", Point{"ITEMS": 8, "ONCE": 0, "THREADS": 512}, 201.4},
		{large, "norm_split", Point{"ONCE": 0, "THREADS": 256, "TURNS": 1, "UNROLL": 4, "WAVES": 8, "VEC": 8}, 215},
		{large, "norm_split", Point{"ONCE": 0, "THREADS": 256, "TURNS": 8, "UNROLL": 4, "WAVES": 8, "VEC": 8}, 307},
		{large, "norm_ring", Point{"DEPTH": 3, "ONCE": 0, "TEAMS": 1, "THREADS": 512, "UNROLL": 4}, 201},
		{small, "group_norm_split", Point{"ITEMS": 8, "ONCE": 0, "THREADS": 128}, 14.4},
	} {
		c := unmeasured(onCuda(one.call))
		candidate, err := Make(Lookup("cuda", one.family), c, h200, one.point)
		if err != nil {
			t.Fatal(err)
		}
		us, ok := pricingOf(c.Variants[0], h200).microseconds(priced{one.family, one.point, candidate.Spec, nil})
		t.Logf("%-17s %v: %.1f us, timed %.1f", one.family, one.point, us, one.us)
		if ratio := us / one.us; !ok || ratio < 1/1.4 || ratio > 1.4 {
			t.Errorf("%s %v: expected %.1f us, an H200 took %.1f (expected within 1.4 times)", one.family, one.point, us, one.us)
		}
		found[one.family+string(rune('0'+one.point["TURNS"]))] = us
	}
	if !(found["norm_split8"] > found["norm_split1"]) {
		t.Errorf("eight turns are expected to take %.1f us, one %.1f (expected more, as an H200 does)", found["norm_split8"], found["norm_split1"])
	}
}

// unmeasured is a card whose copy rate nobody took.
func unmeasured(c *card.Card) *card.Card {
	for i := range c.Variants {
		c.Variants[i].RoofUS = 0
	}
	return c
}

// The formula with its numbers: a sum of 2^20 floats a row of 64, by whole blocks of 256 threads, a vector of four and two of them on their way.
func TestPriceByHand(t *testing.T) {
	call := foldCall("sum.dim_IntList", "float32", []int{1}, []int64{1 << 20, 64}, []int64{1 << 20})
	c := unmeasured(onCuda(call))
	point := Point{"VEC": 4, "TEAM": 8, "UNROLL": 2, "PARTS": 1}
	candidate, err := Make(Lookup("cuda", "reduce_rows"), c, h200, point)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		registers int
		expected  float64
	}{
		// 2^20 rows * 8 threads / 256 = 32,768 blocks; 268 MB in, 4.2 MB out: 63.4 us. 32 registers: 8 blocks fit, 31.03 waves -> 32 of 0.45 + 0.8 us = 40 us.
		{32, 2.4 + math.Pow(math.Pow(272629760/4.3e6, 4)+math.Pow(40, 4), 0.25)},
		// 64 registers: 4 blocks fit, 62.06 waves -> 63 of 1.25 us = 78.75 us.
		{64, 2.4 + math.Pow(math.Pow(272629760/4.3e6, 4)+math.Pow(78.75, 4), 0.25)},
	} {
		us, ok := pricingOf(c.Variants[0], h200).microseconds(priced{"reduce_rows", point, candidate.Spec, []card.Usage{{Entry: "kf_main", Registers: one.registers}}})
		if !ok || math.Abs(us-one.expected) > 1e-6 {
			t.Errorf("with %d registers: %.6f us (expected %.6f)", one.registers, us, one.expected)
		}
	}
}

// A spec without kernels, or with a name that nobody knows, has no price, and so its card no prior.
func TestWhatHasNoPrice(t *testing.T) {
	c := onCuda(unaryCall("silu", "bfloat16"))
	p := pricingOf(c.Variants[0], h200)
	if us, ok := p.microseconds(priced{}); ok {
		t.Errorf("a spec without kernels is expected to take %.1f us (expected no price)", us)
	}
	spec := card.Spec{Kernels: []card.Kernel{{Entry: "kf_main", Grid: []string{"unknown", "1", "1"}, Block: []string{"256", "1", "1"}, Smem: "0"}}}
	if us, ok := p.microseconds(priced{spec: spec}); ok {
		t.Errorf("a grid of `unknown` blocks is expected to take %.1f us (expected no price)", us)
	}
}

// Every family at every point of every card that the tests know has a price, before and after it was compiled.
func TestEveryPointHasAPrice(t *testing.T) {
	cards := map[string]*card.Card{}
	for name, one := range cudaCards {
		cards[name] = one.card
	}
	for name, one := range cudaNormPoolCards {
		cards[name] = one.card
	}
	for name, c := range cards {
		families := Runnable(c, h200)
		spaces := spacesOf(families, c, h200)
		s := sheetOf(c, h200, spaces)
		if len(families) > 0 && len(s.points) == 0 {
			t.Errorf("card `%s`: a point has no price", name)
		}
		for key, point := range s.points {
			if us := math.Exp(point.of[""]); !(us > start && us < 1e6) {
				t.Errorf("card `%s`, point `%s`: %v us (expected more than a start and less than a second)", name, key, us)
			}
		}
	}
}
