package propose

import (
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// What a check was made of stays here: an author that hears it would write for the check, and names of folders are nobody's business.
func TestAnAuthorHearsWhichCheckFailedAndNothingOfWhatItIsMadeOf(t *testing.T) {
	at := &card.At{Variant: "v0", Seed: 77123}
	for name, c := range map[string]struct {
		verdict card.Verdict
		want    []string
		never   []string
	}{
		"values": {card.Verdict{Status: card.WrongValue, Gate: "values", At: at, Detail: "variant `v0`, fresh input at the end of its memory, run 1: out0: T2 element: " +
			"12 of 4096 elements, at (3, 7): 0.25 (expected 0.5471, allowed 1e-06), 3e+05 times the allowed error"},
			[]string{"not as right as eager's", "fresh input", "12 of 4096 elements"}, []string{"0.5471", "0.25", "(3, 7)", "1e-06", "77123"}},
		"special": {card.Verdict{Status: card.WrongValue, Gate: "special", Detail: "variant `v0`, special input at the start of its memory, run 1: out0: T0: 1 of 8 elements, at 5: nan (expected inf)"},
			[]string{"nan, infinities", "special input", "1 of 8"}, []string{"expected inf", "at 5"}},
		"an older log": {card.Verdict{Status: card.WrongValue, Detail: "at (1): 3 (expected 4)"}, []string{"not eager's"}, []string{"4"}},
		"compile": {card.Verdict{Status: card.CompileError, Gate: "compile", Detail: "the compiler ended with exit status 1\n/home/ada/kf/candidate.cc:3:5: error: expected ';'"},
			[]string{"candidate.cc:3:5: error: expected ';'"}, []string{"ada"}},
		"long": {card.Verdict{Status: card.CompileError, Gate: "compile", Detail: strings.Repeat("error ", 10000)}, []string{"error"}, nil},
	} {
		told := Told(c.verdict)
		if told.At != nil || told.Status != c.verdict.Status || len(told.Detail) > mostTold+3 {
			t.Errorf("%s: told %+v", name, told)
		}
		if again := Told(told); again.Detail != told.Detail && name != "long" {
			t.Errorf("%s: told twice it is %q (once %q)", name, again.Detail, told.Detail)
		}
		for _, text := range c.want {
			if !strings.Contains(told.Detail, text) {
				t.Errorf("%s: told %q (expected it to hold %q)", name, told.Detail, text)
			}
		}
		for _, text := range c.never {
			if strings.Contains(told.Detail, text) {
				t.Errorf("%s: told %q, which gives %q away", name, told.Detail, text)
			}
		}
	}
}
