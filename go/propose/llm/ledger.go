package llm

// ledger.go owns what a request is, its key, and what is kept of a reply. It refuses to know where they are kept.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/kernelforge/kernelforge/go/propose/budget"
)

// Ledger keeps what was paid for. A reply is kept before it is read, and a key that is in the ledger is never asked again. It is called from
// several goroutines; Keep returns when the reply would survive the end of the process. Lost notes what an attempt may have been billed that gave no
// reply to keep.
type Ledger interface {
	Reply(key string) (Reply, bool, error)
	Keep(key string, request []byte, reply Reply) error
	Lost(spent budget.Amount) error
}

// Historian is a ledger that knows what a model's replies were like: the base of a forecast.
type Historian interface {
	History(model string) (History, error)
}

// History sums the replies of one model.
type History struct {
	Replies      int64   `json:"replies"`
	RequestBytes int64   `json:"request_bytes"` // of the canonical requests
	TokensIn     int64   `json:"tokens_in"`
	TokensOut    int64   `json:"tokens_out"`
	WallS        float64 `json:"wall_s"`
}

// Reply is a server's answer as it was paid for.
type Reply struct {
	Text            string    `json:"text"`
	Model           string    `json:"model"`  // as the server calls it
	Finish          Finish    `json:"finish"` // why it ends
	Why             string    `json:"why,omitempty"`
	TokensIn        int64     `json:"tokens_in"`
	TokensCached    int64     `json:"tokens_cached,omitempty"` // part of TokensIn
	TokensOut       int64     `json:"tokens_out"`
	TokensReasoning int64     `json:"tokens_reasoning,omitempty"` // part of TokensOut
	Estimated       bool      `json:"estimated,omitempty"`        // the server did not count: tokens are from the number of bytes
	USD             float64   `json:"usd"`
	Priced          bool      `json:"priced"` // false: the model's price is unknown, and usd is 0
	WallS           float64   `json:"wall_s"`
	At              time.Time `json:"at"`
}

// Finish says why a reply ends. Only Stop and Length may hold a candidate.
type Finish string

// The ends of a reply.
const (
	Stop     Finish = "stop"
	Length   Finish = "length"   // at the limit of tokens
	Refused  Finish = "refused"  // the model or a filter declined
	Tool     Finish = "tool"     // a call of a tool, of which it was offered none
	Empty    Finish = "empty"    // no choice, or no text in it
	TooLong  Finish = "too_long" // cut off at MaxReplyBytes
	Endless  Finish = "endless"  // cut off at TotalS
	Encoding Finish = "encoding" // not UTF-8
)

// Message is one turn of a request.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request is what is asked, without the quirks of who is asked. Its JSON is canonical: one request has one text.
type Request struct {
	Schema      int       `json:"schema"` // of the prompt
	Model       string    `json:"model"`
	Messages    []Message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Effort      string    `json:"effort,omitempty"`
	Seed        int64     `json:"seed"`    // chance: another one is another request
	Attempt     int       `json:"attempt"` // and so is asking once more
}

// Canonical is the text that is hashed and kept.
func (r Request) Canonical() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and finite numbers only
	}
	return text
}

// Key is the SHA-256 of the canonical text, in hexadecimal digits.
func (r Request) Key() string {
	sum := sha256.Sum256(r.Canonical())
	return hex.EncodeToString(sum[:])
}
