package template

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// element is host/element.cc: results that are moved, selected or counted, never rounded.
type element struct{}

func (element) Name() string { return "element" }

func (element) Applies(c *card.Card) bool {
	if len(c.Variants) == 0 {
		return false
	}
	_, ok := moveOf(c.Variants[0].Call)
	return ok
}

func (element) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{{"UNROLL", []int{1, 2, 4}, 1}, {"GRAIN", []int{4096, 16384, 32768, 131072}, 32768}}
}

func (element) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	call := c.Variants[0].Call
	m, ok := moveOf(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its operands are not the family's", c.Overload)
	}
	dims := len(call.Outputs[0].Sizes)
	constants := map[string]string{"OUT": m.out, "DIMS": strconv.Itoa(dims), "ARITY": strconv.Itoa(len(m.tensors))}
	args := []card.SpecArg{slot("out0")}
	for i, t := range m.tensors {
		constants["IN"+strconv.Itoa(i)] = m.types[i]
		args = append(args, slot(t.Name))
	}
	args = append(args, sizesOf("out0", dims)...)
	args = append(args, stridesOf("out0", dims)...)
	for _, t := range m.tensors {
		args = append(args, broadcast(t.Name, len(t.Sizes), dims)...)
	}
	return card.Candidate{
		Source: hostPage("element", map[string]string{"operation": m.text}),
		Spec:   single(p, constants, "out0_numel", strconv.Itoa(p["GRAIN"]), args),
	}, nil
}

// move is an operation on elements: its tensors, the types that the kernel reads and writes them as, and its text.
type move struct {
	tensors []card.Arg
	types   []string
	out     string
	text    string
}

var (
	copies  = overloads("copy_ copy copy.out")
	negates = overloads("neg neg_ neg.out")
	wheres  = overloads("where.self where.self_out")
	fills   = overloads("masked_fill.Scalar masked_fill_.Scalar masked_fill.Scalar_out masked_fill.Tensor masked_fill_.Tensor masked_fill.Tensor_out")
	counts  = overloads("add.Tensor add_.Tensor add.out sub.Tensor sub_.Tensor sub.out mul.Tensor mul_.Tensor mul.out")
)

// moveOf reads a call as a move; false where the family is not sure to do as eager does.
func moveOf(call card.Call) (move, bool) {
	if len(call.Outputs) != 1 {
		return move{}, false
	}
	m, ok := move{}, false
	switch name := call.Overload; {
	case copies[name]:
		m, ok = copyMove(call)
	case negates[name]:
		m, ok = negMove(call)
	case wheres[name]:
		m, ok = whereMove(call)
	case fills[name]:
		m, ok = fillMove(call)
	case counts[name]:
		m, ok = countMove(call)
	}
	for _, t := range m.tensors {
		if t.Kind != "tensor" || len(t.Sizes) > len(call.Outputs[0].Sizes) {
			return move{}, false
		}
	}
	m.text = "// " + call.Overload + "\n" + m.text
	return m, ok
}

// bitsType is the unsigned type of an element's size: for elements that are only moved.
func bitsType(dtype string) string { return fmt.Sprintf("uint%d_t", 8*itemSizes[dtype]) }

// copyMove copies bits, and converts between integers and to bool. Conversions to floating point are pointwise's; conversions from floating
// point to integers, which C++ leaves open out of range, are eager's.
func copyMove(call card.Call) (move, bool) {
	src, to := argument(call, "src"), call.Outputs[0].DType
	m := move{tensors: []card.Arg{src}, out: bitsType(to), types: []string{bitsType(to)}}
	switch {
	case src.Kind != "tensor":
		return m, false
	case src.DType == to:
		m.text = "KF_INLINE OUT op(IN0 a) { return a; }"
	case to == "bool" && isFloat(src.DType):
		m.types[0], m.text = ctypes[src.DType], "KF_INLINE OUT op(IN0 a) { return kf_of(a) != 0; }"
	case to == "bool":
		m.types[0], m.text = bitsType(src.DType), "KF_INLINE OUT op(IN0 a) { return a != 0; }"
	case !isFloat(to) && !isFloat(src.DType):
		m.out, m.types[0], m.text = ctypes[to], ctypes[src.DType], "KF_INLINE OUT op(IN0 a) { return OUT(a); }"
	default:
		return m, false
	}
	return m, true
}

func negMove(call card.Call) (move, bool) {
	self, to := argument(call, "self"), call.Outputs[0].DType
	m := move{tensors: []card.Arg{self}, out: bitsType(to), types: []string{bitsType(to)}}
	m.text = "KF_INLINE OUT op(IN0 a) { return OUT(IN0(0) - a); }"
	if isFloat(to) {
		m.text = "KF_INLINE OUT op(IN0 a) { return a ^ OUT(OUT(1) << (8 * sizeof(OUT) - 1)); }"
	}
	return m, self.DType == to && to != "bool"
}

