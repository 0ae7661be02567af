package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func self(t *testing.T, how string) Config {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Path: path, Runtime: how, Scratch: t.TempDir(), Threads: 1}
}

func startSelf(t *testing.T, how string) *Worker {
	t.Helper()
	w, err := Start(context.Background(), self(t, how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	return w
}

const patience = 30 * time.Second

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

func TestAnHonestWorkerAnswersRequestAfterRequest(t *testing.T) {
	w := startSelf(t, "honest")
	for range 3 {
		us, err := w.Run(t.Context(), patience, 1, []Slot{{1, 0}}, NoDirt, 0)
		if err != nil || us != 1.5 {
			t.Fatalf("run: %g us, %v", us, err)
		}
	}
}

func TestACrashIsToldBySignalAndKillsOnlyTheWorker(t *testing.T) {
	for signal, want := range map[syscall.Signal]string{syscall.SIGSEGV: "SIGSEGV", syscall.SIGILL: "SIGILL", syscall.SIGKILL: "SIGKILL"} {
		w := startSelf(t, fmt.Sprintf("signal:%d", signal))
		_, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0)
		var lost *Lost
		// a Go program handles SIGSEGV sent by kill itself and ends with status 2; the worker's serving loop gives it its default action back
		if !errors.As(err, &lost) || lost.Timeout || (lost.Signal != want && lost.Signal != "exit status 2") {
			t.Errorf("%s: found %#v", want, err)
		}
		if again, err2 := w.Run(t.Context(), patience, 1, nil, NoDirt, 0); again != 0 || !errors.Is(err2, err) {
			t.Errorf("%s: a second request gave %v (expected the same end)", want, err2)
		}
	}
}

func TestAFaultIsToldRelativeToTheNearestBuffer(t *testing.T) {
	for _, c := range []struct {
		bytes    uint64
		writable bool
		want     string
		buffer   int
	}{
		{0x40, true, "0 bytes past the end of buffer 8", 8},
		{0x41, true, "at byte 64 of buffer 8", 8},
		{0x41, false, "a write at byte 64 of buffer 8, which is read-only", 8},
		{0x10, true, "48 bytes past the end of buffer 8", 8},
	} {
		w := startSelf(t, "signal:9") // says that address 0x20040 faulted; buffers begin at 0x10000 and 0x20000
		buffers := []Buffer{{ID: 7, Bytes: 0x1000, Writable: true}, {ID: 8, Bytes: c.bytes, Writable: c.writable}}
		if err := w.Map(t.Context(), patience, buffers, []int{0, 0}); err != nil {
			t.Fatal(err)
		}
		_, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0)
		var lost *Lost
		if !errors.As(err, &lost) || !strings.Contains(lost.Detail, c.want) || lost.Buffer != c.buffer {
			t.Errorf("found %v (expected %q)", err, c.want)
		}
	}
}

func TestAHangEndsInAKillOfTheGroup(t *testing.T) {
	w := startSelf(t, "hang")
	pid := w.PID()
	_, err := w.Run(t.Context(), 50*time.Millisecond, 1, nil, NoDirt, 0)
	var lost *Lost
	if !errors.As(err, &lost) || !lost.Timeout || alive(pid) {
		t.Fatalf("found %v, alive %t (expected a timeout and a dead process)", err, alive(pid))
	}
}

func TestAWorkerThatClosesItsStreamAndLivesOnIsKilled(t *testing.T) {
	quickest := time.Hour
	for range 5 { // a busy machine delays one, or two
		w := startSelf(t, "deaf")
		began := time.Now()
		_, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0)
		var lost *Lost
		if !errors.As(err, &lost) || lost.Timeout || alive(w.PID()) {
			t.Fatalf("found %v, alive %t", err, alive(w.PID()))
		}
		quickest = min(quickest, time.Since(began))
	}
	if quickest > endLimit/2 {
		t.Errorf("it was waited for %s: nothing ends it but we", quickest)
	}
}

// gone waits until a process has ended: it is no more, or waits for whoever adopted it to reap it.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || strings.Contains(string(status), "State:\tZ") || strings.Contains(string(status), "State:\tX") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on:\n%s", pid, status)
		}
	}
}

