package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test program is its own worker: started with the argument `serve` it misbehaves as the `runtime` of `hello` says.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		misbehave()
		return
	}
	goleak.VerifyTestMain(m)
}

func misbehave() {
	conn, err := NewConn(os.NewFile(3, "frames"))
	if err != nil {
		panic(err)
	}
	first, fds, err := conn.ReceiveFDs()
	if err != nil || len(fds) != 0 {
		panic(fmt.Sprint("hello: ", fds, err))
	}
	request, err := DecodeRequest(first)
	if err != nil {
		panic(err)
	}
	hello := request.(*Hello)
	answer := HelloAnswer{Answer: Answer{ID: hello.ID, OK: true}, PID: os.Getpid(), ABI: 1}
	how, rest, _ := strings.Cut(hello.Runtime, ":")
	if how == "silent" {
		select {}
	}
	if how == "refuse" {
		_ = conn.Send(Answer{ID: hello.ID, Error: &Fault{Code: FaultRequest, Text: "no such runtime\x1b[31m", Hint: "look"}}, nil)
		return
	}
	_ = conn.Send(answer, nil)
	for {
		body, fds, err := conn.ReceiveFDs()
		if err != nil {
			return
		}
		var head Header
		_ = json.Unmarshal(body, &head)
		ok := Answer{ID: head.ID, OK: true}
		if head.Op == "map" {
			request, _ := DecodeRequest(body)
			data := make([]uint64, len(request.(*Map).Buffers))
			for i := range data {
				data[i] = 0x10000 * uint64(i+1)
			}
			_ = conn.Send(MapAnswer{ok, data}, nil)
			CloseAll(fds)
			continue
		}
		switch how {
		case "honest":
			_ = conn.Send(RunAnswer{ok, 1.5}, nil)
		case "environment":
			_ = conn.Send(Answer{ID: head.ID, Error: &Fault{Code: FaultSystem, Text: strings.Join(os.Environ(), "\n")}}, nil)
		case "signal":
			number, _ := strconv.Atoi(rest)
			fmt.Fprintln(os.Stderr, "kf-fault signal=11 address=20040")
			_ = unix.Kill(os.Getpid(), syscall.Signal(number))
			select {}
		case "exit":
			os.Exit(7)
		case "hang":
			select {}
		case "deaf": // closes the stream and lives on
			conn.Close()
			select {}
		case "raw": // these bytes in place of an answer
			conn.socket.Write([]byte(rest))
		case "length":
			var head [4]byte
			binary.LittleEndian.PutUint32(head[:], MaxFrame+1)
			conn.socket.Write(head[:])
		case "answer": // this JSON, with the right id in place of ID
			_ = conn.Send(json.RawMessage(strings.ReplaceAll(rest, "ID", fmt.Sprint(head.ID))), nil)
		case "descriptor": // sends a descriptor that nobody asked for
			_ = conn.Send(RunAnswer{ok, 1}, []int{0, 1, 2})
		case "child": // leaves a process in its group, tells its number, and ends
			command := exec.Command("/bin/sleep", "1000")
			_ = command.Start()
			_ = conn.Send(RunAnswer{ok, float64(command.Process.Pid)}, nil)
			os.Exit(0)
		}
	}
}

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
		us, err := w.Run(t.Context(), patience, 1, []Slot{{1, 0}})
		if err != nil || us != 1.5 {
			t.Fatalf("run: %g us, %v", us, err)
		}
	}
}

