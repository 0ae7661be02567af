package main

// authors.go owns how the authors of a request become sources of a study: their endpoint, what they may spend together, and where their paid
// replies are kept.

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/propose/llm"
	"github.com/kernelforge/kernelforge/go/store"
)

// Kinds of authors, in front of the colon of their names.
const (
	kindOpenAI = "openai" // MODEL behind a server of OpenAI's chat completions
	kindReplay = "replay" // a stored STUDY, run again
	kindCall   = "call"   // a function of the user's process
)

type authorRequest struct {
	Name string `json:"name"` // KIND:WHAT
	llm.Config
	Variables map[string]string `json:"variables,omitempty"` // of the user's environment now that Config names: Go sees those of the process's start
}

// authorsOf makes the authors of a study, or the recording in their place. Whatever is wrong with one is told before the study begins.
func authorsOf(requests []authorRequest, settings *forge.Settings, s *store.Store) (authors []forge.Author, recording *forge.Recording, err error) {
	var purse purse
	for _, request := range requests {
		kind, what, named := strings.Cut(request.Name, ":")
		switch {
		case !named || what == "":
			err = card.Fail(card.CodeRequest, "for example openai:gpt-5-mini, or replay:STUDY", "make author `%s`: this is no author's name (expected KIND:NAME)", request.Name)
		case kind == kindReplay && len(requests) > 1:
			err = card.Fail(card.CodeRequest, "", "make author `%s`: a study that is run again has no other author", request.Name)
		case kind == kindReplay:
			recording, err = forge.Record(s, what)
		case kind == kindOpenAI:
			request.Model = what
			request.Getenv = func(name string) string { return request.Variables[name] }
			var author forge.Author
			author, err = openAI(request.Name, request.Config, settings, &purse)
			authors = append(authors, author)
		case kind == kindCall:
			authors = append(authors, forge.Caller(request.Name))
		default:
			err = card.Fail(card.CodeRequest, "", "make author `%s`: there is no kind `%s` (expected `%s`, `%s` or `%s`)",
				request.Name, kind, kindOpenAI, kindReplay, kindCall)
		}
		if err != nil {
			return nil, nil, err
		}
		settings.Authors = append(settings.Authors, request.Name)
	}
	return authors, recording, nil
}

// openAI makes an author of a model. It is made once to be tried, and again when the study tells what sessions before this one spent.
func openAI(name string, config llm.Config, settings *forge.Settings, purse *purse) (forge.Author, error) {
	limits := budget.Limits{TokensIn: settings.TokensIn, TokensOut: settings.TokensOut, USD: settings.MaxCost}
	config.InFlight = settings.InFlight
	tried := config
	var err error
	if tried.Budget, err = budget.New(limits, budget.Amount{}, 0, nil); err != nil {
		return forge.Author{}, err
	}
	author, err := llm.New(tried, nil)
	if err != nil {
		return forge.Author{}, err
	}
	author.Close()
	return forge.Author{Name: name, Make: func(l *forge.Ledger) (propose.Proposer, error) {
		shared, err := purse.of(limits, l)
		if err != nil {
			return nil, err
		}
		config.Budget = shared
		made, err := llm.New(config, ledger{l})
		if err != nil {
			return nil, err // not `made`: a nil *llm.Author in an interface is not nil
		}
		return made, nil
	}}, nil
}

// purse is what all authors of a study spend from.
type purse struct {
	once   sync.Once
	budget *budget.Budget
	err    error
}

func (p *purse) of(limits budget.Limits, l *forge.Ledger) (*budget.Budget, error) {
	p.once.Do(func() {
		spent := l.Spent()
		p.budget, p.err = budget.New(limits, budget.Amount{TokensIn: spent.TokensIn, TokensOut: spent.TokensOut, USD: spent.USD}, time.Duration(0), nil)
	})
	return p.budget, p.err
}

// ledger keeps the replies of models in the store.
type ledger struct{ *forge.Ledger }

// Reply implements llm.Ledger.
func (l ledger) Reply(key string) (reply llm.Reply, found bool, err error) {
	text, found, err := l.Ledger.Reply(key)
	if err != nil || !found {
		return reply, false, err
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return reply, false, fmt.Errorf("read the kept reply `%s`: %w", key, err)
	}
	return reply, true, nil
}

// Lost implements llm.Ledger.
func (l ledger) Lost(spent budget.Amount) error {
	return l.Ledger.Lost(spent.TokensIn, spent.TokensOut, spent.USD)
}

const remembered = 1000 // replies that a forecast looks at, of all models

// History implements llm.Historian: over all studies of the store, so that the first forecast of a new one knows what the model's replies were like.
func (l ledger) History(model string) (llm.History, error) { return history(model, l.Replies) }

func history(model string, replies func(most int, each func(request, reply []byte) error) error) (h llm.History, err error) {
	err = replies(remembered, func(request, text []byte) error {
		var asked llm.Request
		var reply llm.Reply
		if json.Unmarshal(request, &asked) != nil || asked.Model != model || json.Unmarshal(text, &reply) != nil {
			return nil // another model's, or of another version: it says nothing of this one
		}
		h.Replies++
		h.RequestBytes += int64(len(request))
		h.TokensIn += reply.TokensIn
		h.TokensOut += reply.TokensOut
		h.WallS += reply.WallS
		return nil
	})
	return h, err
}

// Keep implements llm.Ledger.
func (l ledger) Keep(key string, request []byte, reply llm.Reply) error {
	text, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("keep reply `%s`: %w", key, err)
	}
	return l.Ledger.Keep(request, text, forge.Call{Reply: key, Model: reply.Model, TokensIn: reply.TokensIn, TokensOut: reply.TokensOut,
		CallSeconds: reply.WallS}, reply.USD)
}
