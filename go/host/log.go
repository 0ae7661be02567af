package host

import (
	"fmt"
	"regexp"

	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
)

var (
	ours   = regexp.MustCompile(`^(candidate\.cc|kf_kernel\.h|\./kf_kernel\.h|<command-line>|<scratch space>)(:|\()`)
	quoted = regexp.MustCompile(`^\s+(\d+\s*)?\||^\s`) // as g++ and clang print it
	whole  = regexp.MustCompile(`((Killed|Terminated|Hangup|Interrupt|Quit) signal terminated program|undefined reference|CPU time limit|File size limit|Killed|out of memory|virtual memory exhausted|cannot allocate|internal compiler error|unable to execute|\bPCH\b|\.gch\b)`)

	// A program of the compiler was ended by a signal that only somebody else sends (worker/sandbox, FromOutside), or by the kernel for want of memory.
	// Using up its CPU time has a signal of its own.
	killed = regexp.MustCompile(`^the compiler ended with signal: (killed|terminated|hangup|interrupt|quit)|(Killed|Terminated|Hangup|Interrupt|Quit) signal terminated program`)
)

// log is what a verdict may quote of g++'s and clang's words.
func log(seconds uint64) compile.Log {
	return compile.Log{Ours: ours, Quoted: quoted, Whole: whole,
		Limits: fmt.Sprintf("%d s of CPU time, %d GiB of memory, %d MiB of output", seconds, memoryBytes>>30, worker.MaxImage>>20)}
}
