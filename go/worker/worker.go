package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// The parent's side of one worker: typed requests, a time limit for each, and how its end is told.

// Config says which program to start and what it may use.
type Config struct {
	Path      string            // the program kernelforge-worker
	Runtime   string            // libkfruntime.so
	Scratch   string            // an existing folder; the worker's working directory
	Threads   int               // of the host target
	Tier      int               // of the confinement (worker/sandbox); a worker that does not reach it is an error
	CUDA      bool              // the target
	Device    int               // CUDA: ordinal, as the user's process counts
	UUID      string            // CUDA: the GPU that the ordinal means in the user's process, as Device.UUID; "" is not checked
	Variables map[string]string // CUDA: variables of the user's process that it has set since it was started
	Wrapper   []string          // the path of a program, and its options, that runs the worker below it; none: it runs by itself
	Unchecked bool              // images are loaded without their rules: for tests of what only these keep out
}

// TierHint is what a user can do where a tier cannot be reached.
const TierHint = "`kernelforge doctor` tries every tier; tier 1 needs Landlock and seccomp (Linux 5.13 or newer, a container that allows them), tier 2 also user namespaces"

const scratchHint = "set TMPDIR to a folder of yours with free space, and begin again: what was measured is saved"

// StartLimit bounds the start: the program's own start, opening the runtime and its threads, or the driver and a context.
const StartLimit = 20 * time.Second

// Worker is one live worker process. One request at a time; not safe for concurrent use, but Kill may be called from anywhere.
type Worker struct {
	peer
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
	Signal  string // the ending in words: "SIGSEGV", "exit status 2", "device fault"
	Detail  string // what is known about the cause
	Buffer  int    // the buffer next to the faulting address, -1 if none is near

	ReadOnly bool // and the fault was a write within it, which may only be read
}

func (l *Lost) Error() string { return l.Detail }

// Start starts a worker and greets it. One that somebody ends before it has answered is started again, once: nothing of a candidate has been in it. An
// error says that the harness is broken.
func Start(ctx context.Context, config Config) (*Worker, error) {
	w, err := begin(ctx, config)
	var lost *Lost
	if errors.As(err, &lost) && lost.Early() && ctx.Err() == nil {
		w, err = begin(ctx, config)
	}
	return w, err
}

