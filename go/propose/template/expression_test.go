package template

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/kernelforge/kernelforge/go/card"
)

func TestExpressions(t *testing.T) {
	names := map[string]int64{"n": 10, "self_size1": 64}
	for text, want := range map[string]int64{
		"1 + 2 * 3": 7, "(1 + 2) * 3": 9, "20 - 5 - 3": 12, "100 / 7 / 2": 7, "-n + 3": -7, "--n": 10, "-7 / 2": -3, "-7 % 2": -1, "\t n*self_size1 ": 640,
		"ceildiv(7, 2)": 4, "ceildiv(-7, 2)": -3, "ceildiv(-7, -2)": 4, "ceildiv(7, -2)": -3, "min(3, max(1, n))": 3,
	} {
		if got, err := evaluate(text, names); err != nil || got != want {
			t.Errorf("`%s` is %d, %v (expected %d)", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1 +", "(1", "1)", "1 2", "n n", "min(1)", "min(1,2,3)", "min 1, 2", "1.5", "+1", "1 // 2", "n()", "m", "1 / 0", "n % (n - 10)", "ceildiv(1, 0)"} {
		if got, err := evaluate(text, names); err == nil {
			t.Errorf("`%s` is %d (expected an error)", text, got)
		}
	}
}

// What csrc evaluates when it launches, in every spec of the tests' cards.
func TestExpressionsAreThoseOfTheRuntime(t *testing.T) {
	path := os.Getenv("KF_RUNTIME")
	if path == "" {
		t.Skip("KF_RUNTIME names no runtime; hint: `make test-go` sets it")
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var eval func(text *byte, length uint64, names **byte, values *int64, count uint64, result *int64, failure unsafe.Pointer) int32
	purego.RegisterLibFunc(&eval, library, "kfr_expr_eval")
	count := 0
	compare := func(c *card.Card) {
		names := callNames(c.Variants[0].Call, h200)
		names[blocksFit] = 3
		var pins runtime.Pinner
		defer pins.Unpin()
		var list []*byte
		var values []int64
		for name, value := range names {
			text := append([]byte(name), 0)
			pins.Pin(&text[0])
			list, values = append(list, &text[0]), append(values, value)
		}
		for _, family := range Runnable(c, h200) {
			candidate, err := Make(family, c, h200, Points(family.Params(c, h200))[0])
			if err != nil {
				t.Fatal(err)
			}
			texts := []string{}
			for _, w := range candidate.Spec.Workspaces {
				texts = append(texts, w.Bytes)
			}
			for _, k := range candidate.Spec.Kernels {
				texts = append(texts, k.Grid...)
				for _, arg := range k.Args {
					if arg.Int != "" {
						texts = append(texts, arg.Int)
					}
				}
			}
			for _, text := range texts {
				var want int64
				bytes := []byte(text)
				status := eval(&bytes[0], uint64(len(bytes)), &list[0], &values[0], uint64(len(list)), &want, nil)
				got, err := evaluate(text, names)
				if status != 0 || err != nil || got != want {
					t.Errorf("`%s` is %d, %v (expected %d, the runtime's, whose status is %d)", text, got, err, want, status)
				}
				count++
			}
		}
	}
	for _, one := range cudaCards {
		compare(one.card)
	}
	for _, one := range cudaNormPoolCards {
		compare(one.card)
	}
	if count < 500 {
		t.Errorf("%d expressions were compared (expected 500 at least)", count)
	}
}
