package cuda

import (
	"fmt"
	"regexp"

	"github.com/kernelforge/kernelforge/go/compile"
)

// Flags are the compile options, ours and fixed: eager's arithmetic (its CUDA code is built with contraction of a*b+c and without fast-math), no
// files but the headers given in memory, no runtime calls from the device (-minimal), straight to machine code for one architecture.
func Flags(arch string) []string {
	return []string{"--gpu-architecture=" + arch, "--std=c++17", "-default-device", "--fmad=true", "-minimal", "--no-source-include"}
}

var log = compile.Log{
	Ours:   regexp.MustCompile(`^(` + regexp.QuoteMeta(sourceName) + `|` + regexp.QuoteMeta(PreludeName) + `)(:|\()`),
	Quoted: regexp.MustCompile(`^\s`), // the source line and the caret
	Whole:  regexp.MustCompile(`^(ptxas|nvrtc|At end of source|catastrophic|Internal)\b.*`),
	Limits: fmt.Sprintf("%s of CPU time, %d GiB of memory, %d MiB of output", compile.CPULimit, memoryBytes>>30, maxImage>>20),
}
