package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

const (
	relu  = "c-00000001"
	token = "a token of the test"
)

// byText judges by what stands in the source: a cost, or how it fails. The protocol is on trial here; the real judge is at the end of the Python test.
type byText struct{}

func (byText) Open(context.Context, *card.Card, int64) error { return nil }
func (byText) Judge(_ context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error) {
	if strings.Contains(candidate.Source, "wrong") {
		return card.Verdict{Status: card.WrongValue, Gate: "values", Detail: "3 of 4096 elements, at [7]: 1.5 (expected 2.5 +- 0.1)",
			At: &card.At{Variant: "v0", Seed: 12345}}, nil
	}
	v := card.Verdict{Status: card.OK, Cost: 0.5}
	for _, variant := range c.Variants {
		v.Variants = append(v.Variants, card.VariantCost{ID: variant.ID, Cost: 0.5, EagerUS: variant.EagerUS, CandidateUS: variant.EagerUS / 2, Samples: 8})
	}
	return v, nil
}
func (byText) Confirm(context.Context, *card.Card, []judge.Finalist) ([]judge.Confirmation, error) {
	return nil, nil
}
func (byText) Close(context.Context, string) error { return nil }
func (byText) Shutdown()                           {}

// study makes a store with a study that attends in this process, and gives the store's path.
func study(t *testing.T) string {
	t.Helper()
	path, running := attending(t)
	t.Cleanup(func() { halt(running) })
	return path
}

func halt(running *forge.Study) {
	running.Cancel(true)
	<-running.Ended()
}

func attending(t *testing.T) (string, *forge.Study) {
	t.Helper()
	return attendingOn(t, "host", byText{})
}

func attendingOn(t *testing.T, target string, by forge.Judge) (string, *forge.Study) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := store.Open(path, store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	tensor := card.Arg{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{4096}, Strides: []int64{1}}
	c := &card.Card{Schema: 1, ID: relu, Target: target, Overload: "aten::relu", Layout: "contiguous", Threads: map[string]int{"host": 2}[target], Share: 0.5, Variants: []card.Variant{{
		ID: "v0", Calls: 1, EagerUS: 100, RoofUS: 10, Bytes: 32768, Call: card.Call{Overload: "aten::relu", Args: []card.Arg{tensor},
			Outputs: []card.Output{{DType: "float32", Sizes: []int64{4096}, Strides: []int64{1}, Alias: -1}}}}}}
	running, err := forge.Start(forge.Config{Store: s, Study: &store.Study{ID: "s-test", Target: target, Model: "net", Cards: []*card.Card{c},
		Pins: map[string]any{"threads": 2.0}}, Settings: forge.Settings{Attend: true}, Judge: func(judge.Referee) (forge.Judge, error) { return by, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return path, running
}

func serve(t *testing.T, config Config) *Server {
	t.Helper()
	config.Store, config.Study, config.Facts = study(t), "s-test", func(c *card.Card) propose.Facts {
		return propose.Facts{Target: "host", Threads: c.Threads}
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// bearer sends the token with every request.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func overHTTP(t *testing.T, s *Server) (url string) {
	t.Helper()
	url, err := s.HTTP("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func client(t *testing.T, url string) *sdk.ClientSession {
	t.Helper()
	return connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{}}})
}

// use calls a tool; the answer as JSON, or the text of its error.
func use(t *testing.T, session *sdk.ClientSession, name string, args map[string]any) (answer map[string]any, text, failure string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return nil, "", err.Error()
	}
	for _, content := range result.Content {
		if words, ok := content.(*sdk.TextContent); ok {
			text += words.Text
		}
	}
	if result.IsError {
		return nil, text, text
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatalf("%s gave %s: %v", name, data, err)
	}
	return answer, text, ""
}

func spec() map[string]any {
	return map[string]any{"schema": 1, "constants": map[string]any{}, "workspaces": []any{}, "kernels": []any{map[string]any{
		"entry": "kf_main", "work": "out0_numel", "grain": "1024", "args": []any{map[string]any{"slot": "self"}, map[string]any{"slot": "out0"}}}}}
}

// loop is what an agent does: look, ask, submit, read.
func loop(t *testing.T, session *sdk.ClientSession, idea string) {
	t.Helper()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Fatalf("found %d tools, %v (expected 6)", len(tools.Tools), err)
	}
	cards, _, failure := use(t, session, "list_cards", nil)
	if failure != "" || len(cards["cards"].([]any)) != 1 || cards["target"] != "host" {
		t.Fatalf("the cards are %v %s", cards, failure)
	}
	told, text, failure := use(t, session, "get_brief", map[string]any{"card": "relu"})
	if failure != "" || !strings.Contains(text, "out0_numel=4096") || told["card"].(map[string]any)["overload"] != "aten::relu" {
		t.Fatalf("the brief is %v %s %s", told, text, failure)
	}
	answer, _, failure := use(t, session, "submit_candidate", map[string]any{"card": relu, "source": "// " + idea, "spec": spec(), "idea": idea, "wait_s": 30})
	if failure != "" || answer["state"] != forge.AnswerJudged || answer["verdict"].(map[string]any)["cost"] != 0.5 {
		t.Fatalf("the answer is %v %s", answer, failure)
	}
	again, _, failure := use(t, session, "get_verdict", map[string]any{"card": "relu", "candidate": answer["candidate"]})
	if failure != "" || again["node"] != answer["node"] {
		t.Errorf("the verdict is %v %s (expected that of %v)", again, failure, answer)
	}
	node, _, failure := use(t, session, "get_node", map[string]any{"card": relu, "node": answer["node"]})
	if failure != "" || node["candidate"].(map[string]any)["source"] != "// "+idea || node["candidate"].(map[string]any)["author"] != "agent" {
		t.Errorf("the node is %v %s", node, failure)
	}
	tree, _, failure := use(t, session, "get_tree", map[string]any{"card": relu})
	if failure != "" || len(tree["nodes"].([]any)) < 2 {
		t.Errorf("the tree is %v %s", tree, failure)
	}
}

