package store

// lock.go owns the right of one process to run a study.

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelforge/kernelforge/go/card"
)

// Lock is the right to run one study. The kernel gives it back when the process ends, however it ends.
type Lock struct{ file *os.File }

// A process that only looks (Running) or delivers a message holds the lock for a moment; whoever wants it tries that long.
const (
	lockTries = 10
	lockPause = 8 * time.Millisecond
)

// Lock takes the study for this process. Another process that has it is named in the error.
func (s *Store) Lock(study string) (*Lock, error) {
	path := s.lockPath(study)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, card.Fail(card.CodeStore, hintPlace, "lock study `%s`: %w", study, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for try := 1; errors.Is(err, unix.EWOULDBLOCK) && try < lockTries; try++ {
		time.Sleep(lockPause)
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, card.Fail(card.CodeStore, hintPlace, "lock study `%s` with `%s`: %w", study, path, err)
		}
		owner, _ := io.ReadAll(io.LimitReader(file, 100))
		if len(owner) == 0 {
			owner = []byte("another process")
		}
		return nil, card.Fail(card.CodeLocked,
			"wait for it, stop it, or start another study with --study; report, show and approve work meanwhile",
			"run study `%s` of `%s`: %s runs it", study, s.path, owner)
	}
	if err := file.Truncate(0); err == nil {
		_, err = file.WriteAt(fmt.Appendf(nil, "process %d", os.Getpid()), 0)
		if err != nil {
			return nil, errors.Join(card.Fail(card.CodeStore, hintPlace, "lock study `%s` with `%s`: %w", study, path, err), file.Close())
		}
	}
	return &Lock{file}, nil
}

func (s *Store) lockPath(study string) string { return s.path + "." + url.PathEscape(study) + ".lock" }

// Running says whether a process runs the study.
func (s *Store) Running(study string) bool {
	file, err := os.Open(s.lockPath(study))
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Release gives the study back. The file stays: removing it would let two processes lock two files of one name.
// It is unlocked first: a forked child of this process has the same open file, and closing ours would leave the study locked until the child ends.
func (l *Lock) Release() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
