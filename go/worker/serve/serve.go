// Package serve is the child's half of the worker: the loop that answers frames by calling csrc.
//
// It owns the mapped buffers, the loaded kernels and the workspaces of this process, and puts the process behind the limits of its tier
// before any candidate is loaded. It refuses to live on: an end of the stream, a broken frame or a fault of a candidate ends the process,
// and the parent starts another. Nothing here is trusted by the parent.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// Loop is one worker process.
type Loop struct {
	conn      *worker.Conn
	openMeter OpenMeter
	confine   func(*kfr.Library) (sandbox.Report, error)
	device    int32
	library   *kfr.Library
	pool      kfr.Pool
	parallel  *kfr.Parallel // host
	meter     Meter         // device; nil: noMeter says why
	noMeter   string
	faulted   bool // the device's context is lost, and this process is of no more use
	buffers   map[int]buffer
	kernels   map[int]*kernel
	next      int
}

type buffer struct {
	memory kfr.Memory
	data   uintptr
	bytes  uint64
}

type kernel struct {
	plan       kfr.Plan
	info       kfr.Info
	workspaces []scratch
	own        []uintptr // slots of a kernel of ours that is run for what it leaves behind; nil: never yet
}

// New makes a loop. confine is called once, at `hello`, when the runtime and the device are open and before any candidate: it does what is left
// to do for the confinement of this process, and says which tier that is and what it tried. open may be nil: no telemetry.
func New(conn *worker.Conn, open OpenMeter, confine func(*kfr.Library) (sandbox.Report, error)) *Loop {
	return &Loop{conn: conn, openMeter: open, device: kfr.Host, noMeter: "the host has none", confine: confine, buffers: map[int]buffer{},
		kernels: map[int]*kernel{}, next: 1}
}

// frame is a request as it arrived.
type frame struct {
	body []byte
	fds  []int
	err  error
}

// Serve answers requests until the stream ends. Frames are read on a goroutine of their own, so that the parent's end is noticed while a
// candidate runs; `gone` is called then. The candidate runs on this goroutine, locked to its thread.
func (l *Loop) Serve(ctx context.Context, gone func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frames := make(chan frame)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var f frame
			f.body, f.fds, f.err = l.conn.ReceiveFDs()
			if f.err != nil {
				gone()
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				worker.CloseAll(f.fds)
				return
			}
			if f.err != nil {
				return
			}
		}
	}()
	defer func() {
		stop()
		l.conn.Close()
		<-ended
		l.free()
	}()
	for f := range frames {
		if errors.Is(f.err, io.EOF) {
			return nil
		}
		if f.err != nil {
			return f.err
		}
		answer := l.answer(f)
		worker.CloseAll(f.fds)
		if err := l.conn.Send(answer, nil); err != nil {
			return err
		}
		if l.faulted {
			return errors.New("serve: a kernel faulted on the device: this process has no context any more")
		}
	}
	return nil
}

// answer never fails: what went wrong is in the answer.
func (l *Loop) answer(f frame) any {
	request, err := worker.DecodeRequest(f.body)
	if err != nil {
		var head worker.Header
		_ = json.Unmarshal(f.body, &head) // best effort: the id, so that the parent can tell
		return refusal(head.ID, err)
	}
	var answer any
	ok := worker.Answer{OK: true}
	switch r := request.(type) {
	case *worker.Hello:
		ok.ID = r.ID
		answer, err = l.hello(r, ok)
	case *worker.Map:
		ok.ID = r.ID
		answer, err = l.mapBuffers(r, f.fds, ok)
	case *worker.Unmap:
		ok.ID = r.ID
		answer, err = ok, l.unmap(r)
	case *worker.Load:
		ok.ID = r.ID
		answer, err = l.load(r, f.fds, ok)
	case *worker.Run:
		ok.ID = r.ID
		answer, err = l.run(r, ok)
	case *worker.Time:
		ok.ID = r.ID
		answer, err = l.time(r, ok)
	case *worker.Unload:
		ok.ID = r.ID
		answer, err = ok, l.unload(r.Kernel)
	case *worker.ReadTelemetry:
		ok.ID = r.ID
		answer, err = l.telemetry(ok), l.ready(len(f.fds), 0)
	}
	if err != nil {
		refused := refusal(ok.ID, err)
		l.faulted = refused.Error.Code == worker.FaultDevice
		return refused
	}
	return answer
}

