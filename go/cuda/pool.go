// Package cuda is the target of NVIDIA GPUs: device code compiled by NVRTC, straight to machine code of the device's architecture.
//
// It owns the prelude, the compile options, finding NVRTC and the pool of compile servers with its cache. It refuses to load or run what was
// compiled: that is the worker's. NVRTC is opened in the servers alone (`kernelforge-worker compile-cuda`), never in the user's process.
package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// Config is what a pool works with.
type Config struct {
	Program string         // kernelforge-worker
	NVRTC   string         // a file or a folder; "": it is looked for
	Arch    string         // of the device: "sm_90a"
	Driver  int            // the CUDA version that the driver speaks, 1000 x major + 10 x minor; 0: not compared
	Scratch string         // an existing folder
	Cache   *compile.Cache // nil keeps nothing
	Jobs    int            // servers at most
	Tier    int            // of the sandbox
}

const (
	mostJobs   = 8   // servers: beyond this the frames are what is waited for
	mostServed = 500 // jobs of one server: what a compiler leaks, and what a source may have done to it, ends then
	startLimit = 20 * time.Second
)

// variables have a server's allocator keep what one compile has freed for the next, up to 256 MiB, instead of giving it back and taking it anew, page by
// page: NVRTC takes and frees some 10 MB a compile. NVRTC's own cache is off: an image comes from its source, or from ours.
var variables = []string{"CUDA_CACHE_DISABLE=1", "MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TOP_PAD_=16777216", "MALLOC_TRIM_THRESHOLD_=268435456"}

var jobLimit = worker.Limit{CPU: compile.CPULimit, Wall: compile.WallLimit}

// Pool compiles. Its servers are started when they are needed and kept; one that died, or has done its share, is replaced. Close ends them.
type Pool struct {
	config  Config
	scratch string
	found   greeted
	key     string // what stands for the library in the cache's key
	slots   chan struct{}
	limit   worker.Limit // of one job

	mutex  sync.Mutex
	idle   []*server
	closed bool
}

type server struct {
	*worker.Server
	served int
}

// NewPool finds NVRTC by starting the first server, and compares it with the driver and the architecture.
func NewPool(ctx context.Context, config Config) (*Pool, error) {
	scratch, err := os.MkdirTemp(config.Scratch, "compile-")
	if err != nil {
		return nil, card.Fail(card.CodeJudge, compile.ScratchHint, "compile: make a scratch folder: %w", err)
	}
	p := &Pool{config: config, scratch: scratch, slots: make(chan struct{}, min(max(config.Jobs, 1), mostJobs)), limit: jobLimit}
	first, found, err := p.start(ctx, places(config.NVRTC, toolkitFolder))
	if err == nil && !slices.Contains(found.Archs, number(config.Arch)) {
		first.Kill()
		err = card.Fail(card.CodeJudge, "use a newer NVRTC (that of a newer torch), and name it in KERNELFORGE_NVRTC",
			"compile for `%s`: NVRTC %d.%d knows %v", config.Arch, found.Major, found.Minor, found.Archs)
	}
	if err != nil {
		os.RemoveAll(scratch)
		return nil, err
	}
	p.found, p.idle = found, []*server{first}
	p.key = fmt.Sprintf("nvrtc %d.%d %s", found.Major, found.Minor, found.Path)
	if info, err := os.Stat(found.Path); err == nil { // another build of the same version has another size
		p.key += fmt.Sprintf(" %d", info.Size())
	}
	return p, nil
}

// Version is the `toolchain` pin: "nvrtc 13.0".
func (p *Pool) Version() string { return fmt.Sprintf("nvrtc %d.%d", p.found.Major, p.found.Minor) }

// Close ends the servers; a compile that runs fails.
func (p *Pool) Close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	for _, s := range p.idle {
		s.Kill()
	}
	p.idle = nil
	os.RemoveAll(p.scratch)
}

// Compile turns a source into a cubin. A source that does not compile is a result; an error means that the harness is broken.
func (p *Pool) Compile(ctx context.Context, source string, options []string) (compile.Built, error) {
	start := time.Now()
	flags := Flags(p.config.Arch)
	key := p.config.Cache.Key(Prelude, first, source, flags, options, p.key)
	if image, err := p.config.Cache.Get(key); err != nil || image != nil {
		return compile.Built{Image: image, Cached: true, Seconds: time.Since(start).Seconds()}, err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return compile.Built{}, ctx.Err()
	}
	built, err := p.compile(ctx, job{Source: source, Options: append(flags, options...)})
	if err == nil && built.Image != nil && built.Refused == "" {
		err = p.config.Cache.Put(key, built.Image)
	}
	if whole := time.Since(start).Seconds(); built.Seconds <= 0 || built.Seconds > whole { // the server tells it without waiting for its turn
		built.Seconds = whole
	}
	return built, err
}

// Probe compiles an empty kernel, so that an NVRTC that cannot do what is needed is one clear error before the first candidate.
func (p *Pool) Probe(ctx context.Context) error {
	built, err := p.Compile(ctx, empty, nil)
	if err == nil && built.Failure != "" {
		err = card.Fail(card.CodeJudge, "set KERNELFORGE_NVRTC to a libnvrtc.so of CUDA 12.8 or newer, with its libnvrtc-builtins.so beside it",
			"compile an empty kernel with `%s` (%s): %s", p.found.Path, p.Version(), built.Failure)
	}
	return err
}

