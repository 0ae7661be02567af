package main

// calls.go owns the table of operations, and that none of them panics through the boundary.

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
)

// version is the distribution's; a test compares it with pyproject.toml.
const version = "0.1.0"

// tellVersion also says what the Go runtime has taken from the system: the core's own memory, beside the host program's.
func tellVersion(struct{}) (any, error) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return map[string]any{"version": version, "abi": abi, "memory_bytes": memory.Sys}, nil
}

// abi is KF_ABI_VERSION of kernelforge.h.
const abi = 1

// Return codes of kernelforge.h.
const (
	rcOK       = 0
	rcFailed   = 1
	rcPanicked = 2
)

// operation reads a request and gives a result. Operations are short: at most 200 ms.
type operation func(request []byte) (any, error)

// operations are all of them, by the names of docs/formats.md.
var operations = map[string]operation{
	"version":         operate(tellVersion),
	"study.start":     operate(startStudy),
	"study.poll":      operate(pollStudy),
	"study.answer":    operate(answerStudy),
	"study.cancel":    operate(cancelStudy),
	"study.conclude":  operate(concludeStudy),
	"study.close":     operate(closeStudy),
	"store.studies":   operate(listStudies),
	"store.study":     operate(showStudy),
	"store.node":      operate(showNode),
	"store.cards":     operate(listCards),
	"store.card":      operate(findCard),
	"store.brief":     operate(tellBrief),
	"store.count":     operate(countNode),
	"store.answer":    operate(answerGuest),
	"store.approve":   operate(approvePlans),
	"store.submit":    operate(submitCandidate),
	"store.result":    operate(keepResult),
	"store.clear":     operate(clearStore),
	"pack.write":      operate(writePack),
	"template.render": operate(renderTemplates),
	"judge.weigh":     operate(weigh),
	"redteam.files":   operate(listCorpus),
	"redteam.start":   operate(startCorpus),
	"rebuild.start":   operate(startRebuild),
	"rebuild.poll":    operate(pollRebuild),
	"mcp.start":       operate(startServer),
	"mcp.poll":        operate(pollServer),
	"mcp.trouble":     operate(troubleServer),
	"mcp.stop":        operate(stopServer),
	"key.make":        operate(makeKey),
	"key.sign":        operate(sign),
}

// operate makes an operation of a function that takes its request as a struct. The request is read strictly.
func operate[T any](carryOut func(T) (any, error)) operation {
	return func(request []byte) (any, error) {
		var fields T
		if err := card.Decode(request, &fields); err != nil {
			return nil, card.Fail(card.CodeRequest, "", "read the request: %w", err)
		}
		return carryOut(fields)
	}
}

// call carries out one operation and never panics.
func call(op string, request []byte) (rc int32, answer []byte) {
	return guarded(func() (any, error) {
		run, ok := operations[op]
		if !ok {
			names := slices.Sorted(maps.Keys(operations))
			return nil, card.Fail(card.CodeNotFound, "", "call `%s`: no such operation (there are %v)", op, names)
		}
		result, err := run(orEmpty(request))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		return result, nil
	})
}

// limits are what kf_init may set.
type limits struct {
	MaxProcs    int   `json:"max_procs,omitempty"`
	MemoryLimit int64 `json:"memory_limit_bytes,omitempty"`
}

// configure sets the limits of this process's core.
func configure(request []byte) (rc int32, answer []byte) {
	set := operate(func(l limits) (any, error) {
		if l.MaxProcs < 0 || l.MemoryLimit < 0 {
			return nil, card.Fail(card.CodeRequest, "", "`max_procs` is %d and `memory_limit_bytes` is %d (expected 0 or more)", l.MaxProcs, l.MemoryLimit)
		}
		if l.MaxProcs > 0 {
			runtime.GOMAXPROCS(l.MaxProcs)
		}
		if l.MemoryLimit > 0 {
			debug.SetMemoryLimit(l.MemoryLimit)
		}
		return struct{}{}, nil
	})
	return guarded(func() (any, error) {
		result, err := set(orEmpty(request))
		if err != nil {
			return nil, fmt.Errorf("init: %w", err)
		}
		return result, nil
	})
}

// guarded turns what a function returns, or its panic, into an answer.
func guarded(run func() (any, error)) (rc int32, answer []byte) {
	defer func() {
		if trouble := recover(); trouble != nil {
			rc, answer = rcPanicked, errorAnswer(card.Fail(card.CodeInternal, "please report this with the text above",
				"the core panicked: %v\n%s", trouble, debug.Stack()))
		}
	}()
	result, err := run()
	if err != nil {
		return rcFailed, errorAnswer(err)
	}
	answer, err = json.Marshal(map[string]any{"result": result})
	if err != nil {
		return rcFailed, errorAnswer(fmt.Errorf("write the answer: %w", err))
	}
	return rcOK, answer
}

func errorAnswer(err error) []byte {
	answer, _ := json.Marshal(map[string]any{"error": card.AsError(err)}) // three strings
	return answer
}

func orEmpty(request []byte) []byte {
	if len(request) == 0 {
		return []byte("{}")
	}
	return request
}
