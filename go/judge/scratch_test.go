package judge

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

const scratchChild = "KERNELFORGE_TEST_SCRATCH"

// A process that was killed leaves its folder, empty if it had no time for more; the next start removes it, and none that is held, of another pattern,
// or with files and without a lock.
func TestScratchOfAKilledProcessIsSweptAndOthersStay(t *testing.T) {
	if below := os.Getenv(scratchChild); below != "" {
		made, err := MakeScratch(below)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(made.Path, "image.so"), []byte("x"), 0o600)
		p, _ := os.FindProcess(os.Getpid())
		p.Kill()
		select {}
	}
	below := t.TempDir()
	held, err := MakeScratch(below)
	if err != nil {
		t.Fatal(err)
	}
	unlocked, named := filepath.Join(below, "kernelforge-1"), filepath.Join(below, "kernelforge-mine")
	for _, folder := range []string{unlocked, named} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(unlocked, "theirs"), nil, 0o600)
	os.WriteFile(filepath.Join(named, lockName), nil, 0o600)
	elsewhere := t.TempDir()
	os.WriteFile(filepath.Join(elsewhere, lockName), nil, 0o600)
	if err := os.Symlink(elsewhere, filepath.Join(below, "kernelforge-2")); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), scratchChild+"="+below)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v (expected to be killed): %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(below, "kernelforge-3"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n := folders(t, below); n != 6 {
		t.Fatalf("%d folders before the next start (expected 6)", n)
	}
	next, err := MakeScratch(below)
	if err != nil {
		t.Fatal(err)
	}
	for _, stays := range []string{held.Path, unlocked, named, filepath.Join(elsewhere, lockName), next.Path} {
		if _, err := os.Stat(stays); err != nil {
			t.Error(err)
		}
	}
	if n := folders(t, below); n != 5 {
		t.Errorf("%d folders after it (expected 5: the child's and the empty one are gone, one is new)", n)
	}
	if info, _ := os.Stat(next.Path); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %o (expected 700)", info.Mode().Perm())
	}
	held.Remove()
	next.Remove()
	if n := folders(t, below); n != 3 {
		t.Errorf("%d folders at the end (expected 3)", n)
	}
}

func folders(t *testing.T, below string) int {
	t.Helper()
	entries, err := os.ReadDir(below)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The hint names what a user can set.
func TestAScratchFolderThatCannotBeMadeSaysTMPDIR(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	for _, below := range []string{filepath.Join(file, "x"), file} {
		_, err := MakeScratch(below)
		if err == nil || !strings.Contains(card.AsError(err).Hint, "TMPDIR") || !strings.Contains(err.Error(), below) {
			t.Errorf("below `%s`: %v, hint %q", below, err, card.AsError(err).Hint)
		}
	}
}
