package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test program is its own confined process: `room` moves in, seals and tries; `unsealed` forgets the filter, `unwalled` the files. `deny` is a
// poor surrounding: it executes a program for which some calls of the kernel fail.
func TestMain(m *testing.M) {
	modes := map[string]func() error{
		"room":     func() error { return moveIn(func(r Room) Room { return r }, Seal) },
		"unsealed": func() error { return moveIn(func(r Room) Room { return r }, func(Room) error { return nil }) },
		"unwalled": func() error { return moveIn(func(r Room) Room { r.Tier = Walls; return r }, Seal) },
		"deny":     deny,
	}
	if len(os.Args) > 1 && modes[os.Args[1]] != nil {
		if err := modes[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func moveIn(change func(Room) Room, seal func(Room) error) error {
	room, err := Confine(os.Args, map[int]uint64{unix.RLIMIT_CORE: 0})
	if err != nil {
		return err
	}
	room = change(room)
	if err := seal(room); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Try(room))
}

var callNames = map[string]uint32{"landlock": unix.SYS_LANDLOCK_CREATE_RULESET, "seccomp": unix.SYS_SECCOMP, "unshare": unix.SYS_UNSHARE}

// deny CALL=ERRNO,... PROGRAM ARGUMENT...
func deny() error {
	runtime.LockOSThread()
	var rules []rule
	for _, text := range strings.Split(os.Args[2], ",") {
		name, errno, _ := strings.Cut(text, "=")
		rules = append(rules, rule{callNames[name], map[string]unix.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS, "EOPNOTSUPP": unix.EOPNOTSUPP}[errno], nil})
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, err := seccomp(assemble(rules), 0); err != nil {
		return err
	}
	return unix.Exec(os.Args[3], os.Args[3:], os.Environ())
}

// inRoom runs a mode of this program in a room and reads its report.
func inRoom(t *testing.T, mode string, room Room) (Report, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	room.Secret = filepath.Join(folder, "secret")
	if err := os.WriteFile(room.Secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	room.Read = append(room.Read, Libraries("")...)
	command := exec.Command(self, append([]string{mode}, room.Arguments()...)...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil && strings.Contains(said.String(), "does not offer") {
		t.Skip(said.String())
	}
	if err != nil {
		return Report{}, fmt.Sprintf("%v: %s", err, said.String())
	}
	var report Report
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return report, said.String()
}

// possible are the attempts that were not stopped.
func possible(r Report) []string {
	var list []string
	for _, a := range r.Attempts {
		if !a.Stopped {
			list = append(list, a.What)
		}
	}
	return list
}

func has(list []string, all ...string) bool {
	for _, one := range all {
		if !slices.Contains(list, one) {
			return false
		}
	}
	return true
}

// What tier 0 does not stop is as documented: docs/security.md promises no more.
func TestTierZeroLeavesFilesNetworkAndProcesses(t *testing.T) {
	report, said := inRoom(t, "room", Room{})
	if left := possible(report); report.Tier != Limits || !has(left, "read a secret file", "cut a secret file short", "change a secret file's mode", "write beside a secret file",
		"read the environment of its parent", "open a socket to a server of this machine", "start a process", "run a shell", "signal its parent", "have a thread without a filter") {
		t.Errorf("tier %d, possible: %v; it said %s", report.Tier, left, said)
	}
}

func TestTierOneStopsEveryAttempt(t *testing.T) {
	report, said := inRoom(t, "room", Room{Tier: Walls})
	if report.Tier != Walls || len(report.Attempts) < 20 || len(possible(report)) > 0 {
		t.Errorf("tier %d, possible: %v of %d; it said %s", report.Tier, possible(report), len(report.Attempts), said)
	}
}

// A report is about what was possible, never about what was set up.
func TestAMissingWallIsReported(t *testing.T) {
	unsealed, said := inRoom(t, "unsealed", Room{Tier: Walls})
	if left := possible(unsealed); unsealed.Tier != Limits || !has(left, "open a socket to the network", "start a process", "have a thread without a filter") || has(left, "read a secret file") {
		t.Errorf("without a filter: tier %d, possible %v; it said %s", unsealed.Tier, left, said)
	}
	unwalled, said := inRoom(t, "unwalled", Room{})
	if left := possible(unwalled); unwalled.Tier != Limits || !has(left, "read a secret file", "write beside a secret file") || has(left, "start a process") {
		t.Errorf("without walls around files: tier %d, possible %v; it said %s", unwalled.Tier, left, said)
	}
	if len(unsealed.Lacks(Walls)) == 0 || len(unsealed.Lacks(Limits)) != 0 {
		t.Errorf("lacks %v and %v", unsealed.Lacks(Walls), unsealed.Lacks(Limits))
	}
}

func TestNothingIsClaimedWithoutASecret(t *testing.T) {
	if report := Try(Room{Tier: Best}); report.Tier != Limits || len(report.Attempts) != 0 {
		t.Errorf("found %+v", report)
	}
	if _, err := RoomOf([]string{"program", `--room={"tier":1}`}); err == nil {
		t.Error("a room of tier 1 without a secret was taken")
	}
	for _, text := range []string{`--room={"tier":3,"secret":"/x"}`, `--room={"tier":-1}`, `--room=tier`} {
		if room, err := RoomOf([]string{"program", text}); err == nil {
			t.Errorf("%s: found %+v", text, room)
		}
	}
}

// What a file of the room is for, it can be used for, and for nothing more.
func TestARoomIsAsWideAsItSays(t *testing.T) {
	folder := t.TempDir()
	report, said := inRoom(t, "room", Room{Tier: Walls, Read: []string{"/etc/hostname"}, Write: []string{folder}, Processes: 3})
	if left := possible(report); report.Tier != Limits || len(left) != 1 || left[0] != "read /etc/hostname" {
		t.Errorf("tier %d, possible %v; it said %s", report.Tier, left, said)
	}
}
