package serve

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// socket is the descriptor of the frame socket in a started worker (os/exec's first extra file).
const socket = 3

// leave takes a worker that was started below a tool out of the tool's group, and has the kernel kill it with the tool.
func leave() error {
	if err := unix.Setpgid(0, 0); err != nil {
		return fmt.Errorf("serve: lead a process group: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("serve: die with the parent: %w", err)
	}
	return nil
}

// Main is the mode `serve` (host), `serve cuda` or `serve cuda below` (a tool, such as compute-sanitizer) of kernelforge-worker: confine, then answer frames until the parent is gone.
func Main(args []string, open OpenMeter) error {
	room, err := sandbox.Confine(args, limits(args))
	if err != nil {
		return err
	}
	if !cuda(args) {
		if err := sandbox.Hide(); err != nil {
			return err
		}
	}
	if below(args) {
		if err := leave(); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(2) // one thread runs the candidate, one notices the parent's end; kernels have csrc's own pool
	conn, err := worker.NewConn(os.NewFile(socket, "frames"))
	if err != nil {
		return err
	}
	confine := func(library *kfr.Library) (sandbox.Report, error) {
		if err := sandbox.Hide(); err != nil {
			return sandbox.Report{}, err
		}
		if err := library.ReportFaults(2); err != nil {
			return sandbox.Report{}, err
		}
		if err := sandbox.Seal(room); err != nil {
			return sandbox.Report{}, err
		}
		if err := holds(args); err != nil {
			return sandbox.Report{}, err
		}
		return sandbox.Try(room), nil
	}
	gone := func() { os.Exit(0) } // even in the middle of a candidate
	return New(conn, open, confine).Serve(context.Background(), gone)
}
