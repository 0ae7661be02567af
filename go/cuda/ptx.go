package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The image check that needs no device, on the assembly that NVRTC makes on its way to the cubin. Macros, pasted tokens and digraphs are gone there,
// and so it decides where the scan of the source only advises: the text of inline assembly stands in it like the compiler's own.

var (
	// variable is a declaration of memory that outlives a launch, at any depth, with its name.
	variable = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak|common|extern)[ \t]+)*\.global[ \t][^;={]*?([A-Za-z_$%][A-Za-z0-9_$]*)[ \t]*(?:\[[^;={]*)?[;=]`)
	// outside is a function that is not in the source.
	outside = regexp.MustCompile(`(?m)^[ \t]*\.extern[ \t]+\.func[^;]*?([A-Za-z_$%][A-Za-z0-9_$]*)[ \t\n]*(?:\([^;]*)?;`)
	word    = regexp.MustCompile(`[A-Za-z_$%][A-Za-z0-9_$]*`)
	comment = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)`)
	// reads are registers that tell the time or count events.
	reads = regexp.MustCompile(`%(?:clock|globaltimer|pm)[A-Za-z0-9_]*`)
)

// instructions are those that no kernel has a use for, by the first part of their names, with why.
var instructions = map[string]string{
	"trap": "a way to end the process", "brkpt": "a way to stop the process", "pmevent": "the profiler's counters", "nanosleep": "a wait",
	"createpolicy": "the state of the caches", "applypriority": "the state of the caches", "discard": "the state of the caches",
	"griddepcontrol": "the order of launches, which the spec decides",
}

// modifiers are parts of an instruction's name that no kernel has a use for.
var modifiers = []string{"cache_hint", "evict_first", "evict_last", "evict_normal", "evict_unchanged"}

// tables is how the compiler's own tables of constants are called (for the sine of large numbers); the policy refuses sources that use such names.
const tables = "__cudart_"

// inspect refuses what a kernel may not do although it compiles: use a variable that keeps its value between launches (a `constexpr` at file
// scope is one too, but its value is in the code and nothing refers to it), call the device's runtime (printf, malloc, assert), read a clock, end
// or delay the process, or arrange the caches for its own timing.
func inspect(ptx string) error {
	ptx = comment.ReplaceAllString(ptx, " ")
	if found := outside.FindStringSubmatch(ptx); found != nil {
		return fmt.Errorf("it calls `%.64s`, which is not in the source (expected no calls of the device's runtime)", found[1])
	}
	if err := inspectCode(ptx); err != nil {
		return err
	}
	declared := variable.FindAllStringSubmatch(ptx, -1)
	if len(declared) == 0 {
		return nil
	}
	seen := map[string]int{}
	for _, name := range word.FindAllString(ptx, -1) {
		seen[name]++
	}
	for _, found := range declared {
		if name := found[1]; seen[name] > 1 && !strings.HasPrefix(name, tables) {
			return fmt.Errorf("it uses the variable `%.64s`, which keeps its value between launches (expected none; a table of constants is `__constant__`)", name)
		}
	}
	return nil
}

// inspectCode looks at every statement: what its instruction is called, and what it reads.
func inspectCode(ptx string) error {
	if found := reads.FindString(ptx); found != "" {
		return fmt.Errorf("it reads `%.64s`: a clock, or a counter of events", found)
	}
	for _, statement := range strings.FieldsFunc(ptx, func(c rune) bool { return c == ';' || c == '{' || c == '}' }) {
		name := instruction(statement)
		parts := strings.Split(name, ".")
		if why, known := instructions[parts[0]]; known {
			return fmt.Errorf("it has the instruction `%.64s`: %s", name, why)
		}
		for _, part := range parts[1:] {
			if slices.Contains(modifiers, strings.TrimPrefix(part, "L1::")) || slices.Contains(modifiers, strings.TrimPrefix(part, "L2::")) {
				return fmt.Errorf("it has the instruction `%.64s`: the state of the caches", name)
			}
		}
	}
	return nil
}

// instruction is the name of a statement's instruction, behind labels and the predicate; "" for a directive.
func instruction(statement string) string {
	rest := strings.TrimSpace(statement)
	for {
		label, after, found := strings.Cut(rest, ":")
		if !found || !plain(label) || strings.HasPrefix(after, ":") { // L2::evict_last is no label
			break
		}
		rest = strings.TrimSpace(after)
	}
	if predicate, found := strings.CutPrefix(rest, "@"); found {
		predicate = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(predicate), "!"))
		end := strings.IndexFunc(predicate, func(c rune) bool { return c == ' ' || c == '\t' || c == '\n' })
		if end < 0 {
			return ""
		}
		rest = strings.TrimSpace(predicate[end:])
	}
	if fields := strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune(" \t\r\n,[]()", c) }); len(fields) > 0 && fields[0][0] != '.' {
		return fields[0]
	}
	return ""
}

// plain says whether a text is one name.
func plain(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && word.FindString(text) == text
}
