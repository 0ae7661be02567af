package llm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/llm/scripted"
)

func sprint(x any) string { return fmt.Sprintf("%v %+v %#v %s", x, x, x, x) }

// What the user sees of each way in which a server misbehaves: good again after a few attempts, a reply without a candidate, or an error that says why.
func TestEachMisbehaviour(t *testing.T) {
	good := scripted.Step{Reply: "mean"}
	times := func(n int, step scripted.Step) scripted.Step { step.Times = n; return step }
	half := scripted.Step{Do: "half", Text: "Here is the kernel that was asked for"}
	for name, c := range map[string]struct {
		steps    []scripted.Step
		change   func(*Config)
		requests int
		unusable string // what the reason has in it
		text     string // what the error has in it
		hint     string
		clocked  bool // on a machine that is busy an attempt may end before it is served, or one more be made
	}{
		"401":                         {steps: []scripted.Step{{Status: 401, Body: `{"error": {"message": "bad key", "type": "x"}}`}}, requests: 1, text: "HTTP 401: bad key", hint: "`OPENAI_API_KEY`"},
		"403 of a proxy":              {steps: []scripted.Step{{Status: 403, Body: "<html>\n<b>forbidden</b></html>"}}, requests: 1, text: "HTTP 403: <html> <b>forbidden</b></html>", hint: "check the key"},
		"no credit":                   {steps: []scripted.Step{{Status: 429, Body: `{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}`}}, requests: 1, text: "HTTP 429", hint: "no credit"},
		"404":                         {steps: []scripted.Step{{Status: 404, Body: `{"error": {"message": "no model scripted", "type": "x"}}`}}, requests: 1, text: "HTTP 404: no model scripted", hint: "`model` and `base_url`"},
		"too long for the model":      {steps: []scripted.Step{{Status: 400, Body: `{"error": {"message": "This model's maximum context length is 4096 tokens", "type": "x", "code": "context_length_exceeded"}}`}}, requests: 1, text: "HTTP 400", hint: "context is too short"},
		"a request that is not taken": {steps: []scripted.Step{{Status: 400, Body: `{"error": {"message": "messages must alternate", "type": "x"}}`}}, requests: 1, text: "HTTP 400: messages must alternate"},
		"429 with Retry-After":        {steps: []scripted.Step{times(1, scripted.Step{Status: 429, RetryAfter: "0"}), good}, requests: 2},
		"429 without Retry-After":     {steps: []scripted.Step{times(2, scripted.Step{Status: 429, Body: "slow down"}), good}, requests: 3},
		"429 that asks for an hour":   {steps: []scripted.Step{{Status: 429, RetryAfter: "3600"}}, requests: 1, text: "asks to wait 3600 s (`max_wait_s` is 120)", hint: "`requests_per_minute`"},
		"500":                         {steps: []scripted.Step{times(1, scripted.Step{Status: 500, Body: `{"error": {"message": "oops", "type": "server_error"}}`}), good}, requests: 2},
		"a storm of 503 that passes":  {steps: []scripted.Step{times(5, scripted.Step{Status: 503, Body: "upstream"}), good}, requests: 6},
		"a storm of 503 that stays":   {steps: []scripted.Step{{Status: 503, Body: "upstream"}}, requests: 6, text: "HTTP 503: upstream (attempt 6)"},
		"a reset":                     {steps: []scripted.Step{times(2, scripted.Step{Do: "reset"}), good}, requests: 3},
		"resets for ever":             {steps: []scripted.Step{{Do: "reset"}}, change: func(c *Config) { c.Attempts = 2 }, requests: 2, text: "(attempt 2)"},
		"half a JSON":                 {steps: []scripted.Step{times(1, half), good}, requests: 2},
		"half a JSON for ever":        {steps: []scripted.Step{half}, change: func(c *Config) { c.Attempts = 3 }, requests: 3, text: "(attempt 3)"},
		"an error inside a stream":    {steps: []scripted.Step{times(1, scripted.Step{Do: "broken"}), good}, requests: 2},
		"such errors for ever":        {steps: []scripted.Step{{Do: "broken"}}, change: func(c *Config) { c.Attempts = 2 }, requests: 2, text: "broke off with an error: the engine is overloaded"},
		"a stream without an end":     {steps: []scripted.Step{{Do: "endless"}}, change: func(c *Config) { c.TotalS = 1 }, requests: 1, unusable: "did not end in time (`total_s`)"},
		"no first byte":               {steps: []scripted.Step{times(1, scripted.Step{Do: "silent"}), good}, change: func(c *Config) { c.ConnectS, c.FirstByteS = 1, 1 }, requests: 2, clocked: true},
		"never a first byte":          {steps: []scripted.Step{{Do: "silent"}}, change: func(c *Config) { c.ConnectS, c.FirstByteS, c.Attempts = 0.5, 0.5, 2 }, requests: 2, text: "no byte of a reply came in time (`first_byte_s`) (attempt 2)", hint: "raise `first_byte_s`", clocked: true},
		"a stop in the middle":        {steps: []scripted.Step{times(1, scripted.Step{Do: "stall", Text: "Here is"}), good}, change: func(c *Config) { c.BetweenS = 1 }, requests: 2, clocked: true},
		"no choices":                  {steps: []scripted.Step{{Do: "empty"}}, requests: 1, unusable: "it is empty"},
		"no text":                     {steps: []scripted.Step{{Text: " "}}, requests: 1, unusable: "it is empty"},
		"a refusal":                   {steps: []scripted.Step{{Do: "refuse", Text: "I can't help with that."}}, requests: 1, unusable: "the model declined: I can't help with that."},
		"a filter":                    {steps: []scripted.Step{{Finish: "content_filter", Text: "I"}}, requests: 1, unusable: "the model declined"},
		"a call of a tool":            {steps: []scripted.Step{{Do: "tool"}}, requests: 1, unusable: "it calls a tool"},
		"10 MB":                       {steps: []scripted.Step{{Do: "huge"}}, requests: 1, unusable: "too long (`max_reply_bytes`)"},
		"bytes that are no UTF-8":     {steps: []scripted.Step{{Do: "latin1"}}, requests: 1, unusable: "it is not UTF-8"},
		"several blocks of code":      {steps: []scripted.Step{{Reply: "several"}}, requests: 1, unusable: "2 blocks of code and one block of JSON (expected exactly one of each)"},
		"cut at its tokens":           {steps: []scripted.Step{{Text: "```cpp\nKF_ENTRY", Finish: "length"}}, requests: 1, unusable: "ends inside a block, at the limit of tokens"},
		"reasoning and nothing else":  {steps: []scripted.Step{{Finish: "length", Reasoning: "hm hm"}}, requests: 2, unusable: "went into reasoning (`max_tokens`)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := on(t, c.change, c.steps...)
			_, err := s.author.Propose(t.Context(), given(1))
			unusable, isUnusable := errors.AsType[*propose.Unusable](err)
			switch {
			case c.unusable != "" && !(isUnusable && strings.Contains(unusable.Reason, c.unusable)):
				t.Errorf("found %v (expected a reply without a candidate: %q)", err, c.unusable)
			case c.text != "" && !(err != nil && !isUnusable && strings.Contains(err.Error(), c.text) && strings.HasPrefix(err.Error(), "ask `scripted` at `127.0.0.1:")):
				t.Errorf("found %v (expected %q)", err, c.text)
			case c.hint != "" && !strings.Contains(card.AsError(err).Hint, c.hint):
				t.Errorf("the hint is %q (expected %q)", card.AsError(err).Hint, c.hint)
			case c.unusable == "" && c.text == "" && err != nil:
				t.Errorf("found %v (expected a candidate)", err)
			}
			if n := len(s.server.Records()); n != c.requests && !c.clocked {
				t.Errorf("%d requests (expected %d)", n, c.requests)
			}
			if kept := len(s.ledger.replies); (c.text == "") != (kept > 0) {
				t.Errorf("%d replies are kept", kept)
			}
			if len(s.events) != c.requests && !c.clocked {
				t.Errorf("%d events of %d attempts: %+v", len(s.events), c.requests, s.events)
			}
		})
	}
}

