package template

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// pointwise is host/pointwise.cc: floating-point results; operations.go says of which operators.
type pointwise struct{}

func (pointwise) Name() string { return "pointwise" }

func (pointwise) Applies(c *card.Card) bool {
	op := operationOf(c)
	if op == nil {
		return false
	}
	first, _ := op.elements(c.Variants[0].Call)
	return everyVariant(c, func(call card.Call) bool {
		e, ok := op.elements(call)
		return ok && e.text == first.text // one text serves all variants
	})
}

func (pointwise) Params(c *card.Card, f propose.Facts) []Param {
	params := []Param{lanes(f), {"UNROLL", []int{1, 2, 4}, 2}}
	if operationOf(c).heavy {
		params[1].Default = 1
		params = append(params, Param{"GRAIN", []int{1024, 4096, 16384, 65536}, 4096})
	} else {
		params = append(params, Param{"GRAIN", []int{4096, 16384, 32768, 131072}, 32768})
	}
	return append(params, streaming(c, f)...)
}

// streaming offers stores past the caches where the largest variant moves more than one core's share of them.
func streaming(c *card.Card, f propose.Facts) []Param {
	switch most := largestBytes(c); {
	case most < 2*f.L2Bytes:
		return nil
	case most > f.LLCBytes:
		return []Param{{"STREAM", []int{0, 1}, 1}}
	default:
		return []Param{{"STREAM", []int{0, 1}, 0}}
	}
}

func (pointwise) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	op := operationOf(c)
	call := c.Variants[0].Call
	e, ok := op.elements(call)
	if !ok {
		return card.Candidate{}, fmt.Errorf("overload `%s`: its operands are not the family's", c.Overload)
	}
	dims := len(call.Outputs[0].Sizes)
	constants := map[string]string{"C": "float", "OUT": ctypes[e.dtype], "DIMS": strconv.Itoa(dims), "ARITY": strconv.Itoa(len(e.tensors))}
	if e.dtype == "float64" {
		constants["C"] = "double"
	}
	if _, ok := p["STREAM"]; !ok {
		constants["STREAM"] = "0"
	}
	args := []card.SpecArg{slot("out0")}
	for i, arg := range e.tensors {
		constants["IN"+strconv.Itoa(i)] = ctypes[arg.DType]
		args = append(args, slot(arg.Name))
	}
	args = append(args, sizesOf("out0", dims)...)
	args = append(args, stridesOf("out0", dims)...)
	for _, arg := range e.tensors {
		args = append(args, broadcast(arg.Name, len(arg.Sizes), dims)...)
	}
	return card.Candidate{
		Source: hostPage("pointwise", map[string]string{"operation": e.text}),
		Spec:   single(p, constants, "out0_numel", strconv.Itoa(p["GRAIN"]), args),
	}, nil
}

// broadcast passes a tensor's strides for the dims of the output that it is broadcast to: 0 where it has no dim, or one of size 1.
func broadcast(name string, have, want int) []card.SpecArg {
	args := make([]card.SpecArg, want)
	for i := range args {
		if j := i - (want - have); j < 0 {
			args[i] = integer("0")
		} else {
			args[i] = integer(fmt.Sprintf("%s_stride%d * min(1, %s_size%d - 1)", name, j, name, j))
		}
	}
	return args
}

// elements are an operation's tensors, its type and its text.
type elements struct {
	operands
	text string
}

// elements sorts a call's operands into tensors and constants and writes the host's text; false where the family is not sure to do as eager does.
func (op *operation) elements(call card.Call) (elements, bool) {
	o, ok := op.operandsOf(call)
	if !ok {
		return elements{}, false
	}
	body, ok := op.body(call)
	if !ok {
		return elements{}, false
	}
	e := elements{operands: o}
	var parameters, constants []string
	for i, v := range o.values {
		if letter := letterOf(i); v == nil {
			parameters = append(parameters, "V "+letter)
		} else {
			constants = append(constants, fmt.Sprintf("  const V %s = %s(%s);\n", letter, op.scalar(i, call), v.bits()))
		}
	}
	if strings.Contains(body, "above(") {
		e.text = hostFile("gelu.h")
	}
	e.text += fmt.Sprintf("// %s\nconstexpr uint64_t ONE = %s;\nKF_INLINE V op(%s) {\n%s  %s\n}", call.Overload, bitsOf(1),
		strings.Join(parameters, ", "), strings.Join(constants, ""), body)
	return e, true
}

func letterOf(operand int) string { return string(rune('a' + operand)) }

// operands are what an operation works on, whatever the target: its type, and for each operand a tensor or a constant.
type operands struct {
	dtype   string
	tensors []card.Arg
	values  []*value // of each operand; nil: the next tensor
}

// operandsOf sorts a call's operands; false where eager's own conversions are not the family's.
func (op *operation) operandsOf(call card.Call) (operands, bool) {
	var o operands
	if len(call.Outputs) != 1 {
		return o, false
	}
	args := make([]card.Arg, len(op.operands))
	for i, name := range op.operands {
		args[i] = argument(call, name)
		if kind := args[i].Kind; kind != "tensor" && kind != "wrapped" {
			return o, false
		}
	}
	o.dtype = promote(args...)
	if copies[call.Overload] {
		if o.dtype == call.Outputs[0].DType {
			return o, false // no conversion: the bits are moved by other families
		}
		o.dtype = call.Outputs[0].DType
	}
	if strings.Contains(call.Overload, "div") && !isFloat(o.dtype) {
		o.dtype = "float32"
	}
	if !isFloat(o.dtype) || o.dtype != call.Outputs[0].DType {
		return o, false
	}
	for _, arg := range args {
		if arg.Kind == "tensor" {
			if (promoteTypes(o.dtype, arg.DType) != o.dtype && !copies[call.Overload]) || len(arg.Sizes) > len(call.Outputs[0].Sizes) {
				return o, false // a 0-dim tensor of a wider type
			}
			o.tensors, o.values = append(o.tensors, arg), append(o.values, nil)
			continue
		}
		v, ok := constant(arg)
		if !ok {
			return o, false
		}
		o.values = append(o.values, &v)
	}
	return o, len(o.tensors) > 0
}

// scalar says how a scalar operand enters: eager's mul and div read a second operand in the arithmetic type, everything else goes through
// the element type.
func (op *operation) scalar(operand int, call card.Call) string {
	if operand == 1 && (strings.Contains(call.Overload, "mul") || strings.Contains(call.Overload, "div")) {
		return "exact"
	}
	return "rounded"
}
