package nvml

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/worker"
)

// report is what a process with its own NVML saw.
type report struct {
	Error string
	Read  *worker.Telemetry
	Mode  string
	MPS   bool
}

const uuid, pci = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "0000:19:00.0"

// The test program is its own process with another NVML: the loader path is read at its start.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "meter" {
		var r report
		if meter, err := Open(os.Args[2], pci); err != nil {
			r.Error = err.Error()
		} else {
			r.Read = meter.Read()
			r.Mode, r.MPS = meter.Mode()
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// whole is an NVML with every function that is called; each begins a line, so that a driver without it can be made.
const whole = `#include <string.h>
typedef unsigned int u; typedef unsigned long long ull;
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** d) { *d = (void*)0x51; return strcmp(uuid, "` + uuid + `") ? 6 : 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** d) { *d = (void*)0x51; return strcmp(pci, "` + pci + `") || PCI_GONE ? 6 : 0; }
int nvmlDeviceGetClockInfo(void* d, u which, u* mhz) { *mhz = which == 1 ? 1980 : which == 2 ? 3201 : 0; return d == (void*)0x51 ? 0 : 2; }
int nvmlDeviceGetCurrentClocksEventReasons(void* d, ull* bits) { *bits = 0x4 | 0x40 | 0x8000; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* d, ull* bits) { *bits = 0x1; return 0; }
int nvmlDeviceGetComputeMode(void* d, u* mode) { *mode = MODE; return 0; }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* d, u* n, void* infos) { u room = *n; *n = CLIENTS; return CLIENTS > room ? 7 : 0; }
`

// meter runs a process whose NVML is this source; "" is none.
func meter(t *testing.T, source, device string, defines ...string) report {
	t.Helper()
	folder := t.TempDir()
	if source != "" {
		options := append([]string{"-shared", "-fPIC", "-x", "c", "-o", filepath.Join(folder, "libnvidia-ml.so.1"), "-"},
			"-DINIT=0", "-DMODE=0", "-DCLIENTS=0", "-DPCI_GONE=0")
		build := exec.Command("gcc", append(options, defines...)...)
		build.Stdin = strings.NewReader(source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Skipf("no C compiler for a made-up NVML: %v\n%s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, "meter", device)
	command.Env = []string{"LD_LIBRARY_PATH=" + folder}
	out, err := command.CombinedOutput()
	var r report
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("the process ended with %v and said %s", err, out)
	}
	return r
}

func without(functions ...string) string {
	var kept []string
	for line := range strings.Lines(whole) {
		if !slices.ContainsFunc(functions, func(name string) bool { return strings.HasPrefix(line, "int "+name+"(") }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestEverythingThatNVMLSaysIsRead(t *testing.T) {
	r := meter(t, whole, uuid)
	want := &worker.Telemetry{ClocksSMMHz: 1980, Throttle: []string{"sw_power_cap", "hw_thermal_slowdown", "other_0x8000"}}
	if r.Error != "" || fmt.Sprint(r.Read) != fmt.Sprint(want) || r.Mode != "default" || r.MPS {
		t.Errorf("found %+v, %+v (expected %+v)", r, r.Read, want)
	}
	if r.Read.Throttled() != "hw_thermal_slowdown" {
		t.Errorf("throttled by %q (expected the heat, not the power cap)", r.Read.Throttled())
	}
}

func TestAnOldDriverCostsNumbersAndNotTheProcess(t *testing.T) {
	r := meter(t, without("nvmlDeviceGetCurrentClocksEventReasons"), uuid)
	if r.Error != "" || len(r.Read.Throttle) != 1 || r.Read.Throttle[0] != "gpu_idle" {
		t.Errorf("found %+v (expected the reasons of the older function)", r)
	}
	bare := without("nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
		"nvmlDeviceGetComputeMode", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetHandleByUUID")
	if r := meter(t, bare, uuid); r.Error != "" || fmt.Sprint(r.Read) != fmt.Sprint(&worker.Telemetry{Throttle: []string{}}) || r.Mode != "" || r.MPS {
		t.Errorf("found %+v", r)
	}
}

func TestADeviceIsFoundByItsAddressWhereItsUUIDIsOfAnotherForm(t *testing.T) {
	if r := meter(t, whole, "GPU-ffffffff"); r.Error != "" || r.Read.ClocksSMMHz != 1980 {
		t.Errorf("found %+v", r)
	}
	if r := meter(t, whole, "GPU-ffffffff", "-DPCI_GONE=1"); !strings.Contains(r.Error, "GPU-ffffffff") {
		t.Errorf("found %+v", r)
	}
}

func TestModesThatShareADeviceAreTold(t *testing.T) {
	for define, want := range map[string]string{"-DMODE=3": "exclusive_process", "-DMODE=2": "prohibited", "-DMODE=1": "exclusive_process"} {
		if r := meter(t, whole, uuid, define); r.Mode != want {
			t.Errorf("%s: %q (expected %q)", define, r.Mode, want)
		}
	}
	if r := meter(t, whole, uuid, "-DCLIENTS=3"); !r.MPS {
		t.Errorf("found %+v (expected MPS)", r)
	}
}

func TestWithoutNVMLThereIsAReason(t *testing.T) {
	if r := meter(t, "", uuid); !strings.Contains(r.Error, "libnvidia-ml.so.1") {
		t.Errorf("found %+v", r)
	}
	if r := meter(t, whole, uuid, "-DINIT=9"); !strings.Contains(r.Error, "error 9") { // NVML_ERROR_DRIVER_NOT_LOADED
		t.Errorf("found %+v", r)
	}
}

// Only the worker may be linked with go-nvml: a library that is cannot be opened with RTLD_NOW, as Python does.
func TestOnlyTheWorkerIsLinkedWithNVML(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../cmd/libkernelforge", "../worker/serve", "../judge", "../cuda").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "go-nvml") {
		t.Error("go-nvml is linked into more than the worker program")
	}
}
