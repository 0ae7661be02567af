// Package judge decides what a candidate is worth: by gates in a fixed order, each cheaper than the next, and by paired timing.
//
//	policy -> compile -> image check -> correctness (poison, repeats, all cases) -> search timing -> cost
//	finalists: correctness again in a fresh worker -> confirmation in the user's process -> accepted or not
//
// It owns the order of the gates, the statistics and what a worker's end means. It refuses to compare values (the referee's), to run code (the
// worker's) and to choose what to try (the search's). A candidate that fails is a verdict; an error means that the harness is broken.
//
// Source of the rule: docs/decisions.md; its numbers and their simulation are in statistics.go and statistics_test.go.
package judge

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Config is what a judge works with.
type Config struct {
	Worker  string // path of kernelforge-worker
	Runtime string // path of libkfruntime.so
	Cache   string // folder of compiled images; "" keeps none
	Scratch string // folder for temporary files; "" is the system's
	Jobs    int    // compiles at a time
	Tier    int    // of the sandbox; BestTier: the best that holds here
	Exact   bool   // only candidates that are bitwise equal to eager on every input pass
	Target  string // "host" or "cuda"
	Off     Gates  // of tests alone: gates that let everything through, to see what only they kill

	// host
	Compiler string // of the user's choice (KERNELFORGE_CXX), or ""
	Threads  int    // of a kernel: the user's, and a pin of what is accepted

	// cuda
	NVRTC     string            // a file or folder of the user's choice (KERNELFORGE_NVRTC), or of torch's environment; "": it is looked for
	Device    int               // ordinal, as the user's process counts
	UUID      string            // of the device that the ordinal means there; "" is not checked
	Sanitizer string            // path of compute-sanitizer; "": the machine has none
	Turns     string            // what the names of the device's two lock files begin with (turns.go); "": it is nobody else's
	NCU       string            // path of Nsight Compute's ncu; "": the machine has none; NoCounters: it is not wanted
	Variables map[string]string // of the user's process, as far as they decide which devices CUDA sees (worker.Config)
}

// Judge judges candidates of the cards that are open. Methods may be called from several goroutines; candidates are compiled side by side and
// measured one after the other, with nothing else of ours running.
type Judge struct {
	config    Config
	referee   Referee
	target    target
	workers   *workers
	scratch   *Scratch
	patience  patience
	sanitizer underSanitizer  // nil: the target has no such tool
	reports   int             // of its tools; under the lease, as the next two
	tried     map[string]bool // tools that were run on a kernel of ours
	broken    brokenTools
	wrapped   belowTool // nil: no tool may run a worker below it
	counting  counting

	quiet *sync.RWMutex // held for reading by compiles and starts, for writing by everything that is timed: a compiler beside it is noise
	turns *turns        // with other processes' judges on the device
	lease sync.Mutex    // held from a candidate's load to its last sample: one worker, or the referee, uses the machine
	mutex sync.Mutex    // guards cards and ahead
	cards map[string]*opened
	ahead map[string]*begun // compiles that were begun before their candidates' turn
	group sync.WaitGroup    // of those compiles
	band  band              // of the reference kernel's cross-process ratio; under lease

	account *account
}

// runner is what a judge needs of worker.Worker.
type runner interface {
	Map(ctx context.Context, limit time.Duration, buffers []worker.Buffer, fds []int) error
	Unmap(ctx context.Context, limit time.Duration, ids []int) error
	Load(ctx context.Context, limit time.Duration, plan any, image []byte) (int, error)
	Run(ctx context.Context, limit time.Duration, kernel int, slots []worker.Slot, dirt worker.Dirt, before int) (float64, error)
	Time(ctx context.Context, limit time.Duration, kernel int, sets [][]*worker.Slot, samples, inner int, warm bool) ([]float64, float64, error)
	Unload(ctx context.Context, limit time.Duration, kernel int) error
	Telemetry(ctx context.Context, limit time.Duration) (*worker.Telemetry, string, error)
	Kill()
}

// opened is a card that the referee has prepared.
type opened struct {
	prepared  *Prepared
	seed      int64
	sanitized map[string]sanitized      // candidates that were run under its tools; under the lease
	outputs   map[string]map[int]string // hashes that a search saw, by candidate and case; under the lease
	binaries  map[binary]first          // that were judged; under the lease
}

// New makes a judge: it finds the compiler, tries it, and opens the cache; on CUDA it starts the first worker, which says what the device is.
// No candidate runs until a card is opened. Shutdown gives everything back.
func New(config Config, referee Referee) (*Judge, error) {
	for _, path := range []*string{&config.Worker, &config.Runtime, &config.Cache, &config.Scratch} { // processes of ours work in other folders
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("make a judge: %w", err)
		}
		*path = absolute
	}
	if err := config.Off.CheckOff(); err != nil {
		return nil, card.Fail(card.CodeJudge, "", "make a judge: %w", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*compile.WallLimit)
	defer stop()
	scratch, err := MakeScratch(config.Scratch)
	if err != nil {
		return nil, err
	}
	asked, quiet := config.Tier, &sync.RWMutex{}
	made, all, tier, err := settle(ctx, config, scratch.Path, func(config Config) *workers {
		start := func(ctx context.Context) (runner, error) {
			w, err := worker.Start(ctx, config.worker(scratch.Path))
			if err != nil {
				return nil, err // not `w`: a nil *Worker in an interface is not nil
			}
			return w, nil
		}
		return newWorkers(start, config.Target == "cuda", quiet)
	})
	if err != nil {
		scratch.Remove()
		return nil, err
	}
	config.Tier = tier
	j := assemble(config, referee, made, all, scratch)
	if config.Target == "cuda" && asked <= 0 { // the tools open what a confined process may not: where somebody asks for confinement, they do not run
		j.wrapped = belowOf(config.worker(scratch.Path))
		j.sanitizer = func(ctx context.Context, tool, report string) (runner, error) {
			return j.wrapped(ctx, wrapper(config.Sanitizer, tool, report))
		}
	}
	return j, nil
}

