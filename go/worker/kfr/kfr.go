// Package kfr binds libkfruntime.so (csrc/include/kf_runtime.h) through purego, without cgo.
//
// It owns the library handle and the translation of types; the header is the manual. It refuses policy: what may be loaded or run is
// decided by its callers. Used in the worker process, and by tests that need shared memory.
package kfr

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ABI is the version of the header that this file was written against.
const ABI = 1

// Host is the device number of the host target.
const Host = -1

// Status is kfr_status.
type Status int32

// The statuses, as in the header.
const (
	OK Status = iota
	BadArgument
	BadSpec
	BadCode
	BadPack
	BadPin
	Busy
	NoDevice
	Launch
	System
	Driver
	Faulted
)

// Error is what csrc said.
type Error struct {
	Status Status
	Text   string
	Hint   string
}

func (e *Error) Error() string { return e.Text }

// cError is kfr_error.
type cError struct {
	code int32
	text [768]byte
	hint [256]byte
}

func text(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

func (e *cError) is(status int32, what string) error {
	if status == int32(OK) {
		return nil
	}
	found := text(e.text[:])
	if found == "" {
		found = fmt.Sprintf("%s: refused with status %d", what, status)
	}
	return &Error{Status(status), found, text(e.hint[:])}
}

// Parallel is kfr_parallel: how host kernels reach threads.
type Parallel struct {
	run     uintptr
	ctx     uintptr
	Threads int32
	_       int32
}

// Info is what a caller must know of a plan to give it slots.
type Info struct {
	Inputs, Outputs int
	WorkspaceBytes  []uint64
}

// cInfo is kfr_plan_info.
type cInfo struct {
	id                          unsafe.Pointer
	op, device                  int32
	inputs, outputs, workspaces uint32
	align                       unsafe.Pointer
	workspaceBytes              unsafe.Pointer
	workspaceZeroed             unsafe.Pointer
	deterministic, exact        uint8
	threads                     int32
}

// Device is kfr_device_info.
type Device struct {
	name                                [128]byte
	Major, Minor, SMCount, Driver, Warp int32
	L2Bytes, SmemOptin, MemoryBytes     int64
	vmm, readOnly                       uint8
	UUID                                [16]uint8
	pci                                 [32]byte
}

// Name is the device's, as the driver says it.
func (d *Device) Name() string { return text(d.name[:]) }

// PCI is the device's address, "0000:19:00.0".
func (d *Device) PCI() string { return text(d.pci[:]) }

// VMM says whether buffers have unmapped ranges on both sides.
func (d *Device) VMM() bool { return d.vmm != 0 }

// ReadOnly says whether an import that is not writable cannot be written by a kernel.
func (d *Device) ReadOnly() bool { return d.readOnly != 0 }

// Handles of the library. They are C memory; 0 is none.
type (
	Plan   uintptr
	Pool   uintptr
	Memory uintptr
)

// Library is an opened libkfruntime.so. It is never closed.
type Library struct {
	deviceOpen func(device int32, info *Device, e *cError) int32
	streamWait func(device int32, stream uintptr, e *cError) int32

	planCreate func(json unsafe.Pointer, jsonN uintptr, image unsafe.Pointer, imageN uintptr, device int32, plan *Plan, e *cError) int32
	planFree   func(plan Plan)
	planInfo   func(plan Plan, info *cInfo) int32
	launch     func(plan Plan, slots unsafe.Pointer, count uint32, parallel *Parallel, stream uintptr, e *cError) int32
	poolCreate func(threads int32, pool *Pool, e *cError) int32
	poolUse    func(pool Pool, parallel *Parallel)
	poolFree   func(pool Pool)
	poolDirty  func(pool Pool, value int32)
	unchecked  func()

	bufferCreate func(bytes uint64, device int32, buffer *Memory, e *cError) int32
	bufferImport func(fd int32, bytes uint64, writable, device int32, buffer *Memory, e *cError) int32
	bufferFill   func(buffer Memory, offset, bytes uint64, value uint8, e *cError) int32
	bufferPush   func(buffer Memory, e *cError) int32
	bufferPull   func(buffer Memory, e *cError) int32
	bufferData   func(buffer Memory) uintptr
	bufferBytes  func(buffer Memory) uint64
	bufferFD     func(buffer Memory) int32
	bufferFree   func(buffer Memory)

	timePlan func(plan Plan, sets unsafe.Pointer, nsets, nslots, samples, inner uint32, warm int32, parallel *Parallel, stream uintptr,
		out *float64, e *cError) int32
	timeReference func(device int32, parallel *Parallel, stream uintptr, samples uint32, out *float64, e *cError) int32
	now           func() int64
	faultReport   func(fd int32, e *cError) int32
}

// Open loads the library and compares its ABI before anything else is called.
func Open(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load the runtime `%s`: %w", path, err)
	}
	var missing error
	bind := func(function any, name string) {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			missing = errors.Join(missing, err)
			return
		}
		purego.RegisterFunc(function, symbol)
	}
	var version func() uint32
	bind(&version, "kfr_abi_version")
	if missing != nil {
		return nil, fmt.Errorf("load the runtime `%s`: %w", path, missing)
	}
	if found := version(); found != ABI {
		return nil, fmt.Errorf("load the runtime `%s`: abi %d (expected %d)", path, found, ABI)
	}
	l := &Library{}
	bind(&l.deviceOpen, "kfr_device_open")
	bind(&l.streamWait, "kfr_stream_wait")
	bind(&l.planCreate, "kfr_plan_create")
	bind(&l.planFree, "kfr_plan_free")
	bind(&l.planInfo, "kfr_plan_info_get")
	bind(&l.launch, "kfr_launch")
	bind(&l.poolCreate, "kfr_pool_create")
	bind(&l.poolUse, "kfr_pool_parallel")
	bind(&l.poolFree, "kfr_pool_free")
	bind(&l.poolDirty, "kfr_pool_dirty")
	bind(&l.unchecked, "kfr_images_unchecked")
	bind(&l.bufferCreate, "kfr_buffer_create")
	bind(&l.bufferImport, "kfr_buffer_import")
	bind(&l.bufferFill, "kfr_buffer_fill")
	bind(&l.bufferPush, "kfr_buffer_push")
	bind(&l.bufferPull, "kfr_buffer_pull")
	bind(&l.bufferData, "kfr_buffer_data")
	bind(&l.bufferBytes, "kfr_buffer_bytes")
	bind(&l.bufferFD, "kfr_buffer_fd")
	bind(&l.bufferFree, "kfr_buffer_free")
	bind(&l.timePlan, "kfr_time_plan")
	bind(&l.timeReference, "kfr_time_reference")
	bind(&l.now, "kfr_now_ns")
	bind(&l.faultReport, "kfr_fault_report")
	if missing != nil {
		return nil, fmt.Errorf("load the runtime `%s`: %w", path, missing)
	}
	return l, nil
}