// refusal gives an error its code: csrc's status decides whether it is about the candidate.
func refusal(id int64, err error) worker.Answer {
	fault := &worker.Fault{Code: worker.FaultRequest, Text: err.Error()}
	var c *kfr.Error
	if errors.As(err, &c) {
		fault.Hint = c.Hint
		switch c.Status {
		case kfr.BadSpec:
			fault.Code = worker.FaultSpec
		case kfr.BadCode:
			fault.Code = worker.FaultCode
		case kfr.Launch:
			fault.Code = worker.FaultLaunch
		case kfr.Faulted:
			fault.Code = worker.FaultDevice
		case kfr.System, kfr.NoDevice, kfr.Driver:
			fault.Code = worker.FaultSystem
		}
	}
	return worker.Answer{ID: id, Error: fault}
}

func (l *Loop) hello(r *worker.Hello, ok worker.Answer) (any, error) {
	if l.library != nil {
		return nil, errors.New("hello: the runtime is already open")
	}
	library, err := kfr.Open(r.Runtime)
	if err != nil {
		return nil, err
	}
	answer := worker.HelloAnswer{Answer: ok, PID: os.Getpid(), ABI: kfr.ABI}
	var pool kfr.Pool
	var parallel *kfr.Parallel
	if r.Device == kfr.Host {
		pool, parallel, err = library.NewPool(r.Threads)
	} else {
		answer.Device, err = l.openDevice(library, int32(r.Device))
	}
	if err != nil {
		return nil, err
	}
	if r.Unchecked {
		library.Unchecked()
	}
	report, err := l.confine(library)
	if err == nil && answer.Device != nil {
		err = launches(library, int32(r.Device), report.Tier)
	}
	if err != nil {
		return nil, err
	}
	answer.Tier, answer.Attempts = report.Tier, report.Attempts
	l.library, l.pool, l.parallel, l.device = library, pool, parallel, int32(r.Device)
	return answer, nil
}

func (l *Loop) mapBuffers(r *worker.Map, fds []int, ok worker.Answer) (any, error) {
	if err := l.ready(len(fds), r.FDs); err != nil {
		return nil, err
	}
	data := make([]uint64, 0, len(fds))
	for i, b := range r.Buffers {
		if _, taken := l.buffers[b.ID]; taken {
			return nil, fmt.Errorf("map: buffer %d is mapped already", b.ID)
		}
		memory, err := l.library.Import(fds[i], b.Bytes, b.Writable, l.device)
		if err != nil {
			return nil, err
		}
		mapped := buffer{memory, l.library.Data(memory), l.library.Bytes(memory)}
		l.buffers[b.ID] = mapped
		data = append(data, uint64(mapped.data))
	}
	return worker.MapAnswer{Answer: ok, Data: data}, nil
}

func (l *Loop) unmap(r *worker.Unmap) error {
	for _, id := range r.Buffers {
		mapped, ok := l.buffers[id]
		if !ok {
			return fmt.Errorf("unmap: no buffer %d", id)
		}
		l.library.FreeMemory(mapped.memory)
		delete(l.buffers, id)
	}
	return nil
}

func (l *Loop) load(r *worker.Load, fds []int, ok worker.Answer) (any, error) {
	if err := l.ready(len(fds), 1); err != nil {
		return nil, err
	}
	start := time.Now()
	image, err := readImage(fds[0])
	if err != nil {
		return nil, err
	}
	plan, info, err := l.library.NewPlan(r.Plan, image, l.device)
	if err != nil {
		return nil, err
	}
	k := &kernel{plan: plan, info: info}
	for _, bytes := range info.WorkspaceBytes {
		w, err := l.newScratch(bytes)
		if err != nil {
			l.drop(k)
			return nil, err
		}
		k.workspaces = append(k.workspaces, w)
	}
	number := l.next
	l.next++
	l.kernels[number] = k
	return worker.LoadAnswer{Answer: ok, Kernel: number, Seconds: time.Since(start).Seconds()}, nil
}

