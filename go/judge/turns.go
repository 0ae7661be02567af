package judge

// turns.go owns the right to use a device among the processes that judge on it: one alone while it times, several while they only compare. Programs
// that know nothing of this are what the reference kernel of each block, and the A/A blocks, are for.

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A lock is asked for again after a pause, since a wait in the kernel could not be cancelled. A process that is stopped while it holds one keeps others
// no longer than turnsLimit: then the device is used as one that strangers use. Each wait in vain halves the next, down to turnsLeast: a search takes
// thousands of turns. One turn that is had makes the limit whole again.
const (
	turnsPause = 500 * time.Microsecond
	turnsLimit = 60 * time.Second
	turnsLeast = 10 * time.Millisecond
)

// turns are two files of a device, which bindings/python/kernelforge/_turns.py names and locks in the same way: who wants to be alone takes the first
// and then waits at the second for those who are there; whoever comes later waits at the first. The kernel gives both back when a process ends.
type turns struct {
	door, room string // "": the device is not shared
	isAlone    atomic.Bool
	limit      atomic.Int64 // of the next wait: a time.Duration
}

func newTurns(path string) *turns {
	if path == "" {
		return &turns{}
	}
	t := &turns{door: path + ".door", room: path + ".room"}
	t.limit.Store(int64(turnsLimit))
	return t
}

// alone waits until no other process uses the device, and keeps them away until release is called.
func (t *turns) alone(ctx context.Context) (release func()) {
	leave := t.enter(ctx, unix.LOCK_EX)
	t.isAlone.Store(true)
	return func() {
		t.isAlone.Store(false)
		leave()
	}
}

// beside keeps others from being alone until release is called; it waits for one who is. Within alone it is nothing.
func (t *turns) beside(ctx context.Context) (release func()) {
	if t.isAlone.Load() {
		return func() {}
	}
	return t.enter(ctx, unix.LOCK_SH)
}

// enter goes through the door into the room. A file that cannot be opened or locked is no reason to stop: then turns are not taken.
func (t *turns) enter(ctx context.Context, how int) (leave func()) {
	nothing := func() {}
	if t.door == "" {
		return nothing
	}
	door, err := openToLock(t.door)
	if err != nil {
		return nothing
	}
	defer closeUnlocked(door)
	room, err := openToLock(t.room)
	if err != nil {
		return nothing
	}
	limit := time.Duration(t.limit.Load())
	until := time.Now().Add(limit)
	if !lock(ctx, door, unix.LOCK_EX, until) || !lock(ctx, room, how, until) {
		closeUnlocked(room)
		if time.Now().After(until) {
			t.limit.Store(int64(max(limit/2, turnsLeast)))
		}
		return nothing
	}
	t.limit.Store(int64(turnsLimit))
	return func() { closeUnlocked(room) }
}

// openToLock opens a file in a folder of everybody's: a link of another user's is not followed, and a pipe is not waited at.
func openToLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// closeUnlocked gives a lock back before it closes the file: a child that the user's process has forked meanwhile has the same open file, and would keep it.
func closeUnlocked(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	file.Close()
}

// lock says whether a lock was had in time.
func lock(ctx context.Context, file *os.File, how int, until time.Time) bool {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return true
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(turnsPause):
		}
	}
}
