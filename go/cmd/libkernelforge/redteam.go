package main

// redteam.go owns the operations on the red-team corpus. A run is polled, answered, cancelled and closed as a study is, by its name.

import (
	"encoding/json"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/judge/redteam"
)

type corpusRequest struct {
	Target string `json:"target"`
}

func listCorpus(request corpusRequest) (any, error) {
	files, err := redteam.Files(request.Target)
	return map[string]any{"files": files}, err
}

type corpusStartRequest struct {
	Name     string                     `json:"name"`
	Target   string                     `json:"target"`
	Files    []string                   `json:"files"`
	Cards    map[string]json.RawMessage `json:"cards"` // by the name of the call
	Seed     int64                      `json:"seed"`
	Settings forge.Settings             `json:"settings"`
}

// startCorpus begins a run. Nothing is stored: each result is an event of a poll.
func startCorpus(request corpusStartRequest) (any, error) {
	corpus := forge.Corpus{Cards: map[string]*card.Card{}, Seed: request.Seed, Off: request.Settings.Off, Seconds: request.Settings.Seconds}
	all, err := redteam.Files(request.Target)
	if err != nil {
		return nil, err
	}
	for _, name := range request.Files {
		at := slices.IndexFunc(all, func(f redteam.File) bool { return f.Name == name })
		if at < 0 {
			return nil, card.Fail(card.CodeNotFound, "", "judge the corpus: it has no file `%s`", name)
		}
		corpus.Files = append(corpus.Files, all[at])
	}
	threads := 0
	for call, text := range request.Cards {
		c, err := card.ReadCard(text)
		if err != nil {
			return nil, card.Fail(card.CodeRequest, "", "judge the corpus, call `%s`: %w", call, err)
		}
		corpus.Cards[call], threads = c, c.Threads
	}
	if err := waitForFormer(request.Name); err != nil {
		return nil, err
	}
	corpus.Judge = func(referee judge.Referee) (*judge.Judge, error) {
		return realJudge(request.Target, threads, request.Settings, referee)
	}
	session := forge.StartCorpus(corpus)
	studiesMutex.Lock()
	studies[request.Name] = session
	studiesMutex.Unlock()
	return map[string]any{"name": request.Name, "files": len(corpus.Files)}, nil
}
