package template

import (
	"slices"
	"testing"
)

// What is written past the caches is fast on pages that are kept, as a search has them, and slow on those that malloc maps anew.
func TestTransposesPastTheCachesOnlyWhereOutputsAreKept(t *testing.T) {
	at := func(n int64, dtype string) map[string]Param {
		src := denseArg("src", dtype, n, n)
		src.Strides = []int64{1, n}
		self := denseArg("self", dtype, n, n)
		c := oneVariant("aten::copy_", self, self, src, jsonArg("non_blocking", "bool", "false"))
		c.Variants[0].Bytes = 2 * n * n * int64(itemSizes[dtype])
		if !(transpose{}).Applies(c) {
			t.Fatalf("%d x %d of %s: no transpose", n, n, dtype)
		}
		params := map[string]Param{}
		for _, p := range (transpose{}).Params(c, hostFacts) {
			params[p.Name] = p
		}
		return params
	}
	for _, c := range []struct {
		n      int64
		dtype  string
		stream bool
		orders []int
	}{
		{256, "float32", false, []int{0, 1}},
		{2048, "float32", true, []int{1}},
		{2048, "float64", true, []int{1}},
		{2048, "float16", false, []int{0, 1}}, // 16 of them are half a line
		{4096, "float32", false, []int{0}},
	} {
		params := at(c.n, c.dtype)
		if _, ok := params["STREAM"]; ok != c.stream || !slices.Equal(params["ORDER"].Values, c.orders) {
			t.Errorf("%d x %d of %s: STREAM %v, ORDER %v (expected %v, %v)", c.n, c.n, c.dtype, ok, params["ORDER"].Values, c.stream, c.orders)
		}
	}
}
