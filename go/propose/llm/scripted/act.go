package scripted

// act.go owns what each step does on the wire.
//
//	""         a good reply, as a stream or whole
//	reset      the connection ends with a reset before an answer
//	half       the reply ends in the middle of its JSON
//	endless    a stream that goes on for as long as somebody reads
//	silent     an answer without a byte in its body
//	stall      the reply stops in the middle
//	empty      a reply without choices
//	refuse     a refusal
//	tool       a call of a tool in place of a text
//	huge       10 MB of text
//	latin1     bytes that are not UTF-8
//	broken     an error inside a stream that began well
//	picky      HTTP 400 if the request has the field that Body names; else a good reply

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any

func act(w http.ResponseWriter, r *http.Request, asked request, step Step, record *Record) {
	if step.DelayMS > 0 {
		select {
		case <-time.After(time.Duration(step.DelayMS) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	clock := time.Now().Add(time.Duration(step.SkewS * float64(time.Second))).UTC()
	w.Header().Set("Date", clock.Format(http.TimeFormat))
	if wait, dated := strings.CutPrefix(step.RetryAfter, "date+"); dated {
		s, _ := strconv.ParseFloat(wait, 64)
		w.Header().Set("Retry-After", clock.Add(time.Duration(s*float64(time.Second))).Format(http.TimeFormat))
	} else if step.RetryAfter != "" {
		w.Header().Set("Retry-After", step.RetryAfter)
	}
	text := step.Text
	if step.Reply != "" {
		var err error
		if text, err = Reply(step.Reply); err != nil {
			fail(w, http.StatusTeapot, err.Error(), "script")
			return
		}
	}
	if step.Status != 0 {
		if step.Location != "" {
			w.Header().Set("Location", step.Location)
		}
		if strings.HasPrefix(step.Body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(step.Status)
		_, _ = io.WriteString(w, step.Body)
		return
	}
	say := speaker{w: w, asked: asked, step: step, record: record, model: step.Model, finish: step.Finish, text: text, stream: asked.Stream && !step.Whole}
	if say.model == "" {
		say.model = asked.Model
	}
	if say.finish == "" {
		say.finish = "stop"
	}
	switch step.Do {
	case "":
		say.all(object{"content": text})
	case "picky":
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(record.Request, &fields)
		if _, has := fields[step.Body]; has {
			fail(w, http.StatusBadRequest, fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model.", step.Body), "invalid_request_error")
			return
		}
		say.all(object{"content": text})
	case "reset":
		abort(w)
	case "half":
		say.begin(object{"content": text[:len(text)/2]})
		_, _ = io.WriteString(w, `data: {"id": "x", "choices": [{"index": 0, "delta": {"conte`)
		flush(w)
		abort(w)
	case "endless":
		say.begin(object{"content": ""})
		for r.Context().Err() == nil {
			say.part(object{"content": "and "}, nil)
			time.Sleep(time.Millisecond)
		}
	case "silent":
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w)
		<-r.Context().Done()
	case "stall":
		say.begin(object{"content": text})
		<-r.Context().Done()
	case "empty":
		say.noChoice()
	case "refuse":
		say.all(object{"content": nil, "refusal": text})
	case "tool":
		say.finish = "tool_calls"
		say.all(object{"content": nil, "tool_calls": []object{{"index": 0, "id": "call_1", "type": "function", "function": object{"name": "run_shell", "arguments": `{"command": "id"}`}}}})
	case "huge":
		if !say.stream {
			say.all(object{"content": strings.Repeat("all work and no play makes a dull kernel ", 250_000)})
			return
		}
		say.begin(object{"content": ""})
		line := strings.Repeat("all work and no play makes a dull kernel ", 250)
		for i := 0; i < 1000 && r.Context().Err() == nil; i++ {
			say.part(object{"content": line}, nil)
		}
		say.end()
	case "latin1":
		say.begin(object{"content": ""})
		_, _ = io.WriteString(w, "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"une id\xe9e\"}}]}\n\n")
		say.end()
	case "broken":
		say.begin(object{"content": "Here is"})
		event(w, object{"error": object{"message": "the engine is overloaded", "type": "server_error", "code": 503}})
	default:
		fail(w, http.StatusTeapot, "the script has a step `"+step.Do+"`, which is none", "script")
	}
}

// abort ends the connection with a reset where that can be had.
func abort(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// speaker says one reply, as a stream or whole.
type speaker struct {
	w             http.ResponseWriter
	asked         request
	step          Step
	record        *Record
	model, finish string
	text          string
	stream        bool
}

func (s *speaker) usage() object {
	out := Tokens(s.text) + Tokens(s.step.Reasoning)
	if s.step.Tokens > 0 {
		out = int64(s.step.Tokens)
	}
	s.record.TokensOut = out
	return object{"prompt_tokens": s.record.TokensIn, "completion_tokens": out, "total_tokens": s.record.TokensIn + out,
		"completion_tokens_details": object{"reasoning_tokens": Tokens(s.step.Reasoning)}}
}

func (s *speaker) head(kind string) object {
	return object{"id": "chatcmpl-1", "object": kind, "created": time.Now().Unix(), "model": s.model}
}

func (s *speaker) part(delta object, finish any) {
	chunk := s.head("chat.completion.chunk")
	chunk["choices"] = []object{{"index": 0, "delta": delta, "finish_reason": finish}}
	event(s.w, chunk)
}

func (s *speaker) begin(delta object) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	delta["role"] = "assistant"
	s.part(delta, nil)
}

func (s *speaker) end() {
	s.part(object{}, s.finish)
	s.closing()
}

func (s *speaker) closing() {
	usage := s.usage()
	if !s.step.NoUsage && s.asked.StreamOptions != nil && s.asked.StreamOptions.IncludeUsage {
		chunk := s.head("chat.completion.chunk")
		chunk["choices"], chunk["usage"] = []object{}, usage
		event(s.w, chunk)
	}
	_, err := io.WriteString(s.w, "data: [DONE]\n\n")
	flush(s.w)
	s.record.Whole = err == nil
}

func (s *speaker) all(message object) {
	field := s.step.Field
	if field == "" {
		field = "reasoning_content"
	}
	if !s.stream {
		message["role"] = "assistant"
		if s.step.Reasoning != "" {
			message[field] = s.step.Reasoning
		}
		s.whole([]object{{"index": 0, "message": message, "finish_reason": s.finish}})
		return
	}
	s.begin(object{"content": ""})
	if s.step.Reasoning != "" {
		s.part(object{field: s.step.Reasoning}, nil)
	}
	content, is := message["content"].(string)
	for is && len(content) > 64 { // pieces that may end inside a line, never inside a character
		cut := 64
		for cut < len(content) && content[cut]&0xc0 == 0x80 {
			cut++
		}
		s.part(object{"content": content[:cut]}, nil)
		content = content[cut:]
	}
	if is {
		message["content"] = content
	}
	s.part(message, nil)
	s.end()
}

func (s *speaker) noChoice() {
	if s.stream {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.closing()
		return
	}
	s.whole([]object{})
}

func (s *speaker) whole(choices []object) {
	reply := s.head("chat.completion")
	reply["choices"] = choices
	if usage := s.usage(); !s.step.NoUsage {
		reply["usage"] = usage
	}
	s.w.Header().Set("Content-Type", "application/json")
	s.record.Whole = json.NewEncoder(s.w).Encode(reply) == nil
}
