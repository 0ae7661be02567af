// Package mcp lets coding agents drive a study by the Model Context Protocol: tools over stdio, or over HTTP on this machine alone.
//
// It owns the tools and who may call them. It refuses to judge and to hold a model: candidates go into the study's inbox, and whoever runs the study
// answers there. So several agents, and a search, may work on one study at once.
//
//	list_cards -> get_brief -> submit_candidate -> get_verdict      get_tree, get_node: what was tried
package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// Config says which study is served.
type Config struct {
	Store   string
	Study   string
	Version string                         // of kernelforge, for clients
	Facts   func(*card.Card) propose.Facts // of this machine, for cards of the host
	Details bool                           // verdicts with the elements and inputs at which a candidate failed, as people see them
}

// Server serves one study to any number of clients. Its methods may be called from any goroutine; none blocks.
type Server struct {
	config Config
	server *sdk.Server
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{} // closed when it serves no more

	mutex   sync.Mutex
	once    sync.Once
	failure error
	open    map[string]bool // candidates of this server without an answer
	trouble string          // why nothing can be judged; ""
	closing func()          // of HTTP; nil on stdio
}

// New makes a server of a study that exists.
func New(config Config) (*Server, error) {
	s := &Server{config: config, ended: make(chan struct{}), open: map[string]bool{}}
	if err := s.with(func(st *store.Store) error {
		_, err := st.Study(config.Study)
		return err
	}); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.server = sdk.NewServer(&sdk.Implementation{Name: "kernelforge", Version: config.Version}, &sdk.ServerOptions{Instructions: instructions})
	s.addTools()
	return s, nil
}

const instructions = "Write faster kernels for the operators of a PyTorch model. list_cards shows the operators; get_brief tells what a kernel for one must do, " +
	"how it has to look and what was tried; submit_candidate has it judged (compiled, held against eager on many inputs, timed). " +
	"The verdict says what was wrong or how fast it is: cost = its time / eager's time, lower wins. Improve on the best node (`parent`), try different ideas, " +
	"and read what failed before. Nothing wrong is ever served: what you submit cannot harm the model."

// Stdio serves one client over a pair of files until the input ends.
func (s *Server) Stdio(in io.ReadCloser, out io.WriteCloser) {
	go s.guard(func() error {
		err := s.server.Run(s.ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxBody})
		if s.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		return err
	})
}

// guard runs what serves, and ends the server with it: no panic may end the user's process.
func (s *Server) guard(serve func() error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			s.end(card.Fail(card.CodeInternal, "please report this with the text above", "serve study `%s`: the server panicked: %v", s.config.Study, trouble))
		}
	}()
	s.end(serve())
}

func (s *Server) end(err error) {
	s.once.Do(func() {
		s.mutex.Lock()
		s.failure = err
		s.mutex.Unlock()
		s.stop()
		close(s.ended)
	})
}

// Close stops serving; calls in flight are cancelled. It does not wait; Ended does.
func (s *Server) Close() {
	s.stop()
	s.mutex.Lock()
	closing := s.closing
	s.mutex.Unlock()
	if closing != nil {
		closing()
	}
	s.end(nil)
}

// Ended is closed when the server serves no more.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Failure says why the server ended, nil if a client or the user ended it.
func (s *Server) Failure() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.failure
}

// Waiting counts the candidates that clients submitted here and that have no answer.
func (s *Server) Waiting() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.open)
}

// Trouble tells clients why nothing can be judged now; "" that it can.
func (s *Server) Trouble(text string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.trouble = text
}

// with opens the store for one call: another process may write it at any time.
func (s *Server) with(use func(*store.Store) error) error {
	opened, err := store.OpenExisting(s.config.Store, store.PatienceCall)
	if err != nil {
		return err
	}
	return errors.Join(use(opened), opened.Close())
}

const lookEvery = 100 * time.Millisecond // for a verdict

// await waits for the answer to a candidate, at most so long.
func (s *Server) await(ctx context.Context, cardID, candidate string, most time.Duration) (*forge.Answer, error) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		answer, err := s.answer(cardID, candidate)
		if err != nil || answer.State != forge.AnswerWaiting {
			return answer, err
		}
		select {
		case <-deadline.C:
			return answer, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, card.Fail(card.CodeStopped, "the candidate is kept, and judged by the next session", "the server of study `%s` is ending", s.config.Study)
		case <-look.C:
		}
	}
}

// count has the counters of a parent read by whoever runs the study, and waits a while for them. A brief is told with or without.
func (s *Server) count(ctx context.Context, name string, node int) error {
	deadline := time.NewTimer(countWait)
	defer deadline.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for send := true; ; send = false {
		waits := false
		err := s.on(name, func(st *store.Store, id string) (err error) {
			waits, err = forge.Count(st, s.config.Study, id, node, send)
			return err
		})
		if err != nil || !waits || s.troubled() {
			return err
		}
		select {
		case <-deadline.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// troubled says whether nothing can be judged here.
func (s *Server) troubled() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.trouble != ""
}

func (s *Server) answer(cardID, candidate string) (answer *forge.Answer, err error) {
	err = s.with(func(st *store.Store) error {
		answer, err = forge.AnswerOf(st, s.config.Study, cardID, candidate)
		return err
	})
	if err != nil {
		return nil, err
	}
	if answer.Verdict != nil {
		verdict := s.told(*answer.Verdict)
		answer.Verdict = &verdict
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if answer.State != forge.AnswerWaiting {
		delete(s.open, cardID+" "+candidate)
	} else if s.trouble != "" {
		answer.State, answer.Why = forge.AnswerUnjudged, s.trouble
	}
	return answer, nil
}

// told is a verdict as clients may see it. What an agent reads may leave this machine, so values and seeds stay unless the user wishes otherwise.
func (s *Server) told(v card.Verdict) card.Verdict {
	if s.config.Details {
		return v
	}
	return propose.Told(v)
}
