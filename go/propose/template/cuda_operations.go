package template

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// The bodies of `op` for cuda: a, b and the result are numbers of the arithmetic type C. Eager's functors read scalars in that type, so they
// enter by `exact`; the words for functions are cuda/functions.cuh's.

// deviceGelu has eager's two forms. With FAST, half of 1 + tanh(z) is 1 / (1 + exp(-2 z)), which does not cancel and costs one exponential;
// half of 1 + erf(z) is a tail of the normal distribution, or 1 without it.
// float64 is left to eager, as on the host.
func deviceGelu(call card.Call) (string, bool) {
	var approximate string
	self := argument(call, "self")
	if arg := argument(call, "approximate"); arg.Kind != "string" || json.Unmarshal(arg.Value, &approximate) != nil || self.DType == "float64" {
		return "", false
	}
	switch approximate {
	case "none":
		return fmt.Sprintf("const float tail = normal_tail(fabsf(a));\n"+
			"  return FAST ? a * (a > C(0) ? C(1) - tail : tail) : a * C(0.5) * (C(1) + error_function(a * exact(%s)));", bitsOf(math.Sqrt2/2)), true
	case "tanh":
		return fmt.Sprintf("const C inner = exact(%s) * (a + exact(%s) * (a * a * a));\n"+
			"  return FAST ? a * reciprocal(C(1) + exponential(C(-2) * inner)) : C(0.5) * a * (C(1) + hyperbolic_tangent(inner));",
			bitsOf(math.Sqrt2*(2/math.Sqrt(math.Pi))*0.5), bitsOf(0.044715)), true
	}
	return "", false
}

// deviceClamp keeps a NaN element; a NaN bound is left to eager.
func deviceClamp(low, high string) func(card.Call) (string, bool) {
	return func(call card.Call) (string, bool) {
		body := ""
		for _, bound := range []struct{ name, text string }{{low, "a = a < exact(%[1]s) ? exact(%[1]s) : a;\n  "}, {high, "a = exact(%[1]s) < a ? exact(%[1]s) : a;\n  "}} {
			arg := argument(call, bound.name)
			if arg.Kind == "none" {
				continue
			}
			v, ok := constant(arg)
			if !ok || math.IsNaN(v.float) {
				return "", false
			}
			body += fmt.Sprintf(bound.text, v.bits())
		}
		return body + "return a;", body != ""
	}
}

// devicePow has the exponents that eager computes by multiplication, division and square root; products of half types go through the element type.
func devicePow(call card.Call) (string, bool) {
	v, ok := constant(argument(call, "exponent"))
	if !ok {
		return "", false
	}
	bodies := map[float64]string{
		0: "C(1)", 1: "a", 2: "a * a", 3: "stored(a * a) * a", 0.5: "root(a)", -0.5: "inverse_root(a)", -1: "C(1) / a", -2: "C(1) / stored(a * a)",
	}
	body, ok := bodies[v.float]
	return "return " + body + ";", ok
}

// deviceDiv multiplies by the reciprocal of a scalar divisor, as eager does; a scalar dividend goes through the element type.
func deviceDiv(call card.Call) (string, bool) {
	switch {
	case argument(call, "other").Kind == "wrapped":
		return "return a * (C(1) / b);", true
	case argument(call, "self").Kind == "wrapped":
		return "return stored(a) / b;", true
	}
	return "return a / b;", true
}

// formula is what cuda/pointwise.cu computes: its tensors, the types they are read and written as, and the text of `op`.
type formula struct {
	tensors []card.Arg
	types   []string
	out     string // the element type that is stored
	result  string // what `op` returns
	via     string // the arithmetic type
	text    string
	heavy   bool
}

// formulaOf reads a card as an operation in floating point or as a move; false where the family is not sure to do as eager does.
func formulaOf(c *card.Card, call card.Call) (formula, bool) {
	if op := operationOf(c); op != nil {
		if f, ok := op.formula(call); ok {
			return f, true
		}
	}
	m, ok := moveOf(call)
	return formula{tensors: m.tensors, types: m.types, out: m.out, result: "OUT", via: "float", text: m.text}, ok
}

func (op *operation) formula(call card.Call) (formula, bool) {
	o, ok := op.operandsOf(call)
	if !ok {
		return formula{}, false
	}
	body, ok := op.device(call)
	if !ok {
		return formula{}, false
	}
	f := formula{tensors: o.tensors, out: ctypes[o.dtype], result: "C", via: accumulator(o.dtype), heavy: op.heavy}
	var parameters, lines []string
	for i, v := range o.values {
		if v != nil {
			lines = append(lines, fmt.Sprintf("const C %s = exact(%s);", letterOf(i), v.bits()))
			continue
		}
		k := len(parameters)
		via := "OUT"
		if copies[call.Overload] {
			via = fmt.Sprintf("IN%d", k) // one conversion, not two
		}
		f.types = append(f.types, ctypes[o.tensors[k].DType])
		parameters = append(parameters, fmt.Sprintf("IN%d x%d", k, k))
		lines = append(lines, fmt.Sprintf("C %s = one<%s>(x%d);", letterOf(i), via, k))
	}
	f.text = fmt.Sprintf("// %s\nKF_INLINE C op(%s) {\n  %s\n  %s\n}", call.Overload, strings.Join(parameters, ", "), strings.Join(lines, "\n  "), body)
	return f, true
}
