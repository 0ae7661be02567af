package llm

// answer.go owns what a server says: chunks of a stream or one whole, with the fields that servers differ in. It refuses to read the text.

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// chunk is a part of a reply; a whole reply has `message` where a part has `delta`.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Index   int     `json:"index"`
		Delta   *turn   `json:"delta"`
		Message *turn   `json:"message"`
		Finish  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		In      int64 `json:"prompt_tokens"`
		Out     int64 `json:"completion_tokens"`
		Details *struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		OutDetails *struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type turn struct {
	Content          content         `json:"content"`
	Refusal          *string         `json:"refusal"`
	Reasoning        json.RawMessage `json:"reasoning"`         // newer servers
	ReasoningContent json.RawMessage `json:"reasoning_content"` // others
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"`
}

// content is a text, null, or parts of which those of type text count.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		*c += content(part.Text)
	}
	return nil
}

// answer gathers chunks.
type answer struct {
	most          int64 // bytes of text
	text, refusal strings.Builder
	model         string
	finish        string
	begun         bool // there was a chunk
	choices       bool
	tool          bool
	garbled       bool // bytes that are not UTF-8
	thought       int  // bytes of reasoning
	counted       bool
	in, cached    int64
	out, reasons  int64
}

// errInside is an error that a server reports in a reply that had begun well.
type errInside struct{ body json.RawMessage }

func (e *errInside) Error() string { return string(e.body) }

func filled(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "[]" && string(raw) != `""`
}

func (a *answer) add(raw []byte) error {
	a.garbled = a.garbled || !utf8.Valid(raw)
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	if filled(c.Error) {
		return &errInside{c.Error}
	}
	a.begun = true
	if c.Model != "" {
		a.model = c.Model
	}
	if u := c.Usage; u != nil && u.In+u.Out > 0 {
		a.counted, a.in, a.out = true, max(0, u.In), max(0, u.Out)
		if u.Details != nil {
			a.cached = max(0, u.Details.Cached)
		}
		if u.OutDetails != nil {
			a.reasons = max(0, u.OutDetails.Reasoning)
		}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		a.choices = true
		for _, t := range []*turn{choice.Delta, choice.Message} {
			if t == nil {
				continue
			}
			if int64(a.text.Len()+len(t.Content)) > a.most {
				return errTooLong
			}
			a.text.WriteString(string(t.Content))
			if t.Refusal != nil {
				a.refusal.WriteString(*t.Refusal)
			}
			a.tool = a.tool || filled(t.ToolCalls) || filled(t.FunctionCall)
			a.thought += len(t.Reasoning) + len(t.ReasoningContent)
		}
		if choice.Finish != nil && *choice.Finish != "" {
			a.finish = *choice.Finish
		}
	}
	return nil
}

// done tells whether a stream without a reason for its end was whole: it said so.
func (a *answer) done(x *exchange) bool {
	return a.begun && bytes.HasSuffix(bytes.TrimSpace(x.tail), []byte("[DONE]"))
}

// guess is a number of tokens for text of which only the bytes are known.
func guess(bytes int) int64 { return int64(bytes+2) * 2 / 7 }

// reply is what was paid, and, unless the attempt failed, what for. A failed attempt whose answer had begun is counted as if it were billed.
func (a *answer) reply(request Request, x *exchange, failed bool) Reply {
	r := Reply{Model: clean(a.model, 200), TokensIn: a.in, TokensCached: a.cached, TokensOut: a.out, TokensReasoning: a.reasons}
	if !a.counted && x.status == 200 && x.bytes > 0 {
		r.Estimated, r.TokensIn = true, guess(len(request.Canonical()))
		r.TokensOut = min(guess(a.text.Len()+a.thought), int64(request.MaxTokens))
		if !a.begun { // of what came nothing could be read
			r.TokensOut = min(guess(int(x.bytes)), int64(request.MaxTokens))
		}
	}
	if failed {
		return r
	}
	r.Text = strings.ToValidUTF8(a.text.String(), "\uFFFD")
	switch {
	case a.garbled:
		r.Finish = Encoding
	case a.refusal.Len() > 0 || a.finish == "content_filter":
		r.Finish, r.Why = Refused, clean(a.refusal.String(), 500)
	case a.tool && blank(r.Text):
		r.Finish = Tool
	case a.finish == "length":
		r.Finish = Length
	case !a.choices || blank(r.Text):
		r.Finish = Empty
	default:
		r.Finish = Stop
	}
	return r
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