// Now reads the monotonic clock of both sides, nanoseconds.
func (l *Library) Now() int64 { return l.now() }

// ReportFaults makes a candidate's fault write one line to fd before the process dies of it. It replaces Go's handlers: for the worker only.
func (l *Library) ReportFaults(fd int) error {
	e := &cError{}
	return e.is(l.faultReport(int32(fd), e), "report faults")
}

// OpenDevice opens the CUDA driver and makes a device's primary context current on this thread.
func (l *Library) OpenDevice(device int32) (*Device, error) {
	info, e := &Device{}, &cError{}
	if err := e.is(l.deviceOpen(device, info, e), fmt.Sprintf("open device %d", device)); err != nil {
		return nil, err
	}
	return info, nil
}

// Wait returns when everything that was launched on the device's default stream is done. A fault of a kernel is told here.
func (l *Library) Wait(device int32) error {
	e := &cError{}
	return e.is(l.streamWait(device, 0, e), fmt.Sprintf("wait for device %d", device))
}

// NewPool makes a fixed pool of threads and the way to it. Free it with FreePool.
func (l *Library) NewPool(threads int) (Pool, *Parallel, error) {
	var pool Pool
	e := &cError{}
	if err := e.is(l.poolCreate(int32(threads), &pool, e), "make a thread pool"); err != nil {
		return 0, nil, err
	}
	parallel := &Parallel{}
	l.poolUse(pool, parallel)
	return pool, parallel, nil
}

// FreePool ends the pool's threads.
func (l *Library) FreePool(pool Pool) { l.poolFree(pool) }

// Dirty makes the pool's later calls find a byte in each thread's free stack and vector registers; -1: whatever is there.
func (l *Library) Dirty(pool Pool, value int) { l.poolDirty(pool, int32(value)) }

// Unchecked leaves out the rules of images for the rest of this process: for tests of what only they keep out.
func (l *Library) Unchecked() { l.unchecked() }