// belowTool starts a worker below a tool's command line.
type belowTool func(ctx context.Context, wrapper []string) (runner, error)

// belowOf starts unconfined workers that are else as configured.
func belowOf(config worker.Config) belowTool {
	config.Tier = 0
	return func(ctx context.Context, wrapper []string) (runner, error) {
		below := config
		below.Wrapper = wrapper
		w, err := worker.Start(ctx, below)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
}

func assemble(config Config, referee Referee, on target, all *workers, scratch *Scratch) *Judge {
	times, turns := &account{}, newTurns(config.Turns)
	return &Judge{config: config, referee: clockedReferee{referee, times, turns}, account: times, turns: turns, target: on, workers: all, quiet: all.quiet, scratch: scratch, patience: usualPatience, cards: map[string]*opened{},
		ahead: map[string]*begun{}, tried: map[string]bool{}, broken: brokenTools{}}
}

// off tells whether a test has switched a gate off.
func (j *Judge) off(gate Gate) bool { return j.config.Off.Has(gate) }

// Facts of the target, for proposers.
func (j *Judge) Facts() propose.Facts { return j.target.facts() }

// Open has the referee prepare a card: inputs, references and shared buffers. Every worker maps them anew, until Close.
func (j *Judge) Open(ctx context.Context, c *card.Card, seed int64) error {
	j.mutex.Lock()
	_, open := j.cards[c.ID]
	j.mutex.Unlock()
	if open {
		return fmt.Errorf("open card `%s`: it is open already", c.ID)
	}
	prepared, err := j.referee.Prepare(ctx, c, seed)
	if err != nil {
		return fmt.Errorf("open card `%s`: %w", c.ID, err)
	}
	j.mutex.Lock() // from here on Close gives the buffers back, also of a card that does not pass the check
	j.cards[c.ID] = &opened{prepared: prepared, seed: seed}
	j.mutex.Unlock()
	if err := prepared.check(c); err != nil {
		return card.Fail(card.CodeReferee, "", "open card `%s`: %w", c.ID, err)
	}
	return nil
}

// Controls are how the negative controls of an open card ended, per variant.
func (j *Judge) Controls(cardID string) map[string]map[string]string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if open := j.cards[cardID]; open != nil {
		return open.prepared.Controls
	}
	return nil
}

// Close has the referee free what Open made.
func (j *Judge) Close(ctx context.Context, cardID string) error {
	j.lease.Lock()
	defer j.lease.Unlock()
	j.mutex.Lock()
	_, open := j.cards[cardID]
	delete(j.cards, cardID)
	j.mutex.Unlock()
	if !open {
		return nil
	}
	j.workers.release(ctx, cardID)
	if err := j.referee.Release(ctx, cardID); err != nil {
		return fmt.Errorf("close card `%s`: %w", cardID, err)
	}
	return nil
}

// Shutdown ends the workers and compilers that wait for work, and removes the scratch folder.
func (j *Judge) Shutdown() {
	j.lease.Lock()
	defer j.lease.Unlock()
	j.workers.shutdown()
	j.target.close()
	j.group.Wait()
	j.scratch.Remove()
}

func (j *Judge) opened(c *card.Card) (*opened, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	open, ok := j.cards[c.ID]
	if !ok {
		return nil, fmt.Errorf("card `%s` is not open", c.ID)
	}
	return open, nil
}

// check refuses an answer to `prepare` that would make the worker or the judge stumble later.
func (p *Prepared) check(c *card.Card) error {
	size := map[int]uint64{}
	for _, b := range p.Buffers {
		if _, twice := size[b.ID]; twice || b.FD < 0 || b.Bytes == 0 {
			return fmt.Errorf("prepare: buffer %d: descriptor %d, %d bytes (expected one buffer of this number, open, not empty)", b.ID, b.FD, b.Bytes)
		}
		size[b.ID] = b.Bytes
	}
	place := func(s Slot) error {
		if bytes, ok := size[s.Buffer]; !ok || s.Offset < 0 || uint64(s.Offset) > bytes {
			return fmt.Errorf("prepare: a slot at byte %d of buffer %d, which has %d bytes", s.Offset, s.Buffer, bytes)
		}
		return nil
	}
	cases := map[string]int{}
	for _, k := range p.Cases {
		cases[k.Variant]++
		for _, s := range k.Slots {
			if err := place(s); err != nil {
				return err
			}
		}
	}
	for _, v := range c.Variants {
		if cases[v.ID] == 0 || len(p.Timing[v.ID]) == 0 || len(p.Align[v.ID]) == 0 {
			return fmt.Errorf("prepare: variant `%s` has %d cases, %d timing sets and %d alignments (expected some of each)",
				v.ID, cases[v.ID], len(p.Timing[v.ID]), len(p.Align[v.ID]))
		}
		for _, set := range p.Timing[v.ID] {
			for _, s := range set {
				if s == nil {
					continue
				}
				if err := place(*s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
