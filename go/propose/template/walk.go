package template

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// walk is how a kernel for cuda visits operands of equal sizes: dims in the order of operand 0's memory, outermost first, neighbours joined
// where they are one run in every operand of every variant. Sizes and strides stay expressions, so that one kernel serves all variants.
type walk struct {
	sizes   []string   // of each dim, an expression
	strides [][]string // of each operand and dim
	unit    []bool     // of each operand: elements of the last dim lie side by side, in every variant
	still   []bool     // of each operand: the last dim repeats one element, in every variant
	numbers []numbers  // of each variant, joined as above
}

// numbers are a walk's sizes and strides in one variant.
type numbers struct {
	sizes   []int64
	strides [][]int64
}

// operand is a tensor as a walk sees it: expressions and numbers for each of the dims that are walked.
type operand struct {
	exprs   []string
	strides func(call card.Call) []int64
}

// walkOf joins the dims of some operands. sizes gives the sizes in a variant, sizeExprs the same as expressions.
func walkOf(c *card.Card, sizeExprs []string, sizes func(card.Call) []int64, operands []operand) walk {
	all, exprs := make([]numbers, len(c.Variants)), make([][]string, len(operands))
	for v := range all {
		all[v].sizes = sizes(c.Variants[v].Call)
		for k, o := range operands {
			exprs[k] = o.exprs
			all[v].strides = append(all[v].strides, o.strides(c.Variants[v].Call))
		}
	}
	return join(all, sizeExprs, exprs)
}

// join sorts and joins dims as holds for every one of `all`. exprs are the strides of each operand and dim.
func join(all []numbers, sizeExprs []string, exprs [][]string) walk {
	dims, operands := len(sizeExprs), len(exprs)
	var order []int
	for d := range dims {
		if !everyNumber(all, func(n numbers) bool { return n.sizes[d] == 1 }) {
			at := len(order)
			for at > 0 && outside(all, d, order[at-1]) {
				at--
			}
			order = append(order[:at], append([]int{d}, order[at:]...)...)
		}
	}
	w := walk{strides: make([][]string, operands), numbers: make([]numbers, len(all))}
	for v := range all {
		w.numbers[v].strides = make([][]int64, operands)
	}
	for i, d := range order {
		if i > 0 && joins(w.numbers, all, d) {
			w.sizes[len(w.sizes)-1] += " * " + sizeExprs[d]
		} else {
			w.push(sizeExprs[d], operands)
		}
		w.set(all, d, exprs)
	}
	if len(order) == 0 {
		w.push("1", operands)
		for v := range all {
			w.numbers[v].sizes = []int64{1}
			for k := range operands {
				w.numbers[v].strides[k] = []int64{0}
				w.strides[k] = []string{"0"}
			}
		}
	}
	last := len(w.sizes) - 1
	for k := range operands {
		w.unit = append(w.unit, everyNumber(w.numbers, func(n numbers) bool { return n.strides[k][last] == 1 || n.sizes[last] == 1 }))
		w.still = append(w.still, !w.unit[k] && everyNumber(w.numbers, func(n numbers) bool { return n.strides[k][last] == 0 }))
	}
	return w
}

func everyNumber(all []numbers, holds func(numbers) bool) bool {
	for _, n := range all {
		if !holds(n) {
			return false
		}
	}
	return true
}

// outside says whether dim d lies outside dim e: in the first variant that tells, by the strides of the first operand that does.
func outside(all []numbers, d, e int) bool {
	for _, n := range all {
		if n.sizes[d] == 1 || n.sizes[e] == 1 {
			continue
		}
		for _, strides := range n.strides {
			if strides[d] != strides[e] {
				return strides[d] > strides[e]
			}
		}
	}
	return false
}

// joins says whether dim d is the inner part of one run with the last dim so far, in every operand of every variant.
func joins(sofar, all []numbers, d int) bool {
	for v, n := range sofar {
		last := len(n.sizes) - 1
		if n.sizes[last] == 1 {
			continue
		}
		for k, strides := range n.strides {
			if strides[last] != all[v].strides[k][d]*all[v].sizes[d] {
				return false
			}
		}
	}
	return true
}