func TestACrashIsToldBySignalAndKillsOnlyTheWorker(t *testing.T) {
	for signal, want := range map[syscall.Signal]string{syscall.SIGSEGV: "SIGSEGV", syscall.SIGILL: "SIGILL", syscall.SIGKILL: "SIGKILL"} {
		w := startSelf(t, fmt.Sprintf("signal:%d", signal))
		_, err := w.Run(t.Context(), patience, 1, nil)
		var lost *Lost
		// a Go program handles SIGSEGV sent by kill itself and ends with status 2; the worker's serving loop gives it its default action back
		if !errors.As(err, &lost) || lost.Timeout || (lost.Signal != want && lost.Signal != "exit status 2") {
			t.Errorf("%s: found %#v", want, err)
		}
		if again, err2 := w.Run(t.Context(), patience, 1, nil); again != 0 || !errors.Is(err2, err) {
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
		_, err := w.Run(t.Context(), patience, 1, nil)
		var lost *Lost
		if !errors.As(err, &lost) || !strings.Contains(lost.Detail, c.want) || lost.Buffer != c.buffer {
			t.Errorf("found %v (expected %q)", err, c.want)
		}
	}
}

func TestAHangEndsInAKillOfTheGroup(t *testing.T) {
	w := startSelf(t, "hang")
	pid := w.PID()
	_, err := w.Run(t.Context(), 50*time.Millisecond, 1, nil)
	var lost *Lost
	if !errors.As(err, &lost) || !lost.Timeout || alive(pid) {
		t.Fatalf("found %v, alive %t (expected a timeout and a dead process)", err, alive(pid))
	}
}

func TestAWorkerThatClosesItsStreamAndLivesOnIsKilled(t *testing.T) {
	w := startSelf(t, "deaf")
	_, err := w.Run(t.Context(), patience, 1, nil)
	var lost *Lost
	if !errors.As(err, &lost) || lost.Timeout || alive(w.PID()) {
		t.Fatalf("found %v, alive %t", err, alive(w.PID()))
	}
}

func TestWhatAWorkerLeavesInItsGroupIsKilled(t *testing.T) {
	w := startSelf(t, "child")
	pid, err := w.Run(t.Context(), patience, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-w.process.done
	// killed, and waiting for whoever adopted it to reap it, or gone
	for deadline := time.Now().Add(patience); ; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", int(pid)))
		if err != nil || strings.Contains(string(status), "State:\tZ") || strings.Contains(string(status), "State:\tX") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived the worker's group:\n%s", int(pid), status)
		}
	}
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
		_, err := w.Run(t.Context(), limit, 1, nil)
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
	if _, err := w.Run(t.Context(), patience, 1, nil); err != nil {
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
	_, err := w.Run(t.Context(), patience, 1, nil)
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
	_, err := w.Run(ctx, patience, 1, nil)
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

func TestFramesCarryDescriptors(t *testing.T) {
	a, b := connected(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("through a descriptor"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, MaxFDs} {
		if err := a.Send(map[string]int{"fds": n}, slices.Repeat([]int{int(file.Fd())}, n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, MaxFDs} {
		body, fds, err := b.ReceiveFDs()
		if err != nil || len(fds) != n || string(body) != fmt.Sprintf(`{"fds":%d}`, n) {
			t.Fatalf("%d descriptors: found %d beside %s, %v", n, len(fds), body, err)
		}
		for _, fd := range fds {
			text := make([]byte, 7)
			if _, err := unix.Pread(fd, text, 0); err != nil || string(text) != "through" {
				t.Fatalf("descriptor %d: %q, %v", fd, text, err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Fatalf("descriptor %d would be inherited", fd)
			}
		}
		CloseAll(fds)
	}
	if err := a.Send(1, make([]int, MaxFDs+1)); err == nil {
		t.Fatal("too many descriptors were sent")
	}
}

func connected(t *testing.T) (a, b *Conn) {
	t.Helper()
	left, right, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = NewConn(left); err != nil {
		t.Fatal(err)
	}
	if b, err = NewConn(right); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestALengthIsCheckedBeforeAnythingIsAllocated(t *testing.T) {
	for _, size := range []uint32{0, MaxFrame + 1, 0xffffffff} {
		stream := &counting{head: binary.LittleEndian.AppendUint32(nil, size)}
		if _, err := ReadFrame(stream); err == nil || stream.asked > 4 {
			t.Errorf("length %d: error %v after asking for %d bytes (expected an error after 4)", size, err, stream.asked)
		}
	}
}

// counting gives the head and counts the bytes that it is asked for: the size of the buffers behind the reads.
type counting struct {
	head  []byte
	asked int
}

func (c *counting) Read(p []byte) (int, error) {
	c.asked += len(p)
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}
