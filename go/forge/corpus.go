package forge

// corpus.go owns a run of the red-team corpus: the judge of a study, asked about kernels whose verdicts are known.

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/judge/redteam"
	"github.com/kernelforge/kernelforge/go/store"
)

// KindCorpus is the kind of a corpus run's events: the result of one file.
const KindCorpus = "corpus"

// Corpus is what a run of the corpus works with.
type Corpus struct {
	Files   []redteam.File
	Cards   map[string]*card.Card // by the name of the call
	Seed    int64
	Off     judge.Gates                               // that a test has switched off
	Seconds float64                                   // after which no file is begun; 0: no limit
	Judge   func(judge.Referee) (*judge.Judge, error) // called once
}

// StartCorpus judges files in the background. Nothing is stored: each result is an event, and what a caller has of them it need not ask again.
func StartCorpus(corpus Corpus) *Session {
	ctx, stop := context.WithCancelCause(context.Background())
	s := newSession(stop, corpus.Off)
	s.progress.Candidates, s.progress.CandidatesBudget, s.progress.SecondsLeft = 0, len(corpus.Files), -1
	go s.corpus(ctx, corpus)
	return s
}

func (s *Session) corpus(ctx context.Context, corpus Corpus) {
	defer close(s.ended)
	began := time.Now()
	err := safe("judge the corpus", func() error {
		j, err := corpus.Judge(s.queue)
		if err != nil {
			return err
		}
		defer j.Shutdown()
		return redteam.Run(ctx, j, corpus.Cards, corpus.Files, corpus.Seed, func(r redteam.Result) error {
			if err := s.tell(r, began); err != nil {
				return err
			}
			spent := corpus.Seconds > 0 && time.Since(began).Seconds() > corpus.Seconds
			if s.finishing() || spent {
				return card.Fail(card.CodeStopped, "", stoppedByUser)
			}
			return nil
		})
	})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state = StateDone
	if err != nil && !s.finish && card.AsError(err).Code != card.CodeStopped {
		s.state, s.failure = StateFailed, card.AsError(err)
	}
}

// tell makes a result an event for the next poll.
func (s *Session) tell(r redteam.Result, began time.Time) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	s.progress.Candidates++
	s.progress.Seconds = time.Since(began).Seconds()
	s.events = append(s.events, store.Event{Seq: int64(s.progress.Candidates), At: time.Now().UTC().Format(time.RFC3339Nano), Kind: KindCorpus, Data: data})
	s.mutex.Unlock()
	s.notify()
	return nil
}
