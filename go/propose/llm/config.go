package llm

// config.go owns what a user may set, its defaults, and the key. It refuses a key in its own text: keys are named, by a variable or a file.

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

// Config is an author's. Zero fields take their default; docs/authors.md has them all.
type Config struct {
	Model        string `json:"model,omitempty"`
	BaseURL      string `json:"base_url,omitempty"`      // "" : OPENAI_BASE_URL, then OpenAI's
	APIKeyEnv    string `json:"api_key_env,omitempty"`   // name of the variable that holds the key; "": OPENAI_API_KEY
	APIKeyFile   string `json:"api_key_file,omitempty"`  // or the file that holds it
	Organization string `json:"organization,omitempty"`  // "": OPENAI_ORG_ID
	InsecureHTTP bool   `json:"insecure_http,omitempty"` // http to another machine: keys and prompts can be read on the way

	Temperature *float64 `json:"temperature,omitempty"` // nil: the server's default
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`   // of a reply, with its reasoning
	TokensField string   `json:"tokens_field,omitempty"` // "max_tokens" or "max_completion_tokens"; "": by the model's name, and what the server takes
	Effort      string   `json:"effort,omitempty"`       // of reasoning: "low", "medium", ...; "": the server's default
	Whole       bool     `json:"whole,omitempty"`        // ask for the reply in one piece, not as a stream

	ConnectS   float64 `json:"connect_s,omitempty"`    // to be connected
	FirstByteS float64 `json:"first_byte_s,omitempty"` // from then to the first byte of the reply
	BetweenS   float64 `json:"between_s,omitempty"`    // between two bytes
	TotalS     float64 `json:"total_s,omitempty"`      // of one attempt
	Attempts   int     `json:"attempts,omitempty"`     // of one request, with the first
	BackoffS   float64 `json:"backoff_s,omitempty"`    // most that is waited after the first failure; doubles
	MaxWaitS   float64 `json:"max_wait_s,omitempty"`   // most that is waited at all; a server that asks for more is given up

	RequestsPerMinute float64 `json:"requests_per_minute,omitempty"` // 0: no limit
	TokensPerMinute   float64 `json:"tokens_per_minute,omitempty"`
	InFlight          int     `json:"in_flight,omitempty"`
	MaxReplyBytes     int64   `json:"max_reply_bytes,omitempty"` // of a reply's text

	PriceFile string `json:"price_file,omitempty"` // over the shipped table

	Getenv func(string) string `json:"-"` // the user's variables; nil: none. The core reads no environment of its own
	Budget *budget.Budget      `json:"-"` // nil: no limit
	Notify func(Event)         `json:"-"` // of every attempt; called from several goroutines; nil: nobody
}

// Event is one attempt at a request, for logs. It holds no key and no text of prompt or reply.
type Event struct {
	Key     string        `json:"key"` // of the request in the ledger
	Model   string        `json:"model"`
	Attempt int           `json:"attempt"`
	What    string        `json:"what"`          // "reply", "failed", "adapted"
	Why     string        `json:"why,omitempty"` // of "failed" and "adapted"
	WaitS   float64       `json:"wait_s,omitempty"`
	Spent   budget.Amount `json:"spent"`
}

const (
	openAI  = "https://api.openai.com/v1"
	keyMost = 4 << 10 // bytes of a key's file
)

func or[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// withDefaults fills what is not set, and names what cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	fail := func(hint, format string, args ...any) (Config, error) {
		return c, card.Fail(card.CodeRequest, hint, "make an author: "+format, args...)
	}
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"max_tokens", float64(c.MaxTokens)}, {"connect_s", c.ConnectS}, {"first_byte_s", c.FirstByteS}, {"between_s", c.BetweenS}, {"total_s", c.TotalS},
		{"attempts", float64(c.Attempts)}, {"backoff_s", c.BackoffS}, {"max_wait_s", c.MaxWaitS}, {"requests_per_minute", c.RequestsPerMinute},
		{"tokens_per_minute", c.TokensPerMinute}, {"in_flight", float64(c.InFlight)}, {"max_reply_bytes", float64(c.MaxReplyBytes)},
	} {
		if !(n.value >= 0 && n.value < 1e12) {
			return fail("leave it out for the default", "`%s` is %v (expected a number above 0)", n.name, n.value)
		}
	}
	switch {
	case c.Model == "":
		return fail("for example gpt-5-mini, or what `curl $OPENAI_BASE_URL/models` lists", "`model` is empty (expected the name that the server knows)")
	case c.APIKeyEnv != "" && c.APIKeyFile != "":
		return fail("keep one of them", "both `api_key_env` and `api_key_file` are given")
	case c.APIKeyEnv != "" && !isName(c.APIKeyEnv):
		// It may be the key itself, in the place of its name: it is not repeated.
		return fail("name the variable that holds the key, as in `api_key_env=OPENAI_API_KEY`", "`api_key_env` is not the name of a variable (expected letters, digits and `_`)")
	case c.TokensField != "" && c.TokensField != maxTokens && c.TokensField != maxCompletionTokens:
		return fail("", "`tokens_field` is `%s` (expected `%s` or `%s`)", c.TokensField, maxTokens, maxCompletionTokens)
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2):
		return fail("", "`temperature` is %v (expected 0 to 2)", *c.Temperature)
	case c.TopP != nil && !(*c.TopP > 0 && *c.TopP <= 1):
		return fail("", "`top_p` is %v (expected above 0, at most 1)", *c.TopP)
	}
	c.BaseURL = or(or(c.BaseURL, c.Getenv("OPENAI_BASE_URL")), openAI)
	c.Organization = or(c.Organization, c.Getenv("OPENAI_ORG_ID"))
	c.MaxTokens = or(c.MaxTokens, 16384)
	c.ConnectS = or(c.ConnectS, 10)
	c.FirstByteS = or(c.FirstByteS, 180) // a reasoning model thinks before its first byte
	c.BetweenS = or(c.BetweenS, 60)
	c.TotalS = or(c.TotalS, 900)
	c.Attempts = or(c.Attempts, 6)
	c.BackoffS = or(c.BackoffS, 1)
	c.MaxWaitS = or(c.MaxWaitS, 120)
	c.InFlight = or(c.InFlight, 8)
	c.MaxReplyBytes = or(c.MaxReplyBytes, maxText)
	return c, nil
}

func isName(s string) bool {
	for i, r := range s {
		if r != '_' && !(r < 0x80 && unicode.IsLetter(r)) && !(i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return len(s) <= 64
}

// base is where requests go: https, or http on this machine, or http by the user's word.
func (c Config) base() (*url.URL, error) {
	fail := func(hint, format string, args ...any) (*url.URL, error) {
		return nil, card.Fail(card.CodeRequest, hint, "make an author: "+format, args...)
	}
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(c.BaseURL), "/"))
	if err != nil || u.Host == "" {
		return fail("for example https://api.openai.com/v1 or http://localhost:8000/v1", "`base_url` is no address of a server")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fail("name a variable or a file with the key (`api_key_env`, `api_key_file`)", "`base_url` carries a user, a query or a fragment (expected scheme, host and path alone)")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return fail("", "`base_url` begins with `%s:` (expected https, or http on this machine)", u.Scheme)
	case !loopback(u) && !c.InsecureHTTP:
		return fail("use https, or set `insecure_http` if you trust every machine on the way", "`base_url` is http to `%s`: key and prompts could be read on the way", u.Host)
	}
	if u.Path == "" {
		u.Path = "/v1"
	}
	return u, nil
}

func loopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// secret is a key. No form of printing shows it.
type secret string

func (secret) String() string               { return "[key]" }
func (secret) GoString() string             { return "[key]" }
func (secret) MarshalText() ([]byte, error) { return []byte("[key]"), nil }

// key reads the key that the configuration names. A server on this machine needs none.
func (c Config) key(u *url.URL) (secret, error) {
	var text, from string
	switch {
	case c.APIKeyFile != "":
		from = fmt.Sprintf("the file `%s`", filepath.Base(c.APIKeyFile))
		file, err := os.Open(c.APIKeyFile)
		if err != nil {
			return "", card.Fail(card.CodeRequest, "`api_key_file` names a file that holds the key and nothing else", "read the key from %s: %w", from, pathless(err))
		}
		defer file.Close()
		data := make([]byte, keyMost+1)
		n, _ := file.Read(data)
		if n > keyMost {
			return "", card.Fail(card.CodeRequest, "`api_key_file` names a file that holds the key and nothing else", "read the key from %s: it is longer than %d bytes", from, keyMost)
		}
		text = string(data[:n])
	default:
		name := or(c.APIKeyEnv, "OPENAI_API_KEY")
		from = fmt.Sprintf("the variable `%s`", name)
		text = c.Getenv(name)
		if text == "" && loopback(u) && c.APIKeyEnv == "" {
			return "none", nil // some servers want any key
		}
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", card.Fail(card.CodeRequest, "export it, or name another by `api_key_env` or `api_key_file`", "ask `%s`: %s holds no key", u.Host, from)
	}
	for _, r := range text {
		if r <= ' ' || r > '~' {
			return "", card.Fail(card.CodeRequest, "it should hold the key and nothing else", "read the key from %s: it has characters that no key has", from)
		}
	}
	return secret(text), nil
}

func pathless(err error) error {
	if failed, ok := err.(*os.PathError); ok {
		return failed.Err
	}
	return err
}
