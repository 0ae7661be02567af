package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// The policy scan reads the source as the compiler would: after line splicing, token by token. It is the first gate, cheap and in words that
// a proposer can act on; what must not get through is held by later gates too (assembly by the compiler's poison, calls, constructors and
// state by the image check, values by the comparison).

// rules are what the policy is for one target's language.
type rules struct {
	file       string // how refusals call the source
	prelude    string // the only header
	include    *regexp.Regexp
	pragmas    *regexp.Regexp
	expected   string            // pragmas, in words
	attributes []string          // those that change layout or a hint, never the meaning of arithmetic or when code runs
	forbidden  map[string]string // names that a kernel has no use for, with why
	prefixes   map[string]string // of such names
	constants  []string          // names of the prelude that a spec may set
	launches   bool              // whether the language has `<<<`, which starts other kernels
}

// maxSource bounds a source, bytes. One page of kernel is 5 KB; unrolled bodies make a compiler take minutes.
const maxSource = 256 << 10

var (
	directives = []string{"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error"}
	entryName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// check says why a candidate is refused before it is compiled, or gives nil.
func (r *rules) check(candidate card.Candidate) error {
	if len(candidate.Spec.Kernels) == 0 {
		return fmt.Errorf("the spec has no kernel")
	}
	for _, kernel := range candidate.Spec.Kernels {
		if !entryName.MatchString(kernel.Entry) {
			return fmt.Errorf("the spec names the entry %q (expected a C identifier)", kernel.Entry)
		}
	}
	if _, err := compile.Options(candidate.Spec.Constants); err != nil {
		return fmt.Errorf("the spec has the %w", err)
	}
	for name := range candidate.Spec.Constants {
		if strings.HasPrefix(name, "KF_") && !slices.Contains(r.constants, name) {
			return fmt.Errorf("the spec has the constant `%s`, a name of the prelude", name)
		}
	}
	return r.scan(candidate.Source)
}

func (r *rules) scan(source string) error {
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
		return fmt.Errorf("%s:%w", r.file, err)
	}
	for at := 0; at < len(tokens); {
		next, err := r.rule(tokens, at)
		if err != nil {
			return fmt.Errorf("%s:%w", r.file, err)
		}
		at = next
	}
	return nil
}

// rule judges what begins at a token and gives the place of the next.
func (r *rules) rule(tokens []token, at int) (int, error) {
	t := tokens[at]
	switch {
	case t.text == "#" && t.first:
		return r.directive(tokens, at)
	case t.text == "##" || t.text == "%:" || t.text == "%:%:":
		return 0, t.refuse("`%s`: tokens that only macros put together are not read here", t.text)
	case r.launches && t.text == "<" && at+2 < len(tokens) && tokens[at+1].text == "<" && tokens[at+2].text == "<":
		return 0, t.refuse("`<<<`: a kernel that starts kernels")
	case t.text == "[" && at+1 < len(tokens) && tokens[at+1].text == "[":
		return r.attribute(tokens, at+2, "]")
	case t.kind != identifier:
		return at + 1, nil
	case t.text == "__attribute__" || t.text == "__attribute":
		if at+2 >= len(tokens) || tokens[at+1].text != "(" || tokens[at+2].text != "(" {
			return 0, t.refuse("`%s` without `((`", t.text)
		}
		return r.attribute(tokens, at+3, ")")
	case t.text == "_Pragma":
		if at+3 >= len(tokens) || tokens[at+1].text != "(" || tokens[at+2].kind != literal || tokens[at+3].text != ")" {
			return 0, t.refuse("`_Pragma` without a plain string")
		}
		if text := strings.Trim(tokens[at+2].text, `"`); !r.pragmas.MatchString(strings.Join(strings.Fields(text), " ")) {
			return 0, t.refuse("pragma `%s` (expected %s)", text, r.expected)
		}
		return at + 4, nil
	}
	return at + 1, r.name(t)
}

func (r *rules) name(t token) error {
	if why, ok := r.forbidden[t.text]; ok {
		return t.refuse("`%s`: %s", t.text, why)
	}
	for prefix, why := range r.prefixes {
		if strings.HasPrefix(t.text, prefix) {
			return t.refuse("`%s`: %s", t.text, why)
		}
	}
	return nil
}

// directive judges a line that begins with #. What a `#define` defines is read as code.
func (r *rules) directive(tokens []token, at int) (int, error) {
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
		if len(rest) != 1 || !r.include.MatchString(rest[0].text) {
			return 0, name.refuse("`#include` of something else than %s, which stands in front of every source", r.prelude)
		}
		return end, nil
	case name.text == "pragma":
		words := make([]string, len(rest))
		for i, t := range rest {
			words[i] = t.text
		}
		text := strings.NewReplacer(" ( ", "(", " )", ")").Replace(strings.Join(words, " "))
		if !r.pragmas.MatchString(text) {
			return 0, name.refuse("`#pragma %s` (expected %s)", text, r.expected)
		}
		return end, nil
	case !slices.Contains(directives, name.text):
		return 0, name.refuse("`#%s` (expected define, undef, if, ifdef, ifndef, elif, else, endif, error, pragma or include)", name.text)
	}
	for inner := at + 2; inner < end; {
		next, err := r.rule(tokens[:end], inner)
		if err != nil {
			return 0, err
		}
		inner = next
	}
	return end, nil
}

// attribute judges the names of a list of attributes that begins at a token and ends with two closing brackets; their arguments are
// expressions.
func (r *rules) attribute(tokens []token, at int, closing string) (int, error) {
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
			if err := r.name(t); err != nil {
				return 0, err
			}
		case !slices.Contains(r.attributes, strings.Trim(t.text, "_")):
			return 0, t.refuse("attribute `%s` (expected one of %s)", t.text, strings.Join(r.attributes, ", "))
		}
	}
	return at, nil
}
