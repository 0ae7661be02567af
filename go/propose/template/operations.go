package template

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/kernelforge/kernelforge/go/card"
)

// operation is one pointwise operator: the arguments that become a and b, and the body of `op` in the words of host/pointwise.cc and of
// cuda/pointwise.cu.
type operation struct {
	names    string   // overloads: functional, in-place and out forms
	operands []string // arguments that are elements
	heavy    bool     // bound by arithmetic rather than memory
	body     func(call card.Call) (string, bool)
	device   func(call card.Call) (string, bool)
}

var operations = []operation{
	{"relu relu_ relu.out", []string{"self"}, false, fixed("return V{} > a ? V{} : a;"), fixed("return a < C(0) ? C(0) : a;")},
	{"copy_ copy copy.out", []string{"src"}, false, fixed("return a;"), fixed("return a;")},
	{"rsqrt rsqrt_ rsqrt.out", []string{"self"}, false, fixed("return exact(ONE) / kf_sqrt(a);"), fixed("return inverse_root(a);")},
	{"exp exp_ exp.out", []string{"self"}, true, fixed("return kf_exp(a);"), fixed("return exponential(a);")},
	{"tanh tanh_ tanh.out", []string{"self"}, true, fixed("return kf_tanh<HALF>(a);"), fixed("return hyperbolic_tangent(a);")},
	{"sigmoid sigmoid_ sigmoid.out", []string{"self"}, true, fixed("return kf_reciprocal<HALF>(exact(ONE) + kf_exp(-a));"), fixed("return reciprocal(C(1) + exponential(-a));")},
	{"silu silu_ silu.out", []string{"self"}, true, fixed("return HALF ? a * kf_reciprocal<HALF>(exact(ONE) + kf_exp(-a)) : a / (exact(ONE) + kf_exp(-a));"), fixed("return FAST ? a * reciprocal(C(1) + exponential(-a)) : a / (C(1) + exponential(-a));")},
	{"gelu gelu_ gelu.out", []string{"self"}, true, geluBody, deviceGelu},
	{"clamp_min clamp_min_ clamp_min.out", []string{"self"}, false, clampBody("min", ""), deviceClamp("min", "")},
	{"clamp clamp_ clamp.out", []string{"self"}, false, clampBody("min", "max"), deviceClamp("min", "max")},
	{"hardtanh hardtanh_ hardtanh.out", []string{"self"}, false, clampBody("min_val", "max_val"), deviceClamp("min_val", "max_val")},
	{"pow.Tensor_Scalar pow_.Scalar pow.Tensor_Scalar_out", []string{"self"}, false, powBody, devicePow},
	{"add.Tensor add_.Tensor add.out", []string{"self", "other"}, false, addBody(1, hostFused), addBody(1, deviceFused)},
	{"sub.Tensor sub_.Tensor sub.out", []string{"self", "other"}, false, addBody(-1, hostFused), addBody(-1, deviceFused)},
	{"mul.Tensor mul_.Tensor mul.out", []string{"self", "other"}, false, fixed("return a * b;"), fixed("return a * b;")},
	{"div.Tensor div_.Tensor div.out", []string{"self", "other"}, false, fixed("return a / b;"), deviceDiv},
}

// operationOf finds the operation of a card; nil if there is none.
func operationOf(c *card.Card) *operation {
	for i := range operations {
		if _, ok := callOf(c, overloads(operations[i].names)); ok {
			return &operations[i]
		}
	}
	return nil
}

func fixed(body string) func(card.Call) (string, bool) {
	return func(card.Call) (string, bool) { return body, true }
}

// geluBody has eager's two forms. Eager takes the exact one from oneDNN where the tensor is contiguous float32 or bfloat16: there infinity
// gives NaN on some processors and infinity on others, so it gives infinity, which is right. float64 is left to eager: 1 + erf cancels, and two libraries' erf differ in the last bit.
func geluBody(call card.Call) (string, bool) {
	var approximate string
	self := argument(call, "self")
	if arg := argument(call, "approximate"); arg.Kind != "string" || json.Unmarshal(arg.Value, &approximate) != nil || self.DType == "float64" {
		return "", false
	}
	switch {
	case approximate == "tanh":
		half, one, beta, kappa := bitsOf(0.5), bitsOf(1), bitsOf(math.Sqrt2*(2/math.Sqrt(math.Pi))*0.5), bitsOf(0.044715)
		return fmt.Sprintf("V cube = a * a * a;\n  return exact(%s) * a * (exact(%s) + kf_tanh<HALF>(exact(%s) * (a + exact(%s) * cube)));",
			half, one, beta, kappa), true
	case approximate != "none":
		return "", false
	case self.DType != "float16" && contiguous(self) && numel(self) > 1:
		return "V tail = above(a < V{} ? -a : a), less = tail > V{} ? a * tail : V{};\n  return a > V{} ? a - less : a * tail;", true
	}
	return "V tail = above(a < V{} ? -a : a);\n  return a * (a > V{} ? exact(ONE) - tail : tail);", true
}

// clampBody keeps a NaN element, as eager's max and min instructions do; a NaN bound, which makes everything NaN, is left to eager.
func clampBody(low, high string) func(card.Call) (string, bool) {
	return func(call card.Call) (string, bool) {
		body := ""
		for _, bound := range []struct{ name, relation string }{{low, ">"}, {high, "<"}} {
			arg := argument(call, bound.name)
			if arg.Kind == "none" {
				continue
			}
			v, ok := constant(arg)
			if !ok || math.IsNaN(v.float) {
				return "", false
			}
			body += fmt.Sprintf("a = rounded(%s) %s a ? rounded(%s) : a;\n  ", v.bits(), bound.relation, v.bits())
		}
		return body + "return a;", body != ""
	}
}

// powBody has the exponents that eager computes by multiplication, division and square root. In bfloat16 intermediate results go through
// the element type; float16 is computed by pow itself, whose square root of -infinity is infinity.
func powBody(call card.Call) (string, bool) {
	v, ok := constant(argument(call, "exponent"))
	if !ok {
		return "", false
	}
	square, root := "a * a", "kf_sqrt(a)"
	switch argument(call, "self").DType {
	case "bfloat16":
		square = "stored(a * a)"
	case "float16":
		root = fmt.Sprintf("kf_sqrt(a == exact(%s) ? -a : a + V{})", bitsOf(math.Inf(-1)))
	}
	bodies := map[float64]string{
		0: "exact(ONE)", 1: "a", 2: "a * a", 3: square + " * a", 0.5: root, -0.5: "exact(ONE) / " + root, -1: "exact(ONE) / a",
		-2: "exact(ONE) / (" + square + ")",
	}
	body, ok := bodies[v.float]
	return "return " + body + ";", ok
}

const (
	hostFused   = "kf_fma(b, rounded(%s), a)"
	deviceFused = "fused(b, exact(%s), a)"
)

// addBody is a + sign * alpha * b, fused as in eager: by a target's expression of alpha.
func addBody(sign float64, fused string) func(card.Call) (string, bool) {
	return func(call card.Call) (string, bool) {
		v, ok := constant(argument(call, "alpha"))
		v.float *= sign
		switch {
		case !ok:
			return "", false
		case v.float == 1:
			return "return a + b;", true
		case v.float == -1:
			return "return a - b;", true
		}
		return "return " + fmt.Sprintf(fused, v.bits()) + ";", true
	}
}

func bitsOf(x float64) string { return value{float: x}.bits() }
