package llm

// parse.go owns how a reply is read: one fenced block of code and one of JSON. It refuses to understand anything else of it, and to mend it.

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// What a reply may be long, in bytes.
const (
	maxText   = 512 << 10
	maxSource = 64 << 10
	maxSpec   = 16 << 10
	maxChange = 300
	maxParts  = 16 // kernels and workspaces
)

// header is the block of JSON: the idea in words, and the launch spec.
type header struct {
	Change string    `json:"change"`
	Spec   card.Spec `json:"spec"`
}

func unusable(format string, args ...any) (card.Candidate, error) {
	return card.Candidate{}, &propose.Unusable{Reason: fmt.Sprintf(format, args...)}
}

// Parse reads a reply. Its error is a *propose.Unusable whose reason an author can act on.
func Parse(reply Reply) (card.Candidate, error) {
	switch reply.Finish {
	case Refused:
		why := "it gave no reason"
		if reply.Why != "" {
			why = reply.Why
		}
		return unusable("the model declined: %s", why)
	case Tool:
		return unusable("it calls a tool, of which there are none (expected text)")
	case Empty:
		return unusable("it is empty")
	case TooLong:
		return unusable("it was cut off because it is too long (`max_reply_bytes`)")
	case Endless:
		return unusable("it was cut off because it did not end in time (`total_s`)")
	case Encoding:
		return unusable("it is not UTF-8")
	case Length:
		if blank(reply.Text) {
			return unusable("all %d tokens went into reasoning (`max_tokens`), none into an answer", reply.TokensOut)
		}
	}
	text, err := plain(reply.Text)
	if err != nil {
		return card.Candidate{}, err
	}
	code, spec, err := blocks(text, reply.Finish == Length)
	if err != nil {
		return card.Candidate{}, err
	}
	var h header
	if err := card.Decode([]byte(spec), &h); err != nil {
		return unusable("the JSON block: %v", err)
	}
	candidate := card.Candidate{Author: "llm", Family: "llm", Params: map[string]int{}, Change: sentence(h.Change), Source: code, Spec: h.Spec}
	if len(h.Spec.Kernels) > maxParts || len(h.Spec.Workspaces) > maxParts {
		return unusable("the JSON block: %d kernels and %d workspaces (expected at most %d of each)", len(h.Spec.Kernels), len(h.Spec.Workspaces), maxParts)
	}
	candidate.ID = card.CandidateID(candidate.Source, candidate.Spec)
	if err := candidate.Validate(); err != nil {
		return unusable("%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("read candidate `%s`: ", candidate.ID)))
	}
	return candidate, nil
}

// plain is a reply's text with one kind of line end, without the reasoning that some servers leave in it.
func plain(text string) (string, error) {
	fail := func(format string, args ...any) (string, error) {
		_, err := unusable(format, args...)
		return "", err
	}
	if len(text) > maxText {
		return fail("it has %d bytes (expected at most %d)", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return fail("it is not UTF-8")
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if i := strings.LastIndex(text, "</think>"); i >= 0 {
		text = text[i+len("</think>"):]
	} else if strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		return fail("it ends before its reasoning does")
	}
	return text, nil
}

// kinds are the words behind a fence that make a block code or JSON; a block with another word is ignored.
var kinds = map[string]string{
	"cpp": "code", "c++": "code", "cc": "code", "cxx": "code", "c": "code", "cuda": "code", "cu": "code", "cuda-cpp": "code", "cuh": "code", "json": "json",
}

// blocks finds the one block of code and the one of JSON.
func blocks(text string, cut bool) (code, spec string, err error) {
	found := map[string][]string{}
	var kind, fence string
	var body []string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		mark, info := fenceOf(line)
		switch {
		case !open && mark != "":
			open, fence, body = true, mark, nil
			word, _, _ := strings.Cut(strings.ToLower(info), " ")
			kind = kinds[strings.Trim(word, "{}.:")]
			if word == "" {
				kind = "bare"
			}
		case open && mark != "" && mark[0] == fence[0] && len(mark) >= len(fence) && info == "":
			open = false
			whole := strings.Join(body, "\n") + "\n"
			if kind == "bare" { // its beginning tells
				kind = "code"
				if strings.HasPrefix(strings.TrimSpace(whole), "{") {
					kind = "json"
				}
			}
			found[kind] = append(found[kind], whole)
		case open:
			body = append(body, line)
		}
	}
	fail := func(format string, args ...any) (string, string, error) {
		_, err := unusable(format, args...)
		return "", "", err
	}
	codes, specs := found["code"], found["json"]
	switch {
	case open && cut:
		return fail("it ends inside a block, at the limit of tokens (`max_tokens`): write less around the code")
	case open:
		return fail("its last block has no closing fence")
	case len(codes) != 1 || len(specs) != 1:
		return fail("it has %s of code and %s of JSON (expected exactly one of each)", count(codes), count(specs))
	case len(codes[0]) > maxSource:
		return fail("its code has %d bytes (expected at most %d)", len(codes[0]), maxSource)
	case len(specs[0]) > maxSpec:
		return fail("its JSON has %d bytes (expected at most %d)", len(specs[0]), maxSpec)
	case blank(codes[0]):
		return fail("its block of code is empty")
	}
	for i, r := range codes[0] {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return fail("its code has the control character %U at byte %d", r, i)
		}
	}
	return codes[0], specs[0], nil
}

func count(list []string) string {
	switch len(list) {
	case 0:
		return "no block"
	case 1:
		return "one block"
	}
	return fmt.Sprintf("%d blocks", len(list))
}

// fenceOf gives the run of backticks or tildes that begins a line, and what is behind it; "" if the line is no fence.
func fenceOf(line string) (mark, info string) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return "", ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	info = strings.TrimSpace(rest[n:])
	if n < 3 || rest[0] == '`' && strings.Contains(info, "`") {
		return "", ""
	}
	return rest[:n], info
}

// sentence makes an author's idea one short line.
func sentence(text string) string {
	text = clean(text, maxChange)
	if text == "" {
		return "no idea was given"
	}
	return text
}