func whereMove(call card.Call) (move, bool) {
	condition, self, other, to := argument(call, "condition"), argument(call, "self"), argument(call, "other"), call.Outputs[0].DType
	m := move{out: bitsType(to), tensors: []card.Arg{condition}, types: []string{"uint8_t"}}
	parameters, constants := "IN0 a", ""
	for i, arg := range []card.Arg{self, other} {
		name := string(rune('b' + i))
		if arg.Kind == "tensor" && arg.DType == to {
			m.tensors, m.types = append(m.tensors, arg), append(m.types, bitsType(to))
			parameters += ", OUT " + name
			continue
		}
		bits, ok := elementBits(arg, to)
		if !ok {
			return m, false
		}
		constants += fmt.Sprintf("  const OUT %s = OUT(%su);\n", name, bits)
	}
	m.text = fmt.Sprintf("KF_INLINE OUT op(%s) {\n%s  return a ? b : c;\n}", parameters, constants)
	return m, condition.DType == "bool"
}

func fillMove(call card.Call) (move, bool) {
	self, mask, value, to := argument(call, "self"), argument(call, "mask"), argument(call, "value"), call.Outputs[0].DType
	m := move{out: bitsType(to), tensors: []card.Arg{self, mask}, types: []string{bitsType(to), "uint8_t"}}
	if value.Kind == "tensor" && value.DType == to {
		m.tensors, m.types = append(m.tensors, value), append(m.types, bitsType(to))
		m.text = "KF_INLINE OUT op(IN0 a, IN1 b, IN2 c) { return b ? c : a; }"
		return m, self.DType == to && mask.DType == "bool"
	}
	bits, ok := elementBits(value, to)
	m.text = fmt.Sprintf("KF_INLINE OUT op(IN0 a, IN1 b) { return b ? OUT(%su) : a; }", bits)
	return m, ok && self.DType == to && mask.DType == "bool"
}

// countMove is integer arithmetic in the output's type, which is the promoted one; wrapping is unsigned arithmetic.
func countMove(call card.Call) (move, bool) {
	self, other, to := argument(call, "self"), argument(call, "other"), call.Outputs[0].DType
	m := move{out: bitsType(to)}
	parameters, constants := []string{}, ""
	for i, arg := range []card.Arg{self, other} {
		name := string(rune('a' + i))
		if arg.Kind == "tensor" {
			m.tensors, m.types = append(m.tensors, arg), append(m.types, ctypes[arg.DType])
			parameters = append(parameters, fmt.Sprintf("IN%d %s", len(m.tensors)-1, name))
			continue
		}
		v, ok := constant(arg)
		if !ok || !v.whole {
			return m, false
		}
		constants += fmt.Sprintf("  const int64_t %s = %d;\n", name, v.int)
	}
	expression := "U(a) * U(b)"
	if !strings.Contains(call.Overload, "mul") {
		alpha, ok := constant(argument(call, "alpha"))
		if !ok || !alpha.whole {
			return m, false
		}
		sign := map[bool]string{true: "-", false: "+"}[strings.Contains(call.Overload, "sub")]
		expression = fmt.Sprintf("U(a) %s U(int64_t(%d)) * U(b)", sign, alpha.int)
	}
	// Narrow types would be promoted to int, whose product may overflow.
	m.text = fmt.Sprintf("KF_INLINE OUT op(%s) {\n  using U = uint64_t;\n%s  return OUT(%s);\n}", strings.Join(parameters, ", "), constants, expression)
	if itemSizes[to] < 8 {
		m.text = strings.Replace(m.text, "uint64_t;", "uint32_t;", 1)
	}
	return m, len(m.tensors) > 0 && !isFloat(to) && to != "bool" && promote(self, other) == to
}

// elementBits is a constant as an element of a type, its bits in hexadecimal.
func elementBits(arg card.Arg, dtype string) (string, bool) {
	v, ok := constant(arg)
	if !ok {
		return "", false
	}
	var bits uint64
	switch dtype {
	case "float64":
		bits = math.Float64bits(v.float)
	case "float32":
		bits = uint64(math.Float32bits(float32(v.float)))
	case "bfloat16":
		bits = uint64(bfloat16Bits(float32(v.float)))
	case "float16":
		bits = uint64(float16Bits(float32(v.float)))
	case "bool":
		bits = map[bool]uint64{true: 1}[v.float != 0]
	default:
		if !v.whole {
			return "", false
		}
		bits = uint64(v.int)
	}
	return "0x" + strconv.FormatUint(bits, 16), true
}
