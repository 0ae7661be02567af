package template

import (
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
)

// cudaPools and cudaNorms are the families of pooling, normalisation and softmax for cuda.
var (
	cudaPools = []Family{cudaMaxPoolRows{}, cudaMaxPoolChannels{}, cudaAvgPoolRows{}, cudaAvgPoolTeams{}, cudaAvgPoolChannels{}}
	cudaNorms = []Family{
		cudaBatchNormPlanes{}, cudaBatchNormChannels{}, cudaSoftmaxWarps{}, cudaSoftmaxBlocks{}, cudaSoftmaxSplit{}, cudaSoftmaxColumns{},
		cudaNormWarps{}, cudaNormBlocks{}, cudaNormSplit{},
	}
)

// optional is a parameter of the call that may be absent: its type is a constant, void where it is absent, and the pointer is then null.
func (s *signature) optional(constants map[string]string, macro, name string, arg card.Arg) {
	if arg.Kind != "tensor" {
		constants[macro] = "void"
		s.null("const void", name)
		return
	}
	constants[macro] = ctypes[arg.DType]
	s.in(macro, name, arg.Name)
}

// null is a pointer that the kernel does not follow.
func (s *signature) null(ctype, name string) {
	s.text, s.args = append(s.text, ctype+"* "+name), append(s.args, card.SpecArg{Int: "0", Type: "i64"})
}

// accesses offers the elements of one access: 16 bytes or half of them, or as many as divide all of some numbers of every variant. Larger
// ones, up to `most` bytes, are offered where they fit.
func accesses(c *card.Card, size, most int, numbers func(card.Call) []int64) Param {
	fits := func(vector int) bool {
		return everyVariant(c, func(call card.Call) bool {
			return !slices.ContainsFunc(numbers(call), func(n int64) bool { return n%int64(vector) != 0 })
		})
	}
	best := 16 / size
	for best > 1 && !fits(best) {
		best /= 2
	}
	values := []int{best}
	if best > 1 {
		values = []int{best / 2, best}
	}
	for v := best * 2; v <= most/size && fits(v); v *= 2 {
		values = append(values, v)
	}
	return Param{"VEC", values, best}
}

// perThread is how many elements a thread may keep in registers: fewer where a block of 1,024 threads leaves it 64 registers.
func perThread(threads int, dtype string) int64 {
	most := int64(64)
	if threads > 512 {
		most = 32
	}
	if dtype == "float64" {
		most /= 2
	}
	return most
}

// teams are the numbers of threads, out of some, that can keep a row of `longest` elements: the default is the least that has it in at most 16
// elements each.
func teams(name string, values []int, longest int64, dtype string) Param {
	p := Param{Name: name}
	for _, threads := range values {
		each := (longest + int64(threads) - 1) / int64(threads)
		if each > perThread(threads, dtype) || (len(p.Values) > 0 && int64(threads) > longest) {
			continue
		}
		p.Values = append(p.Values, threads)
		if p.Default == 0 && each <= 16 {
			p.Default = threads
		}
	}
	if p.Default == 0 && len(p.Values) > 0 {
		p.Default = p.Values[len(p.Values)-1]
	}
	return p
}

var (
	warpTeams  = []int{4, 8, 16, 32}
	blockTeams = []int{64, 128, 256, 512, 1024}
	warps      = Param{"WARPS", []int{1, 2, 4, 8}, 4}
)

// sharing are the parameters of kernels in which several blocks share a row. Many bytes want more blocks, so that the last ones wait less.
func sharing(c *card.Card) []Param {
	waves := Param{"WAVES", []int{2, 4, 8, 16, 32}, 8}
	if largestBytes(c) >= 128<<20 {
		waves.Default = 16
	}
	return []Param{{"THREADS", []int{128, 256, 512}, 256}, {"UNROLL", []int{1, 2, 4, 8}, 4}, waves}
}

// most is the largest of a number of each variant.
func most(c *card.Card, number func(card.Call) int64) int64 {
	var found int64
	for _, variant := range c.Variants {
		found = max(found, number(variant.Call))
	}
	return found
}

// items is the number of vectors of each of some threads for a row.
func items(longest int64, threads, vector int) int64 {
	step := int64(threads * vector)
	return (longest + step - 1) / step
}
