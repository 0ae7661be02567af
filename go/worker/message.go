package worker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// The words of the frames, as types; docs/formats.md is their manual.

// Request is any frame to the worker: ID, op and what that op needs. DecodeRequest and the types below are the strict form.
type Request interface{ header() *Header }

// Header begins every request.
type Header struct {
	ID int64  `json:"id"`
	Op string `json:"op"`
}

func (h *Header) header() *Header { return h }

// The requests, in the order of docs/formats.md.
type (
	Hello struct {
		Header
		Runtime string `json:"runtime"` // path of libkfruntime.so
		Threads int    `json:"threads"`
		Device  int    `json:"device"` // CUDA ordinal, or -1: host
		// Unchecked leaves out the rules of images: for tests of what only they keep out.
		Unchecked bool `json:"unchecked,omitempty"`
	}
	Map struct {
		Header
		Buffers []Buffer `json:"buffers"`
		FDs     int      `json:"fds"`
	}
	Unmap struct {
		Header
		Buffers []int `json:"buffers"`
	}
	Load struct {
		Header
		Plan json.RawMessage `json:"plan"`
		FDs  int             `json:"fds"`
	}
	Run struct {
		Header
		Kernel int    `json:"kernel"`
		Slots  []Slot `json:"slots"`
		Dirt   Dirt   `json:"dirt,omitempty"`
		Before int    `json:"before,omitempty"` // a kernel of ours that leaves the dirt on the device; 0: none
	}
	Time struct {
		Header
		Kernel  int       `json:"kernel"`
		Sets    [][]*Slot `json:"sets"`
		Samples int       `json:"samples"`
		Inner   int       `json:"inner"`
		Warm    bool      `json:"warm"`
	}
	Unload struct {
		Header
		Kernel int `json:"kernel"`
	}
	ReadTelemetry struct{ Header }
)

// Buffer is shared memory that travels as a descriptor beside the frame.
type Buffer struct {
	ID       int    `json:"id"`
	Bytes    uint64 `json:"bytes"`
	Writable bool   `json:"writable"`
}

// Slot is one tensor's place in a mapped buffer.
type Slot struct {
	Buffer int   `json:"buffer"`
	Offset int64 `json:"offset"`
}

// Dirt is what a kernel finds in memory and registers that are not its own.
type Dirt int

// Memory of an allocator is rarely zero, and a kernel that counts on zeros, or on what its last run left, must not pass.
const (
	NoDirt    Dirt = iota // whatever is there
	DirtNaN               // a NaN of every floating type, and -1
	DirtLarge             // large finite numbers
)

// Byte is the dirt's, repeated everywhere; -1: none.
func (d Dirt) Byte() int { return [...]int{-1, 0xFF, 0x4B}[d] }

// Limits of what a request may ask for.
const (
	MaxImage   = 64 << 20
	MaxSamples = 100_000
	MaxInner   = 10_000_000
	MaxThreads = 1024
	MaxDevice  = 255
)

// DecodeRequest reads a request strictly: the op decides which fields must be there.
func DecodeRequest(body []byte) (Request, error) {
	var head struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	var request Request
	switch head.Op {
	case "hello":
		request = &Hello{}
	case "map":
		request = &Map{}
	case "unmap":
		request = &Unmap{}
	case "load":
		request = &Load{}
	case "run":
		request = &Run{}
	case "time":
		request = &Time{}
	case "unload":
		request = &Unload{}
	case "telemetry":
		request = &ReadTelemetry{}
	default:
		return nil, fmt.Errorf("read a request: op %q (expected hello, map, unmap, load, run, time, unload or telemetry)", head.Op)
	}
	if err := card.Decode(body, request); err != nil {
		return nil, fmt.Errorf("read a `%s` request: %w", head.Op, err)
	}
	return request, validate(request)
}

