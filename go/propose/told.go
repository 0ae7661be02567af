package propose

// told.go owns what an author is told of a verdict: which check failed, and on what kind of input. It refuses to pass on what the check was made
// of (seeds, places, values that were expected): feedback on a test is training data for the search.

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// words say what a gate asks for, to somebody who did not pass it. A gate that is not here has a detail that holds nothing secret: the words of a
// compiler, a policy or a driver about the candidate itself.
var words = map[string]string{
	"poison":      "an output has elements that the kernel never wrote",
	"guard_pages": "the kernel touched memory outside of its tensors",
	"inputs":      "the kernel changed a tensor that it may only read",
	"values":      "the output is not as right as eager's",
	"special":     "nan, infinities, zeros with a sign, denormal or extreme numbers do not come out as eager's",
	"exact":       "the output has to be equal to eager's bit for bit, and is not",
	"exhaustive":  "the output is wrong for some of all values that an element can have",
	"metamorphic": "a property that the operator has does not hold for the output",
	"cap":         "the largest error is above what is allowed",
	"repeats":     "the same input gave other bits in another run: a race, or an order that changes",
	"dirty":       "the output depends on what registers, shared memory or workspaces held before the run",
	"fresh":       "another process, with other addresses, got other bits",
	"floor":       "it ended sooner than its bytes can be moved: work is left out",
	"timing":      "the whole run is not surely faster than eager",
	"deadline":    "it did not end in time",
}

var (
	share = regexp.MustCompile(`\b(\d+) of (\d+) elements\b`)
	kind  = regexp.MustCompile(`\b(captured|fresh|special|exact|exhaustive|metamorphic) input\b`)
)

const mostTold = 4096 // bytes of a detail

var folder = regexp.MustCompile(`(/[^\s:'"()<>,` + "`" + `]+)+/`) // in front of a file's name

// WithoutFolders leaves of each path the file's own name.
func WithoutFolders(text string) string { return folder.ReplaceAllString(text, "") }

// Told gives a verdict as an author may see it.
func Told(v card.Verdict) card.Verdict {
	v.At = nil
	if text, closed := words[v.Gate]; closed {
		var more []string
		if found := kind.FindStringSubmatch(v.Detail); found != nil {
			more = append(more, fmt.Sprintf("on a %s input", found[1]))
		}
		if found := share.FindStringSubmatch(v.Detail); found != nil {
			more = append(more, fmt.Sprintf("%s of %s elements", found[1], found[2]))
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		v.Detail = text
		return v
	}

	if v.Gate == "" && (v.Status == card.WrongValue || v.Status == card.WrongShape || v.Status == card.TooFast) { // of an older log, without its gate
		v.Detail = "the output is not eager's"
		return v
	}
	v.Detail = WithoutFolders(v.Detail)
	if len(v.Detail) > mostTold {
		v.Detail = strings.ToValidUTF8(v.Detail[:mostTold], "") + "..."
	}
	return v
}

// ToldOf is an attempt as an author may see it.
func ToldOf(a Attempt) Attempt {
	a.Verdict = Told(a.Verdict)
	return a
}
