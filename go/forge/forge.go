// Package forge runs studies: for each card, in order of what it can gain, it grows a tree, has finalists confirmed, and keeps the winners.
//
// It owns the loops, budgets, the order of events, resume, and the queue of tasks for the referee. It refuses to know how a candidate is made,
// judged or stored: those are go/propose, go/judge and go/store. Everything that happens is appended to the study's log before the next step
// depends on it, so a study that is killed at any point resumes from its log and loses at most the candidate in flight.
//
//	session -> forecast -> run: select, propose, judge, attach ... -> confirm finalists -> plans    (next run)
//	                                                                                    -> fresh processes -> whole model -> done
package forge

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// Judge is what a run needs of go/judge. An error means that the harness is broken; a candidate that fails is a verdict.
type Judge interface {
	Open(ctx context.Context, c *card.Card, seed int64) error
	Judge(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error)
	Confirm(ctx context.Context, c *card.Card, finalists []judge.Finalist) ([]judge.Confirmation, error)
	Close(ctx context.Context, cardID string) error
	Shutdown()
}

// Config is what a study works with.
type Config struct {
	Store     *store.Store
	Study     *store.Study // ID may be empty: Identity names it
	Settings  Settings
	Proposer  propose.Proposer
	Authors   []Author                           // who compete with it
	Recording *Recording                         // in place of both: a study that is run again
	Facts     propose.Facts                      // the zero value: the judge knows them (a device has to be opened first)
	Judge     func(judge.Referee) (Judge, error) // called once, when the first candidate is to be judged
	Now       func() time.Time                   // nil: the machine's clock
	Origin    json.RawMessage                    // what a command needs to make the model again, logged as it is; none: it cannot
	Patience  time.Duration                      // how long a running study waits for another writer; 0: store.PatienceRun
}

// Settings are the user's wishes; docs/formats.md, `settings`.
type Settings struct {
	Seed        int64    `json:"seed,omitempty"`
	C           *float64 `json:"c,omitempty"`
	Candidates  int      `json:"candidates,omitempty"` // for each run
	Seconds     float64  `json:"seconds,omitempty"`    // for the study; 0: no limit
	MaxCost     *float64 `json:"max_cost,omitempty"`   // USD, for authors; nil: no limit, 0: no author is asked
	TokensIn    *int64   `json:"max_tokens_in,omitempty"`
	TokensOut   *int64   `json:"max_tokens_out,omitempty"`
	Authors     []string `json:"authors,omitempty"`         // names of the authors that compete with the templates
	InFlight    int      `json:"calls_in_flight,omitempty"` // calls of authors side by side
	MinGain     *float64 `json:"min_gain,omitempty"`        // part of the model's time
	SandboxTier *int     `json:"sandbox_tier,omitempty"`    // nil: the best that holds here
	Review      bool     `json:"review,omitempty"`
	Attend      bool     `json:"attend,omitempty"`    // nobody proposes: candidates from outside are judged until the study is told to conclude
	Exact       bool     `json:"exact,omitempty"`     // only what is bitwise equal to eager passes
	Processes   int      `json:"processes,omitempty"` // fresh ones that serve the winners before they are called so; 0: none
	Worker      string   `json:"worker"`
	Runtime     string   `json:"runtime"`
	Compiler    string   `json:"compiler,omitempty"`
	Cache       string   `json:"cache,omitempty"`
	Jobs        int      `json:"jobs,omitempty"`
	Scratch     string   `json:"scratch,omitempty"`
	Width       int      `json:"width,omitempty"` // proposals side by side

	Off judge.Gates `json:"off,omitempty"` // of tests alone: gates that let everything through; such a study writes no pack

	// cuda
	NVRTC     string            `json:"nvrtc,omitempty"`     // libnvrtc.so, or its folder
	Device    int               `json:"device,omitempty"`    // ordinal, as the user's process counts
	UUID      string            `json:"uuid,omitempty"`      // of that device: the worker compares
	Sanitizer string            `json:"sanitizer,omitempty"` // compute-sanitizer, where there is one
	NCU       string            `json:"ncu,omitempty"`       // Nsight Compute's ncu, where there is one; "off": it is not wanted
	Turns     string            `json:"turns,omitempty"`     // lock files of the device: judge.Config
	Variables map[string]string `json:"variables,omitempty"` // of the user's environment now: those that decide which devices CUDA sees
}