func validate(request Request) error {
	switch r := request.(type) {
	case *Hello:
		if r.Threads < 1 || r.Threads > MaxThreads {
			return fmt.Errorf("`threads`: %d (expected 1 to %d)", r.Threads, MaxThreads)
		}
		if r.Device < -1 || r.Device > MaxDevice {
			return fmt.Errorf("`device`: %d (expected an ordinal up to %d, or -1: host)", r.Device, MaxDevice)
		}
	case *Map:
		if len(r.Buffers) != r.FDs || r.FDs > MaxFDs {
			return fmt.Errorf("`fds`: %d for %d buffers (expected one each, at most %d)", r.FDs, len(r.Buffers), MaxFDs)
		}
		for _, buffer := range r.Buffers {
			if buffer.Bytes == 0 || buffer.Bytes > math.MaxInt64 {
				return fmt.Errorf("`buffers`: buffer %d has %d bytes", buffer.ID, buffer.Bytes)
			}
		}
	case *Run:
		if r.Dirt < NoDirt || r.Dirt > DirtLarge {
			return fmt.Errorf("`dirt`: %d (expected 0 to %d)", r.Dirt, DirtLarge)
		}
	case *Load:
		if r.FDs != 1 {
			return fmt.Errorf("`fds`: %d (expected 1, the image)", r.FDs)
		}
	case *Time:
		if r.Samples < 1 || r.Samples > MaxSamples || r.Inner < 1 || r.Inner > MaxInner || len(r.Sets) == 0 {
			return fmt.Errorf("`time`: %d samples of %d launches over %d sets", r.Samples, r.Inner, len(r.Sets))
		}
		for _, set := range r.Sets {
			if len(set) != len(r.Sets[0]) {
				return fmt.Errorf("`sets`: %d slots beside %d (expected equal lengths)", len(set), len(r.Sets[0]))
			}
		}
	}
	return nil
}

// Fault is the error part of an answer: what csrc or the loop refused.
type Fault struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint"`
}

// Codes of a Fault. The first four are about the candidate, the rest say that the harness is broken. After FaultDevice the worker ends.
const (
	FaultSpec    = "bad_spec"
	FaultCode    = "bad_code"
	FaultLaunch  = "launch_error"
	FaultDevice  = "device_fault"
	FaultRequest = "bad_request"
	FaultSystem  = "system"
)

func (f *Fault) Error() string { return f.Text }

// Answer begins every answer; the fields of the op follow when OK.
type Answer struct {
	ID    int64  `json:"id"`
	OK    bool   `json:"ok"`
	Error *Fault `json:"error,omitempty"`
}

// The answers that carry more.
type (
	HelloAnswer struct {
		Answer
		PID      int               `json:"pid"`
		ABI      uint32            `json:"abi"`
		Tier     int               `json:"tier"`               // of the sandbox, as the process found by trying
		Attempts []sandbox.Attempt `json:"attempts,omitempty"` // what it tried
		Device   *Device           `json:"device,omitempty"`   // CUDA only
	}
	MapAnswer struct {
		Answer
		Data []uint64 `json:"data"` // first address of each mapping, so that a fault's address can be told in words
	}
	LoadAnswer struct {
		Answer
		Kernel  int     `json:"kernel"`
		Seconds float64 `json:"seconds"`
	}
	RunAnswer struct {
		Answer
		US float64 `json:"us"`
	}
	TimeAnswer struct {
		Answer
		SamplesNS   []float64 `json:"samples_ns"`
		ReferenceNS float64   `json:"reference_ns"`
	}
	TelemetryAnswer struct {
		Answer
		Telemetry *Telemetry `json:"telemetry"`
		Why       string     `json:"why"` // there is none
	}
)

// Device is a CUDA device as a worker found it.
type Device struct {
	Name        string `json:"name"`
	Major       int    `json:"major"`
	Minor       int    `json:"minor"`
	SMCount     int    `json:"sm_count"`
	Driver      int    `json:"driver"` // the CUDA version that the driver speaks, 1000 x major + 10 x minor
	Warp        int    `json:"warp"`
	L2Bytes     int64  `json:"l2_bytes"`
	SmemOptin   int64  `json:"smem_optin"`
	MemoryBytes int64  `json:"memory_bytes"`
	VMM         bool   `json:"vmm"`
	ReadOnly    bool   `json:"read_only"`
	UUID        string `json:"uuid"` // "GPU-01234567-89ab-cdef-0123-456789abcdef"
	PCI         string `json:"pci"`
	Mode        string `json:"mode"` // compute mode: "default", "exclusive_process", "prohibited"; "" where NVML does not say
	MPS         bool   `json:"mps"`  // a process on it is a client of an MPS server
}

// Telemetry is what NVML says of the GPU at one moment that may disturb a time. What it does not say is 0.
type Telemetry struct {
	ClocksSMMHz int      `json:"clocks_sm_mhz"`
	Throttle    []string `json:"throttle"` // names of NVML's reasons, such as "hw_thermal_slowdown"
}

// disturbing are the reasons under which a time says more about the machine's cooling or power supply than about a kernel. Idle clocks, clocks
// that the user has set and the power cap are not among them: both sides of a pair run under them.
var disturbing = []string{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"}

// Throttled is the first disturbing reason, or "".
func (t *Telemetry) Throttled() string {
	if t != nil {
		for _, reason := range t.Throttle {
			if slices.Contains(disturbing, reason) {
				return reason
			}
		}
	}
	return ""
}
