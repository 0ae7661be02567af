package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaTopk is cuda/topk.cu: a warp, or several, for a row.
type cudaTopk struct{}

func (cudaTopk) Name() string { return "topk" }

func (cudaTopk) Applies(c *card.Card) bool { return topk{}.Applies(c) }

// rankedWalk is the walk of the rows: of values, indices and the input.
func rankedWalk(c *card.Card, r ranking) walk {
	dims := len(argument(c.Variants[0].Call, "self").Sizes)
	var others []int
	for d := range dims {
		if d != r.dim {
			others = append(others, d)
		}
	}
	output := func(k int) operand {
		return operand{exprs: pick(texts(stridesOf(fmt.Sprint("out", k), dims)), others), strides: func(call card.Call) []int64 { return pick(call.Outputs[k].Strides, others) }}
	}
	return walkOf(c, pick(texts(sizesOf("self", dims)), others), func(call card.Call) []int64 { return pick(argument(call, "self").Sizes, others) }, []operand{
		output(0), output(1),
		{exprs: pick(texts(stridesOf("self", dims)), others), strides: func(call card.Call) []int64 { return pick(argument(call, "self").Strides, others) }},
	})
}

// rankedVector is how many elements of a row can be taken together.
func rankedVector(c *card.Card, r ranking) int {
	most := 16 / itemSizes[argument(c.Variants[0].Call, "self").DType]
	for ; most > 1; most /= 2 {
		if everyVariant(c, func(call card.Call) bool {
			self := argument(call, "self")
			for d, stride := range self.Strides {
				if d != r.dim && self.Sizes[d] > 1 && stride%int64(most) != 0 {
					return false
				}
			}
			return self.Strides[r.dim] == 1 && self.Sizes[r.dim]%int64(most) == 0
		}) {
			break
		}
	}
	return most
}

func (cudaTopk) Params(c *card.Card, f propose.Facts) []Param {
	r, _ := rankingOf(c)
	most := rankedVector(c, r)
	_, longest := scanLengths(c, r.dim)
	// A lane takes a whole short row's part at once; of long rows 16 elements at a time, few enough for registers and for the compiler.
	loads := 1
	for loads*most < 16 && int64(32*loads*most) < longest {
		loads *= 2
	}
	self := argument(c.Variants[0].Call, "self")
	rows, pieces := numel(self)/self.Sizes[r.dim], longest/int64(32*loads*most)
	lists := int64(staticBytes / (r.k * 16)) // a block's, in shared memory
	warps := powers(1, int(min(32, floorPower(max(1, pieces)), floorPower(lists))))
	best := 1
	for best < warps[len(warps)-1] && rows*int64(best) < int64(16*max(f.SMCount, 1)) {
		best *= 2
	}
	return []Param{{"VEC", powers(1, most), most}, {"LOADS", powers(1, 32/most), loads}, {"WARPS", warps, best}}
}

func (cudaTopk) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	r, ok := rankingOf(c)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its dim and count are not constant", c.Overload)
	}
	threads := max(128, 32*p["WARPS"])
	s := signatureOf(c)
	in := ctypes[argument(c.Variants[0].Call, "self").DType]
	rows := fmt.Sprintf("self_numel / self_size%d", r.dim)
	s.out(in, "values", "out0")
	s.out("int64_t", "indices", "out1")
	s.in(in, "self", "self")
	s.size("rows", rows)
	s.size("length", fmt.Sprintf("self_size%d", r.dim))
	s.size("values_along", fmt.Sprintf("out0_stride%d", r.dim))
	s.size("indices_along", fmt.Sprintf("out1_stride%d", r.dim))
	s.size("along", fmt.Sprintf("self_stride%d", r.dim))
	w := rankedWalk(c, r)
	walks := w.declare(&s, "", 1)
	constants := map[string]string{
		"IN": in, "DIMS": strconv.Itoa(len(w.sizes)), "INDEX": s.index(), "THREADS": strconv.Itoa(threads), "K": strconv.Itoa(r.k), "LARGEST": boolean(r.largest),
	}
	return card.Candidate{
		Source: cudaPage("topk", map[string]string{"parameters": s.parameters(), "walks": walks}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", fmt.Sprintf("ceildiv(%s, %d)", rows, threads/(32*p["WARPS"])), threads, s)}),
	}, nil
}
