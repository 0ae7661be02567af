package cuda

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Where an instruction stands does not matter: behind labels, predicates, comments and line ends, in a block of its own.
func TestAnInstructionIsFoundWhereverItStands(t *testing.T) {
	for text, name := range map[string]string{
		"trap": "trap", " \n\ttrap\t": "trap", "$L__BB0_1:\n trap": "trap", "a: b:\n@%p1 trap": "trap", "@ ! %p1\n nanosleep.u32 %r1": "nanosleep.u32",
		"prefetch.global.L2::evict_last [%rd1]": "prefetch.global.L2::evict_last", "st.global.u32 [%rd1],%r1": "st.global.u32", ".reg .pred %p<3>": "", "": "", "@%p1": "",
	} {
		if found := instruction(text); found != name {
			t.Errorf("%q: found %q (expected %q)", text, found, name)
		}
	}
}

func TestWhatIsInCommentsAndNamesIsNoInstruction(t *testing.T) {
	for _, ptx := range []string{"// trap;\nret;", "/* nanosleep */ ret;", "mov.u32 %trap, %r1; ret;", ".visible .entry trap_free(.param .u64 a) { ret; }", "ld.global.nc.L1::no_allocate.f32 %f1, [%rd1];"} {
		if err := inspect(ptx); err != nil {
			t.Errorf("%s: %v", ptx, err)
		}
	}
}

func TestNoSpacingHidesAnInstruction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{" ", "\n", "\t", " // c\n", "/* ; { */", "\n\n"})
		bad := rapid.SampledFrom([]string{"trap", "brkpt", "nanosleep.u32 %r1", "createpolicy.fractional.L2::evict_last.b64 %rd1", "ld.global.L1::evict_last.f32 %f1, [%rd1]",
			"griddepcontrol.wait", "mov.u64 %rd1, %globaltimer", "discard.global.L2 [a], 128", "ld.global.L2::cache_hint.f32 %f1, [%rd1], %rd2"}).Draw(t, "bad")
		label := rapid.SampledFrom([]string{"", "here:", "@%p1 ", "@!%p2 ", "a: @%p1 "}).Draw(t, "in front")
		around := rapid.SampledFrom([][2]string{{"", ""}, {"{", "}"}, {"ret;", ""}, {"{ .reg .pred p; ", " }"}}).Draw(t, "around")
		ptx := ".visible .entry kf_main() {" + space.Draw(t, "1") + around[0] + space.Draw(t, "2") + label + space.Draw(t, "3") + bad + space.Draw(t, "4") + ";" + around[1] + " ret; }"
		if err := inspect(ptx); err == nil {
			t.Fatalf("passed:\n%s", ptx)
		}
	})
}

func FuzzInspect(f *testing.F) {
	f.Add(".visible .entry kf_main() { @%p1 bra $L; $L: ret; }")
	f.Add(".global .align 4 .u32 calls;\nld.global.u32 %r1, [calls];")
	f.Fuzz(func(t *testing.T, ptx string) {
		if err := inspect(ptx); err == nil && strings.Contains(comment.ReplaceAllString(ptx, " "), "%globaltimer") {
			t.Fatalf("passed: %q", ptx)
		}
	})
}
