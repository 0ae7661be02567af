// Package sandbox puts an untrusted process behind walls, and tries from inside whether they hold.
//
// It owns the tiers: what each takes away, in which order, and the attempts that prove it. It refuses to decide who needs what: whoever starts a
// process describes its Room, the process itself moves in before it reads anything of a candidate.
//
//	tier 0   limits, no new privileges, not dumpable, ends with its parent
//	tier 1   + Landlock: only the room's files; seccomp: no network, no processes, nobody else's; no capabilities
//	tier 2   + user and network namespaces of its own
//
// Rules of the kernel belong to threads, and Go has threads before main. So the first start of a program restricts one thread and executes the
// program again from it: an exec ends all other threads, and every thread of the second start descends from the restricted one.
package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The tiers.
const (
	Limits     = 0 // against crashes, hangs and accidents
	Walls      = 1 // against code that means harm, as far as files, network and other processes go
	Namespaces = 2 // the same, and the machine's network does not even exist
	Best       = Namespaces
)

// Room is what one untrusted process may reach. From tier 1 on everything else is refused.
type Room struct {
	Tier      int      `json:"tier"`
	Read      []string `json:"read,omitempty"`      // folders and files, to be read and mapped as code
	Run       []string `json:"run,omitempty"`       // files that may be executed
	Write     []string `json:"write,omitempty"`     // folders
	Devices   []string `json:"devices,omitempty"`   // nodes and folders of nodes: read, write, ioctl. With any, the driver's needs are met
	Processes int      `json:"processes,omitempty"` // that it may start in its life; 0: none
	Secret    string   `json:"secret,omitempty"`    // a file outside, which its self-test tries to read, to cut short and to change
	Outside   []string `json:"outside,omitempty"`   // the parent's user and network namespace, which must not be this process's
}

const (
	roomArgument       = "--room="
	namespacesArgument = "--namespaces" // read by the program's constructor, in C, before Go has threads
	confinedArgument   = "--confined"   // ends the arguments of the second start
)

// Below is the last argument of a program that a tool runs; in the first start the tool and its options follow it.
const Below = "below"

// Arguments are what a program is started with to move into the room.
func (r Room) Arguments() []string {
	if r.Tier >= Namespaces {
		r.Outside = namespaces()
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	arguments := []string{roomArgument + string(text)}
	if r.Tier >= Namespaces {
		arguments = append(arguments, namespacesArgument)
	}
	return arguments
}

// RoomOf reads the room from a program's arguments; without one there is tier 0.
func RoomOf(args []string) (Room, error) {
	var room Room
	for _, arg := range args {
		text, ok := strings.CutPrefix(arg, roomArgument)
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(text), &room); err != nil {
			return room, fmt.Errorf("confine: read the room: %w", err)
		}
	}
	if room.Tier < Limits || room.Tier > Best {
		return room, fmt.Errorf("confine: tier %d (expected %d to %d)", room.Tier, Limits, Best)
	}
	if room.Tier > Limits && room.Secret == "" {
		return room, fmt.Errorf("confine: tier %d without a secret file to try it with", room.Tier)
	}
	return room, nil
}

// Confine moves this process into the room of its arguments: files, capabilities and limits in the first start, which ends in the second one.
// Call it from main before any goroutine; it returns in the second start only, locked to its thread: there the work is to be done, since the
// parent-death signal belongs to this thread. What remains is Seal, when nothing trusted needs to be opened any more.
func Confine(args []string, limits map[int]uint64) (Room, error) {
	runtime.LockOSThread()
	room, err := RoomOf(args)
	if err != nil {
		return room, err
	}
	if args[len(args)-1] != confinedArgument {
		if err := Inherit(limits); err != nil {
			return room, err
		}
		if room.Tier >= Walls {
			if err := dropCapabilities(); err != nil {
				return room, err
			}
			if err := restrictFiles(room); err != nil {
				return room, err
			}
		}
		program, again, err := secondStart(args)
		if err != nil {
			return room, err
		}
		return room, fmt.Errorf("confine: start again: %w", unix.Exec(program, again, os.Environ()))
	}
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(args[0])), 0) // or `ps` would call it `exe`, as it was started
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return room, fmt.Errorf("confine: end with the parent: %w", err)
	}
	return room, defaultSignals()
}

// secondStart is the program to execute, and its arguments. What comes after Below is a tool that runs this program: what it puts into a process
// when it starts it would not outlive another exec there.
func secondStart(args []string) (program string, again []string, err error) {
	i := slices.Index(args, Below)
	if i < 0 {
		return "/proc/self/exe", append(slices.Clone(args), confinedArgument), nil
	}
	tool := args[i+1:]
	if len(tool) == 0 {
		return "", nil, fmt.Errorf("confine: `%s` without a tool", Below)
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("confine: find this program: %w", err)
	}
	again = slices.Concat(tool, []string{self}, args[1:i+1], []string{confinedArgument})
	return tool[0], again, nil
}

// Seal takes away, on every thread, the calls of the kernel that nothing in the room needs from now on.
func Seal(room Room) error {
	if room.Tier < Walls {
		return nil
	}
	return install(filter(room, os.Getpid()))
}

// namespaces names the user and network namespace of this process: "user:[4026531837]".
func namespaces() []string {
	var names []string
	for _, kind := range []string{"user", "net"} {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			name = "" // no such namespaces here: the check of tier 2 fails
		}
		names = append(names, name)
	}
	return names
}
