package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/host"
)

// The policy scan reads the source as the compiler would: after line splicing, token by token. It is the first gate, cheap and in words that
// a proposer can act on; what must not get through is held by later gates too (assembly by the compiler's poison, calls, constructors and
// state by the image check, values by the comparison).

// maxSource bounds a source, bytes. One page of kernel is 5 KB; unrolled bodies make a compiler take minutes.
const maxSource = 256 << 10

var (
	directives = []string{"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"}
	// attributes that change layout or a hint, never the meaning of arithmetic or when code runs.
	attributes = []string{
		"aligned", "always_inline", "assume", "assume_aligned", "cold", "const", "ext_vector_type", "fallthrough", "flatten", "hot", "likely",
		"may_alias", "maybe_unused", "noinline", "nonnull", "pure", "restrict", "unlikely", "unused", "vector_size", "gnu",
	}
	pragmas = regexp.MustCompile(`^(once|GCC ivdep|GCC unroll ([0-9]{1,3}|[A-Z][A-Z0-9_]*)|unroll [0-9]{1,3}|clang loop (vectorize|unroll|interleave)\((enable|disable|full)\)|omp simd\b[a-z0-9_ :(),+*]*)$`)
	include = regexp.MustCompile(`^["<]kf_kernel\.h[">]$`)

	// names that a kernel has no use for, with why.
	forbidden = map[string]string{
		"asm": "assembly", "__asm": "assembly", "__asm__": "assembly",
		"__has_include": "a look at the file system", "__has_include_next": "a look at the file system", "__has_embed": "a look at the file system",
		"__FILE__": "a path", "__BASE_FILE__": "a path", "__TIME__": "the time of the compile", "__DATE__": "the time of the compile", "__TIMESTAMP__": "a time",
		"thread_local": "state between calls", "__thread": "state between calls", "_Thread_local": "state between calls",
		"__declspec": "an attribute in a form that is not read here",
		"alloca":     "memory of unknown size on a stack that is not its own", "__builtin_alloca": "memory of unknown size on a stack that is not its own",
		"__builtin_setjmp": "a jump out of the kernel", "__builtin_longjmp": "a jump out of the kernel", "__builtin_return_address": "the caller's code",
		"__builtin_frame_address": "the caller's stack", "__builtin_eh_return": "a jump out of the kernel", "__builtin_apply": "a call of unknown kind",
		"_mm_setcsr": "the caller's rounding mode", "_MM_SET_FLUSH_ZERO_MODE": "the caller's rounding mode",
		"_MM_SET_DENORMALS_ZERO_MODE": "the caller's rounding mode", "_MM_SET_ROUNDING_MODE": "the caller's rounding mode",
		"_MM_SET_EXCEPTION_MASK": "the caller's rounding mode", "_MM_SET_EXCEPTION_STATE": "the caller's rounding mode",
		"__rdtsc": "a clock", "_rdtsc": "a clock", "__rdtscp": "a clock", "__rdpmc": "a clock", "_rdpmc": "a clock", "_tpause": "a clock", "_umwait": "a clock",
		"_mm_clflush": "the state of the caches", "_mm_clflushopt": "the state of the caches", "_mm_clwb": "the state of the caches",
		"_mm_cldemote": "the state of the caches", "_mm_mwait": "a wait", "_mm_monitor": "a wait",
		"_xbegin": "transactions", "_xend": "transactions", "_xabort": "transactions",
		"_wrpkru": "the rights of memory", "_writefsbase_u64": "the thread's own registers", "_writegsbase_u64": "the thread's own registers",
		"_readfsbase_u64": "the thread's own registers", "_readgsbase_u64": "the thread's own registers",
	}
	forbiddenPrefixes = map[string]string{
		"__builtin_ia32_": "a built-in of the compiler (use the intrinsics `_mm...`)", "_rdrand": "chance", "_rdseed": "chance", "_xsave": "the caller's registers",
		"_xrstor": "the caller's registers", "_xset": "the caller's registers", "_fxsave": "the caller's registers", "_fxrstor": "the caller's registers",
	}
	entryName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// Policy says why a candidate is refused before it is compiled, or gives nil.
func Policy(candidate card.Candidate) error {
	if len(candidate.Spec.Kernels) == 0 {
		return fmt.Errorf("the spec has no kernel")
	}
	for _, kernel := range candidate.Spec.Kernels {
		if !entryName.MatchString(kernel.Entry) {
			return fmt.Errorf("the spec names the entry %q (expected a C identifier)", kernel.Entry)
		}
	}
	if _, err := host.Options(candidate.Spec.Constants); err != nil {
		return fmt.Errorf("the spec has the %w", err)
	}
	for name := range candidate.Spec.Constants {
		if strings.HasPrefix(name, "KF_") && name != "KF_LANES" {
			return fmt.Errorf("the spec has the constant `%s`, a name of the prelude", name)
		}
	}
	return scan(candidate.Source)
}

func scan(source string) error {
	switch {
	case len(source) == 0:
		return fmt.Errorf("the source is empty")
	case len(source) > maxSource:
		return fmt.Errorf("the source has %d bytes (expected at most %d)", len(source), maxSource)
	case !utf8.ValidString(source):
		return fmt.Errorf("the source is not UTF-8")
	}
	tokens, err := tokenize(source)
	if err != nil {
		return err
	}
	for at := 0; at < len(tokens); {
		next, err := rule(tokens, at)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// rule judges what begins at a token and gives the place of the next.
func rule(tokens []token, at int) (int, error) {
	t := tokens[at]
	switch {
	case t.text == "#" && t.first:
		return directive(tokens, at)
	case t.text == "##" || t.text == "%:" || t.text == "%:%:":
		return 0, t.refuse("`%s`: tokens that only macros put together are not read here", t.text)
	case t.text == "[" && at+1 < len(tokens) && tokens[at+1].text == "[":
		return attribute(tokens, at+2, "]")
	case t.kind != identifier:
		return at + 1, nil
	case t.text == "__attribute__" || t.text == "__attribute":
		if at+2 >= len(tokens) || tokens[at+1].text != "(" || tokens[at+2].text != "(" {
			return 0, t.refuse("`%s` without `((`", t.text)
		}
		return attribute(tokens, at+3, ")")
	case t.text == "_Pragma":
		if at+3 >= len(tokens) || tokens[at+1].text != "(" || tokens[at+2].kind != literal || tokens[at+3].text != ")" {
			return 0, t.refuse("`_Pragma` without a plain string")
		}
		if text := strings.Trim(tokens[at+2].text, `"`); !pragmas.MatchString(strings.Join(strings.Fields(text), " ")) {
			return 0, t.refuse("pragma `%s` (expected unroll, ivdep or a loop hint)", text)
		}
		return at + 4, nil
	}
	return at + 1, forbiddenName(t)
}

func forbiddenName(t token) error {
	if why, ok := forbidden[t.text]; ok {
		return t.refuse("`%s`: %s", t.text, why)
	}
	for prefix, why := range forbiddenPrefixes {
		if strings.HasPrefix(t.text, prefix) {
			return t.refuse("`%s`: %s", t.text, why)
		}
	}
	return nil
}

// directive judges a line that begins with #. What a `#define` defines is read as code.
func directive(tokens []token, at int) (int, error) {
	end := at + 1
	for end < len(tokens) && !tokens[end].first {
		end++
	}
	line := tokens[at+1 : end]
	if len(line) == 0 {
		return end, nil
	}
	name, rest := line[0], line[1:]
	switch {
	case name.text == "include":
		if len(rest) != 1 || !include.MatchString(rest[0].text) {
			return 0, name.refuse("`#include` of something else than kf_kernel.h, which stands in front of every source")
		}
		return end, nil
	case name.text == "pragma":
		words := make([]string, len(rest))
		for i, t := range rest {
			words[i] = t.text
		}
		text := strings.NewReplacer(" ( ", "(", " )", ")").Replace(strings.Join(words, " "))
		if !pragmas.MatchString(text) {
			return 0, name.refuse("`#pragma %s` (expected unroll, ivdep, once or a loop hint)", text)
		}
		return end, nil
	case !slices.Contains(directives, name.text):
		return 0, name.refuse("`#%s` (expected define, undef, if, ifdef, ifndef, elif, else, endif, error, pragma or include)", name.text)
	}
	for inner := at + 2; inner < end; {
		next, err := rule(tokens[:end], inner)
		if err != nil {
			return 0, err
		}
		inner = next
	}
	return end, nil
}

// attribute judges the names of a list of attributes that begins at a token and ends with two closing brackets; their arguments are
// expressions.
func attribute(tokens []token, at int, closing string) (int, error) {
	depth := 0
	for ; at < len(tokens); at++ {
		t := tokens[at]
		switch {
		case depth == 0 && t.text == closing:
			return at + 1, nil // the second closing bracket is a plain token
		case t.text == "(" || t.text == "[":
			depth++
		case t.text == ")" || t.text == "]":
			depth--
		case t.kind != identifier:
		case depth > 0:
			if err := forbiddenName(t); err != nil {
				return 0, err
			}
		case !slices.Contains(attributes, strings.Trim(t.text, "_")):
			return 0, t.refuse("attribute `%s` (expected one of %s)", t.text, strings.Join(attributes, ", "))
		}
	}
	return at, nil
}
