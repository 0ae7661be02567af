package main

// rebuild.go owns compiling the sources of a pack again, as a search compiles candidates: by the same pools, behind the same limits, without their cache.
// It refuses to compare and to run what comes out: the caller gets hashes.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/judge"
)

type rebuildRequest struct {
	Target   string         `json:"target"`
	Worker   string         `json:"worker"`
	Scratch  string         `json:"scratch"`
	Compiler string         `json:"compiler,omitempty"` // host
	NVRTC    string         `json:"nvrtc,omitempty"`    // cuda, and the device's compute capability
	Major    int            `json:"major,omitempty"`
	Minor    int            `json:"minor,omitempty"`
	Sources  []rebuildInput `json:"sources"`
}

type rebuildInput struct {
	ID        string            `json:"id"`
	Source    string            `json:"source"`
	Constants map[string]string `json:"constants"`
}

// rebuilt is one source's end: the SHA-256 of its image, or why there is none.
type rebuilt struct {
	ID      string `json:"id"`
	SHA256  string `json:"sha256"`
	Failure string `json:"failure"`
}

// rebuilding is a rebuild on its way. Once done is closed the rest is its end.
type rebuilding struct {
	stop      context.CancelFunc
	done      chan struct{}
	toolchain string
	images    []rebuilt
	err       error
}

var (
	rebuildsMutex sync.Mutex
	rebuilds      = map[string]*rebuilding{}
	rebuildsCount int
)

func startRebuild(request rebuildRequest) (any, error) {
	if request.Target != "host" && request.Target != "cuda" {
		return nil, card.Fail(card.CodeRequest, "", "rebuild: `target` is `%s` (expected `host` or `cuda`)", request.Target)
	}
	worker, err := filepath.Abs(request.Worker)
	if err != nil {
		return nil, card.Fail(card.CodeRequest, "", "rebuild: %w", err)
	}
	request.Worker = worker
	ctx, stop := context.WithCancel(context.Background())
	r := &rebuilding{stop: stop, done: make(chan struct{})}
	rebuildsMutex.Lock()
	rebuildsCount++
	id := "r" + strconv.Itoa(rebuildsCount)
	rebuilds[id] = r
	rebuildsMutex.Unlock()
	go func() {
		defer close(r.done)
		defer func() {
			if trouble := recover(); trouble != nil { // in the user's process nothing else would catch it
				r.err = card.Fail(card.CodeInternal, "please report this", "rebuild: the core panicked: %v", trouble)
			}
		}()
		r.err = r.run(ctx, request)
	}()
	return map[string]string{"rebuild": id}, nil
}

// compiler is what the pools of both targets have in common.
type compiler interface {
	Compile(ctx context.Context, source string, options []string) (compile.Built, error)
}

func (r *rebuilding) run(ctx context.Context, request rebuildRequest) error {
	scratch, err := judge.MakeScratch(request.Scratch)
	if err != nil {
		return err
	}
	defer scratch.Remove()
	pool, end, err := r.pool(ctx, request, scratch.Path)
	if err != nil {
		return err
	}
	defer end()
	for _, input := range request.Sources {
		options, err := compile.Options(input.Constants)
		if err != nil {
			r.images = append(r.images, rebuilt{ID: input.ID, Failure: err.Error()})
			continue
		}
		built, err := pool.Compile(ctx, input.Source, options)
		if err != nil {
			return fmt.Errorf("rebuild plan `%s`: %w", input.ID, err)
		}
		made := rebuilt{ID: input.ID, Failure: built.Failure + built.Refused}
		if built.Image != nil {
			sum := sha256.Sum256(built.Image)
			made.SHA256 = hex.EncodeToString(sum[:])
		}
		r.images = append(r.images, made)
	}
	return nil
}

// pool starts the compile processes in the best sandbox that holds here: what is compiled came with the pack.
func (r *rebuilding) pool(ctx context.Context, request rebuildRequest, scratch string) (made compiler, end func(), err error) {
	for tier := bestTier; tier >= 0; tier-- {
		if made, end, err = r.poolAt(ctx, request, scratch, tier); err == nil {
			break
		}
	}
	return made, end, err
}

const bestTier = 2

func (r *rebuilding) poolAt(ctx context.Context, request rebuildRequest, scratch string, tier int) (compiler, func(), error) {
	if request.Target == "host" {
		found, err := host.FindCompiler(ctx, request.Compiler)
		if err != nil {
			return nil, nil, err
		}
		r.toolchain = found.Pin
		pool := host.NewPool(request.Worker, found, host.ThisMachine("/"), scratch, nil, 1, tier)
		_, err = pool.Try(ctx)
		return pool, func() {}, err
	}
	arch, err := cuda.Arch(request.Major, request.Minor)
	if err != nil {
		return nil, nil, err
	}
	pool, err := cuda.NewPool(ctx, cuda.Config{Program: request.Worker, NVRTC: request.NVRTC, Arch: arch, Scratch: scratch, Jobs: 1, Tier: tier})
	if err != nil {
		return nil, nil, err
	}
	r.toolchain = pool.Version()
	return pool, pool.Close, nil
}

type pollRebuildRequest struct {
	Rebuild   string `json:"rebuild"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Cancel    bool   `json:"cancel,omitempty"`
}

// pollRebuild waits a moment; the answer that says `done` is the last.
func pollRebuild(request pollRebuildRequest) (any, error) {
	rebuildsMutex.Lock()
	r := rebuilds[request.Rebuild]
	rebuildsMutex.Unlock()
	if r == nil {
		return nil, card.Fail(card.CodeNotFound, "", "rebuild `%s` is not running in this process", request.Rebuild)
	}
	if request.Cancel {
		r.stop()
	}
	timer := time.NewTimer(min(max(0, time.Duration(request.TimeoutMS)*time.Millisecond), longest))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return map[string]any{"done": false}, nil
	}
	rebuildsMutex.Lock()
	delete(rebuilds, request.Rebuild)
	rebuildsMutex.Unlock()
	r.stop()
	if r.err != nil {
		return nil, r.err
	}
	return map[string]any{"done": true, "toolchain": r.toolchain, "images": r.images}, nil
}
