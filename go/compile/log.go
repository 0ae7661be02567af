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

// Filter makes a compiler's log fit for a verdict: how the compiler ended, and what Keep leaves of its log.
func (l Log) Filter(ending, log string) string {
	kept, limits := l.lines(log)
	if limits {
		ending += fmt.Sprintf(" (limits: %s)", l.Limits)
	}
	return worker.Clean(strings.TrimRight(fmt.Sprintf("the compiler ended with %s\n%s", ending, kept), "\n"), maxFailure)
}

// Keep leaves only lines about the candidate, the prelude and the job as a whole, without paths and control characters, the first 4 KiB. It is
// applied where the compiler ran, so that nothing else leaves that process, and by Filter where nothing from there is trusted: twice is as once.
func (l Log) Keep(log string) string {
	kept, _ := l.lines(log)
	return worker.Clean(kept, maxFailure)
}

func (l Log) lines(log string) (kept string, limits bool) {
	var text strings.Builder
	about := false
	for line := range strings.Lines(log) {
		line = strings.TrimRight(path.ReplaceAllString(line, ""), "\n")
		switch {
		case l.Ours.MatchString(line):
			about = true
		case l.Whole.MatchString(line):
			about = false
			limits = limits || limit.MatchString(line)
		case !about || !l.Quoted.MatchString(line):
			about = false
			continue
		}
		text.WriteString(line)
		text.WriteByte('\n')
	}
	return text.String(), limits
}
