package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Limits of one compile in time: of each process of the compiler on a CPU, and of the whole, whatever it waits for.
const (
	cpuSeconds = 30
	WallLimit  = compile.WallLimit
)

// Pool compiles. At most `jobs` compile processes run at a time; each is new, has its own scratch folder and is gone afterwards.
type Pool struct {
	program  string
	compiler Compiler
	machine  Machine
	scratch  string
	cache    *compile.Cache
	slots    chan struct{}
	seconds  uint64 // of CPU time
}

// NewPool makes a pool. program is kernelforge-worker; scratch is an existing folder; cache may be nil.
func NewPool(program string, compiler Compiler, machine Machine, scratch string, cache *compile.Cache, jobs int) *Pool {
	return &Pool{program: program, compiler: compiler, machine: machine, scratch: scratch, cache: cache, slots: make(chan struct{}, max(jobs, 1)), seconds: cpuSeconds}
}

// Compile turns a source into an image. A source that does not compile is a result; an error means that the harness is broken.
func (p *Pool) Compile(ctx context.Context, source string, options []string) (compile.Built, error) {
	start := time.Now()
	key := p.cache.Key(Prelude, first, source, Flags, options, p.compiler.Path, p.compiler.Version, p.machine.Device(), p.machine.flags)
	if image, err := p.cache.Get(key); err != nil || image != nil {
		return compile.Built{Image: image, Cached: true, Seconds: time.Since(start).Seconds()}, err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return compile.Built{}, ctx.Err()
	}
	built, err := p.compile(ctx, source, options)
	if err == nil && built.Image != nil {
		err = p.cache.Put(key, built.Image)
	}
	built.Seconds = time.Since(start).Seconds()
	return built, err
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

func (p *Pool) compile(ctx context.Context, source string, options []string) (compile.Built, error) {
	scratch, err := os.MkdirTemp(p.scratch, "compile-")
	if err != nil {
		return compile.Built{}, card.Fail(card.CodeJudge, compile.ScratchHint, "compile: make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	job, err := json.Marshal(Job{Compiler: p.compiler.Path, Options: append([]string{}, options...), Prelude: Prelude, Source: source, Seconds: p.seconds})
	if err != nil {
		return compile.Built{}, fmt.Errorf("compile: %w", err)
	}
	command := exec.Command(p.program, "compile")
	command.Dir, command.Env, command.Stdin = scratch, worker.Environment(scratch), bytes.NewReader(job)
	limited, stop := context.WithTimeout(ctx, WallLimit)
	defer stop()
	out, ending, err := worker.Output(limited, command, worker.MaxFrame+worker.MaxImage)
	if err == nil {
		built, err := p.read(out, ending)
		if (err != nil || built.Failure != "") && compile.Full(scratch) { // no verdict about the source
			return compile.Built{}, card.Fail(card.CodeJudge, compile.ScratchHint, "compile in `%s`: there is no free space", p.scratch)
		}
		return built, err
	}
	switch {
	case ctx.Err() != nil:
		return compile.Built{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return compile.Built{Failure: fmt.Sprintf("the compiler did not end within %s and was killed", WallLimit)}, nil
	}
	return compile.Built{}, card.Fail(card.CodeJudge, "build it with `make build`, or install again with pip", "compile: %w", err)
}

// read takes a compile process's output apart. Nothing in it is trusted but as the candidate's own image and log.
func (p *Pool) read(out []byte, ending string) (compile.Built, error) {
	from := bytes.NewReader(out)
	body, err := worker.ReadFrame(from)
	if err != nil {
		return compile.Built{}, card.Fail(card.CodeJudge, "`kernelforge doctor` checks the worker and the compiler",
			"compile: the compile process ended with %s (expected a result): %w", ending, err)
	}
	var result outcome
	if err := card.Decode(body, &result); err != nil {
		return compile.Built{}, fmt.Errorf("compile: read the result: %w", err)
	}
	if result.Ending != "" {
		return compile.Built{Failure: log(p.seconds).Filter(result.Ending, result.Log)}, nil
	}
	image := out[len(out)-from.Len():]
	if len(image) != result.Bytes || len(image) == 0 {
		return compile.Built{}, fmt.Errorf("compile: an image of %d bytes (expected %d)", len(image), result.Bytes)
	}
	return compile.Built{Image: image}, nil
}
