package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/worker"
	"golang.org/x/sys/unix"
)

// Tier 0, what this file sets and checks: no new privileges, no core dumps, bounded file sizes and descriptors, not dumpable (no other process
// of the user may trace it or read its memory), killed with its parent, an environment of allow-listed names. The parent adds a process
// group and a working directory of its own. It does not keep the process from reading files or opening sockets: that is tier 1.

// confined marks the second start of the program: the limits that threads inherit are set before the Go runtime's threads exist.
const confined = "--confined"

var limits = map[int]uint64{
	unix.RLIMIT_CORE:     0,
	unix.RLIMIT_FSIZE:    2 * worker.MaxImage, // csrc loads an image through a memory file
	unix.RLIMIT_NOFILE:   1024,
	unix.RLIMIT_MEMLOCK:  0,
	unix.RLIMIT_MSGQUEUE: 0,
}

// Confine puts this process behind tier 0. No-new-privileges belongs to a thread, and Go has threads before main: so the first start
// sets it together with the limits and executes the program again, which passes both on to every thread of the second start. Call it
// from main before any goroutine, with the program's arguments; it returns in the second start only.
func Confine(args []string) error {
	runtime.LockOSThread() // for good: the serving loop runs here, and the parent-death signal belongs to this thread
	if args[len(args)-1] != confined {
		if err := worker.Inherit(limits); err != nil {
			return err
		}
		again := append(append([]string{}, args...), confined)
		return fmt.Errorf("confine: start again: %w", unix.Exec("/proc/self/exe", again, os.Environ()))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: make the process not dumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("confine: end with the parent: %w", err)
	}
	return defaultFaults()
}

// defaultFaults gives the signals of a faulting candidate back to the kernel, so that the exit status names the signal on whichever
// thread it arose. Go's own handler would dump its stacks and exit with 2, or be confused by a thread that it does not know.
func defaultFaults() error {
	var action struct { // the kernel's struct sigaction, all zero: SIG_DFL
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for _, signal := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS} {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fmt.Errorf("confine: default action of %s: %w", unix.SignalName(signal), errno)
		}
	}
	return nil
}

// Tier looks at what really holds in this process, on every thread, and says which tier that is. Below tier 0 is an error.
func Tier() (int, error) {
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("check the sandbox: no thread is visible in /proc/self/task (%w)", err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if os.IsNotExist(err) || strings.Contains(fmt.Sprint(err), "no such process") {
			continue // the thread has ended
		}
		if err != nil {
			return 0, fmt.Errorf("check the sandbox: %w", err)
		}
		if !strings.Contains(string(status), "NoNewPrivs:\t1") {
			return 0, fmt.Errorf("check the sandbox: `%s` does not say NoNewPrivs 1", path)
		}
	}
	for resource, limit := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil || now.Max > limit || now.Cur > limit {
			return 0, fmt.Errorf("check the sandbox: resource limit %d is %d (expected at most %d)", resource, now.Max, limit)
		}
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		return 0, fmt.Errorf("check the sandbox: the process is dumpable (%d)", dumpable)
	}
	if group := unix.Getpgrp(); group != os.Getpid() {
		return 0, fmt.Errorf("check the sandbox: process group %d (expected an own one, %d)", group, os.Getpid())
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !worker.Allowed(name) {
			return 0, fmt.Errorf("check the sandbox: the environment has `%s`, which is not on the allow-list", name)
		}
	}
	return 0, nil
}
