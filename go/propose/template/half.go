package template

import "math"

// bfloat16Bits rounds to nearest, ties to even, as torch does; NaN is quiet.
func bfloat16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// float16Bits rounds to nearest, ties to even; overflow gives infinity.
func float16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	sign, a := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00
	case a >= 0x477ff000:
		return sign | 0x7c00
	case a < 0x38800000: // denormal: the adder rounds at 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(a)+0.5)-0x3f000000)
	}
	return sign | uint16((a+0xfff+a>>13&1-0x38000000)>>13)
}
