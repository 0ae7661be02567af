package sandbox

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// builtTiers is the command that has the built worker try every tier.
func builtTiers(t *testing.T) []string {
	t.Helper()
	program, library := os.Getenv("KF_WORKER"), os.Getenv("KF_RUNTIME")
	if program == "" || library == "" {
		t.Skip("KF_WORKER and KF_RUNTIME are not set (expected the built worker and its runtime)")
	}
	return []string{program, "tiers", "--runtime", library}
}

// tiersUnder has every tier tried where some calls of the kernel fail.
func tiersUnder(t *testing.T, denied string) (best int, why map[int]string) {
	t.Helper()
	tiers := builtTiers(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return tiersOf(t, exec.Command(self, append([]string{"deny", denied}, tiers...)...))
}

func tiersOf(t *testing.T, command *exec.Cmd) (best int, why map[int]string) {
	t.Helper()
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	var found struct {
		Best  int
		Tiers []struct {
			Tier  int
			Holds bool
			Why   string
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	why = map[int]string{}
	for _, row := range found.Tiers {
		if !row.Holds {
			why[row.Tier] = row.Why
		}
	}
	return found.Best, why
}

// Kernels without Landlock or seccomp, and containers that forbid them or user namespaces: the best tier is less, and says why.
func TestPoorSurroundingsGiveALowerTierThatIsTrue(t *testing.T) {
	tiers := builtTiers(t)
	if best, why := tiersOf(t, exec.Command(tiers[0], tiers[1:]...)); best < Best {
		t.Skipf("these surroundings are poor themselves: tier %d, %v", best, why)
	}
	for _, c := range []struct {
		denied string
		best   int
		why    map[int]string
	}{
		{"landlock=ENOSYS", Limits, map[int]string{Walls: "Landlock", Namespaces: "Landlock"}},
		{"landlock=EOPNOTSUPP", Limits, map[int]string{Walls: "Landlock", Namespaces: "Landlock"}}, // built in, not enabled at boot
		{"seccomp=EPERM", Limits, map[int]string{Walls: "seccomp", Namespaces: "seccomp"}},
		{"unshare=EPERM", Walls, map[int]string{Namespaces: "namespaces"}},
	} {
		t.Run(c.denied, func(t *testing.T) {
			best, why := tiersUnder(t, c.denied)
			if best != c.best || len(why) != len(c.why) {
				t.Errorf("best tier %d (expected %d), others: %v", best, c.best, why)
			}
			for tier, word := range c.why {
				if !strings.Contains(why[tier], word) {
					t.Errorf("tier %d: `%s` (expected a word about %s)", tier, why[tier], word)
				}
			}
		})
	}
}

// What root gives up, an ordinary user never had: both reach the same tier.
func TestAnOrdinaryUserReachesTheTierOfRoot(t *testing.T) {
	tiers := builtTiers(t)
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user: every other test is about one")
	}
	root, _ := tiersOf(t, exec.Command(tiers[0], tiers[1:]...))
	folder := t.TempDir()
	for at, file := range map[int]string{0: "kernelforge-worker", 3: "libkfruntime.so"} { // where everybody may read them
		content, err := os.ReadFile(tiers[at])
		if err != nil {
			t.Fatal(err)
		}
		tiers[at] = filepath.Join(folder, file)
		if err := os.WriteFile(tiers[at], content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path := folder; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(tiers[0], tiers[1:]...)
	command.Env, command.Dir = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()}, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	user, why := tiersOf(t, command)
	if user != root {
		t.Errorf("tier %d, root reaches %d: %v", user, root, why)
	}
}
