package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// cudaMoves are the families of elements, reductions and scans; norms and pools have files of their own.
var cudaMoves = []Family{cudaTranspose{}, cudaTransposePacked{}, cudaPointwise{}, cudaCat{}, cudaReduceShort{}, cudaReduceRows{}, cudaReduceVectors{}, cudaReduceTogether{}, cudaReduceColumns{}, cudaCumsumRows{}, cudaCumsumColumns{}, cudaTopk{}, cudaUpsampleNearest{}, cudaUpsampleDouble{}, cudaUpsampleBilinear{}}

// inSpec are parameters that only the launch spec needs: candidates that differ in them share a binary.
var inSpec = map[string]bool{"WAVES": true, "TURNS": true, "TEAMS": true}

// deviceSpec is the spec of kernels for cuda. Parameters of the point become constants of their names, but those that only the spec needs.
// ALIGNED says that vectors may be used without asking for addresses: half of a page's code would be for odd ones.
func deviceSpec(c *card.Card, p Point, constants map[string]string, kernels []card.Kernel, workspaces ...card.Workspace) card.Spec {
	all := map[string]string{"ALIGNED": boolean(alignedCalls(c))}
	for name, value := range p {
		if !inSpec[name] {
			all[name] = strconv.Itoa(value)
		}
	}
	for name, value := range constants {
		all[name] = value
	}
	return card.Spec{Schema: card.Schema, Constants: all, Workspaces: workspaces, Kernels: kernels}
}

// launch is one kernel with a grid and blocks of one dimension, without dynamic shared memory.
func launch(entry, blocks string, threads int, s signature) card.Kernel {
	return card.Kernel{
		Entry: entry, Grid: []string{blocks, "1", "1"}, Block: []string{strconv.Itoa(threads), "1", "1"}, Smem: "0", Args: s.args,
	}
}

// signature keeps a kernel's parameters, which the page gets as text, and the arguments of its spec in step.
type signature struct {
	text []string
	args []card.SpecArg
	wide bool // indices are 64-bit
}

// signatureOf is an empty one, with indices wide enough for a card.
func signatureOf(c *card.Card) signature { return signature{wide: wideIndices(c)} }

// index is the C++ type of indices: for a constant that pages call INDEX.
func (s *signature) index() string {
	if s.wide {
		return "int64_t"
	}
	return "int32_t"
}

// in and out are pointers to tensors: `const IN* name`, `OUT* name`. They may be the same addresses (in place), so they are not `restrict`.
func (s *signature) in(ctype, name, slotName string)  { s.pointer("const "+ctype, name, slotName) }
func (s *signature) out(ctype, name, slotName string) { s.pointer(ctype, name, slotName) }

func (s *signature) pointer(ctype, name, slotName string) {
	s.text, s.args = append(s.text, ctype+"* "+name), append(s.args, slot(slotName))
}

// size is an index or a stride: an expression of the spec, in the type of indices.
func (s *signature) size(name, expr string) {
	kind := "i32"
	if s.wide {
		kind = "i64"
	}
	s.text, s.args = append(s.text, s.index()+" "+name), append(s.args, card.SpecArg{Int: expr, Type: kind})
}

// divider is a size that indices are divided by: two parameters, `name` and `name_magic`, for `kf_divider<INDEX>{name, name_magic}`.
func (s *signature) divider(name, expr string) {
	s.size(name, expr)
	s.text = append(s.text, "int64_t "+name+"_magic")
	s.args = append(s.args, card.SpecArg{Int: "ceildiv(4611686018427387904, " + expr + ")", Type: "i64"})
}

// number is a constant of the call in float or double.
func (s *signature) number(ctype, name, literal string) {
	kind := map[string]string{"float": "f32", "double": "f64"}[ctype]
	s.text, s.args = append(s.text, ctype+" "+name), append(s.args, card.SpecArg{Float: literal, Type: kind})
}

// parameters is the text between the parentheses: a page has it as `// @parameters`.
func (s *signature) parameters() string { return "    " + strings.Join(s.text, ",\n    ") }

// alignedCalls says whether every tensor of every call began at a multiple of 16 bytes. Outputs do: eager's allocator and the guard see to it.
func alignedCalls(c *card.Card) bool {
	return !slices.ContainsFunc(c.Variants, func(v card.Variant) bool {
		return len(v.Align) == 0 || slices.ContainsFunc(v.Align, func(bytes int) bool { return bytes < 16 })
	})
}

// wideIndices says whether an index, a size or an offset of some tensor does not fit 31 bits. The limit leaves room for the
// elements that a last, partly empty block counts past the end.
func wideIndices(c *card.Card) bool {
	const limit = 1<<31 - 1<<24
	reach := func(sizes, strides []int64) bool {
		count, last := int64(1), int64(0)
		for d, size := range sizes {
			count *= size
			last += (size - 1) * max(strides[d], -strides[d])
		}
		return count >= limit || last >= limit
	}
	for _, variant := range c.Variants {
		for _, arg := range variant.Call.Args {
			if arg.Kind == "tensor" && reach(arg.Sizes, arg.Strides) {
				return true
			}
			for _, item := range arg.Items {
				if reach(item.Sizes, item.Strides) {
					return true
				}
			}
		}
		for _, out := range variant.Call.Outputs {
			if reach(out.Sizes, out.Strides) {
				return true
			}
		}
	}
	return false
}

// waves is the number of blocks for some work: all of it, or with waves > 0 so many that each multiprocessor gets `waves` times what it holds
// at once, and a block loops over the rest.
func waves(work string, p Point) string {
	if p["WAVES"] == 0 {
		return work
	}
	return fmt.Sprintf("min(%s, %d * sm_count * max_blocks_per_sm)", work, p["WAVES"])
}

// accumulator is the type that eager computes an element type in.
func accumulator(dtype string) string {
	switch {
	case dtype == "float64":
		return "double"
	case isFloat(dtype):
		return "float"
	}
	return "int64_t"
}
