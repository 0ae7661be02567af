package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"golang.org/x/sys/unix"
)

// The parent's side of one worker: typed requests, a time limit for each, and how its end is told.

// Config says which program to start and what it may use.
type Config struct {
	Path    string // the program kernelforge-worker
	Runtime string // libkfruntime.so
	Scratch string // an existing folder; the worker's working directory
	Threads int
	Tier    int // the confinement asked for; a worker that does not reach it is an error
}

// StartLimit bounds the start: the program's own start, opening the runtime and its threads.
const StartLimit = 20 * time.Second

// Worker is one live worker process. One request at a time; not safe for concurrent use, but Kill may be called from anywhere.
type Worker struct {
	process *process
	conn    *Conn
	last    int64
	broken  error
	regions map[int]region
	Hello   HelloAnswer
}

type region struct {
	data, bytes uint64
	writable    bool
}

// Lost is the end of a worker under a candidate: a crash, or a request that was not answered in time. It is a verdict, not an error of
// the harness.
type Lost struct {
	Timeout bool
	Op      string
	Signal  string // the ending in words: "SIGSEGV", "exit status 2"
	Detail  string // what is known about the cause
	Buffer  int    // the buffer next to the faulting address, -1 if none is near
}

func (l *Lost) Error() string { return l.Detail }

// Start starts a worker and greets it. An error says that the harness is broken.
func Start(ctx context.Context, config Config) (*Worker, error) {
	parent, child, err := Pair()
	if err != nil {
		return nil, err
	}
	defer child.Close()
	command := exec.Command(config.Path, "serve")
	command.Dir = config.Scratch
	command.Env = Environment(config.Scratch)
	command.ExtraFiles = []*os.File{child} // descriptor 3
	p, err := start(command)
	if err != nil {
		parent.Close()
		return nil, card.Fail(card.CodeJudge, "build it with `make build`, or name it in the setting `worker`", "start the worker `%s`: %w", config.Path, err)
	}
	conn, err := NewConn(parent)
	if err != nil {
		p.kill()
		return nil, err
	}
	w := &Worker{process: p, conn: conn, regions: map[int]region{}}
	err = w.call(ctx, StartLimit, &Hello{Header: Header{Op: "hello"}, Runtime: config.Runtime, Threads: config.Threads}, nil, &w.Hello)
	if err != nil {
		w.Kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		said := ""
		if text := p.stderr.String(); text != "" {
			said = "; it said: " + Clean(text, 512)
		}
		return nil, card.Fail(card.CodeJudge, "`kernelforge doctor` checks the worker and its runtime", "start the worker `%s`: %w%s", config.Path, err, said)
	}
	if w.Hello.Tier < config.Tier {
		w.Kill()
		return nil, card.Fail(card.CodeJudge, "set `sandbox_tier` to a tier that this machine reaches", "start the worker `%s`: it reached sandbox tier %d (expected %d)",
			config.Path, w.Hello.Tier, config.Tier)
	}
	return w, nil
}

// Kill ends the process group at once and waits for it. Safe to call again and from any goroutine.
func (w *Worker) Kill() {
	w.process.kill()
	w.conn.Close()
}

// PID is the number of the worker's process and of its group.
func (w *Worker) PID() int { return w.process.pid }

// Map gives the worker buffers; fds[i] belongs to buffers[i] and is borrowed. Long lists go in several frames.
func (w *Worker) Map(ctx context.Context, limit time.Duration, buffers []Buffer, fds []int) error {
	for len(buffers) > 0 {
		n := min(len(buffers), MaxFDs)
		var answer MapAnswer
		request := &Map{Header: Header{Op: "map"}, Buffers: buffers[:n], FDs: n}
		if err := w.call(ctx, limit, request, fds[:n], &answer); err != nil {
			return err
		}
		if len(answer.Data) != n {
			return w.breach("map", "%d addresses for %d buffers", len(answer.Data), n)
		}
		for i, b := range buffers[:n] {
			w.regions[b.ID] = region{answer.Data[i], b.Bytes, b.Writable}
		}
		buffers, fds = buffers[n:], fds[n:]
	}
	return nil
}

// Unmap takes buffers back.
func (w *Worker) Unmap(ctx context.Context, limit time.Duration, ids []int) error {
	if err := w.call(ctx, limit, &Unmap{Header: Header{Op: "unmap"}, Buffers: ids}, nil, &Answer{}); err != nil {
		return err
	}
	for _, id := range ids {
		delete(w.regions, id)
	}
	return nil
}

// Load checks and loads an image and binds it to the plan's call. It gives the kernel's number.
func (w *Worker) Load(ctx context.Context, limit time.Duration, plan any, image []byte) (int, error) {
	if len(image) == 0 || len(image) > MaxImage {
		return 0, fmt.Errorf("load: an image of %d bytes (expected 1 to %d)", len(image), MaxImage)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return 0, fmt.Errorf("load: write the plan: %w", err)
	}
	file, err := sealed(image)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var answer LoadAnswer
	request := &Load{Header: Header{Op: "load"}, Plan: text, FDs: 1}
	err = w.call(ctx, limit, request, []int{int(file.Fd())}, &answer)
	return answer.Kernel, err
}

// sealed puts an image into memory that nobody can change any more.
func sealed(image []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("kernelforge-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("load: make a memory file: %w", err)
	}
	file := os.NewFile(uintptr(fd), "kernelforge-image")
	_, err = file.Write(image)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("load: fill a memory file: %w", err)
	}
	return file, nil
}

// Run runs a kernel once and gives its time in microseconds.
func (w *Worker) Run(ctx context.Context, limit time.Duration, kernel int, slots []Slot) (float64, error) {
	var answer RunAnswer
	err := w.call(ctx, limit, &Run{Header: Header{Op: "run"}, Kernel: kernel, Slots: slots}, nil, &answer)
	return answer.US, err
}

