package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bound on processes that holds for every user. A limit of resources counts all processes of a user, and none of root's; so the kernel asks
// this process whether another one may be started, and it counts. A compile needs five.

// notification and reply are the kernel's struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id      uint64
	process uint32
	flags   uint32
	call    int32
	arch    uint32
	at      uint64
	args    [6]uint64
}

type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

const (
	listener  = 1 << 3 // SECCOMP_FILTER_FLAG_NEW_LISTENER
	goOn      = 1 << 0 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	countOnly = 0      // of an answer that is replaced by a question to the listener
)

// Bound lets this thread and what descends from it start so many processes in all. When this process has ended nobody is asked, and the kernel
// refuses.
func Bound(processes int) error {
	ask := func(unix.Errno) uint32 { return unix.SECCOMP_RET_USER_NOTIF }
	rules := []rule{{unix.SYS_FORK, countOnly, nil}, {unix.SYS_VFORK, countOnly, nil},
		{unix.SYS_CLONE, countOnly, []condition{{0, unix.CLONE_THREAD, 0, false}}}}
	program := append(append([]unix.SockFilter{load(dataCall)}, blocks(rules, ask)...), give(unix.SECCOMP_RET_ALLOW))
	fd, err := seccomp(program, listener)
	if err != nil {
		return fmt.Errorf("confine: bound the processes: %w", err)
	}
	go supervise(fd, processes) // cannot panic: it calls the kernel with memory of its own
	return nil
}

// supervise answers until nobody is left to ask. The thread that starts a process waits for its answer inside the kernel and may not be needed
// for it: this goroutine must have a processor of its own, and no collection may wait for that thread (Bound's caller sees to both).
func supervise(fd uintptr, processes int) {
	for started := 0; ; {
		var asked notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&asked)))
		if errno == unix.EINTR || errno == unix.ENOENT { // a signal; or who asked is gone
			continue
		}
		if errno != 0 {
			return
		}
		answer := reply{id: asked.id, flags: goOn}
		if started++; started > processes {
			answer = reply{id: asked.id, errno: -int32(unix.EAGAIN)}
		}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer))) // it fails if who asked is gone
	}
}
