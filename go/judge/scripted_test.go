package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
)

// memory is where a scripted referee has its buffers: libkfruntime's for a real worker, plain memory files for a fake one.
type memory interface {
	make(bytes uint64) (fd int, view []byte, free func(), err error)
	reference() (float64, error) // the reference kernel's time in this process, nanoseconds
}

// scripted is a referee in Go for one card: relu on float32, two variants, four inputs each at both ends of their memory.
type scripted struct {
	memory  memory
	eagerNS func(variant string) float64
	confirm func(plan Plan, image string, blocks int, seed int64) (*Confirmed, error)
	broken  string // a method that fails, to see that this is an error and no verdict

	tensors  map[int]*tensor // of each case: input and output
	prepared *Prepared
	free     []func()
	checks   int
	images   []string
}

type tensor struct {
	input, output       []float32
	whole               []byte // the output's buffer with its gaps
	at                  int    // the output's first byte in it
	wanted              []float32
	pattern             byte
	before              uint64
	variant             string
	untouched, readOnly []byte
}

var sizes = map[string]int{"v0": 4096 - 24, "v1": 1 << 14}

func reluCard() *card.Card {
	c := &card.Card{Schema: 1, ID: "c-00000001", Target: "host", Overload: "aten::relu", Layout: "contiguous", Threads: 2, Share: 0.5}
	for _, id := range []string{"v0", "v1"} {
		n := int64(sizes[id])
		c.Variants = append(c.Variants, card.Variant{ID: id, Calls: 2, EagerUS: 300, Bytes: 8 * n, RoofUS: 1, Call: card.Call{
			Overload: "aten::relu",
			Args:     []card.Arg{{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{n}, Strides: []int64{1}}},
			Outputs:  []card.Output{{DType: "float32", Sizes: []int64{n}, Strides: []int64{1}, Alias: -1}},
		}})
	}
	return c
}

func reluSpec() card.Spec {
	return card.Spec{Schema: 1, Kernels: []card.Kernel{{Entry: "kf_main", Work: "out0_numel", Grain: "16384",
		Args: []card.SpecArg{{Slot: "self"}, {Slot: "out0"}}}}}
}

func floats(bytes []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/4)
}

func relu(x float32) float32 {
	if x > 0 || x != x {
		return x
	}
	return 0
}

func (s *scripted) Prepare(_ context.Context, c *card.Card, seed int64) (*Prepared, error) {
	if s.broken == "prepare" {
		return nil, fmt.Errorf("out of memory")
	}
	s.tensors = map[int]*tensor{}
	p := &Prepared{Timing: map[string][][]*Slot{}, Align: map[string][]int{}}
	buffer := func(size uint64, writable bool) ([]byte, int, error) {
		fd, view, free, err := s.memory.make(size)
		if err != nil {
			return nil, 0, err
		}
		s.free = append(s.free, free)
		id := len(p.Buffers) + 1
		p.Buffers = append(p.Buffers, Buffer{ID: id, FD: fd, Bytes: uint64(len(view)), Writable: writable})
		return view, id, nil
	}
	for _, v := range c.Variants {
		size := 4 * sizes[v.ID]
		for k := range 4 {
			in, inID, err := buffer(uint64(size), false)
			if err != nil {
				return nil, err
			}
			out, outID, err := buffer(uint64(size), true)
			if err != nil {
				return nil, err
			}
			placement, inAt, outAt := "start", 0, 0
			if k%2 == 0 {
				placement, inAt, outAt = "end", len(in)-size, len(out)-size
			}
			t := &tensor{input: floats(in[inAt : inAt+size]), whole: out, at: outAt, output: floats(out[outAt : outAt+size]), variant: v.ID, readOnly: in}
			for i := range t.input {
				t.input[i] = float32(math.Sin(float64(i)*1.7+float64(seed%97)+float64(k))) * float32(i%7)
			}
			if k == 3 {
				copy(t.input, []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 1e-42})
			}
			for _, x := range t.input {
				t.wanted = append(t.wanted, relu(x))
			}
			t.untouched = append([]byte{}, in...)
			id := len(p.Cases)
			s.tensors[id] = t
			slots := []Slot{{inID, int64(inAt)}, {outID, int64(outAt)}}
			p.Cases = append(p.Cases, Case{ID: id, Variant: v.ID, Kind: []string{"captured", "fresh", "exact", "special"}[k], Placement: placement, Slots: slots})
			p.Timing[v.ID] = append(p.Timing[v.ID], []*Slot{{inID, int64(inAt)}, nil})
		}
		p.Align[v.ID] = []int{16, 16}
	}
	s.prepared = p
	return p, nil
}

func (s *scripted) Check(_ context.Context, _ string, compare *Compare, poison *Poison) (*Checked, error) {
	if s.broken == "check" {
		return nil, fmt.Errorf("the referee has gone")
	}
	s.checks++
	checked := &Checked{Status: card.OK}
	if compare != nil {
		checked = s.compare(s.tensors[compare.Case], compare.Repeat)
	}
	if poison != nil {
		t := s.tensors[poison.Case]
		t.pattern = []byte{0xfe, 0x7f}[poison.Pattern%patterns] // as floats: a huge negative number, and NaN
		for i := range t.whole {
			t.whole[i] = t.pattern
		}
	}
	return checked, nil
}

func (s *scripted) compare(t *tensor, repeat int) *Checked {
	wrong := func(format string, args ...any) *Checked {
		return &Checked{Status: card.WrongValue, Detail: fmt.Sprintf(format, args...), Worst: math.MaxFloat64}
	}
	if !bytes.Equal(t.readOnly, t.untouched) {
		return wrong("the input changed")
	}
	for i, b := range t.whole {
		if inside := i >= t.at && i < t.at+4*len(t.output); !inside && b != t.pattern {
			return wrong("byte %d beside the output was written", i)
		}
	}
	exact := true
	sum := fnv.New64a()
	sum.Write(t.whole[t.at : t.at+4*len(t.output)])
	for i, got := range t.output {
		want := t.wanted[i]
		same := math.Float32bits(got) == math.Float32bits(want)
		exact = exact && same
		if !same && !(math.Abs(float64(got-want)) <= 1e-6*math.Abs(float64(want))) {
			return wrong("element %d is %g (expected %g)", i, got, want)
		}
	}
	if hash := sum.Sum64(); repeat == 0 {
		t.before = hash
	} else if hash != t.before {
		return wrong("run %d differs from the first", repeat+1)
	}
	return &Checked{Status: card.OK, Exact: exact, OutputHash: fmt.Sprintf("%016x", t.before)}
}

func (s *scripted) TimeEager(_ context.Context, _, variant string, samples, inner int) (*Timed, error) {
	if s.broken == "time_eager" {
		return &Timed{SamplesNS: []float64{math.NaN()}, ReferenceNS: 1}, nil
	}
	reference, err := s.memory.reference()
	timed := &Timed{ReferenceNS: reference}
	for range samples {
		timed.SamplesNS = append(timed.SamplesNS, s.eagerNS(variant))
	}
	return timed, err
}

func (s *scripted) Confirm(_ context.Context, _, _ string, plan Plan, image string, blocks int, seed int64) (*Confirmed, error) {
	s.images = append(s.images, image)
	return s.confirm(plan, image, blocks, seed)
}

func (s *scripted) Release(context.Context, string) error {
	for _, free := range s.free {
		free()
	}
	s.free = nil
	return nil
}

// text of a plan as the worker receives it.
func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}
