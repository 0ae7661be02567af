package template

import (
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// Rows are whole where every thread has all of its vectors in all variants: nothing then asks where a row ends.
func TestRowsOfWholeVectorsAreKnown(t *testing.T) {
	for _, test := range []struct {
		card  *card.Card
		whole string
	}{
		{onCuda(rmsCall([]int64{600, 4096}, []int64{4096, 1})), "1"},
		{onCuda(rmsCall([]int64{600, 1536}, []int64{1536, 1})), "1"},
		{onCuda(rmsCall([]int64{600, 1000}, []int64{1000, 1})), "0"},
	} {
		for _, family := range Applicable(test.card) {
			candidate, err := Make(family, test.card, h200, Points(family.Params(test.card, h200))[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := candidate.Spec.Constants["WHOLE"]; got != test.whole {
				t.Errorf("rows of %d, %s %v: WHOLE is %s (expected %s)", normLength(test.card.Variants[0].Call), family.Name(), candidate.Params, got, test.whole)
			}
		}
	}
}
