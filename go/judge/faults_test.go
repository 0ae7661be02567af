package judge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda/fake"
)

// hurting is a referee beside whose work something is done to the workers: `before` is called as a run is about to begin.
type hurting struct {
	*scripted
	before func()
}

func (h hurting) Check(ctx context.Context, id string, compare *Compare, poison *Poison) (*Checked, error) {
	if poison != nil {
		h.before()
	}
	return h.scripted.Check(ctx, id, compare, poison)
}

// hurt sends a signal to the newest worker that has a candidate, at the given run of a candidate's, as often as `times` says.
func (b *deviceBench) hurt(t *testing.T, signal syscall.Signal, at, times int) {
	runs := 0
	b.judge.referee = hurting{b.referee, func() {
		if runs++; runs%at == 0 && times > 0 {
			times--
			b.mutex.Lock()
			defer b.mutex.Unlock()
			for _, w := range b.workers {
				if err := syscall.Kill(w.PID(), signal); err != nil && err != syscall.ESRCH {
					t.Error(err)
				}
			}
		}
	}}
}

// Whoever kills or stops a worker from outside does not decide about the candidate in it: that is judged again. One under which it happens
// again is blamed, since a greedy candidate can have its worker killed for want of memory.
func TestAWorkerThatIsKilledFromOutsideDecidesNothing(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP} {
		t.Run(signal.String(), func(t *testing.T) {
			b := onFakeDevice(t, nil)
			b.open(t)
			b.hurt(t, signal, 3, 1)
			if verdict := b.verdict(t, deviceKernel(good)); verdict.Status != card.OK {
				t.Errorf("hurt once, the candidate ended with %+v", verdict)
			}
			b.hurt(t, signal, 3, 2)
			verdict := b.verdict(t, deviceKernel(again(1)))
			if verdict.Status != card.Crash || !strings.Contains(verdict.Detail, "SIG") && !strings.Contains(verdict.Detail, "stopped it") {
				t.Errorf("hurt twice, the candidate ended with %+v", verdict)
			}
			if verdict := b.verdict(t, deviceKernel(again(2))); verdict.Status != card.OK {
				t.Errorf("the next candidate ended with %+v", verdict)
			}
		})
	}
}

// A worker that is killed while nothing runs in it, or before it has said what it is, is replaced.
func TestAWorkerThatIsKilledBetweenCandidatesIsReplaced(t *testing.T) {
	b := onFakeDevice(t, nil)
	b.open(t)
	for i := range 3 {
		if verdict := b.verdict(t, deviceKernel(again(i))); verdict.Status != card.OK {
			t.Fatalf("found %+v", verdict)
		}
		b.mutex.Lock()
		for _, w := range b.workers {
			_ = syscall.Kill(w.PID(), syscall.SIGKILL) // those that have ended are not there any more
		}
		b.mutex.Unlock()
	}
}

// The driver goes (an update, a container that loses its devices): the next worker cannot start, which is one error with a hint and no verdict
// about a candidate. With the driver back the judge goes on.
func TestADriverThatGoesMissingIsAnErrorWithAHint(t *testing.T) {
	driver := filepath.Join(t.TempDir(), "libcuda.so")
	library, err := os.ReadFile(fake.Driver(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(driver, library, 0o755); err != nil {
		t.Fatal(err)
	}
	b := onDriver(t, driver)
	b.open(t)
	if verdict := b.verdict(t, deviceKernel(good)); verdict.Status != card.OK {
		t.Fatalf("found %+v", verdict)
	}
	if err := os.Rename(driver, driver+".away"); err != nil {
		t.Fatal(err)
	}
	b.verdict(t, onDeviceHead+"}") // wrong: its worker ends, and the spare one may be from before
	b.verdict(t, onDeviceHead+"volatile int other = 0;}")
	verdict, err := b.judge.Judge(t.Context(), b.card, deviceCandidate(deviceKernel(again(1))))
	if err == nil || card.AsError(err).Code != card.CodeJudge || card.AsError(err).Hint == "" || !strings.Contains(err.Error(), "start the worker") {
		t.Errorf("without a driver: %+v, %v, hint %q", verdict, err, card.AsError(err).Hint)
	}
	if err := os.Rename(driver+".away", driver); err != nil {
		t.Fatal(err)
	}
	if verdict := b.verdict(t, deviceKernel(again(1))); verdict.Status != card.OK {
		t.Errorf("with the driver back: %+v", verdict)
	}
}
