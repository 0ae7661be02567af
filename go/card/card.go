// Package card holds the words of kernelforge as types: card, variant, candidate, verdict.
//
// It owns their JSON form (docs/formats.md) and their identities. It refuses everything else: no clock, no file system beyond
// reading and writing one value, no device. Imports: the standard library.
package card

import "encoding/json"

// Arg is one argument of a call, in schema order. Kind decides which fields exist; see docs/formats.md, `call`. Sizes and Strides of a 0-dim
// tensor are empty, not nil.
type Arg struct {
	Name          string          `json:"name,omitempty"` // list elements have none
	Kind          string          `json:"kind"`
	DType         string          `json:"dtype,omitempty"`
	Sizes         []int64         `json:"sizes,omitzero"`
	Strides       []int64         `json:"strides,omitzero"`
	Items         []Arg           `json:"items,omitzero"`
	Type          string          `json:"type,omitempty"`
	Value         json.RawMessage `json:"value,omitempty"`
	Bits          string          `json:"bits,omitempty"`
	WrappedNumber *bool           `json:"wrapped_number,omitempty"`
}

// Output is one output as eager makes it. Alias is the input slot that it is, or -1.
type Output struct {
	DType   string  `json:"dtype"`
	Sizes   []int64 `json:"sizes"`
	Strides []int64 `json:"strides"`
	Alias   int     `json:"alias"`
}

// Call is one call of one overload on exact tensors: a variant's description and a plan's guard.
type Call struct {
	Overload string   `json:"overload"`
	Args     []Arg    `json:"args"`
	Outputs  []Output `json:"outputs"`
}

// Variant is one exact shape of a card. Calls are per forward. Align is what every address seen was a multiple of, bytes, by input slot; a plan's
// guard asks for it, up to 16. Without it nothing is known.
type Variant struct {
	ID      string  `json:"id"`
	Call    Call    `json:"call"`
	Calls   int     `json:"calls"`
	EagerUS float64 `json:"eager_us"`
	Bytes   int64   `json:"bytes"`
	RoofUS  float64 `json:"roof_us"`
	Align   []int   `json:"align,omitempty"`
	// Values says what each input slot holds, coarsely: only where the user chose to tell authors.
	Values []Values `json:"values,omitempty"`
}

// Values is what the finite values of a captured tensor look like, to two digits. Zeros is the part that is exactly 0.
type Values struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Least     float64 `json:"least"`
	Largest   float64 `json:"largest"`
	Zeros     float64 `json:"zeros"`
}

// Card is one operator as it ran.
type Card struct {
	Schema   int       `json:"schema"`
	ID       string    `json:"id"`
	Target   string    `json:"target"` // "host" or "cuda"
	Overload string    `json:"overload"`
	Layout   string    `json:"layout"`            // "contiguous", "channels_last" or "strided"
	Threads  int       `json:"threads,omitempty"` // host only
	Share    float64   `json:"share"`
	Children []string  `json:"children"`
	Variants []Variant `json:"variants"`
}

// Spec is the launch spec: data that csrc evaluates, never code.
type Spec struct {
	Schema     int               `json:"schema"`
	Constants  map[string]string `json:"constants"`
	Workspaces []Workspace       `json:"workspaces"`
	Kernels    []Kernel          `json:"kernels"`
}

// Workspace is scratch memory of one call.
type Workspace struct {
	Bytes  string `json:"bytes"` // an expression
	Zeroed bool   `json:"zeroed"`
}

// Kernel is one launch. Host kernels have Work and Grain; CUDA kernels have Grid, Block, Smem.
type Kernel struct {
	Entry       string    `json:"entry"`
	Work        string    `json:"work,omitempty"`
	Grain       string    `json:"grain,omitempty"`
	Grid        []string  `json:"grid,omitempty"`
	Block       []string  `json:"block,omitempty"`
	Cluster     []string  `json:"cluster,omitempty"`
	Smem        string    `json:"smem,omitempty"`
	Cooperative bool      `json:"cooperative,omitempty"`
	Args        []SpecArg `json:"args"`
}

