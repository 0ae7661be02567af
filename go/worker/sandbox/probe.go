package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The self-test: a process tries, from inside its room, what code that means harm would try. Nothing is concluded from settings: a tier is
// reached when every attempt that it promises to stop has failed.

// Attempt is one thing that was tried.
type Attempt struct {
	What    string `json:"what"`
	Tier    int    `json:"tier"` // from which on it must fail
	Stopped bool   `json:"stopped"`
	Found   string `json:"found"` // "EACCES", or what was possible
}

// Report is what a process found out about its room.
type Report struct {
	Tier     int       `json:"tier"` // the highest one whose promises all hold
	Attempts []Attempt `json:"attempts"`
}

// Lacks are the attempts that a tier promises to stop, and that were possible.
func (r Report) Lacks(tier int) []string {
	var lacks []string
	for _, a := range r.Attempts {
		if a.Tier <= tier && !a.Stopped {
			lacks = append(lacks, fmt.Sprintf("%s (%s)", a.What, a.Found))
		}
	}
	return lacks
}

type attempt struct {
	what string
	tier int
	try  func() error // nil: it was possible
}

// Try makes every attempt on this thread and on another one, and says which tier holds. Call it when the room is sealed. Without a secret in the
// room nothing is tried and nothing above tier 0 is claimed.
func Try(room Room) Report {
	if room.Secret == "" {
		return Report{Tier: Limits, Attempts: []Attempt{}}
	}
	here := attemptAll(room)
	var there []Attempt
	done := make(chan struct{})
	go func() { // cannot panic more than the same calls here
		defer close(done)
		runtime.LockOSThread() // another thread than the caller's, which is locked to its own; it ends with this goroutine
		there = attemptAll(room)
	}()
	<-done
	for i := range here {
		if here[i].Stopped && !there[i].Stopped {
			here[i] = there[i]
			here[i].Found += ", on a second thread"
		}
	}
	report := Report{Tier: room.Tier, Attempts: here}
	for report.Tier > Limits && len(report.Lacks(report.Tier)) > 0 {
		report.Tier--
	}
	return report
}

func attemptAll(room Room) []Attempt {
	var all []Attempt
	for _, a := range attempts(room) {
		err := a.try()
		found := "possible"
		var errno unix.Errno
		if errors.As(err, &errno) {
			found = unix.ErrnoName(errno)
		} else if err != nil {
			found = err.Error()
		}
		all = append(all, Attempt{a.what, a.tier, err != nil, found})
	}
	return all
}

// attempts lists what is tried in a room. None harms where it is possible: calls that would are given arguments that fail later.
func attempts(room Room) []attempt {
	parent := os.Getppid()
	list := []attempt{
		{"read a secret file", Walls, func() error { return opened(room.Secret, unix.O_RDONLY) }},
		{"cut a secret file short", Walls, func() error { return opened(room.Secret, unix.O_RDONLY|unix.O_TRUNC) }},
		{"change a secret file's mode", Walls, func() error { return unix.Chmod(room.Secret, 0o600) }},
		{"write beside a secret file", Walls, func() error { return written(room.Secret + ".new") }},
		{"read the environment of its parent", Walls, func() error { return opened(fmt.Sprintf("/proc/%d/environ", parent), unix.O_RDONLY) }},
		{"read the memory of its parent", Walls, func() error { return peek(parent) }},
		{"trace its parent", Walls, func() error { return called(unix.SYS_PTRACE, unix.PTRACE_PEEKDATA, uintptr(parent)) }},
		{"signal its parent", Walls, func() error { return unix.Kill(parent, 0) }},
		{"write into the system's temporary folder", Walls, func() error { return written(filepath.Join("/tmp", fmt.Sprintf("kernelforge-%d", os.Getpid()))) }},
		{"open a socket to the network", Walls, func() error { return socket(unix.AF_INET) }},
		{"open a socket to a server of this machine", Walls, func() error { return socket(unix.AF_UNIX) }},
		{"hold a capability", Walls, capabilities},
		{"have a thread without a filter", Walls, filtered},
	}
	for _, c := range []struct {
		name string
		call uintptr
	}{{"io_uring", unix.SYS_IO_URING_SETUP}, {"bpf", unix.SYS_BPF}, {"keyctl", unix.SYS_KEYCTL}, {"userfaultfd", unix.SYS_USERFAULTFD},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN}, {"unshare", unix.SYS_UNSHARE}, {"mount", unix.SYS_MOUNT}} {
		list = append(list, attempt{"call " + c.name, Walls, func() error { return called(c.call, ^uintptr(0), ^uintptr(0)) }})
	}
	for _, path := range []string{"/etc/passwd", "/etc/hostname"} {
		if _, err := os.Lstat(path); err == nil {
			list = append(list, attempt{"read " + path, Walls, func() error { return opened(path, unix.O_RDONLY) }})
		}
	}
	if room.Processes == 0 {
		list = append(list, attempt{"start a process", Walls, func() error { return forked(1) }},
			attempt{"run a shell", Walls, func() error { return called(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&shell[0])), 1) }})
	}
	if len(room.Devices) == 0 {
		for _, node := range []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/dri/renderD128"} {
			if _, err := os.Lstat(node); err == nil {
				list = append(list, attempt{"open " + node, Walls, func() error { return opened(node, unix.O_RDWR) }})
			}
		}
	}
	if room.Tier >= Namespaces {
		list = append(list, attempt{"share namespaces with its parent", Namespaces, func() error { return apart(room.Outside) }})
	}
	return list
}

