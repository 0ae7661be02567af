package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaAvgPoolEven is cuda/avg_pool_even.cu: averages of windows that fill the plane and do not meet, of one size in all variants.
type cudaAvgPoolEven struct{}

func (cudaAvgPoolEven) Name() string { return "avg_pool_even" }

// mostEven bounds the elements of a window, whose loads are all written out.
const mostEven = 64

func (cudaAvgPoolEven) Applies(c *card.Card) bool {
	_, ok := evenOf(c)
	return ok
}

// even is a window that fills planes, whether channels lie inside, and how many elements can be read together.
type even struct {
	high, wide int64
	last       bool
	vector     int
}

func evenOf(c *card.Card) (e even, ok bool) {
	a, ok := averageOf(c)
	if !ok {
		return e, false
	}
	order := rowsInside
	if !avgPoolApplies(c, order) {
		if order, e.last = channelsInside, true; !avgPoolApplies(c, order) {
			return e, false
		}
	}
	in, out := sizes4(argument(c.Variants[0].Call, "self").Sizes), sizes4(c.Variants[0].Call.Outputs[0].Sizes)
	e.high, e.wide = in[2]/out[2], in[3]/out[3]
	one := [2]int64{e.high, e.wide}
	if e.high*e.wide > mostEven || e.high*e.wide < 2 || !a.adaptive && (a.window.kernel != one || a.window.stride != one || a.window.padding != [2]int64{}) {
		return e, false
	}
	e.vector = 16 / itemSizes[selfType(c)]
	for e.vector > 1 && !everyVariant(c, func(call card.Call) bool {
		if e.last {
			return sizes4(argument(call, "self").Sizes)[1]%int64(e.vector) == 0
		}
		return e.wide%int64(e.vector) == 0
	}) {
		e.vector /= 2
	}
	return e, e.vector > 1 && everyVariant(c, func(call card.Call) bool {
		self := argument(call, "self")
		in, out := sizes4(self.Sizes), sizes4(call.Outputs[0].Sizes)
		return in[2] == e.high*out[2] && in[3] == e.wide*out[3] && dense(self.Sizes, self.Strides, order)
	})
}

func (cudaAvgPoolEven) Params(c *card.Card, _ propose.Facts) []Param {
	e, _ := evenOf(c)
	return []Param{poolThreads, {"VEC", powers(max(2, e.vector/4), e.vector), e.vector}}
}

func (cudaAvgPoolEven) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := averagePage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	e, ok := evenOf(c)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its windows do not fill the plane", c.Overload)
	}
	constants["KH"], constants["KW"], constants["LAST"] = strconv.FormatInt(e.high, 10), strconv.FormatInt(e.wide, 10), flag(e.last)
	out, _ := planes("out0", len(argument(c.Variants[0].Call, "self").Sizes))
	vectors, count := "1", "out0_numel"
	if e.last {
		vectors, count = fmt.Sprintf("(%s / %d)", out[1], p["VEC"]), fmt.Sprintf("(out0_numel / %d)", p["VEC"])
	}
	s.divider("vectors", vectors)
	s.divider("width", out[3])
	s.size("count", count)
	return pool(c, "avg_pool_even", p, s, constants, count, p["THREADS"]), nil
}
