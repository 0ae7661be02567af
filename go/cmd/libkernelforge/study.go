package main

// study.go owns the studies that run in this process, by name, and wires the real judge and templates to them.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/given"
	"github.com/kernelforge/kernelforge/go/propose/template"
	"github.com/kernelforge/kernelforge/go/store"
)

// longest is how long a call may wait; the boundary promises 200 ms.
const longest = 180 * time.Millisecond

// studies are what this process runs, by name: studies, and runs of the corpus. The mutex is never held while something waits.
var (
	studiesMutex sync.Mutex
	studies      = map[string]*forge.Session{}
)

type startRequest struct {
	Store    string            `json:"store"`
	Study    string            `json:"study"`
	Target   string            `json:"target"`
	Model    string            `json:"model"`
	Cards    []json.RawMessage `json:"cards"`
	Pins     map[string]any    `json:"pins"`
	Settings forge.Settings    `json:"settings"`
	Origin   json.RawMessage   `json:"origin,omitempty"`
	// Candidates are judged and nothing else; none: templates propose.
	Candidates []json.RawMessage `json:"candidates,omitempty"`
	Authors    []authorRequest   `json:"authors,omitempty"` // who compete with the templates
}

func startStudy(request startRequest) (any, error) {
	about := &store.Study{ID: request.Study, Target: request.Target, Model: request.Model, Pins: request.Pins}
	for _, text := range request.Cards {
		c, err := card.ReadCard(text)
		if err != nil {
			return nil, card.Fail(card.CodeRequest, "", "start study `%s`: %w", request.Study, err)
		}
		if c.Target != request.Target || c.Threads != about.Threads(c.Threads) {
			return nil, card.Fail(card.CodeRequest, "", "start study `%s`: card `%s` is for `%s` with %d threads (expected `%s` with %d, as the study)",
				request.Study, c.ID, c.Target, c.Threads, request.Target, about.Threads(c.Threads))
		}
		about.Cards = append(about.Cards, c)
	}
	if len(about.Cards) == 0 {
		return nil, card.Fail(card.CodeRequest, "", "start study `%s`: `cards` is empty", request.Study)
	}
	if about.ID == "" {
		about.ID = forge.Identity(about)
	}
	if err := waitForFormer(about.ID); err != nil {
		return nil, err
	}
	var own given.Candidates
	for _, text := range request.Candidates {
		candidate, err := card.ReadCandidate(text)
		if err != nil {
			return nil, card.Fail(card.CodeRequest, "", "start study `%s`: %w", about.ID, err)
		}
		own = append(own, candidate)
	}
	opened, err := store.Open(request.Store, store.PatienceCall)
	if err != nil {
		return nil, err
	}
	var facts propose.Facts // of a device: only the judge's worker opens it
	if about.Target == "host" {
		facts = host.ThisMachine("/").Facts(about.Cards[0].Threads)
	} else if request.Settings.Width == 0 {
		request.Settings.Width = 2 // one candidate compiles while the other is measured; on the host a compiler would disturb the clock
	}
	var proposer propose.Proposer = template.New(facts)
	if own != nil {
		proposer = own
	}
	authors, recording, err := authorsOf(request.Authors, &request.Settings, opened)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	study, err := forge.Start(forge.Config{Store: opened, Study: about, Settings: request.Settings, Facts: facts, Proposer: proposer,
		Authors: authors, Recording: recording, Origin: request.Origin,
		Judge: judgeOf(about, request.Settings)})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	studiesMutex.Lock()
	studies[study.ID] = study.Session
	studiesMutex.Unlock()
	runs := []string{}
	for _, c := range about.Cards {
		runs = append(runs, c.ID)
	}
	return map[string]any{"study": study.ID, "resumed": study.Resumed, "runs": runs}, nil
}

// judgeOf makes the real judge when the study first needs one.
func judgeOf(about *store.Study, settings forge.Settings) func(judge.Referee) (forge.Judge, error) {
	return func(referee judge.Referee) (forge.Judge, error) {
		made, err := realJudge(about.Target, about.Cards[0].Threads, settings, referee)
		if err != nil {
			return nil, err // not `made`: a nil *Judge in an interface is not nil
		}
		return made, nil
	}
}

