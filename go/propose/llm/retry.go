package llm

// retry.go owns what is done about a failed attempt: again after a wait, again in another form, kept as it is, or given up with a text that says
// why. It refuses to repeat what was answered.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

// fault is a failed attempt.
type fault struct {
	text, hint string
	again      bool          // worth another attempt
	after      time.Duration // which the server asks to wait; below 0: it does not say
	kept       Finish        // it is a paid reply all the same, that ends so
	message    string        // of a server that does not take the request
	cause      error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.cause }

// jitter waits between zero and a bound that doubles: "full jitter", so that callers who failed together do not return together.
type jitter struct{ first, most, bound time.Duration }

func (j *jitter) Reset() { j.bound = j.first }
func (j *jitter) NextBackOff() time.Duration {
	wait := time.Duration(rand.Int64N(int64(j.bound) + 1))
	j.bound = min(2*j.bound, j.most)
	return wait
}

// retry makes attempts until one is a reply, or it is of no use.
func (a *Author) retry(ctx context.Context, request Request, key string) (Reply, error) {
	attempt := 0
	failed := Event{}
	notify := func(e Event) {
		if a.config.Notify != nil {
			a.config.Notify(e)
		}
	}
	operation := func() (Reply, error) {
		for {
			attempt++
			event := Event{Key: key, Model: a.config.Model, Attempt: attempt, What: "reply"}
			reply, spent, err := a.once(ctx, request)
			event.Spent = spent
			f, ok := errors.AsType[*fault](err)
			if kept := err == nil || ok && f.kept != ""; !kept && spent != (budget.Amount{}) {
				if lost := a.ledger.Lost(spent); lost != nil {
					return reply, backoff.Permanent(lost)
				}
			}
			switch {
			case err == nil:
			case !ok:
				return reply, backoff.Permanent(err)
			case f.kept != "":
				reply.Finish, reply.Text = f.kept, ""
			case f.message != "":
				field := a.endpoint.adapt(f.message)
				if field == "" {
					event.What, event.Why = "failed", f.text
					notify(event)
					return reply, backoff.Permanent(f)
				}
				event.What, event.Why = "adapted", fmt.Sprintf("the server does not take `%s`; asked without it", field)
				notify(event)
				continue
			default:
				event.What, event.Why = "failed", f.text
				failed = event
				if !f.again || attempt >= a.config.Attempts {
					notify(event)
					return reply, backoff.Permanent(f)
				}
				if f.after > seconds(a.config.MaxWaitS) {
					f.text += fmt.Sprintf("; it asks to wait %.0f s (`max_wait_s` is %g)", f.after.Seconds(), a.config.MaxWaitS)
					event.Why = f.text
					notify(event)
					return reply, backoff.Permanent(f)
				}
				if f.after >= 0 { // spread behind the moment that the server names
					return reply, errors.Join(f, &backoff.RetryAfterError{Duration: f.after + time.Duration(rand.Int64N(int64(f.after)/10+int64(seconds(a.config.BackoffS))/10+1))})
				}
				return reply, f
			}
			notify(event)
			return reply, nil
		}
	}
	reply, err := backoff.Retry(ctx, operation, backoff.WithMaxElapsedTime(0),
		backoff.WithBackOff(&jitter{first: seconds(a.config.BackoffS), most: seconds(a.config.MaxWaitS)}),
		backoff.WithNotify(func(_ error, wait time.Duration) { failed.WaitS = wait.Seconds(); notify(failed) }))
	if f, ok := errors.AsType[*fault](err); ok {
		text := f.text
		if attempt > 1 {
			text = fmt.Sprintf("%s (attempt %d)", text, attempt)
		}
		return reply, card.Fail(card.CodePropose, f.hint, "ask `%s` at `%s`: %s", a.config.Model, a.base.Host, text)
	}
	return reply, err
}

