package host

import (
	"regexp"
	"strings"
	"testing"
)

// Constants of a spec become macros, names in capitals: one that is a word of the prelude would rewrite it, and a candidate that calls its sizes
// N and K would not compile.
func TestNoConstantCanRewriteThePrelude(t *testing.T) {
	for i, line := range strings.Split(Prelude, "\n") {
		code, _, _ := strings.Cut(line, "//")
		for _, word := range regexp.MustCompile(`"[^"]*"|\b[A-Z][A-Z0-9_]*\b`).FindAllString(code, -1) {
			if !strings.HasPrefix(word, `"`) && !strings.HasPrefix(word, "KF_") {
				t.Errorf("line %d has the word `%s` in capitals alone: %s", i+1, word, line)
			}
		}
	}
}
