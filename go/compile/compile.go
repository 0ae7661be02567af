// Package compile is what the compile pools of the two targets share: the end of a compile, its log as far as a verdict may quote it, the
// macros of a spec's constants, and the cache of images.
//
// It refuses to run a compiler: go/host and go/cuda do, each in processes of its own.
package compile

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Built is the end of a compile: an image, or why there is none.
type Built struct {
	Image   []byte
	Failure string // it does not compile: one line, then the compiler's log without paths, at most 4 KiB
	Refused string // it compiles, but the image check on the way refuses it: why
	Cached  bool
	Seconds float64
}

// Limits of one compile, since a compiler has no cancel call and sources that take it minutes are real: CPU time, which is what a source can take, and
// time on the wall, whatever the compiler waits for; a machine that does other work keeps it waiting for long.
const (
	CPULimit  = 60 * time.Second
	WallLimit = 5 * CPULimit
)

// Options are the macros of a spec's constants, in order of their names.
func Options(constants map[string]string) ([]string, error) {
	options := make([]string, 0, len(constants))
	for name, value := range constants {
		if !constantName.MatchString(name) || !constantValue.MatchString(value) {
			return nil, fmt.Errorf("constant %q = %q (expected a name of [A-Z][A-Z0-9_]* and a value of [A-Za-z0-9_.+-]+)", name, value)
		}
		options = append(options, "-D"+name+"="+value)
	}
	slices.Sort(options)
	return options, nil
}

var (
	constantName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	constantValue = regexp.MustCompile(`^[A-Za-z0-9_.+-]{1,64}$`)
)