// A reply that is too long is read no further than it may be, as a stream, whole, or as the text of an error.
func TestTenMegabytesAreNotRead(t *testing.T) {
	for name, whole := range map[string]bool{"stream": false, "whole": true} {
		s := on(t, func(c *Config) { c.MaxReplyBytes, c.Whole = 100_000, whole }, scripted.Step{Do: "huge"})
		counted := &counting{RoundTripper: s.author.endpoint.http.Transport}
		s.author.endpoint.http.Transport = counted
		_, err := s.author.Propose(t.Context(), given(1))
		unusable, ok := errors.AsType[*propose.Unusable](err)
		if !ok {
			t.Fatal(err)
		}
		if reply := s.ledger.replies[unusable.Reply]; reply.Text != "" || !reply.Estimated || reply.TokensOut == 0 || reply.TokensOut > 16384 || reply.Finish != TooLong {
			t.Errorf("%s: kept %+v", name, reply)
		}
		if n := counted.bytes; n < 50_000 || n > 600_000 {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
	s := on(t, func(c *Config) { c.Attempts = 1 }, scripted.Step{Status: 503, Body: strings.Repeat("busy ", 1<<20)})
	counted := &counting{RoundTripper: s.author.endpoint.http.Transport}
	s.author.endpoint.http.Transport = counted
	if _, err := s.author.Propose(t.Context(), given(1)); err == nil || !strings.Contains(err.Error(), "HTTP 503: busy busy") || len(err.Error()) > 700 || counted.bytes > 100_000 {
		t.Errorf("%d bytes of an error were read: %v", counted.bytes, err)
	}
}

// counting counts the bytes of bodies that are read.
type counting struct {
	http.RoundTripper
	bytes int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &countedBody{response.Body, c}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	c *counting
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.bytes += n
	return n, err
}

func TestAnAttemptThatBrokeOffCountsAsSpent(t *testing.T) {
	s := on(t, nil, scripted.Step{Times: 1, Do: "half", Text: "Here is the kernel that was asked for"}, scripted.Step{Reply: "mean"})
	if _, err := s.author.Propose(t.Context(), given(1)); err != nil {
		t.Fatal(err)
	}
	var in int64
	for _, reply := range s.ledger.replies {
		in += reply.TokensIn
	}
	if len(s.ledger.lost) != 1 || s.ledger.lost[0] != s.events[0].Spent {
		t.Errorf("noted as lost: %+v", s.ledger.lost)
	}
	if spent := s.author.config.Budget.Spent(); spent.TokensIn < in*3/2 || s.events[0].What != "failed" || s.events[0].Spent.TokensIn == 0 {
		t.Errorf("spent %+v, of which %d tokens in are kept; events %+v", spent, in, s.events)
	}
}

// Servers differ in the fields that they take: what one refuses is left out, once and for all.
func TestAFieldThatAServerDoesNotTakeIsLeftOut(t *testing.T) {
	half := 0.5
	for field, other := range map[string]string{"max_tokens": `"max_completion_tokens":16384`, "temperature": `"max_tokens"`, "seed": `"max_tokens"`, "stream_options": `"stream":true`, "stream": `"stream":true`} {
		s := on(t, func(c *Config) { c.Temperature = &half }, scripted.Step{Do: "picky", Body: field, Reply: "mean"})
		for seed := range int64(2) {
			_, err := s.author.Propose(t.Context(), given(seed))
			if field == "stream" { // go-openai always sends it; a server that refuses it is none of ours
				if err == nil || !strings.Contains(err.Error(), "'stream'") {
					t.Errorf("%s: %v", field, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", field, err)
			}
		}
		if field == "stream" {
			continue
		}
		records := s.server.Records()
		if len(records) != 3 || !strings.Contains(string(records[2].Request), other) || strings.Contains(string(records[2].Request), `"`+field+`":`) {
			t.Errorf("%s: %d requests, the last %.200s", field, len(records), records[len(records)-1].Request)
		}
		if s.events[0].What != "adapted" || !strings.Contains(s.events[0].Why, "`"+field+"`") {
			t.Errorf("%s: events %+v", field, s.events)
		}
	}
}

func TestReasoningModelsGetTheirParameters(t *testing.T) {
	zero := 0.0
	for model, want := range map[string]string{"o3-local": `"max_completion_tokens":16384`, "gpt-5-mini": `"max_completion_tokens":16384`, "qwen": `"max_tokens":16384,"temperature":1e-45`} {
		s := on(t, func(c *Config) { c.Model, c.Temperature, c.Effort = model, &zero, "low" }, scripted.Step{Reply: "mean"})
		if _, err := s.author.Propose(t.Context(), given(1)); err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		request := string(s.server.Records()[0].Request)
		if !strings.Contains(request, want) || !strings.Contains(request, `"reasoning_effort":"low"`) {
			t.Errorf("%s: asked %s", model, request[len(request)-300:])
		}
	}
	half := 0.5 // which go-openai itself refuses for these
	s := on(t, func(c *Config) { c.Model, c.Temperature = "o3-local", &half }, scripted.Step{Reply: "mean"})
	if _, err := s.author.Propose(t.Context(), given(1)); err != nil || strings.Contains(string(s.server.Records()[0].Request), "temperature") {
		t.Errorf("found %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		after, date, ms string
		want            time.Duration
	}{
		"seconds":                       {after: "7", want: 7 * time.Second},
		"parts of a second":             {after: "0.5", want: time.Second / 2},
		"milliseconds":                  {ms: "250", after: "9", want: time.Second / 4},
		"a date":                        {after: date(8 * time.Second), date: date(0), want: 8 * time.Second},
		"a date by a clock that is off": {after: date(time.Hour + 5*time.Second), date: date(time.Hour), want: 5 * time.Second},
		"a date without a clock":        {after: date(3 * time.Second), want: 3 * time.Second},
		"a date that is past":           {after: date(-time.Minute), date: date(0), want: 0},
		"none":                          {want: -1},
		"nonsense":                      {after: "soon", want: -1},
		"below zero":                    {after: "-3", want: -1},
		"not a number":                  {after: "NaN", want: -1},
		"without end":                   {after: "1e300", want: -1},
	} {
		h := http.Header{}
		for key, value := range map[string]string{"Retry-After": c.after, "Date": c.date, "Retry-After-Ms": c.ms} {
			if value != "" {
				h.Set(key, value)
			}
		}
		if got := after(h, now); got != c.want {
			t.Errorf("%s: %v (expected %v)", name, got, c.want)
		}
	}
	// On the wire, by a server whose clock is an hour ahead.
	s := on(t, nil, scripted.Step{Times: 1, Status: 429, RetryAfter: "date+1", SkewS: 3600}, scripted.Step{Reply: "mean"})
	began := time.Now()
	if _, err := s.author.Propose(t.Context(), given(1)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second || took > time.Minute { // the clocks are an hour apart
		t.Errorf("it waited %v (expected a second)", took)
	}
	if wait := s.events[0].WaitS; wait < 1 || wait > 1.2 {
		t.Errorf("the event says %v s", wait)
	}
}

func TestJitterIsFull(t *testing.T) {
	j := &jitter{first: time.Second, most: 5 * time.Second}
	j.Reset()
	var least, most [4]time.Duration
	for round := range 200 {
		j.Reset()
		for i := range least {
			wait := j.NextBackOff()
			if round == 0 || wait < least[i] {
				least[i] = wait
			}
			most[i] = max(most[i], wait)
		}
	}
	for i, bound := range []time.Duration{1, 2, 4, 5} {
		bound *= time.Second
		if most[i] > bound || most[i] < bound*3/4 || least[i] > bound/4 {
			t.Errorf("wait %d lies in [%v, %v] (expected [0, %v])", i, least[i], most[i], bound)
		}
	}
}
