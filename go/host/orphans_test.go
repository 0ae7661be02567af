package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// slow keeps g++'s cc1plus busy until its limit of CPU time, half a minute.
const slow = "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i % 7; return s; }\n" +
	"template <long N> struct T { static constexpr long v = f(200000 + N) + T<N + 1>::v; };\nconstexpr long x = T<0>::v;" + harmless

// user is the user's process, which a test kills: it compiles something that takes long. Its arguments are the worker program, its tier and a folder.
func user(args []string) error {
	tier, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	compiler, err := FindCompiler(context.Background(), os.Getenv("KERNELFORGE_CXX"))
	if err != nil {
		return err
	}
	built, err := NewPool(args[0], compiler, ThisMachine("/"), args[2], nil, 1, tier).Compile(context.Background(), slow, nil)
	return fmt.Errorf("the compile has ended: %q, %w", built.Failure, err)
}

// process is one line of /proc.
type process struct {
	pid, parent, group int
	name               string
}

// processes are those that have not ended.
func processes() []process {
	var all []process
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		if open < 0 || end < 0 {
			continue
		}
		fields := strings.Fields(string(stat[end+1:])) // state, parent, group
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		group, _ := strconv.Atoi(fields[2])
		if fields[0] != "Z" && fields[0] != "X" {
			all = append(all, process{pid, parent, group, string(stat[open+1 : end])})
		}
	}
	return all
}

// ofGroup are the processes of a group, which no compile can leave.
func ofGroup(group int) []process {
	var found []process
	for _, p := range processes() {
		if p.group == group {
			found = append(found, p)
		}
	}
	return found
}

// compiling waits until a process's compile is at work, and gives the compile's group.
func compiling(t *testing.T, of int, said *strings.Builder) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, leader := range processes() {
			if leader.parent != of || leader.group != leader.pid {
				continue
			}
			for _, p := range ofGroup(leader.pid) {
				if p.name == "cc1plus" {
					return leader.pid
				}
			}
		}
	}
	t.Fatalf("no compile began: %s", said)
	return 0
}

// Nothing outlives the user's process, however it ends: the kernel tells the compile process alone, and whoever kills a compiler's driver leaves
// what it had started.
func TestNoCompilerOutlivesTheUsersProcess(t *testing.T) {
	for tier := sandbox.Limits; tier <= sandbox.Best; tier++ {
		for name, first := range map[string]func(compile int) error{
			"working": func(int) error { return nil },
			"stopped": func(compile int) error { return unix.Kill(compile, unix.SIGSTOP) },
		} {
			t.Run(fmt.Sprintf("%d/%s", tier, name), func(t *testing.T) {
				p := confinedPool(t, tier)
				if !strings.HasPrefix(p.compiler.Pin, "g++ ") {
					t.Skipf("the compiler is `%s` (this test waits for g++'s cc1plus)", p.compiler.Path)
				}
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				var said strings.Builder
				command := exec.Command(self, "user", p.program, strconv.Itoa(tier), t.TempDir())
				command.Stderr = &said
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				group := compiling(t, command.Process.Pid, &said)
				if err := first(group); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := command.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				left := ofGroup(group)
				for len(left) > 0 && time.Since(began) < 2*time.Second {
					time.Sleep(5 * time.Millisecond)
					left = ofGroup(group)
				}
				_ = unix.Kill(-group, unix.SIGKILL)
				if _ = command.Wait(); len(left) > 0 {
					t.Errorf("after %s these live on: %v", time.Since(began), left)
				}
			})
		}
	}
}
