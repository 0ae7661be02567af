package llm

// exchange.go owns the bytes of one attempt as they come: their number, their pace, and what is kept of them for error texts. It refuses to know
// what they mean.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Why an attempt was cut off here.
var (
	errFirstByte = errors.New("no byte of a reply came in time")
	errBetween   = errors.New("the reply stopped in the middle")
	errTotal     = errors.New("the reply did not end in time")
	errTooLong   = errors.New("the reply is longer than a reply may be")
)

type exchangeKey struct{}

// exchange is one attempt.
type exchange struct {
	config Config
	key    string // of the request
	stop   context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer

	status int // of HTTP; 0: there was no answer
	kind   string
	header http.Header
	bytes  int64
	raw    bytes.Buffer // of a stream the beginning alone
	tail   []byte       // of a stream the end
}

const (
	headMost = 4 << 10 // of a stream, for an error's text
	tailMost = 32      // enough for its last line

	errorMost = 64 << 10
)

func (x *exchange) streams() bool { return strings.Contains(x.kind, "event-stream") }

// most is how many bytes may come at all. A stream wraps each token in about 300; of an error the beginning is enough.
func (x *exchange) most() int64 {
	switch {
	case x.status != http.StatusOK:
		return errorMost
	case x.streams():
		return 4*x.config.MaxReplyBytes + 1024*int64(x.config.MaxTokens)
	}
	return 2*x.config.MaxReplyBytes + 16*int64(x.config.MaxTokens) // escapes of JSON, and reasoning
}

func (x *exchange) note(p []byte) {
	x.bytes += int64(len(p))
	if !x.streams() {
		x.raw.Write(p)
		return
	}
	x.raw.Write(p[:min(len(p), max(0, headMost-x.raw.Len()))])
	x.tail = append(x.tail, p...)
	x.tail = append(x.tail[:0], x.tail[max(0, len(x.tail)-tailMost):]...)
}

// watch ends the attempt unless it is called again, or end, within d.
func (x *exchange) watch(d time.Duration, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer = time.AfterFunc(d, func() { x.stop(cause) })
}

func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer.Stop()
	x.stop(nil)
}

// doer is go-openai's HTTP client: it puts the exchange of the request's context between the connection and the reader.
type doer struct{ client *http.Client }

func (d *doer) Do(r *http.Request) (*http.Response, error) {
	x := r.Context().Value(exchangeKey{}).(*exchange)
	r.Header.Set("Idempotency-Key", x.key) // a server that knows it bills a repeated request once
	response, err := d.client.Do(r)
	if err == nil {
		x.status, x.header, x.kind = response.StatusCode, response.Header, response.Header.Get("Content-Type")
		response.Body = &guarded{response.Body, x}
	}
	return response, err
}

// guarded is a body that is read no further than it may be long, at the pace that it must have.
type guarded struct {
	io.ReadCloser
	x *exchange
}

func (g *guarded) Read(p []byte) (int, error) {
	left := g.x.most() - g.x.bytes
	if left <= 0 {
		return 0, errTooLong
	}
	n, err := g.ReadCloser.Read(p[:min(int64(len(p)), left)])
	g.x.note(p[:n])
	if n > 0 {
		g.x.watch(seconds(g.x.config.BetweenS), errBetween)
	}
	return n, err
}
