// kernelforge-worker is the program of the untrusted processes: `serve` runs candidates (`serve cuda`: on a GPU), `compile` turns C++ source
// into an image, `compile-cuda` answers one compile of device code after another; `tiers` tells what the walls of the others are worth here.
//
// It is started by the library, never by a person. It holds no keys, no references and no user's files; what each mode may do is limited
// before it reads anything (worker/serve, host, cuda). csrc and NVRTC are reached through purego; NVML through go-nvml, whose symbols are bound at
// their first call, so that the program starts where there is no driver.
package main

import (
	"fmt"
	"os"

	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/nvml"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/serve"
)

const usage = "kernelforge-worker: started by the library as `serve` (frames on descriptor 3), `compile` (JSON on standard input) or `compile-cuda` (frames on standard input); by the doctor as `tiers`"

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
	if args[1] == "serve" {
		worker.Disinherit(4) // 3 is the socket of the frames
	} else {
		worker.Disinherit(3)
	}
	switch args[1] {
	case "serve":
		return serve.Main(args, openMeter)
	case "compile":
		return host.Compile(args, os.Stdin, os.Stdout)
	case "compile-cuda":
		return cuda.Serve(args)
	case "tiers":
		return tiers(args[2:], os.Stdout)
	}
	return fmt.Errorf("%s", usage)
}

func openMeter(uuid, pci string) (serve.Meter, error) {
	meter, err := nvml.Open(uuid, pci)
	if err != nil {
		return nil, err // not `meter`: a nil *Meter in an interface is not nil
	}
	return meter, nil
}
