package host

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kernelforge/kernelforge/go/worker"
)

// maxFailure bounds a filtered log: it goes into verdicts and prompts.
const maxFailure = 4 << 10

var (
	// ours is a line about the candidate or the prelude, which are the only files that a log may quote.
	ours = regexp.MustCompile(`^(candidate\.cc|kf_kernel\.h|\./kf_kernel\.h|<command-line>|<scratch space>)(:|\()`)
	// quoted is the source line, caret or hint that g++ and clang print below.
	quoted = regexp.MustCompile(`^\s+(\d+\s*)?\||^\s`)
	// whole is a line of the compiler or the linker about the whole job.
	whole = regexp.MustCompile(`(undefined reference|CPU time limit|File size limit|Killed|out of memory|virtual memory exhausted|cannot allocate|internal compiler error|unable to execute)`)
	path  = regexp.MustCompile(`(/[^\s:'"()<>,]+)+/`)
)

// Filter makes a compiler's log fit for a verdict: only lines about the candidate, the prelude and the job as a whole, without paths and
// control characters, the first 4 KiB.
func Filter(ending, log string, seconds uint64) string {
	var kept strings.Builder
	limits := ""
	about := false
	for line := range strings.Lines(log) {
		line = strings.TrimRight(path.ReplaceAllString(line, ""), "\n")
		switch {
		case ours.MatchString(line):
			about = true
		case whole.MatchString(line):
			about = false
			if strings.Contains(line, "limit") || strings.Contains(line, "Killed") || strings.Contains(line, "memory") {
				limits = fmt.Sprintf(" (limits: %d s of CPU time, %d GiB of memory, %d MiB of output)", seconds, memoryBytes>>30, worker.MaxImage>>20)
			}
		case !about || !quoted.MatchString(line):
			about = false
			continue
		}
		kept.WriteString(line)
		kept.WriteByte('\n')
	}
	return worker.Clean(fmt.Sprintf("the compiler ended with %s%s\n%s", ending, limits, strings.TrimRight(kept.String(), "\n")), maxFailure)
}
