package worker

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/kernelforge/kernelforge/go/card"
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

// Limits of what a request may ask for.
const (
	MaxImage   = 64 << 20
	MaxSamples = 100_000
	MaxInner   = 10_000_000
	MaxThreads = 1024
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
	default:
		return nil, fmt.Errorf("read a request: op %q (expected hello, map, unmap, load, run, time or unload)", head.Op)
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
	case *Map:
		if len(r.Buffers) != r.FDs || r.FDs > MaxFDs {
			return fmt.Errorf("`fds`: %d for %d buffers (expected one each, at most %d)", r.FDs, len(r.Buffers), MaxFDs)
		}
		for _, buffer := range r.Buffers {
			if buffer.Bytes == 0 || buffer.Bytes > math.MaxInt64 {
				return fmt.Errorf("`buffers`: buffer %d has %d bytes", buffer.ID, buffer.Bytes)
			}
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

// Codes of a Fault. The first three are about the candidate, the rest say that the harness is broken.
const (
	FaultSpec    = "bad_spec"
	FaultCode    = "bad_code"
	FaultLaunch  = "launch_error"
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
		PID  int    `json:"pid"`
		ABI  uint32 `json:"abi"`
		Tier int    `json:"tier"`
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
)
