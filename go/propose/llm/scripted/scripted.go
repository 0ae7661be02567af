// Package scripted is a server of OpenAI's chat completions that does what a script says: answer well, or misbehave in each way that servers do.
//
// It owns the protocol as it is seen on the wire, and a log of what it was asked. It refuses to be a model: replies are texts written for this
// project. Tests alone use it: of go/propose/llm in their process, of the whole loop as the program cmd/scripted.
package scripted

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Step is what the server does with requests that it is for: those whose last message has When in it, Times of them (0: all that come).
type Step struct {
	When  string `json:"when,omitempty"`
	Times int    `json:"times,omitempty"`

	Do         string  `json:"do,omitempty"`     // see act.go; "": a good reply
	Text       string  `json:"text,omitempty"`   // of the reply
	Reply      string  `json:"reply,omitempty"`  // or the name of one in replies/
	Status     int     `json:"status,omitempty"` // of HTTP, with Body
	Body       string  `json:"body,omitempty"`
	RetryAfter string  `json:"retry_after,omitempty"` // seconds, or "date+3": a date 3 s after the server's own clock
	SkewS      float64 `json:"skew_s,omitempty"`      // of that clock
	Location   string  `json:"location,omitempty"`    // with a Status of 3xx
	Model      string  `json:"model,omitempty"`       // that the reply names; "": as asked
	Finish     string  `json:"finish,omitempty"`      // "": stop
	Reasoning  string  `json:"reasoning,omitempty"`
	Field      string  `json:"field,omitempty"` // of the reasoning: "reasoning" or "reasoning_content"
	NoUsage    bool    `json:"no_usage,omitempty"`
	Whole      bool    `json:"whole,omitempty"` // in one piece, also where a stream was asked
	DelayMS    int     `json:"delay_ms,omitempty"`
	Tokens     int     `json:"tokens,omitempty"` // of the reply, in place of counting
}

// Record is one request as it was served.
type Record struct {
	At        time.Time `json:"at"`
	Key       string    `json:"key"`  // the Idempotency-Key header
	Body      string    `json:"body"` // SHA-256
	Model     string    `json:"model"`
	Bearer    string    `json:"bearer,omitempty"` // SHA-256 of what Authorization says
	Step      int       `json:"step"`             // -1: none was left
	Whole     bool      `json:"whole"`            // the reply was sent to its end: it is paid
	TokensIn  int64     `json:"tokens_in"`
	TokensOut int64     `json:"tokens_out"`

	Request json.RawMessage `json:"request"`
}

// Server is an http.Handler. It serves /v1/chat/completions, /v1/models and /log.
type Server struct {
	Log func(Record) // called for each request, nil: nobody

	mu    sync.Mutex
	steps []Step
	used  []int
	seen  []Record
}

// New makes a server with a script.
func New(steps ...Step) *Server { return &Server{steps: steps, used: make([]int, len(steps))} }

// Records gives what was served.
func (s *Server) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.seen...)
}

//go:embed replies
var replies embed.FS

// Reply gives one of the replies written for this project.
func Reply(name string) (string, error) {
	text, err := replies.ReadFile("replies/" + name + ".md")
	return string(text), err
}

type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/log":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Records())
		return
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object": "list", "data": [{"id": "scripted", "object": "model"}]}`)
		return
	case "/v1/chat/completions":
	default:
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	var asked request
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil || r.Method != http.MethodPost || len(asked.Messages) == 0 {
		fail(w, http.StatusBadRequest, "the body is no request of a chat completion", "invalid_request_error")
		return
	}
	record := Record{At: time.Now().UTC(), Key: r.Header.Get("Idempotency-Key"), Body: sum(string(body)), Model: asked.Model, Request: body}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		record.Bearer = sum(bearer)
	}
	for _, m := range asked.Messages {
		record.TokensIn += Tokens(m.Content) + 4
	}
	step := Step{Status: http.StatusTeapot, Body: `{"error": {"message": "the script has no step for this request", "type": "script"}}`}
	record.Step = s.next(asked.Messages[len(asked.Messages)-1].Content)
	if record.Step >= 0 {
		step = s.steps[record.Step]
	}
	s.mu.Lock()
	place := len(s.seen)
	s.seen = append(s.seen, record)
	s.mu.Unlock()
	defer func() { // also of a handler that aborts the connection
		s.mu.Lock()
		s.seen[place] = record
		s.mu.Unlock()
		if s.Log != nil {
			s.Log(record)
		}
	}()
	act(w, r, asked, step, &record)
}

// next is the first step that is for a request and not used up.
func (s *Server) next(message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, step := range s.steps {
		if strings.Contains(message, step.When) && (step.Times == 0 || s.used[i] < step.Times) {
			s.used[i]++
			return i
		}
	}
	return -1
}

func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// pieces is what this server counts as a token: about what a tokenizer of a model makes of code.
var pieces = regexp.MustCompile(`\n *| ?[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]{1,2}|\s`)

// Tokens counts a text.
func Tokens(text string) int64 { return int64(len(pieces.FindAllStringIndex(text, -1))) }

func fail(w http.ResponseWriter, status int, message, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": nil, "param": nil}})
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// event writes one event of a stream.
func event(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
	flush(w)
}
