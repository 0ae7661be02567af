package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/worker"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, folder := range temporary {
			os.RemoveAll(folder)
		}
		os.Exit(code)
	}))
}

// temporary folders that several tests share.
var temporary []string

// files are plain memory files.
type files struct{}

func (files) make(bytes uint64) (int, []byte, func(), error) {
	bytes = (bytes + 4095) / 4096 * 4096
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, nil, nil, err
	}
	if err := unix.Ftruncate(fd, int64(bytes)); err != nil {
		return 0, nil, nil, err
	}
	view, err := unix.Mmap(fd, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return fd, view, func() { unix.Munmap(view); unix.Close(fd) }, err
}

func (files) reference() (float64, error) { return 1e6, nil }

// act is a runner that plays what the source's entry in `deliberate` says, on the same shared memory.
type act struct {
	views map[int][]byte
	acts  []string
	calls int
	dead  bool
	last  *worker.Slot
	worn  bool
}

func (a *act) Map(_ context.Context, _ time.Duration, buffers []worker.Buffer, fds []int) error {
	for i, b := range buffers {
		view, err := unix.Mmap(fds[i], 0, int(b.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		a.views[b.ID] = view
	}
	return nil
}

func (a *act) Unmap(_ context.Context, _ time.Duration, ids []int) error {
	for _, id := range ids {
		unix.Munmap(a.views[id])
		delete(a.views, id)
	}
	return nil
}

func (a *act) Unload(context.Context, time.Duration, int) error { return nil }

func (a *act) Telemetry(context.Context, time.Duration) (*worker.Telemetry, string, error) {
	return nil, "a fake has none", nil
}

func (a *act) Load(_ context.Context, _ time.Duration, plan any, image []byte) (int, error) {
	p := plan.(Plan)
	if p.Threads != 2 || len(p.Align) != 2 || p.Call.Overload != "aten::relu" || !p.Deterministic {
		return 0, fmt.Errorf("a plan without what csrc needs: %s", text(p))
	}
	a.acts = append(a.acts, string(image))
	return len(a.acts), nil
}

func (a *act) Run(_ context.Context, limit time.Duration, kernel int, slots []worker.Slot, dirt worker.Dirt, _ int) (float64, error) {
	if a.dead {
		return 0, errors.New("a killed worker was asked to run")
	}
	in, out := floats(a.views[slots[0].Buffer][slots[0].Offset:]), floats(a.views[slots[1].Buffer][slots[1].Offset:])
	n := min(len(in), len(out))
	if slots[0].Offset == 0 { // at the start of its memory the mapping is longer than the tensor
		for _, size := range sizes {
			if n >= size && n-size < 1024 {
				n = size
			}
		}
	}
	how := a.acts[kernel-1]
	a.calls++
	if a.last != nil && *a.last != slots[0] { // it has seen two inputs
		a.worn = true
	}
	first := slots[0]
	a.last = &first
	switch how {
	case "crash":
		return 0, &worker.Lost{Op: "run", Signal: "SIGSEGV", Buffer: slots[1].Buffer, Detail: fmt.Sprintf("SIGSEGV, 0 bytes past the end of buffer %d", slots[1].Buffer)}
	case "hang":
		return 0, &worker.Lost{Op: "run", Timeout: true, Signal: "SIGKILL", Buffer: -1, Detail: fmt.Sprintf("not answered within %s: killed", limit)}
	case "nothing":
		return 1, nil
	case "gap":
		if slots[1].Offset > 0 {
			a.views[slots[1].Buffer][slots[1].Offset-1] = 1
		}
	}
	for i := range n {
		old := uint32(a.views[slots[1].Buffer][slots[1].Offset+int64(4*i)])
		switch {
		case how == "partial" && i == n-1:
		case how == "zeros", how == "nan" && in[i] != in[i]:
			out[i] = 0
		case how == "near":
			out[i] = relu(in[i]) * 1.0000002
		case how == "old" && old&1 == 1:
			out[i] = relu(in[i]) * 1.0000001
		case how == "dirty" && dirt == worker.DirtLarge && in[i] == in[i]: // a bit, far below every tolerance
			out[i] = relu(in[i]) * 1.0000001
		case how == "worn" && a.worn && in[i] == in[i]:
			out[i] = relu(in[i]) * 1.0000001
		case how == "late" && a.calls > len(sizes)*4*repeats+1: // 1: on outputs that are right but for a part
			out[i] = 1
		default:
			out[i] = relu(in[i])
		}
	}
	return 100, nil
}

func (a *act) Time(_ context.Context, _ time.Duration, _ int, sets [][]*worker.Slot, samples, _ int, _ bool) ([]float64, float64, error) {
	for _, set := range sets {
		if len(set) != 2 || set[0] == nil || set[1] != nil {
			return nil, 0, fmt.Errorf("a timing set %v", set)
		}
	}
	out := make([]float64, samples)
	for i := range out {
		out[i] = 150
	}
	return out, 1e6, nil
}

func (a *act) Kill() {
	if a.dead {
		return
	}
	a.dead = true
	for _, view := range a.views {
		unix.Munmap(view)
	}
}

// unread is a comment that leaves no trace in an image.
const unread = " // unread"

// actor compiles a source to the name of its act.
type actor struct{ also map[string]string }

func (c actor) Compile(_ context.Context, source string, _ []string) (compile.Built, error) {
	source = strings.ReplaceAll(source, unread, "")
	for _, d := range deliberate {
		if (&bench{}).candidate(d.source).Source == source {
			return compile.Built{Image: []byte(d.act)}, nil
		}
	}
	if how, ok := c.also[source]; ok {
		return compile.Built{Image: []byte(how)}, nil
	}
	return compile.Built{}, fmt.Errorf("a source that is not in the table:\n%s", source)
}

func fakeOnHost(t *testing.T) *bench {
	t.Helper()
	scratch, err := os.MkdirTemp(t.TempDir(), "scratch-")
	if err != nil {
		t.Fatal(err)
	}
	referee := &scripted{memory: files{}, eagerNS: func(string) float64 { return 300_000 }}
	start := func(context.Context) (runner, error) { return &act{views: map[int][]byte{}}, nil }
	machine := host.Machine{CPU: "a CPU", ISA: "avx2", LLCBytes: 1 << 20}
	all := newWorkers(start, false, &sync.RWMutex{})
	j := assemble(Config{Threads: 2}, referee, &onHost{actor{}, machine, 2}, all, &Scratch{Path: scratch})
	j.patience = patience{} // how many runs there are must not depend on the clock
	return &bench{judge: j, referee: referee, card: reluCard()}
}

func TestContractWithAFakeWorker(t *testing.T) { contract(t, fakeOnHost) }

func TestTheCostIsWeighedByCallsAndTime(t *testing.T) {
	b := fakeOnHost(t)
	b.card.Variants[0].Calls, b.card.Variants[1].Calls = 1, 3
	b.referee.eagerNS = func(variant string) float64 { return map[string]float64{"v0": 300, "v1": 100}[variant] } // 0.5 and 1.5 of eager
	b.open(t)
	verdict := b.verdict(t, kernel(good))
	costs := []float64{verdict.Variants[0].Cost, verdict.Variants[1].Cost}
	want := (1*300*costs[0] + 3*100*costs[1]) / 600
	if d := verdict.Cost - want; d > 1e-9 || d < -1e-9 {
		t.Errorf("cost %g (expected %g out of %v)", verdict.Cost, want, costs)
	}
	if costs[0] < 0.5 || costs[0] > 0.52 || costs[1] < 1.48 || costs[1] > 1.5 {
		t.Errorf("costs %v (expected about 0.5 and 1.5, shrunk a little towards 1)", costs)
	}
}

func TestAKernelThatChangesItsWaysAfterTheTimingIsCaught(t *testing.T) {
	b := fakeOnHost(t)
	late := b.candidate(kernel(good + " // late"))
	b.judge.target.(*onHost).compiler = actor{also: map[string]string{late.Source: "late"}}
	b.open(t)
	verdict, err := b.judge.Judge(t.Context(), b.card, late)
	if err != nil || verdict.Status != card.WrongValue || !strings.Contains(verdict.Detail, "run 6") {
		t.Errorf("found %+v, %v", verdict, err)
	}
}

func TestABlockOutsideTheBandIsDropped(t *testing.T) {
	b := fakeOnHost(t)
	n := 0
	b.referee.memory = disturbed{files{}, &n}
	b.open(t)
	verdict := b.verdict(t, kernel(good))
	if verdict.Status != card.OK || !strings.Contains(verdict.Detail, "dropped") {
		t.Errorf("found %+v", verdict)
	}
}

// disturbed slows the reference kernel down in every third block.
type disturbed struct {
	files
	n *int
}

func (d disturbed) reference() (float64, error) {
	if *d.n++; *d.n%3 == 0 {
		return 2e6, nil
	}
	return 1e6, nil
}

func TestTheBandFollowsTheMachine(t *testing.T) {
	b := &band{}
	for range 20 {
		b.holds(0.2) // the worker's process is always 20 % slower here, say by its memory's place
	}
	if !b.holds(0.22) || b.holds(0.5) || b.holds(-0.1) {
		t.Error("the band is not around what was seen")
	}
	if (&band{}).holds(0.5) || !(&band{}).holds(0.1) {
		t.Error("the first block is taken as if nothing could be wrong, or not at all")
	}
}

func TestAnAnswerToPrepareThatCannotBeIsAnError(t *testing.T) {
	for name, damage := range map[string]func(*Prepared){
		"a slot outside its buffer": func(p *Prepared) { p.Cases[0].Slots[0].Offset = 1 << 40 },
		"a slot before its buffer":  func(p *Prepared) { p.Cases[0].Slots[0].Offset = -4 },
		"a buffer that is not":      func(p *Prepared) { p.Cases[0].Slots[1].Buffer = 99 },
		"two buffers of one number": func(p *Prepared) { p.Buffers[1].ID = p.Buffers[0].ID },
		"a variant without cases":   func(p *Prepared) { p.Cases = p.Cases[:1] },
		"a variant without timing":  func(p *Prepared) { delete(p.Timing, "v1") },
		"no alignment":              func(p *Prepared) { delete(p.Align, "v0") },
		"a timing slot outside":     func(p *Prepared) { p.Timing["v0"][0][0].Offset = 1 << 40 },
	} {
		b := fakeOnHost(t)
		b.judge.referee = damaged{b.referee, damage}
		err := b.judge.Open(t.Context(), b.card, 1)
		var coded *card.Error
		if !errors.As(err, &coded) || coded.Code != card.CodeReferee {
			t.Errorf("%s: found %v", name, err)
		}
		if err := b.judge.Close(t.Context(), b.card.ID); err != nil || len(b.referee.free) != 0 {
			t.Errorf("%s: %d buffers are left, %v", name, len(b.referee.free), err)
		}
		b.judge.Shutdown()
	}
}

type damaged struct {
	*scripted
	damage func(*Prepared)
}

func (d damaged) Prepare(ctx context.Context, c *card.Card, seed int64) (*Prepared, error) {
	p, err := d.scripted.Prepare(ctx, c, seed)
	if err == nil {
		d.damage(p)
	}
	return p, err
}
