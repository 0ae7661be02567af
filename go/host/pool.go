package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// cpuSeconds bound each process of the compiler; the whole, whatever it waits for, is bounded by compile.WallLimit.
const cpuSeconds = 30

// Pool compiles. At most `jobs` compile processes run at a time; each is new, has its own scratch folder and is gone afterwards.
type Pool struct {
	program  string
	compiler Compiler
	machine  Machine
	scratch  string
	cache    *compile.Cache
	slots    chan struct{}
	seconds  uint64 // of CPU time
	wall     time.Duration
	tier     int // of the sandbox, for every compile

	making sync.Mutex // of the compiled headers
	sought bool
	folder string // of the compiled headers; "": there are none
}

// NewPool makes a pool. program is kernelforge-worker; scratch is an existing folder; cache may be nil; tier is the sandbox's.
func NewPool(program string, compiler Compiler, machine Machine, scratch string, cache *compile.Cache, jobs, tier int) *Pool {
	return &Pool{program: program, compiler: compiler, machine: machine, scratch: scratch, cache: cache, slots: make(chan struct{}, max(jobs, 1)), seconds: cpuSeconds,
		wall: compile.WallLimit, tier: tier}
}

// Compile turns a source into an image. A source that does not compile is a result; an error means that the harness is broken.
func (p *Pool) Compile(ctx context.Context, source string, options []string) (compile.Built, error) {
	start := time.Now()
	key := p.key(Prelude, last, first, source, Flags, options)
	if image, err := p.cache.Get(key); err != nil || image != nil {
		return compile.Built{Image: image, Cached: true, Seconds: time.Since(start).Seconds()}, err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return compile.Built{}, ctx.Err()
	}
	job := Job{Options: append([]string{}, options...), Prelude: Prelude, Source: source, System: p.headers(ctx)}
	built, err := p.compile(ctx, job)
	if job.System != "" && ofHeaders.MatchString(built.Failure) {
		job.System = ""
		built, err = p.compile(ctx, job)
	}
	var lost *worker.Lost
	if errors.As(err, &lost) && lost.Early() || killed.MatchString(built.Failure) { // by somebody else: no source is to blame, unless it happens again
		built, err = p.compile(ctx, job)
	}
	if err == nil && built.Image != nil {
		err = p.cache.Put(key, built.Image)
	}
	built.Seconds = time.Since(start).Seconds()
	return built, err
}

// key is the cache's name for what the pool's compiler makes of these parts.
func (p *Pool) key(parts ...any) string {
	return p.cache.Key(append(parts, p.compiler.Path, p.compiler.Version, p.machine.Device(), p.machine.flags)...)
}

// Try has a compile process try its walls, and says what it found. A tier that does not hold is an error.
func (p *Pool) Try(ctx context.Context) (sandbox.Report, error) {
	out, ending, _, err := p.start(ctx, Job{Options: []string{}, Seconds: p.seconds, Try: true})
	if err != nil {
		return sandbox.Report{}, card.Fail(card.CodeJudge, worker.TierHint, "start a compile process: %w", err)
	}
	result, _, err := p.read(out, ending)
	if err != nil {
		return sandbox.Report{}, card.Fail(card.CodeJudge, worker.TierHint, "start a compile process at sandbox tier %d: %w", p.tier, err)
	}
	if result.Sandbox == nil {
		return sandbox.Report{}, fmt.Errorf("start a compile process: it did not try its walls")
	}
	if report := *result.Sandbox; report.Tier < p.tier {
		return report, card.Fail(card.CodeJudge, worker.TierHint, "start a compile process: it reached sandbox tier %d (expected %d): it could %s", report.Tier, p.tier,
			worker.Clean(strings.Join(report.Lacks(p.tier), "; "), 512))
	}
	return *result.Sandbox, nil
}

// Probe compiles an empty kernel, so that a compiler that cannot do what is needed is one clear error before the first candidate.
func (p *Pool) Probe(ctx context.Context) error {
	built, err := p.Compile(ctx, "KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) {}\n", nil)
	if err == nil && built.Failure != "" {
		err = card.Fail(card.CodeJudge, "install another compiler (`apt-get install g++`), or set KERNELFORGE_CXX to one with C++20 and its standard library",
			"compile an empty kernel with `%s` (%s): %s", p.compiler.Path, p.compiler.Version, built.Failure)
	}
	return err
}