func (p *Pool) compile(ctx context.Context, j job) (compile.Built, error) {
	s, err := p.take(ctx)
	if err != nil {
		return compile.Built{}, err
	}
	var result outcome
	var lost *worker.Lost
	err = s.Ask(ctx, p.limit, "compile", j, &result)
	if errors.As(err, &lost) && !lost.Timeout && (s.served > 0 || lost.Killed()) && ctx.Err() == nil { // it may have died while it waited, or was killed: no source is to blame
		s.Kill()
		if s, _, err = p.start(ctx, []string{p.found.Path}); err != nil {
			return compile.Built{}, err
		}
		err = s.Ask(ctx, p.limit, "compile", j, &result)
	}
	switch {
	case ctx.Err() != nil:
		s.Kill()
		return compile.Built{}, ctx.Err()
	case errors.As(err, &lost) && lost.Timeout:
		s.Kill()
		return compile.Built{Failure: "the compiler did not end: " + lost.Detail}, nil
	case errors.As(err, &lost) && !lost.Broken(): // a source can bring a compiler down; one that cannot even start is told by the next greeting
		s.Kill()
		return compile.Built{Failure: fmt.Sprintf("the compiler ended with %s (limits: %s)", lost.Signal, log.Limits)}, nil
	case err != nil:
		s.Kill()
		return compile.Built{}, card.Fail(card.CodeJudge, "`kernelforge doctor` checks the worker and NVRTC", "compile: %w", err)
	}
	p.give(s)
	switch {
	case result.Ending != "" && compile.Full(p.scratch):
		return compile.Built{}, card.Fail(card.CodeJudge, compile.ScratchHint, "compile in `%s`: there is no free space", p.scratch)
	case result.Ending != "":
		return compile.Built{Failure: log.Filter(result.Ending, result.Log)}, nil
	case result.Refused != "":
		return compile.Built{Image: result.Image, Refused: worker.Clean(result.Refused, 256)}, nil
	case len(result.Image) == 0:
		return compile.Built{}, fmt.Errorf("compile: the compiler was content, but gave no image")
	}
	return compile.Built{Image: result.Image, Seconds: result.Seconds}, nil
}

// take gives a server that waits, or starts another.
func (p *Pool) take(ctx context.Context) (*server, error) {
	p.mutex.Lock()
	var s *server
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mutex.Unlock()
	if s != nil {
		return s, nil
	}
	s, _, err := p.start(ctx, []string{p.found.Path})
	return s, err
}

func (p *Pool) give(s *server) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if s.served++; p.closed || s.served >= mostServed {
		s.Kill()
		return
	}
	p.idle = append(p.idle, s)
}

// start starts a server and greets it.
func (p *Pool) start(ctx context.Context, where []string) (*server, greeted, error) {
	where = absolute(where)
	command := exec.Command(p.config.Program, "compile-cuda")
	command.Dir, command.Env = p.scratch, append(worker.Environment(p.scratch), variables...)
	discard, err := worker.Furnish(command, p.room(where), p.scratch)
	if err != nil {
		return nil, greeted{}, card.Fail(card.CodeJudge, compile.ScratchHint, "compile: %w", err)
	}
	defer discard()
	started, err := worker.StartServer(command)
	if err != nil {
		return nil, greeted{}, card.Fail(card.CodeJudge, "build it with `make build`, or install again with pip", "compile: start `%s`: %w", p.config.Program, err)
	}
	var answer greeted
	err = started.Ask(ctx, worker.Limit{Wall: startLimit}, "hello", greeting{Places: where, Driver: p.config.Driver / 1000, Prelude: Prelude, Options: Flags(p.config.Arch)}, &answer)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = card.Fail(card.CodeJudge, "`kernelforge doctor` checks the worker and NVRTC", "compile: start `%s`: %w; it said: %s", p.config.Program, err, started.Said())
	case answer.Sandbox.Tier < p.config.Tier:
		err = card.Fail(card.CodeJudge, worker.TierHint, "compile: start `%s`: it reached sandbox tier %d (expected %d): it could %s", p.config.Program,
			answer.Sandbox.Tier, p.config.Tier, worker.Clean(strings.Join(answer.Sandbox.Lacks(p.config.Tier), "; "), 512))
	case answer.Path == "":
		err = p.none(answer.Tried)
	}
	if err != nil {
		started.Kill()
		return nil, greeted{}, err
	}
	return &server{Server: started}, answer, nil
}

// room is what a server may reach: libraries, NVRTC's among them, and nothing that it could write.
func (p *Pool) room(places []string) sandbox.Room {
	room := worker.BareRoom(p.config.Tier, worker.LoaderPath())
	for _, place := range places {
		if filepath.IsAbs(place) {
			room.Read = append(room.Read, filepath.Dir(place))
		}
	}
	return room
}

// Sandbox is what the first server found when it tried its walls.
func (p *Pool) Sandbox() sandbox.Report { return p.found.Sandbox }

// none says why no NVRTC was taken.
func (p *Pool) none(tried []string) error {
	hint := "install a torch build with CUDA, or set KERNELFORGE_NVRTC to libnvrtc.so"
	for _, line := range tried {
		if strings.Contains(line, "the driver's") {
			hint = fmt.Sprintf("install a newer driver, a torch built for CUDA %d, or set KERNELFORGE_NVRTC to the libnvrtc.so of CUDA %d", p.config.Driver/1000, p.config.Driver/1000)
		}
	}
	return card.Fail(card.CodeJudge, hint, "find NVRTC: none that fits was found; tried %s", worker.Clean(strings.Join(tried, "; "), 1024))
}

// absolute paths, since a server works in another folder; names on the loader path stay.
func absolute(places []string) []string {
	list := make([]string, len(places))
	for i, place := range places {
		list[i] = place
		if strings.Contains(place, "/") {
			if path, err := filepath.Abs(place); err == nil {
				list[i] = path
			}
		}
	}
	return list
}
