package llm

// endpoint.go owns one attempt at one server: the wire form of a request, the transport, and what the server turned out not to take. It refuses
// to try again: that is retry.go's.

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
)

// endpoint is a server and what is known of it.
type endpoint struct {
	config Config
	base   *url.URL
	key    secret
	client *openai.Client
	http   *http.Client

	mu      sync.Mutex
	refused map[string]bool // fields of a request that the server does not take
	tokens  string          // the field that limits tokens
}

// thinks tells the models that go-openai, and the servers that it was written for, take for reasoning ones.
func thinks(model string) bool {
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return false
}

func newEndpoint(config Config, base *url.URL, key secret) *endpoint {
	e := &endpoint{config: config, base: base, key: key, refused: map[string]bool{}, tokens: config.TokensField}
	if e.tokens == "" {
		e.tokens = maxTokens
		if thinks(config.Model) || base.Hostname() == "api.openai.com" {
			e.tokens = maxCompletionTokens
		}
	}
	dialer := net.Dialer{Timeout: seconds(config.ConnectS), KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: seconds(config.ConnectS), ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: config.InFlight, IdleConnTimeout: 60 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	c := openai.DefaultConfig(string(key))
	c.BaseURL, c.OrgID = base.String(), config.Organization
	c.EmptyMessagesLimit = math.MaxInt32 // comments that keep a stream alive; bytes and time are limited anyway
	e.http = &http.Client{Transport: transport, CheckRedirect: e.redirect}
	c.HTTPClient = &doer{e.http}
	e.client = openai.NewClientWithConfig(c)
	return e
}

// errElsewhere is a redirect to another server: neither key nor prompt goes there.
var errElsewhere = errors.New("redirected to another server")

func (e *endpoint) redirect(next *http.Request, via []*http.Request) error {
	if next.URL.Scheme != e.base.Scheme || next.URL.Host != e.base.Host {
		return errElsewhere
	}
	if len(via) > 3 {
		return errors.New("redirected more than 3 times")
	}
	return nil
}

// wire writes a request as this server takes it.
func (e *endpoint) wire(r Request) openai.ChatCompletionRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := openai.ChatCompletionRequest{Model: r.Model}
	for _, m := range r.Messages {
		w.Messages = append(w.Messages, openai.ChatCompletionMessage{Role: m.Role, Content: m.Content})
	}
	takes := func(name string) bool { return !e.refused[name] }
	if r.Temperature != nil && takes("temperature") {
		w.Temperature = max(float32(*r.Temperature), math.SmallestNonzeroFloat32) // zero would be left out, and mean the server's default
	}
	if r.TopP != nil && takes("top_p") {
		w.TopP = float32(*r.TopP)
	}
	if e.tokens == maxTokens {
		w.MaxTokens = r.MaxTokens
	} else {
		w.MaxCompletionTokens = r.MaxTokens
	}
	if takes("reasoning_effort") {
		w.ReasoningEffort = r.Effort
	}
	if seed := int((r.Seed + int64(r.Attempt)) & math.MaxInt32); takes("seed") {
		w.Seed = &seed
	}
	if e.streams() && takes("stream_options") {
		w.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	return w
}

func (e *endpoint) streams() bool { return !e.config.Whole && !e.refused["stream"] }

// adapt learns from a refusal which field the server does not take; "" if it is about something else, or known.
func (e *endpoint) adapt(message string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	message = strings.ToLower(message)
	if e.config.TokensField == "" && !e.refused["tokens"] {
		for _, field := range []string{maxCompletionTokens, maxTokens} {
			// A server that wants the other field may name both: ours is what it complains about.
			if e.tokens == field && strings.Contains(message, field) && !strings.Contains(message, "at most") && !strings.Contains(message, "too large") {
				e.refused["tokens"] = true // once: a second refusal is about the number
				e.tokens = map[string]string{maxTokens: maxCompletionTokens, maxCompletionTokens: maxTokens}[field]
				return field
			}
		}
	}
	for _, field := range []string{"temperature", "top_p", "reasoning_effort", "seed", "stream_options", "stream"} {
		if strings.Contains(message, field) && !e.refused[field] {
			e.refused[field] = true
			return field
		}
	}
	return ""
}

// ofClient are refusals of go-openai itself, before anything is sent, in words that adapt reads.
func ofClient(err error) string {
	switch {
	case errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated):
		return maxTokens
	case errors.Is(err, openai.ErrReasoningModelLimitationsOther), errors.Is(err, openai.ErrReasoningSamplingUnsupported):
		return "temperature, top_p"
	case errors.Is(err, openai.ErrReasoningEffortUnsupported):
		return "reasoning_effort"
	}
	return ""
}

// call makes one attempt. An error is a *fault, or the context's; the reply then tells only what was paid.
func (e *endpoint) call(ctx context.Context, request Request) (Reply, error) {
	attempt, cancel := context.WithTimeoutCause(ctx, seconds(e.config.TotalS), errTotal)
	defer cancel()
	attempt, stop := context.WithCancelCause(attempt)
	x := &exchange{config: e.config, key: request.Key(), stop: stop}
	x.watch(seconds(e.config.ConnectS+e.config.FirstByteS), errFirstByte)
	defer x.end()
	attempt = context.WithValue(attempt, exchangeKey{}, x)

	a := answer{most: e.config.MaxReplyBytes}
	err := e.read(attempt, request, x, &a)
	if err != nil {
		err = e.classify(ctx, attempt, x, &a, err)
	}
	return a.reply(request, x, err != nil), err
}

func (e *endpoint) read(ctx context.Context, request Request, x *exchange, a *answer) error {
	wire := e.wire(request)
	if !e.streams() {
		_, err := e.client.CreateChatCompletion(ctx, wire)
		if err != nil {
			return err
		}
		return a.add(x.raw.Bytes()) // its own reading loses fields
	}
	stream, err := e.client.CreateChatCompletionStream(ctx, wire)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		raw, err := stream.RecvRaw()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := a.add(raw); err != nil {
			return err
		}
	}
	if !a.begun && strings.Contains(x.kind, "json") { // it does not stream, and does not say so
		return a.add(x.raw.Bytes())
	}
	if a.finish == "" && !a.done(x) {
		return io.ErrUnexpectedEOF
	}
	return nil
}