func (p *Pool) compile(ctx context.Context, job Job) (compile.Built, error) {
	limited, stop := context.WithTimeout(ctx, p.wall)
	defer stop()
	job.Compiler, job.Seconds = p.compiler.Path, p.seconds
	out, ending, full, err := p.start(limited, job)
	if err == nil {
		built, err := p.built(out, ending)
		if (err != nil || built.Failure != "") && full { // no verdict about the source
			return compile.Built{}, card.Fail(card.CodeJudge, compile.ScratchHint, "compile in `%s`: there is no free space", p.scratch)
		}
		return built, err
	}
	switch {
	case ctx.Err() != nil:
		return compile.Built{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return compile.Built{Failure: fmt.Sprintf("the compiler did not end within %s and was killed", p.wall)}, nil
	}
	return compile.Built{}, err
}

// start has one job done by a process of its own, in a folder of its own, and gives what it wrote. full: the folder's file system has no room left.
func (p *Pool) start(ctx context.Context, job Job) (out []byte, ending string, full bool, err error) {
	scratch, err := os.MkdirTemp(p.scratch, "compile-")
	if err != nil {
		return nil, "", false, card.Fail(card.CodeJudge, compile.ScratchHint, "compile: make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	text, err := json.Marshal(job)
	if err != nil {
		return nil, "", false, fmt.Errorf("compile: %w", err)
	}
	command := exec.Command(p.program, "compile")
	command.Dir, command.Env, command.Stdin = scratch, worker.Environment(scratch), bytes.NewReader(text)
	room := worker.BareRoom(p.tier, worker.LoaderPath())
	room.Read, room.Run, room.Write, room.Processes = append(room.Read, p.compiler.Tools.read...), p.compiler.Tools.run, []string{scratch}, mostStarted
	if job.System != "" {
		room.Read = append(room.Read, job.System)
	}
	discard, err := worker.Furnish(command, room, p.scratch)
	if err != nil {
		return nil, "", false, card.Fail(card.CodeJudge, compile.ScratchHint, "compile: %w", err)
	}
	defer discard()
	out, ending, err = worker.Output(ctx, command, worker.MaxFrame+worker.MaxImage)
	if err != nil && ctx.Err() == nil {
		err = card.Fail(card.CodeJudge, "build it with `make build`, or install again with pip", "compile: %w", err)
	}
	return out, ending, compile.Full(scratch), err
}

// built is what a compile process's output means.
func (p *Pool) built(out []byte, ending string) (compile.Built, error) {
	result, image, err := p.read(out, ending)
	if err != nil {
		return compile.Built{}, err
	}
	if result.Ending != "" {
		return compile.Built{Failure: log(p.seconds).Filter(result.Ending, result.Log)}, nil
	}
	if len(image) != result.Bytes || len(image) == 0 {
		return compile.Built{}, fmt.Errorf("compile: an image of %d bytes (expected %d)", len(image), result.Bytes)
	}
	return compile.Built{Image: image}, nil
}

// read takes a compile process's output apart. Nothing in it is trusted but as the candidate's own image and log.
func (p *Pool) read(out []byte, ending string) (outcome, []byte, error) {
	from := bytes.NewReader(out)
	body, err := worker.ReadFrame(from)
	if err != nil {
		signal, _, _ := strings.Cut(ending, ":")
		lost := &worker.Lost{Op: "compile", Signal: signal, Buffer: -1, Detail: fmt.Sprintf("the compile process ended with %s (expected a result): %v", ending, err)}
		return outcome{}, nil, card.Fail(card.CodeJudge, "`kernelforge doctor` checks the worker and the compiler", "compile: %w", lost)
	}
	var result outcome
	if err := card.Decode(body, &result); err != nil {
		return outcome{}, nil, fmt.Errorf("compile: read the result: %w", err)
	}
	return result, out[len(out)-from.Len():], nil
}