// classify says what became of an attempt. ctx is the caller's, attempt the one with time-outs.
func (e *endpoint) classify(ctx, attempt context.Context, x *exchange, a *answer, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &fault{after: -1, cause: err}
	cause := context.Cause(attempt)
	var (
		api     *openai.APIError
		request *openai.RequestError
		inside  *errInside
		dns     *net.DNSError
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		syntax  *json.SyntaxError
		kind    *json.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, errTooLong) && x.status == http.StatusOK:
		f.kept = TooLong
	case cause == errTotal && a.begun:
		f.kept = Endless
	case cause == errTotal, cause == errFirstByte, cause == errBetween:
		limit := map[error]string{errTotal: "total_s", errFirstByte: "first_byte_s", errBetween: "between_s"}[cause]
		f.text, f.hint, f.again = fmt.Sprintf("%v (`%s`)", cause, limit), "raise `"+limit+"` if the server is slow", true
	case ofClient(err) != "":
		f.message, f.text = ofClient(err), e.clean(err.Error())
	case errors.Is(err, errElsewhere):
		f.text, f.hint = "the server redirects to another one, to which neither key nor prompt is sent", "set `base_url` to where it points, if you trust that"
	case errors.As(err, &api):
		e.status(f, x, or(x.status, api.HTTPStatusCode), api.Message, fmt.Sprint(api.Code, " ", api.Type))
	case errors.As(err, &inside):
		e.status(f, x, x.status, string(inside.body), "")
	case errors.As(err, &request):
		e.status(f, x, request.HTTPStatusCode, string(request.Body), "")
	case x.status >= 400: // its text could not be read to its end
		e.status(f, x, x.status, x.raw.String(), "")
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid), errors.As(err, &record):
		f.text, f.hint = "no secure connection: "+e.clean(err.Error()), "check `base_url` and the machine's certificates (SSL_CERT_FILE)"
	case errors.As(err, &dns) && dns.IsNotFound:
		f.text, f.hint = "there is no such host", "check `base_url`"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.text, f.hint, f.again = "no server answers there", "is it running, and is `base_url` right?", true
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		f.text, f.again = "the reply broke off, or is no JSON: "+e.excerpt(x), true
	default:
		f.text, f.again = "the connection failed: "+e.clean(err.Error()), true
	}
	return f
}

// status reads an error that the server reports. An error inside a reply that began well has its status, 200: it may pass.
func (e *endpoint) status(f *fault, x *exchange, status int, message, code string) {
	f.text = fmt.Sprintf("HTTP %d: %s", status, e.clean(message))
	lower := strings.ToLower(message + " " + code)
	switch {
	case status == 200:
		f.text, f.again = "the reply broke off with an error: "+e.clean(message), true
	case status == 401 || status == 403:
		where := "the variable `" + or(e.config.APIKeyEnv, "OPENAI_API_KEY") + "`"
		if e.config.APIKeyFile != "" {
			where = "the file that `api_key_file` names"
		}
		f.hint = "check the key in " + where
	case status == 402 || strings.Contains(lower, "insufficient_quota"):
		f.hint = "the account has no credit left"
	case status == 404:
		f.hint = "check `model` and `base_url` (which often ends in /v1)"
	case status == 413 || strings.Contains(lower, "context_length") || strings.Contains(lower, "context length"):
		f.hint = "the model's context is too short for the prompt with `max_tokens`: lower that, or take another model"
	case status == 400 || status == 422:
		f.message = message
	case status == 408 || status == 409 || status == 425 || status == 429 || status >= 500:
		f.again, f.after = true, after(x.header, time.Now())
		if status == 429 {
			f.hint = "lower `requests_per_minute`, `tokens_per_minute` or `in_flight`"
		}
	}
}

// after is how long a server asks to wait; below 0 if it does not say. A date is read against the server's own clock, where it tells it.
func after(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 && s < 1e9 {
		return seconds(s)
	}
	if at, err := http.ParseTime(text); err == nil {
		if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
			now = theirs
		}
		return max(0, at.Sub(now))
	}
	return -1
}

// clean makes a server's words fit for an error: short, without control characters, and without the key, which some servers repeat.
func (e *endpoint) clean(text string) string {
	if len(e.key) >= 8 {
		text = strings.ReplaceAll(text, string(e.key), e.key.String())
	}
	return clean(text, 500)
}

// excerpt is the beginning of what came.
func (e *endpoint) excerpt(x *exchange) string {
	raw := x.raw.Bytes()
	if len(raw) == 0 {
		return "nothing came"
	}
	return "`" + e.clean(string(raw[:min(len(raw), 1000)])) + "`"
}
