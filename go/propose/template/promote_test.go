package template

import (
	"math"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// The results of torch.result_type for tensors with dims, 0-dim tensors and Python numbers.
func TestPromotion(t *testing.T) {
	full := func(dtype string) card.Arg { return card.Arg{Kind: "tensor", DType: dtype, Sizes: []int64{3}} }
	point := func(dtype string) card.Arg { return card.Arg{Kind: "tensor", DType: dtype} }
	yes := true
	python := func(dtype string) card.Arg { return card.Arg{Kind: "wrapped", DType: dtype, WrappedNumber: &yes} }
	for _, test := range []struct {
		a, b card.Arg
		want string
	}{
		{full("bfloat16"), full("float16"), "float32"},
		{full("bfloat16"), full("float32"), "float32"},
		{full("bfloat16"), point("float32"), "bfloat16"},
		{full("bfloat16"), python("float64"), "bfloat16"},
		{full("float32"), full("int64"), "float32"},
		{full("int32"), python("float64"), "float32"},
		{full("int32"), point("int64"), "int32"},
		{full("uint8"), full("int8"), "int16"},
		{full("bool"), python("int64"), "int64"},
		{point("float64"), full("int32"), "float64"},
		{full("int8"), full("int64"), "int64"},
	} {
		if got := promote(test.a, test.b); got != test.want {
			t.Errorf("%s %s and %s %s: %s (expected %s)", test.a.Kind, test.a.DType, test.b.Kind, test.b.DType, got, test.want)
		}
	}
}

// Every half value survives the way to double and back; ties go to even; the ends are infinities.
func TestHalfConversions(t *testing.T) {
	for h := range 1 << 16 {
		v := halfValue(uint16(h))
		if math.IsNaN(v) {
			continue
		}
		if got := float16Bits(float32(v)); got != uint16(h) {
			t.Fatalf("float16 %#04x is %v, which is %#04x", h, v, got)
		}
		b := float32(math.Float32frombits(uint32(h) << 16))
		if b == b && bfloat16Bits(b) != uint16(h) {
			t.Fatalf("bfloat16 %#04x comes back as %#04x", h, bfloat16Bits(b))
		}
	}
	for x, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, 1 + 1.0/2048: 0x3c00, 1 + 3.0/2048: 0x3c02} {
		if got := float16Bits(x); got != want {
			t.Errorf("%v is %#04x (expected %#04x)", x, got, want)
		}
	}
	if got := bfloat16Bits(1 + 1.0/256); got != 0x3f80 {
		t.Errorf("a tie is %#04x (expected the even 0x3f80)", got)
	}
}
