package sandbox

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// tiersUnder runs the worker program's mode `tiers` where some calls of the kernel fail.
func tiersUnder(t *testing.T, denied string) (best int, why map[int]string) {
	t.Helper()
	program, library := os.Getenv("KF_WORKER"), os.Getenv("KF_RUNTIME")
	if program == "" || library == "" {
		t.Skip("KF_WORKER and KF_RUNTIME are not set (expected the built worker and its runtime)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "deny", denied, program, "tiers", "--runtime", library)
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