// SpecArg is one argument of a kernel: exactly one of Slot, Int, Float is set.
type SpecArg struct {
	Slot  string `json:"slot,omitempty"`
	Int   string `json:"int,omitempty"`
	Float string `json:"float,omitempty"`
	Type  string `json:"type,omitempty"` // CUDA only: "i32", "i64", "f32", "f64"
}

// Candidate is source plus launch spec.
type Candidate struct {
	ID     string         `json:"id"`
	Author string         `json:"author"` // "template", "llm", "person", "replay"
	Family string         `json:"family"`
	Params map[string]int `json:"params"`
	Change string         `json:"change"` // what differs from the parent, in words
	Source string         `json:"source"`
	Spec   Spec           `json:"spec"`
}

// Status says how a candidate ended.
type Status string

// The statuses, the same strings in Go, C++, Python, JSON and the GUI. Only OK has a cost.
const (
	OK           Status = "ok"
	Rejected     Status = "rejected"
	CompileError Status = "compile_error"
	LaunchError  Status = "launch_error"
	Crash        Status = "crash"
	Timeout      Status = "timeout"
	WrongShape   Status = "wrong_shape"
	WrongValue   Status = "wrong_value"
	TooFast      Status = "too_fast"
)

// VariantCost is the evidence on one variant.
type VariantCost struct {
	ID          string  `json:"id"`
	Cost        float64 `json:"cost"`
	CandidateUS float64 `json:"candidate_us"`
	EagerUS     float64 `json:"eager_us"`
	Samples     int     `json:"samples"`
	Dropped     int     `json:"dropped,omitempty"` // blocks that did not count: a process was disturbed, or the device slowed down
}

// Verdict is how a candidate ended, with evidence. A failing candidate is data, never an error.
type Verdict struct {
	Status   Status        `json:"status"`
	Gate     string        `json:"gate,omitempty"` // that it failed at, by the names of go/judge; "" if it passed
	Cost     float64       `json:"cost"`           // candidate time / eager time, weighted by launches; 0 unless OK
	Detail   string        `json:"detail"`
	Variants []VariantCost `json:"variants"`
	Seconds  float64       `json:"seconds"`
	Tier     int           `json:"tier,omitempty"` // of the sandbox in which it was compiled and ran

	At *At `json:"at,omitempty"` // of a failure while it ran

	Twin string `json:"twin,omitempty"` // the candidate of the same binary and launch whose verdict this is: it was not judged again

	Unfinished bool `json:"unfinished,omitempty"` // its author's repairs ran out: no proof that the idea cannot work

	Usage     []Usage `json:"usage,omitempty"`      // on a device, of each kernel that was compiled
	CompileMS float64 `json:"compile_ms,omitempty"` // 0: refused before the compiler, or taken from its cache
}

// Usage is what a kernel of a device takes, as its binary says.
type Usage struct {
	Entry       string `json:"entry"`
	Registers   int    `json:"registers"`    // a thread
	StackBytes  int    `json:"stack_bytes"`  // a thread: spilled registers, and arrays that no register can hold
	SharedBytes int    `json:"shared_bytes"` // a block, beside the spec's `smem`
}

// At is where a candidate failed: what draws the input again, and which run of it.
type At struct {
	Variant   string `json:"variant"`
	Kind      string `json:"kind"`      // of the case: "captured", "fresh", "special", ...; "" when it failed on none in particular
	Number    int    `json:"number"`    // within the kind
	Placement string `json:"placement"` // "end" or "start" of its memory
	Run       int    `json:"run"`       // 1 first
	Seed      int64  `json:"seed"`
	// Moments of the captured inputs, one list an input slot: mean, deviation, least, largest, part of zeros. With them the input is drawn again.
	Moments json.RawMessage `json:"moments,omitempty"`
}