func TestAHangingWorkerDiesWithItsParent(t *testing.T) {
	command := exec.Command(self(t, "").Path, "parent")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil || !alive(pid) {
		t.Fatalf("worker %d, %v", pid, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	gone(t, pid)
}

func TestWhatAWorkerLeavesInItsGroupIsKilled(t *testing.T) {
	w := startSelf(t, "child")
	pid, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-w.process.done
	gone(t, int(pid))
}

func TestABrokenProtocolEndsTheWorker(t *testing.T) {
	for _, how := range []string{
		"length", "raw:\x00\x00\x00\x00", "raw:\x05\x00\x00\x00{\"id\"", "raw:\x02\x00\x00\x00[]", "raw:GET / HTTP/1.1\r\n\r\n", "exit",
		`answer:{"id": 999, "ok": true, "us": 1}`, `answer:{"id": ID, "ok": true}`, `answer:{"id": ID, "ok": true, "us": "fast"}`,
		`answer:{"id": ID, "ok": true, "us": 1, "key": 2}`, `answer:{"id": ID, "ok": false}`, `answer:null`, `answer:{"id": ID, "ok": true, "us": 1e999}`,
	} {
		w := startSelf(t, how)
		limit := patience
		if strings.HasPrefix(how, "raw:\x05") {
			limit = 50 * time.Millisecond // more bytes are announced than come
		}
		_, err := w.Run(t.Context(), limit, 1, nil, NoDirt, 0)
		var lost *Lost
		if !errors.As(err, &lost) || alive(w.PID()) {
			t.Errorf("%q: found %v, alive %t (expected the end of the worker)", how, err, alive(w.PID()))
		}
	}
}

func TestTimesThatMakeNoSenseEndTheWorker(t *testing.T) {
	for _, fields := range []string{
		`"samples_ns": [1, 2], "reference_ns": 1`, `"samples_ns": [1, 2, 0], "reference_ns": 1`, `"samples_ns": [1, 2, -3], "reference_ns": 1`,
		`"samples_ns": [1, 2, 3], "reference_ns": 0`,
	} {
		w := startSelf(t, `answer:{"id": ID, "ok": true, `+fields+`}`)
		_, _, err := w.Time(t.Context(), patience, 1, [][]*Slot{{nil}}, 3, 1, false)
		var lost *Lost
		if !errors.As(err, &lost) {
			t.Errorf("%s: found %v", fields, err)
		}
	}
}

func TestARefusalIsCleanedAndTheWorkerLives(t *testing.T) {
	w := startSelf(t, `answer:{"id": ID, "ok": false, "error": {"code": "bad_code", "text": "calls \u001b[31m`+"`fork`"+`", "hint": ""}}`)
	for range 2 {
		_, err := w.Load(t.Context(), patience, struct{}{}, []byte{1})
		var fault *Fault
		if !errors.As(err, &fault) || fault.Code != FaultCode || strings.Contains(fault.Text, "\x1b") || !alive(w.PID()) {
			t.Fatalf("found %#v", err)
		}
	}
}

func TestDescriptorsOfAWorkerAreNotTaken(t *testing.T) {
	w := startSelf(t, "descriptor")
	before := openFiles(t)
	if _, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after != before {
		t.Fatalf("%d open files before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestAnUntrustedProcessSeesNoKeys(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sentinel-key-4711")
	t.Setenv("HTTPS_PROXY", "http://user:sentinel-key-4711@proxy")
	w := startSelf(t, "environment")
	_, err := w.Run(t.Context(), patience, 1, nil, NoDirt, 0)
	var fault *Fault
	if !errors.As(err, &fault) || strings.Contains(fault.Text, "sentinel") {
		t.Fatalf("found %v", err)
	}
	for line := range strings.Lines(fault.Text) {
		name, _, _ := strings.Cut(line, "=")
		if !Allowed(name) {
			t.Errorf("the worker's environment has %q", name)
		}
	}
}

func TestACancelledRequestKillsAndSaysCancelled(t *testing.T) {
	w := startSelf(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := w.Run(ctx, patience, 1, nil, NoDirt, 0)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("found %v (expected context.Canceled: not a verdict)", err)
	}
	w.Kill()
	if alive(w.PID()) {
		t.Fatal("the worker is alive")
	}
}

func TestAWorkerThatCannotStartIsAnErrorWithAHint(t *testing.T) {
	for name, config := range map[string]Config{
		"no program": {Path: "/nonexistent/kernelforge-worker", Scratch: t.TempDir(), Threads: 1},
		"refused":    self(t, "refuse"),
		"tier":       {Path: self(t, "honest").Path, Runtime: "honest", Scratch: t.TempDir(), Threads: 1, Tier: 2},
	} {
		w, err := Start(t.Context(), config)
		var hinted interface{ Unwrap() error }
		if err == nil {
			w.Kill()
		}
		if err == nil || !errors.As(err, &hinted) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: found %v", name, err)
		}
		var lost *Lost
		if errors.As(err, &lost) {
			t.Errorf("%s: found a verdict, %v (expected an error of the harness)", name, err)
		}
	}
}
