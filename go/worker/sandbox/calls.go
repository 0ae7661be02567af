package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The calls of the kernel that nothing in a room needs, by what they would reach.

var (
	// network: with no socket there is nothing to connect. io_uring could do all of it, and files, past any filter.
	network = []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

	// others are processes of the same user: their memory, descriptors and signals.
	others = []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KCMP, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO,
		unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_MIGRATE_PAGES, unix.SYS_SETSID, unix.SYS_SETPGID}

	// attributes of files, which Landlock does not know; and names for files past it.
	attributes = []uint32{unix.SYS_CHMOD, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_CHOWN, unix.SYS_FCHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR, unix.SYS_TRUNCATE,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_INOTIFY_INIT, unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL,
		unix.SYS_QUOTACTL_FD}

	// machine is the kernel itself: its modules, clocks, mounts, namespaces, keys, tracing.
	machine = []uint32{unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT,
		unix.SYS_LISTMOUNT, unix.SYS_LISTNS, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
		unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_PERSONALITY,
		unix.SYS_LOOKUP_DCOOKIE, unix.SYS_VHANGUP, unix.SYS_USELIB, unix.SYS_NFSSERVCTL}

	// shared are names that processes of all users share.
	shared = []uint32{unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET,
		unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK}

	// priority of any process of the user; a driver sets that of its own threads.
	priority = []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR}

	// programs run another program in this process.
	programs = []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT}
)

// FromOutside are signals that only somebody else sends: an end by one of them is not a candidate's doing, and must not be made to look so.
var FromOutside = []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT}

const (
	anyBit   = ^uint32(0)
	newSpace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// filter is the program for a room; process is the number that a process may signal and ask about: its own.
func filter(room Room, process int) []unix.SockFilter {
	own := uint32(process)
	refused := slices.Concat(network, others, attributes, machine)
	if len(room.Devices) == 0 {
		refused = slices.Concat(refused, shared, priority)
	}
	if room.Processes == 0 {
		refused = slices.Concat(refused, programs)
	}
	var rules []rule
	for _, call := range refused {
		rules = append(rules, rule{call, unix.EPERM, nil})
	}
	// The flags of clone3 and openat2 lie in memory, where no filter sees them; the C library then takes the older calls.
	rules = append(rules, rule{unix.SYS_CLONE3, unix.ENOSYS, nil}, rule{unix.SYS_OPENAT2, unix.ENOSYS, nil},
		rule{unix.SYS_PRLIMIT64, unix.EPERM, []condition{{0, anyBit, 0, true}, {0, anyBit, own, true}}},
		// Opened to be read and yet cut short: Landlock sees that from version 3 on.
		rule{unix.SYS_OPEN, unix.EPERM, []condition{{1, unix.O_TRUNC | unix.O_ACCMODE, unix.O_TRUNC, false}}},
		rule{unix.SYS_OPENAT, unix.EPERM, []condition{{2, unix.O_TRUNC | unix.O_ACCMODE, unix.O_TRUNC, false}}},
		rule{unix.SYS_IOCTL, unix.EPERM, []condition{{1, anyBit, unix.TIOCSTI, false}}}, // typing into the user's terminal
		rule{unix.SYS_IOCTL, unix.EPERM, []condition{{1, anyBit, unix.TIOCLINUX, false}}})
	if room.Processes == 0 {
		rules = append(rules, rule{unix.SYS_FORK, unix.EPERM, nil}, rule{unix.SYS_VFORK, unix.EPERM, nil},
			rule{unix.SYS_CLONE, unix.EPERM, []condition{{0, unix.CLONE_THREAD, 0, false}}},
			rule{unix.SYS_PRCTL, unix.EPERM, []condition{{0, anyBit, unix.PR_SET_PDEATHSIG, false}}},
			rule{unix.SYS_KILL, unix.EPERM, []condition{{0, anyBit, own, true}}}, rule{unix.SYS_TGKILL, unix.EPERM, []condition{{0, anyBit, own, true}}})
		for _, signal := range FromOutside {
			rules = append(rules, rule{unix.SYS_KILL, unix.EPERM, []condition{{1, anyBit, uint32(signal), false}}},
				rule{unix.SYS_TGKILL, unix.EPERM, []condition{{2, anyBit, uint32(signal), false}}})
		}
	} else { // a compiler's processes have other numbers: they signal nobody but all of their group, to its end. Go's runtime signals threads of its own process.
		rules = append(rules, rule{unix.SYS_KILL, unix.EPERM, []condition{{0, anyBit, 0, true}}},
			rule{unix.SYS_KILL, unix.EPERM, []condition{{1, anyBit, uint32(unix.SIGKILL), true}}}, rule{unix.SYS_TGKILL, unix.EPERM, []condition{{0, anyBit, own, true}}},
			rule{unix.SYS_CLONE, unix.EPERM, []condition{{0, newSpace, 0, true}}})
	}
	return assemble(rules)
}