// push opens a dim, set makes d its innermost part.
func (w *walk) push(size string, operands int) {
	w.sizes = append(w.sizes, size)
	for k := range operands {
		w.strides[k] = append(w.strides[k], "")
	}
	for v := range w.numbers {
		w.numbers[v].sizes = append(w.numbers[v].sizes, 1)
		for k := range operands {
			w.numbers[v].strides[k] = append(w.numbers[v].strides[k], 0)
		}
	}
}

func (w *walk) set(all []numbers, d int, exprs [][]string) {
	last := len(w.sizes) - 1
	for k := range exprs {
		w.strides[k][last] = exprs[k][d]
		for v := range all {
			w.numbers[v].strides[k][last] = all[v].strides[k][d]
		}
	}
	for v := range all {
		w.numbers[v].sizes[last] *= all[v].sizes[d]
	}
}

// vector is how many elements can be taken together, at most `most`: rows of whole vectors that begin at multiples of it, where there is more
// than one row.
func (w *walk) vector(most int) int {
	last := len(w.sizes) - 1
	side := false
	for k := range w.unit {
		if !w.unit[k] && !w.still[k] {
			return 1
		}
		side = side || w.unit[k]
	}
	if !side || !w.unit[0] {
		return 1
	}
	for ; most > 1; most /= 2 {
		if last == 0 || everyNumber(w.numbers, func(n numbers) bool { return w.whole(n, int64(most)) }) {
			break
		}
	}
	return most
}

func (w *walk) whole(n numbers, vector int64) bool {
	last := len(n.sizes) - 1
	if n.sizes[last]%vector != 0 {
		return false
	}
	for k, strides := range n.strides {
		for d, stride := range strides {
			if w.unit[k] && d < last && n.sizes[d] > 1 && stride%vector != 0 {
				return false
			}
		}
	}
	return true
}

// units are the operands that lie side by side along the last dim, as bits.
func (w *walk) units() int {
	bits := 0
	for k, unit := range w.unit {
		if unit {
			bits |= 1 << k
		}
	}
	return bits
}

// declare adds the sizes and strides to a signature and returns the lines that make the walks `vectors` and `elements` of them.
// prefix keeps the names of several walks apart.
func (w *walk) declare(s *signature, prefix string, vector int) string {
	last := len(w.sizes) - 1
	var byVector, byElement []string // dividers; the outermost dim needs none
	for d := range w.sizes {
		name := prefix + "n" + strconv.Itoa(d)
		switch {
		case d == 0:
			byVector, byElement = append(byVector, "{}"), append(byElement, "{}")
			continue
		case d == last && vector > 1:
			s.divider(name+"v", fmt.Sprintf("(%s / %d)", w.sizes[d], vector))
			byVector = append(byVector, fmt.Sprintf("{%sv, %sv_magic}", name, name))
		default:
			byVector = append(byVector, fmt.Sprintf("{%s, %s_magic}", name, name))
		}
		s.divider(name, "("+w.sizes[d]+")")
		byElement = append(byElement, fmt.Sprintf("{%s, %s_magic}", name, name))
	}
	var strides, ones []string
	for k := range w.strides {
		row := make([]string, 0, last+1)
		for d, expr := range w.strides[k] {
			name := fmt.Sprintf("%ss%d_%d", prefix, k, d)
			switch {
			case d == last && w.unit[k]:
				name = "1"
			case d == last && w.still[k]:
				name = "0"
			default:
				s.size(name, expr)
			}
			row = append(row, name)
		}
		ones = append(ones, "{"+strings.Join(row, ", ")+"}")
		if w.unit[k] {
			row[last] = strconv.Itoa(vector)
		}
		strides = append(strides, "{"+strings.Join(row, ", ")+"}")
	}
	line := "  const Walk<%d, %d> %s%s = {{%s}, {%s}};\n"
	return fmt.Sprintf(line, len(w.strides), last+1, prefix, "vectors", strings.Join(byVector, ", "), strings.Join(strides, ", ")) +
		fmt.Sprintf(line, len(w.strides), last+1, prefix, "elements", strings.Join(byElement, ", "), strings.Join(ones, ", "))
}
