package template

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
)

// rank orders types by category: bool, integers, floating point.
func category(dtype string) int {
	switch {
	case dtype == "bool":
		return 0
	case isFloat(dtype):
		return 2
	}
	return 1
}

// promoteTypes is torch.promote_types for the types of formats.md.
func promoteTypes(a, b string) string {
	if a == b {
		return a
	}
	switch ca, cb := category(a), category(b); {
	case ca > cb:
		return a
	case ca < cb:
		return b
	case ca == 2:
		order := []string{"float16", "bfloat16", "float32", "float64"}
		if i, j := slices.Index(order, a), slices.Index(order, b); i < 2 && j < 2 {
			return "float32"
		} else {
			return order[max(i, j)]
		}
	}
	order := []string{"int8", "int16", "int32", "int64"}
	i, j := slices.Index(order, a), slices.Index(order, b)
	if i < 0 || j < 0 { // uint8 with a signed type
		return order[max(i, j, 1)]
	}
	return order[max(i, j)]
}

// promote is torch.result_type: tensors with dims decide, then 0-dim tensors, then wrapped numbers, unless a weaker one is of a higher category.
func promote(args ...card.Arg) string {
	var kinds [3]string // by priority
	for _, arg := range args {
		k, dtype := 0, arg.DType
		switch {
		case arg.Kind == "wrapped" && arg.WrappedNumber != nil && *arg.WrappedNumber:
			if k = 2; dtype == "float64" {
				dtype = "float32" // the default type, which is what a Python float means
			}
		case arg.Kind == "wrapped" || len(arg.Sizes) == 0:
			k = 1
		}
		if kinds[k] == "" {
			kinds[k] = dtype
		} else {
			kinds[k] = promoteTypes(kinds[k], dtype)
		}
	}
	result := ""
	for _, dtype := range []string{kinds[2], kinds[1], kinds[0]} {
		switch {
		case result == "" || (dtype != "" && category(dtype) >= category(result)):
			result = dtype
		case dtype != "":
			result = promoteTypes(dtype, result)
		}
	}
	return result
}

// value is a constant of a call: of a Scalar, a float or an int argument, or of a 0-dim tensor in a scalar's place.
type value struct {
	float float64
	whole bool  // given as an integer or bool
	int   int64 // when whole
}

// constant reads a constant argument. false: it is none, or an integer that a double cannot hold.
func constant(arg card.Arg) (value, bool) {
	switch arg.Kind {
	case "scalar", "int", "float":
		if arg.Kind == "float" || arg.Type == "float" {
			bits, err := strconv.ParseUint(arg.Bits, 16, 64)
			return value{float: math.Float64frombits(bits)}, err == nil
		}
		if arg.Type == "bool" {
			var b bool
			err := json.Unmarshal(arg.Value, &b)
			return wholeValue(map[bool]int64{true: 1}[b]), err == nil
		}
		var i int64
		err := json.Unmarshal(arg.Value, &i)
		return wholeValue(i), err == nil && holds(i)
	case "wrapped":
		bits, err := strconv.ParseUint(arg.Bits, 16, 64)
		v := wrapped(arg.DType, bits)
		return v, err == nil && (!v.whole || holds(v.int))
	}
	return value{}, false
}

func wholeValue(i int64) value { return value{float: float64(i), whole: true, int: i} }

func holds(i int64) bool { return i >= -1<<53 && i <= 1<<53 }

func wrapped(dtype string, bits uint64) value {
	switch dtype {
	case "float64":
		return value{float: math.Float64frombits(bits)}
	case "float32":
		return value{float: float64(math.Float32frombits(uint32(bits)))}
	case "bfloat16":
		return value{float: float64(math.Float32frombits(uint32(bits) << 16))}
	case "float16":
		return value{float: halfValue(uint16(bits))}
	case "int8":
		return wholeValue(int64(int8(bits)))
	case "int16":
		return wholeValue(int64(int16(bits)))
	case "int32":
		return wholeValue(int64(int32(bits)))
	}
	return wholeValue(int64(bits)) // bool, uint8, int64
}

func halfValue(h uint16) float64 {
	fraction, exponent := float64(h&0x3ff), int(h>>10&0x1f)
	var v float64
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		if v = math.Inf(1); fraction != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	return math.Copysign(v, map[bool]float64{true: -1, false: 1}[h>>15 == 1])
}

// bitsOf is a constant as the word that `__builtin_bit_cast(double, ...)` reads: exact, also for -0.0, infinity and NaN.
func (v value) bits() string { return "0x" + strconv.FormatUint(math.Float64bits(v.float), 16) + "u" }
