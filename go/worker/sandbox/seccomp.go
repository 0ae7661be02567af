package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccomp: a process gives up calls of the kernel, on all of its threads at once. What is refused is in calls.go; this file turns it into the
// program that the kernel runs at every call (x86-64, the only machine that is supported).

// rule refuses one call with an errno, if all its conditions hold.
type rule struct {
	call  uint32
	errno unix.Errno
	when  []condition
}

// condition compares the low 32 bits of an argument, which hold every flag, number of a process and command that a rule asks for.
type condition struct {
	argument uint32
	mask     uint32
	value    uint32
	differs  bool // it holds if the masked argument is not the value
}

// Offsets in the kernel's struct seccomp_data.
const (
	dataCall     = 0
	dataArch     = 4
	dataArgument = 16
	wordBytes    = 8
)

// newest is the last call that this file's author knew: later ones are answered as by a kernel that has none.
const newest = unix.SYS_RSEQ_SLICE_YIELD

const x32 = 0x40000000 // a second set of the same calls

// assemble makes the kernel's program of rules; what no rule refuses is allowed.
func assemble(rules []rule) []unix.SockFilter {
	refuse := func(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }
	program := []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, unix.AUDIT_ARCH_X86_64, 1, 0),
		give(unix.SECCOMP_RET_KILL_PROCESS), // another machine's calls: the numbers below would mean others
		load(dataCall),
		jump(unix.BPF_JGT, newest, 0, 1),
		give(refuse(unix.ENOSYS)),
	}
	return append(append(program, blocks(rules, refuse)...), give(unix.SECCOMP_RET_ALLOW))
}

// blocks turns each rule into instructions that find the call's number loaded and leave it so.
func blocks(rules []rule, answer func(unix.Errno) uint32) []unix.SockFilter {
	var program []unix.SockFilter
	for _, r := range rules {
		var body []unix.SockFilter
		for i, c := range r.when {
			left := uint8(3*(len(r.when)-i-1) + 1) // instructions from the end of this condition to that of the answer
			compare := jump(unix.BPF_JEQ, c.value, 0, left)
			if c.differs {
				compare = jump(unix.BPF_JEQ, c.value, left, 0)
			}
			body = append(body, load(dataArgument+wordBytes*c.argument), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask}, compare)
		}
		body = append(body, give(answer(r.errno)))
		if len(r.when) > 0 {
			body = append(body, load(dataCall))
		}
		program = append(append(program, jump(unix.BPF_JEQ, r.call, 0, uint8(len(body)))), body...)
	}
	return program
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(how uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: value}
}

func give(answer uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer}
}

// install puts every thread of this process behind a program.
func install(program []unix.SockFilter) error {
	_, err := seccomp(program, unix.SECCOMP_FILTER_FLAG_TSYNC)
	return err
}

func seccomp(program []unix.SockFilter, flags uintptr) (uintptr, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno == 0 && r != 0 && flags&unix.SECCOMP_FILTER_FLAG_TSYNC != 0 {
		return 0, fmt.Errorf("confine: thread %d is behind another seccomp filter and cannot be put behind ours", r)
	}
	if errno != 0 {
		return 0, fmt.Errorf("confine: tier %d needs seccomp filters, which this kernel or container does not offer: %w", Walls, errno)
	}
	return r, nil
}
