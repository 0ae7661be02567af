package judge

// scratch.go owns folders of temporary files: private, locked while their process lives, removed at its end. One that was killed removes
// nothing, so the next start of the same user does.

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
)

// Scratch is a folder that only this user can read. Nothing in it is meant to outlive the process.
type Scratch struct {
	Path string
	lock *os.File // held by flock; the kernel lets go of it with the process, whatever ends it
}

const lockName = "lock" // a folder of our pattern with files, but without this one, is not ours, or of a version that did not lock: it stays

var scratchName = regexp.MustCompile(`^kernelforge-\d+$`)

// MakeScratch makes a folder below another one (made if need be; "" is the system's), and removes those that killed processes left there.
func MakeScratch(below string) (*Scratch, error) {
	if below == "" {
		below = os.TempDir()
	} else if err := os.MkdirAll(below, 0o700); err != nil {
		return nil, card.Fail(card.CodeJudge, compile.ScratchHint, "make a scratch folder in `%s`: %w", below, err)
	}
	sweep(below)
	for {
		folder, err := os.MkdirTemp(below, "kernelforge-")
		if err != nil {
			return nil, card.Fail(card.CodeJudge, compile.ScratchHint, "make a scratch folder in `%s`: %w", below, err)
		}
		lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		if err == nil && stillThere(lock) {
			return &Scratch{folder, lock}, nil
		}
		if lock != nil {
			lock.Close()
		}
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, os.ErrNotExist) { // those two: another start swept it in this moment
			os.RemoveAll(folder)
			return nil, card.Fail(card.CodeJudge, compile.ScratchHint, "lock the scratch folder `%s`: %w", folder, err)
		}
	}
}

// Remove deletes the folder, and lets go of it.
func (s *Scratch) Remove() {
	removeLockLast(s.Path)
	s.lock.Close()
}

// removeLockLast deletes a folder. Whoever is killed on the way leaves one that is locked no more but has its lock, or nothing else: both are swept.
func removeLockLast(folder string) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if entry.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	if err == nil {
		os.RemoveAll(folder)
	}
}

// sweep removes the folders whose process is gone. What it cannot remove it leaves: that is no reason not to begin.
func sweep(below string) {
	entries, err := os.ReadDir(below)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if entry.IsDir() && scratchName.MatchString(entry.Name()) {
			removeIfLeft(filepath.Join(below, entry.Name()))
		}
	}
}

func removeIfLeft(folder string) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return
	}
	lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		os.Remove(folder) // an empty one: its process was killed before it had its lock, or after that was gone; one that is just made is made again
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && stillThere(lock) {
		removeLockLast(folder)
	}
}

// stillThere says that the file under this name is the one that is open: between opening and locking another process may have swept it.
func stillThere(lock *os.File) bool {
	opened, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(lock.Name())
	return err == nil && os.SameFile(opened, named)
}
