package cuda

import (
	"fmt"
	"regexp"
	"strings"
)

// The image check that needs no device, on the assembly that NVRTC makes on its way to the cubin. The policy keeps assembly out of sources, so
// that this text is the compiler's own.

var (
	// variable is a declaration of memory that outlives a launch, at any depth, with its name.
	variable = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak|common|extern)[ \t]+)*\.global[ \t][^;={]*?([A-Za-z_$%][A-Za-z0-9_$]*)[ \t]*(?:\[[^;={]*)?[;=]`)
	// outside is a function that is not in the source.
	outside = regexp.MustCompile(`(?m)^[ \t]*\.extern[ \t]+\.func[^;]*?([A-Za-z_$%][A-Za-z0-9_$]*)[ \t\n]*(?:\([^;]*)?;`)
	word    = regexp.MustCompile(`[A-Za-z_$%][A-Za-z0-9_$]*`)
)

// tables is how the compiler's own tables of constants are called (for the sine of large numbers); the policy refuses sources that use such names.
const tables = "__cudart_"

// inspect refuses what a kernel may not do although it compiles: use a variable that keeps its value between launches (a `constexpr` at file
// scope is one too, but its value is in the code and nothing refers to it), or call the device's runtime (printf, malloc).
func inspect(ptx string) error {
	if found := outside.FindStringSubmatch(ptx); found != nil {
		return fmt.Errorf("it calls `%.64s`, which is not in the source (expected no calls of the device's runtime)", found[1])
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
