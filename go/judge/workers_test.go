package judge

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// mapper is a worker that notes what it is given and gives back.
type mapper struct {
	runner
	mapped, unmapped [][]int
}

func (m *mapper) Map(_ context.Context, _ time.Duration, buffers []worker.Buffer, fds []int) error {
	var ids []int
	for i, b := range buffers {
		if fds[i] != 100+b.ID {
			panic("a descriptor of another buffer")
		}
		ids = append(ids, b.ID)
	}
	m.mapped = append(m.mapped, ids)
	return nil
}

func (m *mapper) Unmap(_ context.Context, _ time.Duration, ids []int) error {
	m.unmapped = append(m.unmapped, ids)
	return nil
}

func TestAWorkerHasTheBuffersThatAreWantedOnce(t *testing.T) {
	prepared := &Prepared{Timing: map[string][][]*Slot{"v0": {{{Buffer: 4}}}, "v1": {{{Buffer: 4}}}}}
	for id := 1; id <= 4; id++ {
		prepared.Buffers = append(prepared.Buffers, Buffer{ID: id, FD: 100 + id, Bytes: 8})
	}
	prepared.Cases = []Case{{Variant: "v0", Slots: []Slot{{Buffer: 1}, {Buffer: 2}}}, {Variant: "v1", Slots: []Slot{{Buffer: 3}}}}
	m := &mapper{}
	s := &session{runner: m}
	one, other := &card.Card{ID: "c-1"}, &card.Card{ID: "c-2"}
	finalist := prepared.ofRuns([]card.Variant{{ID: "v1"}})
	for _, step := range []struct {
		card   *card.Card
		wanted map[int]bool
	}{{one, finalist}, {one, finalist}, {one, nil}, {one, nil}, {other, prepared.ofRuns([]card.Variant{{ID: "v0"}})}} {
		if err := s.use(t.Context(), step.card, prepared, step.wanted); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([][]int{{3}, {1, 2, 4}, {1, 2}}, m.mapped); diff != "" {
		t.Errorf("mapped: %s", diff)
	}
	if diff := cmp.Diff([][]int{{3, 1, 2, 4}}, m.unmapped); diff != "" {
		t.Errorf("unmapped: %s", diff)
	}
	if s.mapped != other.ID {
		t.Errorf("it has the buffers of `%s`", s.mapped)
	}
}