func begin(ctx context.Context, config Config) (*Worker, error) {
	command := exec.Command(config.Path, "serve")
	command.Dir = config.Scratch
	command.Env = Environment(config.Scratch)
	hello := &Hello{Header: Header{Op: "hello"}, Runtime: config.Runtime, Threads: config.Threads, Device: -1, Unchecked: config.Unchecked}
	if config.CUDA {
		command.Args = append(command.Args, "cuda")
		command.Env = environment(config.Scratch, config.Variables, append([]string{"PATH", "LD_LIBRARY_PATH"}, deviceVariables...)...)
		hello.Device, hello.Threads = config.Device, 1 // the pool is the host's
	}
	if config.Tier > sandbox.Limits || !config.CUDA { // at tier 0 a self-test on CUDA would fork a process that holds a context
		discard, err := Furnish(command, config.Room(), config.Scratch)
		if err != nil {
			return nil, card.Fail(card.CodeJudge, scratchHint, "start the worker `%s`: %w", config.Path, err)
		}
		defer discard()
	}
	if len(config.Wrapper) > 0 {
		command.Args = slices.Concat(command.Args, []string{sandbox.Below}, config.Wrapper)
	}
	p, err := startPeer(command, func(end *os.File) { command.ExtraFiles = []*os.File{end} }) // descriptor 3
	if err != nil {
		return nil, card.Fail(card.CodeJudge, "build it with `make build`, or install again with pip", "start the worker `%s`: %w", config.Path, err)
	}
	w := &Worker{peer: p, regions: map[int]region{}}
	if err = w.call(ctx, Limit{Wall: StartLimit}, hello, nil, &w.Hello); err == nil {
		err = w.greeted(config)
	} else if ctx.Err() != nil {
		err = ctx.Err()
	} else {
		err = w.notGreeted(config, err)
	}
	if err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

func (w *Worker) notGreeted(config Config, err error) error {
	hint := "`kernelforge doctor` checks the worker and its runtime"
	var fault *Fault
	var lost *Lost
	switch {
	case errors.As(err, &fault) && fault.Hint != "":
		hint = fault.Hint
	case errors.As(err, &lost) && lost.Early(): // twice, so that no wall is to blame
		hint = "something outside ended it, twice: look at the memory limit of the machine or the container, and call again"
	case config.Tier > sandbox.Limits:
		hint = TierHint
	}
	said := ""
	if text := w.process.stderr.String(); text != "" {
		said = "; it said: " + Clean(text, 512)
	}
	return card.Fail(card.CodeJudge, hint, "start the worker `%s`: %w%s", config.Path, err, said)
}

// greeted compares what the worker reached with what was asked for.
func (w *Worker) greeted(config Config) error {
	device := w.Hello.Device
	switch {
	case w.Hello.Tier < config.Tier:
		lacks := sandbox.Report{Attempts: w.Hello.Attempts}.Lacks(config.Tier)
		return card.Fail(card.CodeJudge, TierHint, "start the worker `%s`: it reached sandbox tier %d (expected %d): it could %s",
			config.Path, w.Hello.Tier, config.Tier, Clean(strings.Join(lacks, "; "), 512))
	case config.CUDA != (device != nil):
		return card.Fail(card.CodeJudge, "rebuild it with `make build`", "start the worker `%s`: it has another target than asked for", config.Path)
	case config.CUDA && config.UUID != "" && config.UUID != device.UUID:
		return card.Fail(card.CodeJudge, "set CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER before Python starts, not in Python",
			"start the worker on device %d: that is GPU `%s` there (expected `%s`, as in your process)", config.Device, device.UUID, config.UUID)
	}
	return nil
}

// Device is the CUDA device that the worker opened; nil on the host.
func (w *Worker) Device() *Device { return w.Hello.Device }

// Map gives the worker buffers; fds[i] belongs to buffers[i] and is borrowed. Long lists go in several frames.
func (w *Worker) Map(ctx context.Context, limit time.Duration, buffers []Buffer, fds []int) error {
	for len(buffers) > 0 {
		n := min(len(buffers), MaxFDs)
		var answer MapAnswer
		request := &Map{Header: Header{Op: "map"}, Buffers: buffers[:n], FDs: n}
		if err := w.call(ctx, Limit{Wall: limit}, request, fds[:n], &answer); err != nil {
			return err
		}
		if len(answer.Data) != n {
			return w.end(w.breach("map", "%d addresses for %d buffers", len(answer.Data), n))
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
	if err := w.call(ctx, Limit{Wall: limit}, &Unmap{Header: Header{Op: "unmap"}, Buffers: ids}, nil, &Answer{}); err != nil {
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
	err = w.call(ctx, Limit{Wall: limit}, request, []int{int(file.Fd())}, &answer)
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

// within is the limit of a request that runs a candidate: on the host its CPU time, since a machine that does other work keeps good code waiting;
// on a device, which nobody else's threads delay, the time on the wall.
func (w *Worker) within(limit time.Duration) Limit {
	if w.Device() != nil {
		return Limit{Wall: limit}
	}
	return Limit{CPU: limit, Wall: Patience * limit}
}

// Run runs a kernel once and gives its time in microseconds. It finds dirt in what is not its own; on a device the kernel `before` leaves it there.
func (w *Worker) Run(ctx context.Context, limit time.Duration, kernel int, slots []Slot, dirt Dirt, before int) (float64, error) {
	var answer RunAnswer
	err := w.call(ctx, w.within(limit), &Run{Header: Header{Op: "run"}, Kernel: kernel, Slots: slots, Dirt: dirt, Before: before}, nil, &answer)
	return answer.US, err
}

// Time times a kernel over a rotating pool. The kernel shares the process with its clock, so times are checked for sense only; what is
// accepted is decided in the trusted process.
func (w *Worker) Time(ctx context.Context, limit time.Duration, kernel int, sets [][]*Slot, samples, inner int, warm bool) ([]float64, float64, error) {
	var answer TimeAnswer
	request := &Time{Header: Header{Op: "time"}, Kernel: kernel, Sets: sets, Samples: samples, Inner: inner, Warm: warm}
	if err := w.call(ctx, w.within(limit), request, nil, &answer); err != nil {
		return nil, 0, err
	}
	if len(answer.SamplesNS) != samples || !(answer.ReferenceNS > 0) {
		return nil, 0, w.end(w.breach("time", "%d samples (expected %d), reference %g ns", len(answer.SamplesNS), samples, answer.ReferenceNS))
	}
	for _, ns := range answer.SamplesNS {
		if !(ns > 0) {
			return nil, 0, w.end(w.breach("time", "a sample of %g ns", ns))
		}
	}
	return answer.SamplesNS, answer.ReferenceNS, nil
}

// Unload frees a kernel.
func (w *Worker) Unload(ctx context.Context, limit time.Duration, kernel int) error {
	return w.call(ctx, Limit{Wall: limit}, &Unload{Header: Header{Op: "unload"}, Kernel: kernel}, nil, &Answer{})
}

// Telemetry reads the GPU's clock and what slows it down; nil and why, where there is none.
func (w *Worker) Telemetry(ctx context.Context, limit time.Duration) (*Telemetry, string, error) {
	var answer TelemetryAnswer
	err := w.call(ctx, Limit{Wall: limit}, &ReadTelemetry{Header: Header{Op: "telemetry"}}, nil, &answer)
	return answer.Telemetry, Clean(answer.Why, 256), err
}

// End lets the worker end by itself, as it does when nobody asks any more, and kills it when it does not in time.
func (w *Worker) End(limit time.Duration) {
	w.conn.Close()
	select {
	case <-w.process.done:
	case <-time.After(limit):
	}
	w.Kill()
}

// call sends a request and reads its answer strictly. Its error is a *Fault that the worker answered (the worker lives), a *Lost (it is
// dead), or the context's.
func (w *Worker) call(ctx context.Context, limit Limit, request Request, fds []int, answer any) error {
	if w.broken != nil {
		return w.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.last++
	head := request.header()
	head.ID = w.last
	body, err := w.exchange(ctx, limit, head.Op, request, fds)
	var lost *Lost
	if errors.As(err, &lost) && !lost.Timeout {
		if at, buffer, readOnly := w.where(); at != "" {
			lost.Detail, lost.Buffer, lost.ReadOnly = lost.Detail+", "+at, buffer, readOnly
		}
	}
	if err == nil {
		err = w.read(head, body, answer)
	}
	var fault *Fault
	if err != nil && !errors.As(err, &fault) {
		w.broken = err
	}
	return err
}

// read takes an answer apart.
func (w *Worker) read(head *Header, body []byte, answer any) error {
	var first Answer
	if err := json.Unmarshal(body, &first); err != nil {
		return w.breach(head.Op, "%v", err)
	}
	if first.ID != head.ID {
		return w.breach(head.Op, "an answer to request %d (expected %d)", first.ID, head.ID)
	}
	if first.OK {
		if err := card.Decode(body, answer); err != nil {
			return w.breach(head.Op, "%v", err)
		}
		return nil
	}
	if err := card.Decode(body, &first); err != nil {
		return w.breach(head.Op, "%v", err)
	}
	if first.Error == nil {
		return w.breach(head.Op, "a refusal without an error")
	}
	fault := *first.Error
	fault.Text, fault.Hint = Clean(fault.Text, 1024), Clean(fault.Hint, 256)
	if fault.Code == FaultDevice { // its context is lost: the process is of no more use
		w.process.kill()
		return &Lost{Op: head.Op, Signal: "device fault", Detail: fault.Text, Buffer: -1}
	}
	return &fault
}

// end keeps why the worker is gone, for every later request.
func (w *Worker) end(lost *Lost) error {
	w.broken = lost
	return lost
}

// nearby is how far from a buffer an address may be to be told as relative to it.
const nearby = 1 << 20

// where tells the faulting address, which csrc writes to standard error, in words: relative to the buffer next to it.
func (w *Worker) where() (words string, buffer int, readOnly bool) {
	said := w.process.stderr.String()
	at := strings.LastIndex(said, "kf-fault ")
	if at < 0 {
		return "", -1, false
	}
	var signal int
	var address uint64
	if n, _ := fmt.Sscanf(said[at:], "kf-fault signal=%d address=%x", &signal, &address); n != 2 {
		return "", -1, false
	}
	place, buffer, nearest := "", -1, uint64(nearby)
	for id, r := range w.regions {
		end := r.data + r.bytes
		switch {
		case address >= r.data && address < end && !r.writable:
			return fmt.Sprintf("a write at byte %d of buffer %d, which is read-only", address-r.data, id), id, true
		case address >= r.data && address < end:
			return fmt.Sprintf("at byte %d of buffer %d", address-r.data, id), id, false
		case address >= end && address-end < nearest:
			place, buffer, nearest = fmt.Sprintf("%d bytes past the end of buffer %d", address-end, id), id, address-end
		case address < r.data && r.data-address < nearest:
			place, buffer, nearest = fmt.Sprintf("%d bytes before the start of buffer %d", r.data-address, id), id, r.data-address
		}
	}
	if buffer >= 0 {
		return place, buffer, false
	}
	return fmt.Sprintf("at address %#x, far from every buffer", address), -1, false
}