func realJudge(target string, threads int, settings forge.Settings, referee judge.Referee) (*judge.Judge, error) {
	tier := judge.BestTier
	if settings.SandboxTier != nil {
		tier = *settings.SandboxTier
	}
	return judge.New(judge.Config{Worker: settings.Worker, Runtime: settings.Runtime, Compiler: settings.Compiler, Cache: settings.Cache,
		Scratch: settings.Scratch, Jobs: max(1, settings.Jobs), Threads: threads, Tier: tier, Exact: settings.Exact, Target: target,
		NVRTC: settings.NVRTC, Device: settings.Device, UUID: settings.UUID, Sanitizer: settings.Sanitizer, NCU: settings.NCU, Turns: settings.Turns, Variables: settings.Variables, Off: settings.Off}, referee)
}

// waitForFormer gives a study of this name that is ending a moment to end.
func waitForFormer(id string) error {
	studiesMutex.Lock()
	former := studies[id]
	studiesMutex.Unlock()
	if former == nil {
		return nil
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-former.Ended():
		return nil
	case <-timer.C:
		return card.Fail(card.CodeLocked, "close it, or wait for its end", "start study `%s`: it runs in this process already", id)
	}
}

func running(id string) (*forge.Session, error) {
	studiesMutex.Lock()
	defer studiesMutex.Unlock()
	if study := studies[id]; study != nil {
		return study, nil
	}
	return nil, card.Fail(card.CodeNotFound, "`study.start` begins or resumes it", "study `%s` is not open in this process", id)
}

type pollRequest struct {
	Study     string `json:"study"`
	TimeoutMS int64  `json:"timeout_ms"`
}

func pollStudy(request pollRequest) (any, error) {
	study, err := running(request.Study)
	if err != nil {
		return nil, err
	}
	return study.Poll(min(max(0, time.Duration(request.TimeoutMS)*time.Millisecond), longest)), nil
}

type answerRequest struct {
	Study  string          `json:"study"`
	Task   int             `json:"task"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Code string `json:"code"`
		Text string `json:"text"`
		Hint string `json:"hint,omitempty"`
	} `json:"error"`
}

func answerStudy(request answerRequest) (any, error) {
	study, err := running(request.Study)
	if err != nil {
		return nil, err
	}
	if (request.Result == nil) == (request.Error == nil) {
		return nil, card.Fail(card.CodeRequest, "", "answer task %d: expected `result` or `error`, and not both", request.Task)
	}
	var failure *card.Error
	if request.Error != nil {
		failure = &card.Error{Code: request.Error.Code, Text: request.Error.Text, Hint: request.Error.Hint}
	}
	return struct{}{}, study.Answer(request.Task, request.Result, failure)
}

type cancelRequest struct {
	Study string `json:"study"`
	Now   bool   `json:"now"`
}

func cancelStudy(request cancelRequest) (any, error) {
	study, err := running(request.Study)
	if err != nil {
		return nil, err
	}
	study.Cancel(request.Now)
	return struct{}{}, nil
}

type studyRequest struct {
	Study string `json:"study"`
}

// concludeStudy ends a study that attends, once what waits is judged.
func concludeStudy(request studyRequest) (any, error) {
	study, err := running(request.Study)
	if err != nil {
		return nil, err
	}
	study.Conclude()
	return struct{}{}, nil
}

// closeStudy stops a study that runs and forgets it. It stays known until it has ended, so that a new start can wait for its lock.
func closeStudy(request studyRequest) (any, error) {
	study, err := running(request.Study)
	if err != nil {
		return nil, err
	}
	study.Close()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-study.Ended():
		forget(study)
	case <-timer.C:
		go func() { // cannot panic: it waits and removes an entry
			<-study.Ended()
			forget(study)
		}()
	}
	return struct{}{}, nil
}

func forget(study *forge.Session) {
	studiesMutex.Lock()
	defer studiesMutex.Unlock()
	maps.DeleteFunc(studies, func(_ string, known *forge.Session) bool { return known == study })
}

// withStore opens a store for one operation.
func withStore(path string, use func(*store.Store) (any, error)) (result any, err error) {
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := s.Close(); err == nil && closed != nil {
			err = fmt.Errorf("close store `%s`: %w", path, closed)
		}
	}()
	return use(s)
}
