package judge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelforge/kernelforge/go/card"
)

const turnsWait = 50 * time.Millisecond // in which what is kept away would have come, were it not

// files of a device that several judges use, each by descriptors of its own, as several processes do.
func aDevice(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	for _, end := range []string{".door", ".room"} {
		if err := os.WriteFile(path+end, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestOneIsAloneOrSeveralAreBeside(t *testing.T) {
	path, ctx := aDevice(t), t.Context()
	first, second, third := newTurns(path), newTurns(path), newTurns(path)
	leaveFirst, leaveSecond := first.beside(ctx), second.beside(ctx)
	var alone, late atomic.Bool
	came := make(chan func())
	go func() {
		leave := third.alone(ctx)
		alone.Store(true)
		came <- leave
	}()
	time.Sleep(turnsWait)
	laterCame := make(chan func())
	go func() { // who comes after one who waits to be alone waits, too: none is kept waiting for ever
		leave := newTurns(path).beside(ctx)
		late.Store(true)
		laterCame <- leave
	}()
	leaveFirst()
	time.Sleep(turnsWait)
	if alone.Load() || late.Load() {
		t.Fatalf("alone %t, and one who came later %t, while another is there", alone.Load(), late.Load())
	}
	leaveSecond()
	leave := <-came
	third.beside(ctx)() // what it does itself while it is alone waits for nobody
	time.Sleep(turnsWait)
	if late.Load() {
		t.Fatal("it came in while another was alone")
	}
	leave()
	(<-laterCame)()
}

func TestTurnsEndWithTheWaitingAndNeedNoFiles(t *testing.T) {
	path := aDevice(t)
	leave := newTurns(path).alone(t.Context())
	ctx, stop := context.WithTimeout(t.Context(), turnsWait)
	defer stop()
	newTurns(path).beside(ctx)()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("it came in while another was alone")
	}
	leave()
	newTurns(filepath.Join(t.TempDir(), "missing")).alone(t.Context())()
	newTurns("").alone(t.Context())()
}

// A process that is stopped while it is alone keeps another for a limited time in all, not at each of its thousands of turns.
func TestWaitsInVainGetShorterUntilATurnIsHad(t *testing.T) {
	path, ctx := aDevice(t), t.Context()
	leave := newTurns(path).alone(ctx)
	mine := newTurns(path)
	mine.limit.Store(int64(8 * turnsWait))
	began := time.Now()
	mine.beside(ctx)()
	if first := time.Since(began); first < 8*turnsWait {
		t.Errorf("it waited %s (expected %s at least)", first, 8*turnsWait)
	}
	for began = time.Now(); time.Duration(mine.limit.Load()) > turnsLeast; {
		mine.beside(ctx)()
		if time.Since(began) > 16*turnsWait {
			t.Fatalf("after %s it still waits %s", time.Since(began), time.Duration(mine.limit.Load()))
		}
	}
	leave()
	mine.beside(ctx)()
	if whole := time.Duration(mine.limit.Load()); whole != turnsLimit {
		t.Errorf("after a turn that it had it waits %s (expected %s)", whole, turnsLimit)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	leave = newTurns(path).alone(ctx)
	mine.beside(stopped)()
	leave()
	if whole := time.Duration(mine.limit.Load()); whole != turnsLimit {
		t.Errorf("a wait that was stopped made it %s", whole)
	}
}

// Where another user has put a pipe, or a link, no turn is taken, and nobody waits for who would write to it.
func TestAPipeAndALinkAreNoFilesOfADevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := unix.Mkfifo(path+".room", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".room", path+".door"); err != nil {
		t.Fatal(err)
	}
	if _, err := openToLock(path + ".door"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v (expected %v)", err, unix.ELOOP)
	}
	came := make(chan error, 1)
	go func() {
		file, err := openToLock(path + ".room")
		if err == nil {
			file.Close()
		}
		came <- err
	}()
	select {
	case <-came:
	case <-time.After(100 * turnsWait):
		t.Error("it waits at a pipe")
	}
}

// Another process compares on the device: a candidate's runs are compared beside it, and nothing is timed before it has left.
func TestNothingIsTimedBesideAnotherJudge(t *testing.T) {
	b := fakeOnHost(t)
	path := aDevice(t)
	b.judge.turns = newTurns(path)
	b.judge.referee = clockedReferee{b.referee, b.judge.account, b.judge.turns}
	b.open(t)
	leave := newTurns(path).beside(t.Context())
	var left, early atomic.Bool
	b.referee.eagerNS = func(string) float64 {
		if !left.Load() {
			early.Store(true)
		}
		return 300_000
	}
	verdicts := make(chan card.Verdict)
	go func() {
		v, err := b.judge.Judge(t.Context(), b.card, b.candidate(kernel(good)))
		if err != nil {
			t.Error(err)
		}
		verdicts <- v
	}()
	time.Sleep(10 * turnsWait)
	left.Store(true)
	leave()
	if v := <-verdicts; v.Status != card.OK || early.Load() || b.referee.checks == 0 {
		t.Errorf("%+v, timed beside another: %t, %d comparisons", v, early.Load(), b.referee.checks)
	}
}