// Time times a kernel over a rotating pool. The kernel shares the process with its clock, so times are checked for sense only; what is
// accepted is decided in the trusted process.
func (w *Worker) Time(ctx context.Context, limit time.Duration, kernel int, sets [][]*Slot, samples, inner int, warm bool) ([]float64, float64, error) {
	var answer TimeAnswer
	request := &Time{Header: Header{Op: "time"}, Kernel: kernel, Sets: sets, Samples: samples, Inner: inner, Warm: warm}
	if err := w.call(ctx, limit, request, nil, &answer); err != nil {
		return nil, 0, err
	}
	if len(answer.SamplesNS) != samples || !(answer.ReferenceNS > 0) {
		return nil, 0, w.breach("time", "%d samples (expected %d), reference %g ns", len(answer.SamplesNS), samples, answer.ReferenceNS)
	}
	for _, ns := range answer.SamplesNS {
		if !(ns > 0) {
			return nil, 0, w.breach("time", "a sample of %g ns", ns)
		}
	}
	return answer.SamplesNS, answer.ReferenceNS, nil
}

// Unload frees a kernel.
func (w *Worker) Unload(ctx context.Context, limit time.Duration, kernel int) error {
	return w.call(ctx, limit, &Unload{Header: Header{Op: "unload"}, Kernel: kernel}, nil, &Answer{})
}

// call sends a request and reads its answer strictly. Its error is a *Fault that the worker answered (the worker lives), a *Lost (it is
// dead), or the context's.
func (w *Worker) call(ctx context.Context, limit time.Duration, request Request, fds []int, answer any) error {
	if w.broken != nil {
		return w.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.last++
	head := request.header()
	head.ID = w.last
	if err := w.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return w.lost(head.Op, limit, err)
	}
	stop := context.AfterFunc(ctx, w.process.kill)
	err := w.conn.Send(request, fds)
	var body []byte
	if err == nil {
		body, err = w.conn.Receive()
	}
	if !stop() {
		w.broken = ctx.Err()
		return w.broken
	}
	if err != nil {
		return w.lost(head.Op, limit, err)
	}
	var first Answer
	if err := json.Unmarshal(body, &first); err != nil {
		return w.breach(head.Op, "%v", err)
	}
	if first.ID != head.ID {
		return w.breach(head.Op, "an answer to request %d (expected %d)", first.ID, head.ID)
	}
	if !first.OK {
		if err := card.Decode(body, &first); err != nil {
			return w.breach(head.Op, "%v", err)
		}
		if first.Error == nil {
			return w.breach(head.Op, "a refusal without an error")
		}
		fault := *first.Error
		fault.Text, fault.Hint = Clean(fault.Text, 1024), Clean(fault.Hint, 256)
		return &fault
	}
	if err := card.Decode(body, answer); err != nil {
		return w.breach(head.Op, "%v", err)
	}
	return nil
}

// breach ends a worker that broke the protocol: its memory is no longer its own.
func (w *Worker) breach(op, format string, args ...any) error {
	w.process.kill()
	w.broken = &Lost{Op: op, Signal: "broken frame", Buffer: -1,
		Detail: fmt.Sprintf("the worker broke the protocol in `%s`: %s", op, Clean(fmt.Sprintf(format, args...), 256))}
	return w.broken
}

// lost ends the worker, if it has not ended itself, and says why it is gone.
func (w *Worker) lost(op string, limit time.Duration, cause error) error {
	l := &Lost{Op: op, Buffer: -1}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		w.process.kill()
		l.Timeout, l.Signal = true, "SIGKILL"
		l.Detail = fmt.Sprintf("`%s` was not answered within %s: the worker was killed", op, limit.Round(time.Millisecond))
	} else {
		select { // the stream has ended; the process is ending, or has closed it and lives on
		case <-w.process.done:
		case <-time.After(time.Second):
		}
		w.process.kill()
		l.Signal = w.process.ending()
		l.Detail = fmt.Sprintf("the worker ended in `%s`: %s", op, l.Signal)
		if at, buffer := w.where(); at != "" {
			l.Detail, l.Buffer = l.Detail+", "+at, buffer
		}
	}
	w.broken = l
	return l
}

// nearby is how far from a buffer an address may be to be told as relative to it.
const nearby = 1 << 20

// where tells the faulting address, which csrc writes to standard error, in words: relative to the buffer next to it.
func (w *Worker) where() (string, int) {
	said := w.process.stderr.String()
	at := strings.LastIndex(said, "kf-fault ")
	if at < 0 {
		return "", -1
	}
	var signal int
	var address uint64
	if n, _ := fmt.Sscanf(said[at:], "kf-fault signal=%d address=%x", &signal, &address); n != 2 {
		return "", -1
	}
	place, buffer, nearest := "", -1, uint64(nearby)
	for id, r := range w.regions {
		end := r.data + r.bytes
		switch {
		case address >= r.data && address < end && !r.writable:
			return fmt.Sprintf("a write at byte %d of buffer %d, which is read-only", address-r.data, id), id
		case address >= r.data && address < end:
			return fmt.Sprintf("at byte %d of buffer %d", address-r.data, id), id
		case address >= end && address-end < nearest:
			place, buffer, nearest = fmt.Sprintf("%d bytes past the end of buffer %d", address-end, id), id, address-end
		case address < r.data && r.data-address < nearest:
			place, buffer, nearest = fmt.Sprintf("%d bytes before the start of buffer %d", r.data-address, id), id, r.data-address
		}
	}
	if buffer >= 0 {
		return place, buffer
	}
	return fmt.Sprintf("at address %#x, far from every buffer", address), -1
}
