package sandbox

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// run is the kernel's machine for the few instructions that assemble uses.
func run(t *testing.T, program []unix.SockFilter, arch, call uint32, args ...uint64) uint32 {
	t.Helper()
	word := func(offset uint32) uint32 {
		switch {
		case offset == dataCall:
			return call
		case offset == dataArch:
			return arch
		}
		if i := (offset - dataArgument) / wordBytes; int(i) < len(args) {
			return uint32(args[i] >> (8 * (offset % wordBytes)))
		}
		return 0
	}
	var a uint32
	for at := 0; at < len(program); at++ {
		switch op := program[at]; op.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = word(op.K)
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= op.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes := a == op.K
			if op.Code&0xf0 == unix.BPF_JGT {
				yes = a > op.K
			}
			if yes {
				at += int(op.Jt)
			} else {
				at += int(op.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return op.K
		default:
			t.Fatalf("instruction %d is %+v", at, op)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

func TestTheFilterRefusesWhatItSays(t *testing.T) {
	const own, allowed = 77, uint32(unix.SECCOMP_RET_ALLOW)
	eperm, enosys := unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)
	thread := uint64(unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD)
	for _, c := range []struct {
		what                     string
		call                     uint32
		args                     []uint64
		worker, device, compiler uint32
	}{
		{"read", unix.SYS_READ, nil, allowed, allowed, allowed},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, eperm, eperm, eperm},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, eperm, eperm, eperm},
		{"sendmsg on the frames' socket", unix.SYS_SENDMSG, nil, allowed, allowed, allowed},
		{"clone of a thread", unix.SYS_CLONE, []uint64{thread}, allowed, allowed, allowed},
		{"clone of a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, eperm, eperm, allowed},
		{"clone into a namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm, eperm, eperm},
		{"clone3", unix.SYS_CLONE3, nil, enosys, enosys, enosys},
		{"vfork", unix.SYS_VFORK, nil, eperm, eperm, allowed},
		{"execve", unix.SYS_EXECVE, nil, eperm, eperm, allowed},
		{"execveat", unix.SYS_EXECVEAT, nil, eperm, eperm, allowed},
		{"kill of itself", unix.SYS_KILL, []uint64{own, 6}, allowed, allowed, eperm},
		{"kill of another", unix.SYS_KILL, []uint64{own + 1, 0}, eperm, eperm, eperm},
		{"kill of everybody", unix.SYS_KILL, []uint64{math.MaxUint64, 9}, eperm, eperm, eperm},
		{"the end of its group", unix.SYS_KILL, []uint64{0, uint64(unix.SIGKILL)}, eperm, eperm, allowed},
		{"another signal to its group", unix.SYS_KILL, []uint64{0, uint64(unix.SIGTERM)}, eperm, eperm, eperm},
		{"an end as by somebody else", unix.SYS_KILL, []uint64{own, uint64(unix.SIGKILL)}, eperm, eperm, eperm},
		{"the same to its thread", unix.SYS_TGKILL, []uint64{own, 78, uint64(unix.SIGTERM)}, eperm, eperm, allowed},
		{"tgkill of its thread", unix.SYS_TGKILL, []uint64{own, 78, 23}, allowed, allowed, allowed},
		{"tgkill of another's", unix.SYS_TGKILL, []uint64{1, 1, 9}, eperm, eperm, eperm},
		{"prlimit of itself", unix.SYS_PRLIMIT64, []uint64{0, 7}, allowed, allowed, allowed},
		{"prlimit of itself by number", unix.SYS_PRLIMIT64, []uint64{own, 7}, allowed, allowed, allowed},
		{"prlimit of another", unix.SYS_PRLIMIT64, []uint64{own - 1, 7}, eperm, eperm, eperm},
		{"an end without its parent", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG, 0}, eperm, eperm, allowed},
		{"a thread's name", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allowed, allowed, allowed},
		{"open to read", unix.SYS_OPENAT, []uint64{math.MaxUint64, 0, unix.O_RDONLY}, allowed, allowed, allowed},
		{"open to read and cut short", unix.SYS_OPENAT, []uint64{math.MaxUint64, 0, unix.O_RDONLY | unix.O_TRUNC}, eperm, eperm, eperm},
		{"the same by the older call", unix.SYS_OPEN, []uint64{0, unix.O_RDONLY | unix.O_TRUNC | unix.O_CLOEXEC}, eperm, eperm, eperm},
		{"open to write anew", unix.SYS_OPENAT, []uint64{math.MaxUint64, 0, unix.O_WRONLY | unix.O_TRUNC | unix.O_CREAT}, allowed, allowed, allowed},
		{"openat2", unix.SYS_OPENAT2, nil, enosys, enosys, enosys},
		{"chmod", unix.SYS_CHMOD, nil, eperm, eperm, eperm},
		{"ptrace", unix.SYS_PTRACE, nil, eperm, eperm, eperm},
		{"an ioctl of the driver", unix.SYS_IOCTL, []uint64{3, 0xc020462a}, allowed, allowed, allowed},
		{"typing into a terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm, eperm, eperm},
		{"the same with high bits", unix.SYS_IOCTL, []uint64{0, 1<<40 | unix.TIOCSTI}, eperm, eperm, eperm},
		{"shared memory of System V", unix.SYS_SHMGET, nil, eperm, allowed, eperm},
		{"a call of a later kernel", newest + 1, nil, enosys, enosys, enosys},
		{"a call of the x32 set", x32 | unix.SYS_OPEN, nil, enosys, enosys, enosys},
	} {
		for name, room := range map[string]struct {
			room Room
			want uint32
		}{"worker": {Room{}, c.worker}, "worker on a device": {Room{Devices: []string{"/dev/nvidiactl"}}, c.device}, "compiler": {Room{Processes: 5}, c.compiler}} {
			if got := run(t, filter(room.room, own), unix.AUDIT_ARCH_X86_64, c.call, c.args...); got != room.want {
				t.Errorf("%s, %s: %#x (expected %#x)", name, c.what, got, room.want)
			}
		}
	}
	if got := run(t, filter(Room{}, own), unix.AUDIT_ARCH_I386, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("a call of 32 bits: %#x", got)
	}
	if n := len(filter(Room{}, own)); n > unix.BPF_MAXINSNS {
		t.Errorf("%d instructions (the kernel takes %d)", n, unix.BPF_MAXINSNS)
	}
}

func TestALoaderPathDoesNotOpenAHome(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	list := Libraries("/opt/cuda/lib64::/home/ada:/home:/home/ada/venv/lib:/:relative")
	if !has(list, "/opt/cuda/lib64", "/home/ada/venv/lib") {
		t.Errorf("found %v", list)
	}
	for _, path := range []string{"/home/ada", "/home", "/", "relative", ""} {
		if has(list, path) {
			t.Errorf("%q is in %v", path, list)
		}
	}
}
