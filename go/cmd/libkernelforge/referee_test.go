package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
)

// scriptedReferee answers the tasks of docs/formats.md for relu, in Go, with the real runtime: real buffers, real kernels and their real
// times in its own process. Only eager's time is a number.
type scriptedReferee struct {
	library  *kfr.Library
	parallel *kfr.Parallel
	card     *card.Card
	memory   []kfr.Memory
	tensors  []*refTensor
	kinds    map[string]int // tasks answered
}

type refTensor struct {
	variant       string
	input, output []float32
	whole         []byte // the output's buffer with its gaps
	at            int    // the output's first byte in it
	pattern       byte
	inputAddress  uintptr
}

// runtimeLibrary is libkfruntime.so: `make test` names it.
func runtimeLibrary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KF_RUNTIME")
	if path == "" {
		t.Skip("KF_RUNTIME is not set (expected the path of libkfruntime.so)")
	}
	return path
}

func workerProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KF_WORKER"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "kernelforge-worker")
	command := exec.Command("go", "build", "-ldflags=-extldflags=-Wl,-z,lazy", "-o", path, "../kernelforge-worker")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the worker: %v\n%s", err, out)
	}
	return path
}

func newReferee(t *testing.T, c *card.Card) *scriptedReferee {
	t.Helper()
	library, err := kfr.Open(runtimeLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	pool, parallel, err := library.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { library.FreePool(pool) })
	return &scriptedReferee{library: library, parallel: parallel, card: c, kinds: map[string]int{}}
}

// relu is eager: what a kernel must equal bit by bit. A NaN stays, and so does -0, as torch has it.
func relu(to, from []float32) {
	for i, x := range from {
		if x < 0 {
			x = 0
		}
		to[i] = x
	}
}

// eagerNS is the time of eager in the script.
const eagerNS = 2e6

type taskHead struct {
	Task    int             `json:"task"`
	Kind    string          `json:"kind"`
	Card    string          `json:"card"`
	Variant string          `json:"variant"`
	Seed    int64           `json:"seed"`
	Samples int             `json:"samples"`
	Inner   int             `json:"inner"`
	Blocks  int             `json:"blocks"`
	Plan    json.RawMessage `json:"plan"`
	Image   string          `json:"image"`
	Compare *struct{ Case, Repeat int }
	Poison  *struct{ Case, Pattern int }
	Plans   []struct {
		Plan  json.RawMessage `json:"plan"`
		Image string          `json:"image"`
	} `json:"plans"`
}

func (r *scriptedReferee) execute(task taskHead) (any, error) {
	r.kinds[task.Kind]++
	switch task.Kind {
	case "prepare":
		return r.prepare(task.Seed)
	case "check":
		return r.check(task)
	case "time_eager":
		reference, err := r.reference()
		return map[string]any{"samples_ns": r.timeEager(task.Samples), "reference_ns": reference}, err
	case "confirm":
		return r.confirm(task)
	case "confirm_model":
		on, off := make([]float64, task.Blocks), make([]float64, task.Blocks)
		for i := range on {
			on[i], off[i] = 10, 13+0.01*float64(i)
		}
		return map[string]any{"on_ms": on, "off_ms": off, "status": "ok", "detail": ""}, nil
	case "release":
		for _, memory := range r.memory {
			r.library.FreeMemory(memory)
		}
		r.memory, r.tensors = nil, nil
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("unknown task `%s`", task.Kind)
}

type bufferJSON struct {
	ID       int    `json:"id"`
	FD       int    `json:"fd"`
	Bytes    uint64 `json:"bytes"`
	Writable bool   `json:"writable"`
}

type slotJSON struct {
	Buffer int `json:"buffer"`
	Offset int `json:"offset"`
}

func (r *scriptedReferee) buffer(buffers *[]bufferJSON, size int, writable bool) (view []byte, id int, err error) {
	memory, err := r.library.NewMemory(uint64(size), kfr.Host)
	if err != nil {
		return nil, 0, err
	}
	r.memory = append(r.memory, memory)
	address := r.library.Data(memory)
	view = unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), r.library.Bytes(memory))
	id = len(*buffers) + 1
	*buffers = append(*buffers, bufferJSON{id, r.library.FD(memory), uint64(len(view)), writable})
	return view, id, nil
}