// NewPlan checks and loads an image and binds it to its call. Free it with FreePlan.
func (l *Library) NewPlan(json, image []byte, device int32) (Plan, Info, error) {
	var plan Plan
	e := &cError{}
	err := e.is(l.planCreate(pointer(json), uintptr(len(json)), pointer(image), uintptr(len(image)), device, &plan, e), "make a plan")
	runtime.KeepAlive(json)
	runtime.KeepAlive(image)
	if err != nil {
		return 0, Info{}, err
	}
	c := &cInfo{}
	if err := (&cError{}).is(l.planInfo(plan, c), "describe a plan"); err != nil {
		l.planFree(plan)
		return 0, Info{}, err
	}
	info := Info{Inputs: int(c.inputs), Outputs: int(c.outputs)}
	if c.workspaces > 0 {
		info.WorkspaceBytes = append(info.WorkspaceBytes, unsafe.Slice((*uint64)(c.workspaceBytes), c.workspaces)...)
	}
	return plan, info, nil
}

// FreePlan unloads a plan.
func (l *Library) FreePlan(plan Plan) { l.planFree(plan) }

// Launch runs the plan's kernels once. slots are addresses: inputs, outputs, workspaces.
func (l *Library) Launch(plan Plan, slots []uintptr, parallel *Parallel) error {
	e := &cError{}
	err := e.is(l.launch(plan, pointer(slots), uint32(len(slots)), parallel, 0, e), "launch")
	runtime.KeepAlive(slots)
	return err
}

// TimePlan gives `samples` times in nanoseconds a launch. sets holds nsets x nslots addresses; 0 is a slot that the runtime allocates.
func (l *Library) TimePlan(plan Plan, sets []uintptr, nsets, samples, inner int, warm bool, parallel *Parallel) ([]float64, error) {
	out := make([]float64, samples)
	var first int32
	if warm {
		first = 1
	}
	e := &cError{}
	err := e.is(l.timePlan(plan, pointer(sets), uint32(nsets), uint32(len(sets)/nsets), uint32(samples), uint32(inner), first, parallel, 0,
		&out[0], e), "time a plan")
	runtime.KeepAlive(sets)
	return out, err
}

// TimeReference times the reference kernel, nanoseconds. parallel is the host's.
func (l *Library) TimeReference(device int32, samples int, parallel *Parallel) ([]float64, error) {
	out := make([]float64, samples)
	e := &cError{}
	return out, e.is(l.timeReference(device, parallel, 0, uint32(samples), &out[0], e), "time the reference kernel")
}

// NewMemory makes shared memory with guard pages, as the trusted process does.
func (l *Library) NewMemory(bytes uint64, device int32) (Memory, error) {
	var memory Memory
	e := &cError{}
	return memory, e.is(l.bufferCreate(bytes, device, &memory, e), "make a shared buffer")
}

// Import maps shared memory of another process. The descriptor is borrowed.
func (l *Library) Import(fd int, bytes uint64, writable bool, device int32) (Memory, error) {
	var memory Memory
	var write int32
	if writable {
		write = 1
	}
	e := &cError{}
	return memory, e.is(l.bufferImport(int32(fd), bytes, write, device, &memory, e), "import a shared buffer")
}

// Data is the first address of the mapping: a device address for a device.
func (l *Library) Data(memory Memory) uintptr { return l.bufferData(memory) }

// Bytes is the length of the mapping, whole pages.
func (l *Library) Bytes(memory Memory) uint64 { return l.bufferBytes(memory) }

// FD is the descriptor of a buffer that NewMemory made.
func (l *Library) FD(memory Memory) int { return int(l.bufferFD(memory)) }

// Fill sets bytes of a buffer from an offset.
func (l *Library) Fill(memory Memory, offset, bytes uint64, value uint8) error {
	e := &cError{}
	return e.is(l.bufferFill(memory, offset, bytes, value, e), "fill a buffer")
}

// Push gives the other side a buffer's bytes, where each side has memory of its own.
func (l *Library) Push(memory Memory) error {
	e := &cError{}
	return e.is(l.bufferPush(memory, e), "push a buffer")
}

// Pull takes what the other side gave.
func (l *Library) Pull(memory Memory) error {
	e := &cError{}
	return e.is(l.bufferPull(memory, e), "pull a buffer")
}

// FreeMemory unmaps.
func (l *Library) FreeMemory(memory Memory) { l.bufferFree(memory) }

func pointer[T any](list []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(list)) }
