package template

// expression.go owns the value of a launch spec's expression before there is a worker, for estimates alone: what is launched, csrc evaluates
// (csrc/src/expr.cc). A test holds the two to each other. It refuses what csrc refuses, but for overflow, which no shape of a card reaches.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// callNames are the names that a call and a device give to expressions (docs/formats.md).
func callNames(call card.Call, f propose.Facts) map[string]int64 {
	names := map[string]int64{"sm_count": int64(f.SMCount), "l2_bytes": f.L2Bytes, "smem_optin": f.SmemOptin}
	tensor := func(name string, sizes, strides []int64) {
		for d, size := range sizes {
			names[name+"_size"+strconv.Itoa(d)], names[name+"_stride"+strconv.Itoa(d)] = size, strides[d]
		}
		names[name+"_numel"], names[name+"_dim"] = numelOf(sizes), int64(len(sizes))
	}
	for _, arg := range call.Args {
		if arg.Kind == "tensor" {
			tensor(arg.Name, arg.Sizes, arg.Strides)
		}
		if arg.Kind == "tensors" {
			names[arg.Name+"_count"] = int64(len(arg.Items))
		}
		for k, item := range arg.Items {
			tensor(arg.Name+"_"+strconv.Itoa(k), item.Sizes, item.Strides)
		}
		if v, ok := constant(arg); ok && v.whole {
			names[arg.Name] = v.int
		}
		if arg.Kind == "ints" {
			var list []int64
			if json.Unmarshal(arg.Value, &list) == nil {
				for i, v := range list {
					names[arg.Name+"_"+strconv.Itoa(i)] = v
				}
			}
		}
	}
	for k, out := range call.Outputs {
		tensor("out"+strconv.Itoa(k), out.Sizes, out.Strides)
	}
	return names
}

// reader evaluates an expression from left to right.
type reader struct {
	text  string
	names map[string]int64
	wrong bool
}

// evaluate gives the value of an expression.
func evaluate(text string, names map[string]int64) (int64, error) {
	r := &reader{text: text, names: names}
	value := r.sum()
	if r.skip(); r.wrong || r.text != "" {
		return 0, fmt.Errorf("evaluate `%s`: it is no expression of names that are known, or divides by zero", text)
	}
	return value, nil
}

func (r *reader) skip() { r.text = strings.TrimLeft(r.text, " \t") }

// take removes one of some characters, and gives it; 0: none is next.
func (r *reader) take(any string) byte {
	if r.skip(); r.text == "" || !strings.Contains(any, r.text[:1]) {
		return 0
	}
	c := r.text[0]
	r.text = r.text[1:]
	return c
}

func (r *reader) sum() int64 {
	value := r.product()
	for {
		switch r.take("+-") {
		case '+':
			value += r.product()
		case '-':
			value -= r.product()
		default:
			return value
		}
	}
}

func (r *reader) product() int64 {
	value := r.single()
	for {
		switch op := r.take("*/%"); op {
		case 0:
			return value
		case '*':
			value *= r.single()
		default:
			value = r.divide(value, r.single(), op)
		}
	}
}

// divide truncates as C does; 'c' rounds up.
func (r *reader) divide(a, b int64, op byte) int64 {
	if b == 0 {
		r.wrong = true
		return 0
	}
	switch {
	case op == '%':
		return a % b
	case op == 'c' && a%b != 0 && a%b > 0 == (b > 0):
		return a/b + 1
	}
	return a / b
}

func (r *reader) single() int64 {
	switch r.take("(-") {
	case '(':
		value := r.sum()
		r.wrong = r.wrong || r.take(")") == 0
		return value
	case '-':
		return -r.single()
	}
	end := strings.IndexFunc(r.text, func(c rune) bool {
		return !(c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	})
	if end < 0 {
		end = len(r.text)
	}
	word := r.text[:end]
	r.text = r.text[end:]
	if word == "ceildiv" || word == "min" || word == "max" {
		return r.call(word)
	}
	if value, err := strconv.ParseInt(word, 10, 64); err == nil {
		return value
	}
	value, known := r.names[word]
	r.wrong = r.wrong || !known
	return value
}

func (r *reader) call(name string) int64 {
	r.wrong = r.wrong || r.take("(") == 0
	a := r.sum()
	r.wrong = r.wrong || r.take(",") == 0
	b := r.sum()
	r.wrong = r.wrong || r.take(")") == 0
	switch name {
	case "min":
		return min(a, b)
	case "max":
		return max(a, b)
	}
	return r.divide(a, b, 'c')
}
