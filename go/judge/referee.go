package judge

import (
	"context"
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Referee is the trusted process's half of the judge: it owns buffers, references and comparisons, and times eager. Each method is one
// task of docs/formats.md; while one runs, the worker is idle (the lease).
type Referee interface {
	Prepare(ctx context.Context, c *card.Card, seed int64) (*Prepared, error)
	Check(ctx context.Context, cardID string, compare *Compare, poison *Poison) (*Checked, error)
	TimeEager(ctx context.Context, cardID, variant string, samples, inner int) (*Timed, error)
	Confirm(ctx context.Context, cardID, variant string, plan Plan, image string, blocks int, seed int64) (*Confirmed, error)
	Release(ctx context.Context, cardID string) error
}

// Slot is one tensor's place in a shared buffer.
type Slot struct {
	Buffer int   `json:"buffer"`
	Offset int64 `json:"offset"`
}

// Buffer is shared memory that the referee owns; FD is a descriptor of this process.
type Buffer struct {
	ID       int    `json:"id"`
	FD       int    `json:"fd"`
	Bytes    uint64 `json:"bytes"`
	Writable bool   `json:"writable"`
}

// Case is one input with its reference, placed at one end of its mappings.
type Case struct {
	ID        int    `json:"id"`
	Variant   string `json:"variant"`
	Kind      string `json:"kind"`            // "captured", "fresh", "special", "exact", "exhaustive", "metamorphic", "changed"
	Number    int    `json:"number"`          // within the kind
	Placement string `json:"placement"`       // "end" or "start"
	Final     bool   `json:"final,omitempty"` // for finalists only: a search leaves it out
	Slots     []Slot `json:"slots"`
}

// Prepared is what the worker needs to run a card: buffers, cases, and per variant the rotating pool for timing (nil slots are outputs).
type Prepared struct {
	Buffers []Buffer             `json:"buffers"`
	Cases   []Case               `json:"cases"`
	Timing  map[string][][]*Slot `json:"timing"`
	Align   map[string][]int     `json:"align"` // per variant, per input and output slot, bytes
	// Controls are outputs known to be wrong, held against the inputs of each variant: per variant and control how it ended. One that `passes`
	// means that these inputs cannot tell right from wrong, so nothing may be judged on them.
	Controls map[string]map[string]string `json:"controls,omitempty"`
	Moments  map[string]json.RawMessage   `json:"moments,omitempty"` // per variant, per input slot: card.At
}

// How a negative control ended.
const (
	ControlFails  = "fails"  // as it has to
	ControlEqual  = "equal"  // it is what eager gives, on every input: no control of this operator
	ControlPasses = "passes" // the inputs do not discriminate
)

// Compare asks for a comparison of the outputs of a case; Repeat is the number of the run of this case (0 first): repeats must be bitwise equal.
type Compare struct {
	Case   int `json:"case"`
	Repeat int `json:"repeat"`
}

// Poison asks to fill a case's outputs and gaps with pattern 0 or 1 before a run. From 2 on the outputs hold what the case's first run gave, but for one
// element (2), one row (3) or the end (4). A changed input has pattern 0 or 1 around outputs that were right before the change.
type Poison struct {
	Case    int `json:"case"`
	Pattern int `json:"pattern"`
}

// Checked is the answer: status ok, wrong_shape or wrong_value, and which gate said so.
type Checked struct {
	Status     card.Status `json:"status"`
	Gate       Gate        `json:"gate,omitempty"` // that failed
	Detail     string      `json:"detail"`
	Worst      float64     `json:"worst"` // largest error / allowed error seen; above 1 fails
	OutputHash string      `json:"output_hash"`
	Exact      bool        `json:"exact,omitempty"`  // every output bitwise equal to eager's on this case
	Number     *int        `json:"number,omitempty"` // of the case; a changed input has another for each run
}

// Timed is a block of samples beside the reference kernel's time in the same block, nanoseconds a call.
type Timed struct {
	SamplesNS   []float64 `json:"samples_ns"`
	ReferenceNS float64   `json:"reference_ns"`
}

// Confirmed is paired evidence from the user's process by the real dispatch path, nanoseconds a call, one of each a block. Again is eager in a
// candidate's place.
type Confirmed struct {
	EagerNS   []float64   `json:"eager_ns"`
	OursNS    []float64   `json:"ours_ns"`
	AgainNS   []float64   `json:"again_ns"`
	Readings  []Reading   `json:"readings"` // of the device, before the first block and after each; none on the host
	Warm      Warm        `json:"warm"`
	PoolBytes int64       `json:"pool_bytes"` // of the input sets that rotate
	Status    card.Status `json:"status"`
	Detail    string      `json:"detail"`
	Gate      Gate        `json:"gate,omitempty"` // that failed
	Rule      int         `json:"rule"`           // version of the tolerance rule that outputs were held to
	Exact     bool        `json:"exact,omitempty"`
	// Exhaustive is null where the operator has no such probe.
	Exhaustive *Exhaustive `json:"exhaustive,omitempty"`
}

// Exhaustive says how many of all inputs of a unary pointwise operator a finalist was compared on, its cases in the worker aside.
type Exhaustive struct {
	Inputs int64 `json:"inputs"`
	Of     int64 `json:"of"`
}

// Reading is what a device's sensors say between two blocks; 0 and empty where they do not.
type Reading struct {
	ClocksSMMHz int      `json:"clocks_sm_mhz"`
	Throttle    []string `json:"throttle"` // NVML's reasons
}

func (r Reading) telemetry() worker.Telemetry {
	return worker.Telemetry{ClocksSMMHz: r.ClocksSMMHz, Throttle: r.Throttle}
}

// Warm are pairs over a single input set, which a device finds in its cache; none on the host.
type Warm struct {
	EagerNS []float64 `json:"eager_ns"`
	OursNS  []float64 `json:"ours_ns"`
}

// Plan is the JSON of a plan as kfr_plan_create reads it: call, spec and what the extension must check (docs/formats.md, `plan and pack`).
type Plan struct {
	ID            string    `json:"id"`
	Card          string    `json:"card"`
	Variant       string    `json:"variant"`
	Node          int       `json:"node"`
	State         string    `json:"state"`
	Call          card.Call `json:"call"`
	Spec          card.Spec `json:"spec"`
	Threads       int       `json:"threads,omitempty"` // host: the pool's size, the fact `threads`; a launch with another count is refused
	Align         []int     `json:"align"`
	Deterministic bool      `json:"deterministic"`
	Exact         bool      `json:"exact"`
}
