package compile

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kernelforge/kernelforge/go/worker"
)

// maxFailure bounds a filtered log: it goes into verdicts and prompts.
const maxFailure = 4 << 10

// Log says which lines of a compiler's log a verdict may quote.
type Log struct {
	Ours   *regexp.Regexp // a line about the candidate or the prelude, which are the only files that a log may quote
	Quoted *regexp.Regexp // the source line, caret or hint that the compiler prints below
	Whole  *regexp.Regexp // a line of the compiler or the linker about the whole job
	Limits string         // what the job was limited to, told after a line that speaks of a limit
}

var (
	path  = regexp.MustCompile(`(/[^\s:'"()<>,]+)+/`)
	limit = regexp.MustCompile(`limit|Killed|memory`)
)

// Filter makes a compiler's log fit for a verdict: only lines about the candidate, the prelude and the job as a whole, without paths and
// control characters, the first 4 KiB.
func (l Log) Filter(ending, log string) string {
	var kept strings.Builder
	limits := ""
	about := false
	for line := range strings.Lines(log) {
		line = strings.TrimRight(path.ReplaceAllString(line, ""), "\n")
		switch {
		case l.Ours.MatchString(line):
			about = true
		case l.Whole.MatchString(line):
			about = false
			if limit.MatchString(line) {
				limits = fmt.Sprintf(" (limits: %s)", l.Limits)
			}
		case !about || !l.Quoted.MatchString(line):
			about = false
			continue
		}
		kept.WriteString(line)
		kept.WriteByte('\n')
	}
	return worker.Clean(strings.TrimRight(fmt.Sprintf("the compiler ended with %s%s\n%s", ending, limits, kept.String()), "\n"), maxFailure)
}