const (
	defaultCandidates = 50
	defaultMinGain    = 0.01
	defaultInFlight   = 4
	maxRepairs        = 3
	maxInRow          = 5    // ideas of one author on one card that come to nothing one after another
	finalistsEach     = 2    // nodes confirmed for each variant, at most: the second if the first is refused
	worthConfirming   = 0.02 // of min_gain: a variant that saves less is not worth the seconds of a confirmation
	confirmReserve    = 0.2  // part of the seconds that searching leaves for confirming
	guessSeconds      = 2    // of one candidate, before the first was judged
	modelBlocks       = 12   // pairs of forwards, winners on and off
)

// logged is what the log keeps of settings: what was asked for. Paths are this session's alone, and name users and folders.
func (s Settings) logged() Settings {
	s.Worker, s.Runtime, s.Compiler, s.Cache, s.Scratch, s.NVRTC, s.Sanitizer, s.NCU, s.Turns, s.Variables = "", "", "", "", "", "", "", "", "", nil
	return s
}

// complete fills in defaults and refuses what cannot be.
func (s Settings) complete() (Settings, error) {
	if s.Candidates == 0 {
		s.Candidates = defaultCandidates
	}
	if s.MinGain == nil {
		s.MinGain = new(float64)
		*s.MinGain = defaultMinGain
	}
	if s.C == nil {
		s.C = new(float64)
		*s.C = 0.5
	}
	s.Width = max(1, s.Width)
	s.Jobs = max(1, s.Jobs)
	if s.InFlight == 0 {
		s.InFlight = defaultInFlight
	}
	for name, wrong := range map[string]bool{
		"candidates": s.Candidates < 0, "processes": s.Processes < 0, "seconds": !(s.Seconds >= 0), "max_cost": s.MaxCost != nil && !(*s.MaxCost >= 0), "calls_in_flight": s.InFlight < 0,
		"max_tokens_in": s.TokensIn != nil && *s.TokensIn < 0, "max_tokens_out": s.TokensOut != nil && *s.TokensOut < 0, "min_gain": !(*s.MinGain >= 0), "c": !(*s.C >= 0),
	} {
		if wrong {
			return s, card.Fail(card.CodeRequest, "", "start a study: `settings.%s` is negative (expected 0 or more)", name)
		}
	}
	if err := s.Off.CheckOff(); err != nil {
		return s, card.Fail(card.CodeRequest, "", "start a study: `settings.off`: %w", err)
	}
	return s, nil
}

// sameBudget says whether a session that had `before` may be taken up by one with s without searching more.
func (s Settings) sameBudget(before Settings) bool {
	return s.Candidates == before.Candidates && s.Seconds == before.Seconds && *s.MinGain == *before.MinGain && *s.C == *before.C &&
		s.Exact == before.Exact && slices.Equal(s.Authors, before.Authors) && same(s.MaxCost, before.MaxCost) &&
		same(s.TokensIn, before.TokensIn) && same(s.TokensOut, before.TokensOut)
}

// safe runs a function and turns a panic into an error: an uncaught one would end the user's process.
func safe(what string, run func() error) (err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = card.Fail(card.CodeInternal, "please report this with the text above", "%s: the core panicked: %v\n%s", what, trouble, debug.Stack())
		}
	}()
	return run()
}

// gain says what a card is about: the cost of a candidate that only moves the bytes that must move, and the part of the model's time that
// such a candidate would save.
func gain(c *card.Card) (floor, saved float64) {
	var roof, eager float64
	for _, v := range c.Variants {
		roof += float64(v.Calls) * min(v.RoofUS, v.EagerUS)
		eager += float64(v.Calls) * v.EagerUS
	}
	floor = roof / eager // a valid card has eager times above 0
	return floor, c.Share * (1 - floor)
}

// seedOf gives each card its own chance under the study's seed.
func seedOf(seed int64, cardID string) int64 {
	h := uint64(seed) ^ 0xCBF29CE484222325
	for _, b := range []byte(cardID) {
		h = (h ^ uint64(b)) * 0x100000001B3
	}
	return int64(h >> 1)
}

func cancelled(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return card.Fail(card.CodeStopped, "the same call resumes it", "the study was stopped: %w", context.Cause(ctx))
}
