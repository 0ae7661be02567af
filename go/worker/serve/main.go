package serve

import (
	"context"
	"os"
	"runtime"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

// socket is the descriptor of the frame socket in a started worker (os/exec's first extra file).
const socket = 3

// Main is the mode `serve` (host) or `serve cuda` of kernelforge-worker: confine, then answer frames until the parent is gone.
func Main(args []string, open OpenMeter) error {
	if err := worker.Confine(args, limits(args)); err != nil {
		return err
	}
	if !cuda(args) {
		if err := worker.Hide(); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(2) // one thread runs the candidate, one notices the parent's end; kernels have csrc's own pool
	conn, err := worker.NewConn(os.NewFile(socket, "frames"))
	if err != nil {
		return err
	}
	confine := func(library *kfr.Library) (int, error) {
		if err := worker.Hide(); err != nil {
			return 0, err
		}
		if err := library.ReportFaults(2); err != nil {
			return 0, err
		}
		return Tier(args)
	}
	gone := func() { os.Exit(0) } // even in the middle of a candidate
	return New(conn, open, confine).Serve(context.Background(), gone)
}
