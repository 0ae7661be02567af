package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What every untrusted process is behind before it reads anything, and what of the environment it may see.

// allowed names the variables that an untrusted process may have. Keys, tokens, proxies and Python's paths are not among them.
var allowed = []string{"PATH", "LD_LIBRARY_PATH", "LC_ALL", "TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA"}

// deviceVariables decide which GPUs CUDA sees, in which order and through which driver: with other values an ordinal would mean another GPU.
var deviceVariables = []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA"}

// Allowed says whether an untrusted process may have a variable of this name.
func Allowed(name string) bool { return slices.Contains(allowed, name) }

// Environment is what an untrusted process gets: paths of programs and libraries, scratch as its temporary folder, messages in English.
func Environment(scratch string) []string {
	return environment(scratch, nil, "PATH", "LD_LIBRARY_PATH")
}

// environment takes variables from `given`, else from this process's own. Python's `os.environ` is not the latter: Go sees what the process
// was started with.
func environment(scratch string, given map[string]string, names ...string) []string {
	set := []string{"LC_ALL=C", "TMPDIR=" + scratch}
	for _, name := range names {
		value, ok := given[name]
		if !ok {
			value, ok = os.LookupEnv(name)
		}
		if ok {
			set = append(set, name+"="+value)
		}
	}
	return set
}

// Inherit sets no-new-privileges on this thread and resource limits on this process; children and later threads of this one have both.
func Inherit(limits map[int]uint64) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: no new privileges: %w", err)
	}
	for resource, limit := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("confine: read resource limit %d: %w", resource, err)
		}
		limit = min(limit, now.Max) // an unprivileged process may only lower it
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("confine: set resource limit %d to %d: %w", resource, limit, err)
		}
	}
	return nil
}

// confined marks the second start of a program: the limits that threads inherit are set before the Go runtime's threads exist.
const confined = "--confined"

// Confine puts this process behind limits. No-new-privileges belongs to a thread, and Go has threads before main: so the first start sets
// it together with the limits and executes the program again, which passes both on to every thread of the second start. Call it from main before
// any goroutine, with the program's arguments; it returns in the second start only, locked to its thread: there the work is to be done, since
// the parent-death signal belongs to this thread.
func Confine(args []string, limits map[int]uint64) error {
	runtime.LockOSThread()
	if args[len(args)-1] != confined {
		if err := Inherit(limits); err != nil {
			return err
		}
		again := append(append([]string{}, args...), confined)
		return fmt.Errorf("confine: start again: %w", unix.Exec("/proc/self/exe", again, os.Environ()))
	}
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(args[0])), 0) // or `ps` would call it `exe`, as it was started
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("confine: end with the parent: %w", err)
	}
	return defaultFaults()
}

// Hide makes this process not dumpable: no other process of the user may trace it or read its memory.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: make the process not dumpable: %w", err)
	}
	return nil
}

// defaultFaults gives the signals of faulting code back to the kernel, so that the exit status names the signal on whichever thread it
// arose. Go's own handler would dump its stacks and exit with 2, or be confused by a thread that it does not know.
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
