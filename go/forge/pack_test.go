package forge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernelforge/kernelforge/go/store"
)

// A process that dies while it writes a pack leaves a folder beside the pack's place: the next writer removes it, but not that of one who still writes.
func TestWhatADeadWriterLeftIsRemoved(t *testing.T) {
	path, home := filepath.Join(t.TempDir(), "store.db"), t.TempDir()
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 3}, reluCard("c-00000001", 0.5)))
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stays := map[string]bool{".net.kfpack-123": false, ".net.kfpack-77": true, ".net.kfpack-notes": true, ".other.kfpack-5": true}
	for name := range stays {
		if err := os.MkdirAll(filepath.Join(home, name, "code"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writing, err := locked(filepath.Join(home, ".net.kfpack-77"))
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Close()
	if _, err := WritePack(s, "s-test", filepath.Join(home, "net.kfpack"), Wishes{}); err != nil {
		t.Fatal(err)
	}
	for name, expected := range stays {
		if _, err := os.Stat(filepath.Join(home, name)); (err == nil) != expected {
			t.Errorf("`%s`: %v (expected that it stays: %t)", name, err, expected)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 4 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
