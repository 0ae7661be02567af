// Package nvml reads a GPU's own sensors through go-nvml: clocks, what slows them down, power, temperature, memory.
//
// It owns which of NVML's functions are called, and that a driver without one of them costs a number and not the process: go-nvml's symbols are
// bound when they are first called, and one that is not there would end the program, so each is looked up first. It refuses to change anything on
// the device. Linked into kernelforge-worker only, since a program that is linked with go-nvml must bind lazily (`-Wl,-z,lazy`).
package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Meter is one device's. Not safe for concurrent use.
type Meter struct {
	device nvml.Device
	has    map[string]bool
}

// symbols are what is called besides nvmlInit, which go-nvml needs in any case; the handle is found by one of the first two.
var symbols = []string{
	"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetComputeMode", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}

// Open opens NVML and finds a device by its UUID ("GPU-..."), else by its PCI address. An error says why there is no telemetry.
func Open(uuid, pci string) (*Meter, error) {
	if code := nvml.Init(); code != nvml.SUCCESS {
		if code == nvml.ERROR_LIBRARY_NOT_FOUND {
			return nil, fmt.Errorf("open NVML: no libnvidia-ml.so.1 on the loader path")
		}
		return nil, fmt.Errorf("open NVML: error %d", code)
	}
	m := &Meter{has: map[string]bool{}}
	for _, name := range symbols {
		m.has[name] = nvml.Extensions().LookupSymbol(name) == nil
	}
	code := nvml.ERROR_FUNCTION_NOT_FOUND
	if m.has["nvmlDeviceGetHandleByUUID"] {
		m.device, code = nvml.DeviceGetHandleByUUID(uuid)
	}
	if code != nvml.SUCCESS && pci != "" && m.has["nvmlDeviceGetHandleByPciBusId_v2"] { // part of a GPU (MIG) has a UUID of another form
		m.device, code = nvml.DeviceGetHandleByPciBusId(pci)
	}
	if code != nvml.SUCCESS {
		return nil, fmt.Errorf("open NVML: device %s at %s: error %d", uuid, pci, code)
	}
	return m, nil
}

// reasons are NVML's, by their bits; names as its manual has them, without the prefix.
var reasons = []struct {
	bit  uint64
	name string
}{
	{0x1, "gpu_idle"}, {0x2, "applications_clocks_setting"}, {0x4, "sw_power_cap"}, {0x8, "hw_slowdown"}, {0x10, "sync_boost"},
	{0x20, "sw_thermal_slowdown"}, {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake_slowdown"}, {0x100, "display_clock_setting"},
}

func names(bits uint64) []string {
	set := []string{}
	for _, reason := range reasons {
		if bits&reason.bit != 0 {
			set = append(set, reason.name)
		}
		bits &^= reason.bit
	}
	if bits != 0 {
		set = append(set, fmt.Sprintf("other_%#x", bits))
	}
	return set
}

// Read reads what disturbs a time: it is asked for around every block, so nothing else. What the driver does not say is 0, or missing in Throttle.
func (m *Meter) Read() *worker.Telemetry {
	read := &worker.Telemetry{Throttle: []string{}}
	if m.has["nvmlDeviceGetClockInfo"] {
		if mhz, code := m.device.GetClockInfo(nvml.CLOCK_SM); code == nvml.SUCCESS {
			read.ClocksSMMHz = int(mhz)
		}
	}
	switch {
	case m.has["nvmlDeviceGetCurrentClocksEventReasons"]:
		if bits, code := m.device.GetCurrentClocksEventReasons(); code == nvml.SUCCESS {
			read.Throttle = names(bits)
		}
	case m.has["nvmlDeviceGetCurrentClocksThrottleReasons"]: // before driver 535
		if bits, code := m.device.GetCurrentClocksThrottleReasons(); code == nvml.SUCCESS {
			read.Throttle = names(bits)
		}
	}
	return read
}

// Mode is the compute mode, "" if NVML does not say, and whether a client of an MPS server is on the device.
func (m *Meter) Mode() (mode string, mps bool) {
	if m.has["nvmlDeviceGetComputeMode"] {
		if found, code := m.device.GetComputeMode(); code == nvml.SUCCESS {
			switch found {
			case nvml.COMPUTEMODE_DEFAULT:
				mode = "default"
			case nvml.COMPUTEMODE_PROHIBITED:
				mode = "prohibited"
			default:
				mode = "exclusive_process"
			}
		}
	}
	if m.has["nvmlDeviceGetMPSComputeRunningProcesses_v3"] {
		clients, code := m.device.GetMPSComputeRunningProcesses()
		mps = code == nvml.SUCCESS && len(clients) > 0
	}
	return mode, mps
}
