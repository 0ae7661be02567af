package serve

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// Tier 0, what this file sets and checks: no new privileges, no core dumps, bounded file sizes and descriptors, not dumpable (no other process
// of the user may trace it or read its memory), killed with its parent, an environment of allow-listed names. The parent adds a process
// group and a working directory of its own. It does not keep the process from reading files or opening sockets: the tiers above do (worker/sandbox).
//
// CUDA differs in what the driver needs: locked memory (it pins pages), more descriptors (each device node is opened many times), and no limit on
// the address space, of which a context reserves more than the machine has memory. A process that holds a context is made not dumpable only when
// the context is there, since the driver writes to files of its own process while it starts.

var hostLimits = map[int]uint64{
	unix.RLIMIT_CORE:     0,
	unix.RLIMIT_FSIZE:    2 * worker.MaxImage, // csrc loads an image through a memory file
	unix.RLIMIT_NOFILE:   1024,
	unix.RLIMIT_MEMLOCK:  0,
	unix.RLIMIT_MSGQUEUE: 0,
}

// limits of the mode that this program was started in.
func limits(args []string) map[int]uint64 {
	if !cuda(args) {
		return hostLimits
	}
	set := maps.Clone(hostLimits)
	delete(set, unix.RLIMIT_MEMLOCK)
	set[unix.RLIMIT_NOFILE] = 4096
	return set
}

// cuda says whether the program was started to run candidates on a device: `serve cuda`.
func cuda(args []string) bool { return len(args) > 2 && args[2] == "cuda" }

// below says whether a tool runs the program, which sets variables of its own.
func below(args []string) bool { return slices.Contains(args, sandbox.Below) }

// holds looks whether tier 0 does, in this process and on every thread.
func holds(args []string) error {
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("check the sandbox: no thread is visible in /proc/self/task (%w)", err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if os.IsNotExist(err) || strings.Contains(fmt.Sprint(err), "no such process") {
			continue // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("check the sandbox: %w", err)
		}
		if !strings.Contains(string(status), "NoNewPrivs:\t1") {
			return fmt.Errorf("check the sandbox: `%s` does not say NoNewPrivs 1", path)
		}
	}
	for resource, limit := range limits(args) {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil || now.Max > limit || now.Cur > limit {
			return fmt.Errorf("check the sandbox: resource limit %d is %d (expected at most %d)", resource, now.Max, limit)
		}
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		return fmt.Errorf("check the sandbox: the process is dumpable (%d)", dumpable)
	}
	if group := unix.Getpgrp(); group != os.Getpid() {
		return fmt.Errorf("check the sandbox: process group %d (expected an own one, %d)", group, os.Getpid())
	}
	if below(args) {
		return nil
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !worker.Allowed(name) {
			return fmt.Errorf("check the sandbox: the environment has `%s`, which is not on the allow-list", name)
		}
	}
	return nil
}