func (l *Loop) run(r *worker.Run, ok worker.Answer) (any, error) {
	k, found := l.kernels[r.Kernel]
	if !found {
		return nil, fmt.Errorf("run: no kernel %d", r.Kernel)
	}
	if want := k.info.Inputs + k.info.Outputs; len(r.Slots) != want {
		return nil, fmt.Errorf("run: kernel %d: %d slots (expected %d inputs and outputs)", r.Kernel, len(r.Slots), want)
	}
	slots := make([]uintptr, 0, len(r.Slots)+len(k.workspaces))
	for i := range r.Slots {
		address, err := l.address(&r.Slots[i])
		if err != nil {
			return nil, fmt.Errorf("run: slot %d: %w", i, err)
		}
		slots = append(slots, address)
	}
	for _, w := range k.workspaces {
		if r.Dirt != worker.NoDirt { // those marked zeroed are cleared at the launch
			if err := w.fill(byte(r.Dirt.Byte())); err != nil {
				return nil, err
			}
		}
		slots = append(slots, w.address(r.Dirt == worker.DirtLarge)) // at either end in turn: both sides are guarded
	}
	if err := l.carry(r.Slots, l.library.Pull); err != nil {
		return nil, err
	}
	if err := l.dirty(r); err != nil {
		return nil, err
	}
	start := l.library.Now()
	err := l.library.Launch(k.plan, slots, l.parallel)
	if l.pool != 0 {
		l.library.Dirty(l.pool, worker.NoDirt.Byte()) // what is timed comes clean
	}
	if err != nil {
		return nil, err
	}
	if err := l.wait(); err != nil {
		return nil, err
	}
	us := float64(l.library.Now()-start) / 1e3
	if err := l.carry(r.Slots, l.library.Push); err != nil { // inputs too: the referee looks whether they were changed
		return nil, err
	}
	return worker.RunAnswer{Answer: ok, US: us}, nil
}

// referenceSamples of the reference kernel go into each block; their median is what is compared across processes.
const referenceSamples = 3

func (l *Loop) time(r *worker.Time, ok worker.Answer) (any, error) {
	k, found := l.kernels[r.Kernel]
	if !found {
		return nil, fmt.Errorf("time: no kernel %d", r.Kernel)
	}
	want := k.info.Inputs + k.info.Outputs
	if len(r.Sets[0]) != want {
		return nil, fmt.Errorf("time: kernel %d: sets of %d slots (expected %d inputs and outputs)", r.Kernel, len(r.Sets[0]), want)
	}
	var sets []uintptr
	for i, set := range r.Sets {
		for j, slot := range set {
			address, err := l.address(slot)
			if err != nil {
				return nil, fmt.Errorf("time: set %d, slot %d: %w", i, j, err)
			}
			sets = append(sets, address)
		}
		for range k.workspaces {
			sets = append(sets, 0) // allocated inside the timed region, as a served call does
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection beside a measurement
	reference, err := l.library.TimeReference(l.device, referenceSamples, l.parallel)
	if err != nil {
		return nil, err
	}
	samples, err := l.library.TimePlan(k.plan, sets, len(r.Sets), r.Samples, r.Inner, r.Warm, l.parallel)
	if err != nil {
		return nil, err
	}
	return worker.TimeAnswer{Answer: ok, SamplesNS: samples, ReferenceNS: median(reference)}, nil
}

func (l *Loop) unload(number int) error {
	k, found := l.kernels[number]
	if !found {
		return fmt.Errorf("unload: no kernel %d", number)
	}
	delete(l.kernels, number)
	l.drop(k)
	return nil
}

// free gives back everything; the process of a worker ends here, a test's does not. What belongs to a lost context is gone with its process.
func (l *Loop) free() {
	if l.faulted {
		return
	}
	for number := range l.kernels {
		_ = l.unload(number)
	}
	for _, mapped := range l.buffers {
		l.library.FreeMemory(mapped.memory)
	}
	if l.pool != 0 {
		l.library.FreePool(l.pool)
	}
}

func (l *Loop) ready(fds, want int) error {
	if l.library == nil {
		return errors.New("no runtime is open (expected `hello` first)")
	}
	if fds != want {
		return fmt.Errorf("%d file descriptors came with the frame (expected %d)", fds, want)
	}
	return nil
}
