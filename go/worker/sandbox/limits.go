package sandbox

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tier 0: what a process does to itself that needs nothing of the kernel beyond what every Linux has.

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

// Hide makes this process not dumpable: no other process of the user may trace it or read its memory.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: make the process not dumpable: %w", err)
	}
	return nil
}

// EndTogether has this process take its group with it when its parent ends. The kernel tells only the children of a process that ends, and kills
// those of them that asked for it: a killed driver of a compiler leaves the compiler that it had started. The signal is SIGCONT, which is heard
// by a process that somebody has stopped. Call it before Seal and before the first child; until then the kernel's SIGKILL is enough.
func EndTogether() error {
	parent := os.Getppid()
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGCONT)
	go func() { // cannot panic: it calls the kernel with numbers
		for range told {
			if os.Getppid() != parent { // else somebody lets us go on
				_ = unix.Kill(0, unix.SIGKILL)
			}
		}
	}()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0); err != nil {
		return fmt.Errorf("confine: end with the parent: %w", err)
	}
	return nil
}

// faults are the signals of code that faults.
var faults = []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS}

// defaultSignals gives the signals of faulting code, and those with which somebody else ends a process, back to the kernel, so that the exit status
// names the signal on whichever thread it arose. Go's own handlers would dump stacks and exit with 2, be confused by a thread that they do not know,
// or raise the signal again, which Seal forbids: the process would then end with status 2, as if by its candidate's doing.
func defaultSignals() error {
	var action struct { // the kernel's struct sigaction, all zero: SIG_DFL
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for _, number := range slices.Concat(faults, FromOutside) {
		if number == unix.SIGKILL || number == unix.SIGSTOP { // they cannot be handled
			continue
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fmt.Errorf("confine: default action of %s: %w", unix.SignalName(number), errno)
		}
	}
	return nil
}

// dropCapabilities gives up, for good, what root or a new user namespace holds. Without any to give up it does nothing.
func dropCapabilities() error {
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err == unix.EINVAL { // past the last one
			break
		}
		if err == unix.EPERM { // none to drop: an ordinary user has none, and gains none by executing a program
			break
		}
		if err != nil {
			return fmt.Errorf("confine: drop capability %d: %w", capability, err)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // older kernels have none
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("confine: drop all capabilities: %w", err)
	}
	return nil
}