func TestAnAgentDrivesAStudyOverStdio(t *testing.T) {
	s := serve(t, Config{})
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	s.Stdio(toServer, fromServer)
	session := connect(t, &sdk.IOTransport{Reader: toClient, Writer: fromClient})
	loop(t, session, "over stdio")
	if s.Waiting() != 0 {
		t.Errorf("%d candidates wait (expected none)", s.Waiting())
	}
	if err := fromClient.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ended():
	case <-time.After(30 * time.Second):
		t.Fatal("the server did not end with its input")
	}
	if err := s.Failure(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestTwoAgentsDriveAStudyOverHTTPAtOnce(t *testing.T) {
	s := serve(t, Config{})
	url := overHTTP(t, s)
	var both sync.WaitGroup
	for _, idea := range []string{"of the first", "of the second"} {
		both.Go(func() { loop(t, client(t, url), idea) })
	}
	both.Wait()
	tree, _, _ := use(t, client(t, url), "get_tree", map[string]any{"card": relu})
	if len(tree["nodes"].([]any)) != 3 {
		t.Errorf("the tree is %v (expected eager and two)", tree)
	}
}

// What an agent reads may leave the machine: neither seeds nor values, unless the user wishes it.
func TestAgentsSeeWhichCheckFailedAndDetailsOnlyOnWish(t *testing.T) {
	for _, details := range []bool{false, true} {
		s := serve(t, Config{Details: details})
		session := client(t, overHTTP(t, s))
		answer, text, failure := use(t, session, "submit_candidate", map[string]any{"card": relu, "source": "wrong", "spec": spec(), "wait_s": 30})
		if failure != "" || answer["verdict"].(map[string]any)["status"] != "wrong_value" {
			t.Fatalf("the answer is %v %s", answer, failure)
		}
		_, node, _ := use(t, session, "get_node", map[string]any{"card": relu, "node": 1})
		_, brief, _ := use(t, session, "get_brief", map[string]any{"card": relu})
		for what, words := range map[string]string{"answer": text, "node": node, "brief": brief} {
			if secret := strings.Contains(words, "12345") || strings.Contains(words, "2.5"); secret != details {
				t.Errorf("details %t: the %s says %s", details, what, words)
			}
		}
	}
}

func TestWrongCallsAreAnswersWithAHint(t *testing.T) {
	s := serve(t, Config{})
	session := client(t, overHTTP(t, s))
	bad := spec()
	delete(bad, "kernels")
	for words, call := range map[string]struct {
		tool string
		args map[string]any
	}{
		"no card fits":              {"get_brief", map[string]any{"card": "c-99999999"}},
		"no such node":              {"get_brief", map[string]any{"card": relu, "parent": 99}},
		"`kernels`":                 {"submit_candidate", map[string]any{"card": relu, "source": "x", "spec": bad}},
		"read `spec`":               {"submit_candidate", map[string]any{"card": relu, "source": "x", "spec": "no JSON"}},
		"`source` is empty":         {"submit_candidate", map[string]any{"card": relu, "source": "", "spec": spec()}},
		"expected at most":          {"submit_candidate", map[string]any{"card": relu, "source": strings.Repeat("x", forge.MaxSource+1), "spec": spec()}},
		"`wait_s`":                  {"get_verdict", map[string]any{"card": relu, "candidate": "k-000000000000", "wait_s": -1}},
		"nobody submitted it":       {"get_verdict", map[string]any{"card": relu, "candidate": "k-000000000000"}},
		"required":                  {"submit_candidate", map[string]any{"card": relu}},
		"unexpected additional pro": {"list_cards", map[string]any{"surprise": 1}},
	} {
		if _, _, failure := use(t, session, call.tool, call.args); !strings.Contains(failure, words) {
			t.Errorf("%s with %.80v says %.300q (expected `%s`)", call.tool, call.args, failure, words)
		}
	}
	loop(t, session, "after all that") // the session has survived
}

// Nobody runs the study: candidates wait, are kept, and clients hear why where that is known.
func TestACandidateThatNobodyJudgesWaits(t *testing.T) {
	path, running := attending(t)
	halt(running)
	s, err := New(Config{Store: path, Study: "s-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	session := client(t, overHTTP(t, s))
	call := map[string]any{"card": relu, "source": "mine", "spec": spec(), "wait_s": 0}
	if answer, _, failure := use(t, session, "submit_candidate", call); failure != "" || answer["state"] != forge.AnswerWaiting || s.Waiting() != 1 {
		t.Errorf("the answer is %v %s, and %d wait", answer, failure, s.Waiting())
	}
	s.Trouble("nothing can be judged here: no model")
	answer, _, failure := use(t, session, "submit_candidate", call)
	if failure != "" || answer["state"] != forge.AnswerUnjudged || answer["why"] != "nothing can be judged here: no model" {
		t.Errorf("in trouble the answer is %v %s", answer, failure)
	}
	s.Trouble("")
	call["wait_s"] = 300
	ended := make(chan string)
	go func() {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "submit_candidate", Arguments: call})
		if err == nil && !result.IsError {
			ended <- "a verdict came"
		}
		ended <- ""
	}()
	time.AfterFunc(300*time.Millisecond, s.Close)
	select {
	case wrong := <-ended:
		if wrong != "" {
			t.Error(wrong)
		}
	case <-time.After(30 * time.Second):
		t.Error("a call outlives the server")
	}
}

func TestHTTPIsForProgramsOfThisMachineWithTheToken(t *testing.T) {
	s := serve(t, Config{})
	url := overHTTP(t, s)
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), path)
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for name, attempt := range map[string]struct {
		change func(*http.Request)
		body   string
		want   int
	}{
		"right":             {func(*http.Request) {}, hello, http.StatusOK},
		"own origin":        {func(r *http.Request) { r.Header.Set("Origin", "http://"+address) }, hello, http.StatusOK},
		"no token":          {func(r *http.Request) { r.Header.Del("Authorization") }, hello, http.StatusUnauthorized},
		"wrong token":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, hello, http.StatusUnauthorized},
		"token in the open": {func(r *http.Request) { r.Header.Set("Authorization", token) }, hello, http.StatusUnauthorized},
		"wrong host":        {func(r *http.Request) { r.Host = "evil.example:80" }, hello, http.StatusForbidden},
		"host of a rebound": {func(r *http.Request) { r.Host = "evil.example" + address[strings.LastIndex(address, ":"):] }, hello, http.StatusForbidden},
		"wrong origin":      {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, hello, http.StatusForbidden},
		"origin null":       {func(r *http.Request) { r.Header.Set("Origin", "null") }, hello, http.StatusForbidden},
		"empty origin":      {func(r *http.Request) { r.Header["Origin"] = []string{""} }, hello, http.StatusForbidden},
		"other path":        {func(r *http.Request) { r.URL.Path = "/" }, hello, http.StatusNotFound},
		"large body":        {func(*http.Request) {}, hello + strings.Repeat(" ", maxBody), http.StatusRequestEntityTooLarge},
		"large, unsaid":     {func(r *http.Request) { r.ContentLength = -1 }, hello + strings.Repeat(" ", maxBody), http.StatusRequestEntityTooLarge},
		"no JSON":           {func(*http.Request) {}, "hello", http.StatusBadRequest},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.NopCloser(bytes.NewReader([]byte(attempt.body))))
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = int64(len(attempt.body))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		attempt.change(request)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode != attempt.want {
			t.Errorf("%s: answered %d (expected %d)", name, response.StatusCode, attempt.want)
		}
	}
	loop(t, client(t, url), "after all that")
}

func TestOnlyTheLoopbackIsServed(t *testing.T) {
	s := serve(t, Config{})
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:80", "example.org:80", "127.0.0.1", "localhost:0"} {
		if url, err := s.HTTP(address, token); err == nil || card.AsError(err).Code != card.CodeRequest {
			t.Errorf("`%s` is served at %s, %v", address, url, err)
		}
	}
	if _, err := s.HTTP("127.0.0.1:0", "short"); err == nil {
		t.Error("a token that can be guessed is taken")
	}
	if _, err := New(Config{Store: s.config.Store, Study: "no-such"}); err == nil || card.AsError(err).Code != card.CodeNotFound {
		t.Errorf("a study that is not there gives %v", err)
	}
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	s := serve(t, Config{})
	s.config.Study = "s-test"
	session := client(t, overHTTP(t, s))
	if _, _, failure := use(t, session, "list_cards", nil); failure != "" {
		t.Fatal(failure)
	}
	s.Close()
	s.Close()
	<-s.Ended()
	if _, _, failure := use(t, session, "list_cards", nil); failure == "" {
		t.Error("a server that is closed answers")
	}
	if err := s.Failure(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