func (r *scriptedReferee) prepare(seed int64) (any, error) {
	buffers, cases := []bufferJSON{}, []any{}
	timing, align := map[string][][]*slotJSON{}, map[string][]int{}
	for _, v := range r.card.Variants {
		n := int(v.Call.Args[0].Sizes[0])
		for k, kind := range []string{"captured", "fresh", "exact", "special"} {
			in, inID, err := r.buffer(&buffers, 4*n, false)
			if err != nil {
				return nil, err
			}
			out, outID, err := r.buffer(&buffers, 4*n, true)
			if err != nil {
				return nil, err
			}
			placement, inAt, outAt := "start", 0, 0
			if k%2 == 0 {
				placement, inAt, outAt = "end", len(in)-4*n, len(out)-4*n
			}
			floats := func(bytes []byte, at int) []float32 {
				return unsafe.Slice((*float32)(unsafe.Pointer(&bytes[at])), n)
			}
			tensor := &refTensor{input: floats(in, inAt), output: floats(out, outAt), whole: out, at: outAt, variant: v.ID,
				inputAddress: uintptr(unsafe.Pointer(&in[inAt]))}
			for i := range tensor.input {
				tensor.input[i] = float32(math.Sin(float64(i)*1.7 + float64(seed%97) + float64(k)))
			}
			if kind == "special" {
				copy(tensor.input, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 1e-42})
			}
			cases = append(cases, map[string]any{"id": len(r.tensors), "variant": v.ID, "kind": kind, "number": 0, "placement": placement,
				"slots": []slotJSON{{inID, inAt}, {outID, outAt}}})
			timing[v.ID] = append(timing[v.ID], []*slotJSON{{inID, inAt}, nil})
			r.tensors = append(r.tensors, tensor)
		}
		align[v.ID] = []int{16, 16}
	}
	return map[string]any{"buffers": buffers, "cases": cases, "timing": timing, "align": align}, nil
}

func (r *scriptedReferee) check(task taskHead) (any, error) {
	answer := map[string]any{"status": "ok", "detail": "", "worst": 0.0, "output_hash": "", "exact": true}
	if task.Compare != nil {
		tensor := r.tensors[task.Compare.Case]
		want := make([]float32, len(tensor.input))
		relu(want, tensor.input)
		for i, b := range tensor.whole {
			if inside := i >= tensor.at && i < tensor.at+4*len(want); !inside && b != tensor.pattern {
				answer["status"], answer["detail"] = "wrong_value", fmt.Sprintf("byte %d beside the output was written", i)
			}
		}
		for i := range want {
			if math.Float32bits(want[i]) != math.Float32bits(tensor.output[i]) {
				answer["status"], answer["detail"] = "wrong_value", fmt.Sprintf("element %d is %g (expected %g)", i, tensor.output[i], want[i])
				break
			}
		}
		answer["output_hash"] = fmt.Sprintf("%x", len(want))
	}
	if task.Poison != nil {
		tensor := r.tensors[task.Poison.Case]
		tensor.pattern = []byte{0xfe, 0x7f}[task.Poison.Pattern%2] // outputs that are nearly right need no answer of their own here: all is poison
		for i := range tensor.whole {
			tensor.whole[i] = tensor.pattern
		}
	}
	return answer, nil
}

func (r *scriptedReferee) reference() (float64, error) {
	samples, err := r.library.TimeReference(kfr.Host, 3, r.parallel)
	if err != nil {
		return 0, err
	}
	return samples[1], nil
}

func (r *scriptedReferee) of(variant string) *refTensor {
	for _, tensor := range r.tensors {
		if tensor.variant == variant {
			return tensor
		}
	}
	return nil
}

// timeEager says what the script says: so much that no noise of this machine can decide a test.
func (r *scriptedReferee) timeEager(samples int) []float64 {
	times := make([]float64, samples)
	for i := range times {
		times[i] = eagerNS + float64(i%3)
	}
	return times
}

// confirm runs the plan in this process, as the extension would: through the runtime, from its JSON and its image.
func (r *scriptedReferee) confirm(task taskHead) (any, error) {
	image, err := os.ReadFile(task.Image)
	if err != nil {
		return nil, err
	}
	plan, _, err := r.library.NewPlan(task.Plan, image, -1)
	if err != nil {
		return nil, err
	}
	defer r.library.FreePlan(plan)
	tensor := r.of(task.Variant)
	ours, err := r.library.TimePlan(plan, []uintptr{tensor.inputAddress, 0}, 1, task.Blocks, 20, true, r.parallel)
	if err != nil {
		return nil, err
	}
	return map[string]any{"eager_ns": r.timeEager(task.Blocks), "ours_ns": ours, "status": "ok", "detail": "", "rule": 1, "exact": true,
		"again_ns": r.timeEager(task.Blocks), "readings": []any{}, "warm": map[string]any{"eager_ns": []float64{}, "ours_ns": []float64{}}, "pool_bytes": 0}, nil
}
