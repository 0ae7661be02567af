// kernelforge-worker is the program of the untrusted processes: `serve` runs candidates, `compile` turns source into an image.
//
// It is started by the library, never by a person. It holds no keys, no references and no user's files; what each mode may do is limited
// before it reads anything (worker/serve, host). Built without cgo: csrc is reached through purego.
package main

import (
	"fmt"
	"os"

	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/worker/serve"
)

const usage = "kernelforge-worker: started by the library as `serve` (frames on descriptor 3) or `compile` (JSON on standard input)"

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s", usage)
	}
	switch args[1] {
	case "serve":
		return serve.Main(args)
	case "compile":
		return host.Compile(os.Stdin, os.Stdout)
	}
	return fmt.Errorf("%s", usage)
}