func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && !strings.HasPrefix(path, "/proc/") { // nothing was proved; in /proc, others' processes may be hidden
		return nil
	}
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func written(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
		_ = unix.Unlink(path)
	}
	return err
}

func socket(family int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// peek reads a byte at an address where no process has any: the kernel looks at the address only if it may.
func peek(process int) error {
	var b byte
	local, remote := []unix.Iovec{{Base: &b, Len: 1}}, []unix.RemoteIovec{{Base: 8, Len: 1}}
	_, err := unix.ProcessVMReadv(process, local, remote, 0)
	if err == unix.EFAULT {
		return nil
	}
	return err
}

// called makes a call with arguments that fail past the doors: only a refusal at the door counts.
func called(call uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0)
	_, _, errno := unix.RawSyscall6(call, args[0], args[1], args[2], args[3], args[4], 0)
	if errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS {
		return errno
	}
	return nil
}

var shell = []byte("/bin/sh\x00")

// forked starts processes that end at once, and gives the refusal that came in their stead.
func forked(count int) error {
	for range count {
		child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if child == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _ = unix.Wait4(int(child), nil, 0, nil)
	}
	return nil
}

// TryProcesses starts more processes than a room allows, on the thread whose count is bounded.
func TryProcesses(room Room) Attempt {
	if err := forked(room.Processes + 1); err != nil {
		return Attempt{fmt.Sprintf("start more than %d processes", room.Processes), Walls, true, err.Error()}
	}
	return Attempt{fmt.Sprintf("start more than %d processes", room.Processes), Walls, false, "possible"}
}

func capabilities() error {
	if strings.Trim(everyThread("CapPrm")+everyThread("CapEff"), "0") == "" {
		return errors.New("none")
	}
	return nil
}

func filtered() error {
	if everyThread("Seccomp") == "2" {
		return errors.New("all are")
	}
	return nil
}

// everyThread is what the kernel's status says of all threads, or "differs".
func everyThread(field string) string {
	files, _ := filepath.Glob("/proc/self/task/*/status") // the pattern is well formed
	value := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(text), "\n"+field+":\t")
		rest, _, _ = strings.Cut(rest, "\n")
		if value != "" && value != rest {
			return "differs"
		}
		value = rest
	}
	return value
}

// apart gives what sets this process's namespaces apart; nil: one is the parent's.
func apart(outside []string) error {
	inside := namespaces()
	if len(outside) != len(inside) {
		return nil
	}
	for i, name := range inside {
		if name == "" || name == outside[i] {
			return nil
		}
	}
	return errors.New(strconv.Quote(strings.Join(inside, " ")))
}
