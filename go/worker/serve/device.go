package serve

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// What differs between the host and a device in the child's half: opening, workspaces, waiting, telemetry.

// Meter reads what the GPU's own sensors say. go/nvml has the real one; it is given in, since only the worker program is linked with NVML.
type Meter interface {
	Read() *worker.Telemetry
	// Mode is the compute mode, "" if unknown, and whether a client of an MPS server is on the device.
	Mode() (mode string, mps bool)
}

// OpenMeter opens the meter of one device, by its UUID ("GPU-...") or its PCI address. An error says why there is none.
type OpenMeter func(uuid, pci string) (Meter, error)

// openDevice opens the driver and the device's context on this thread, then its meter, before any candidate is here.
func (l *Loop) openDevice(library *kfr.Library, device int32) (*worker.Device, error) {
	found, err := library.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	u := found.UUID
	shown := &worker.Device{Name: worker.Clean(found.Name(), 128), Major: int(found.Major), Minor: int(found.Minor), SMCount: int(found.SMCount), Driver: int(found.Driver),
		Warp: int(found.Warp), L2Bytes: found.L2Bytes, SmemOptin: found.SmemOptin, MemoryBytes: found.MemoryBytes, VMM: found.VMM(), ReadOnly: found.ReadOnly(),
		UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), PCI: worker.Clean(found.PCI(), 32)}
	l.noMeter = "this worker was started without telemetry"
	if l.openMeter == nil {
		return shown, nil
	}
	meter, err := l.openMeter(shown.UUID, shown.PCI)
	if err != nil {
		l.noMeter = err.Error()
		return shown, nil
	}
	l.meter = meter
	shown.Mode, shown.MPS = meter.Mode()
	return shown, nil
}

// launches finds out whether the driver can work behind walls that were put up after it was opened, before a candidate does.
func launches(library *kfr.Library, device int32, tier int) error {
	if tier == sandbox.Limits {
		return nil
	}
	if _, err := library.TimeReference(device, 1, nil); err != nil {
		return fmt.Errorf("launch a kernel at sandbox tier %d: %w", tier, err)
	}
	return nil
}

func (l *Loop) telemetry(ok worker.Answer) any {
	if l.meter == nil {
		return worker.TelemetryAnswer{Answer: ok, Why: l.noMeter}
	}
	return worker.TelemetryAnswer{Answer: ok, Telemetry: l.meter.Read()}
}

// scratch is what a kernel gets as a workspace.
type scratch interface {
	address(atStart bool) uintptr
	fill(value byte) error
	free()
}

func (l *Loop) newScratch(bytes uint64) (scratch, error) {
	if bytes > maxWorkspace {
		return nil, &kfr.Error{Status: kfr.Launch, Text: fmt.Sprintf("load: a workspace of %d bytes (expected at most %d)", bytes, uint64(maxWorkspace))}
	}
	if l.device == kfr.Host {
		return newWorkspace(bytes)
	}
	memory, err := l.library.NewMemory(max(bytes, 1), l.device)
	if err != nil {
		return nil, &kfr.Error{Status: kfr.Launch, Text: fmt.Sprintf("load: a workspace of %d bytes: %v", bytes, err), Hint: "a smaller workspace"}
	}
	return deviceWorkspace{l.library, memory, bytes}, nil
}

// deviceWorkspace is memory of the device between two unmapped ranges, where the driver has them. It lies at the mapping's end, rounded to
// what an allocation is aligned to, or at its start.
type deviceWorkspace struct {
	library *kfr.Library
	memory  kfr.Memory
	bytes   uint64
}

const deviceAlign = 256 // cuMemAlloc's

func (w deviceWorkspace) address(atStart bool) uintptr {
	if atStart {
		return w.library.Data(w.memory)
	}
	return w.library.Data(w.memory) + uintptr(w.first())
}

func (w deviceWorkspace) first() uint64 {
	return w.library.Bytes(w.memory) - (w.bytes+deviceAlign-1)/deviceAlign*deviceAlign
}

func (w deviceWorkspace) fill(value byte) error {
	return w.library.Fill(w.memory, 0, w.library.Bytes(w.memory), value)
}

func (w deviceWorkspace) free() { w.library.FreeMemory(w.memory) }

// wait returns when what was launched is done; the host's launches are done when they return.
func (l *Loop) wait() error {
	if l.device == kfr.Host {
		return nil
	}
	return l.library.Wait(l.device)
}
