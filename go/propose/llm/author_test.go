package llm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/propose/llm/scripted"
)

const testKey = "sk-test-0123456789abcdef"

// memory is a ledger of a test.
type memory struct {
	mu      sync.Mutex
	replies map[string]Reply
	asked   map[string][]byte
	fails   error
	lost    []budget.Amount
}

func (m *memory) Reply(key string) (Reply, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reply, ok := m.replies[key]
	return reply, ok, nil
}

func (m *memory) Lost(spent budget.Amount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = append(m.lost, spent)
	return m.fails
}

func (m *memory) Keep(key string, request []byte, reply Reply) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return m.fails
	}
	m.replies[key], m.asked[key] = reply, request
	return nil
}

// stage is an author before a scripted server.
type stage struct {
	server *scripted.Server
	url    string
	ledger *memory
	author *Author

	mu     sync.Mutex
	events []Event
}

// on makes a stage. change may alter the configuration.
func on(t *testing.T, change func(*Config), steps ...scripted.Step) *stage {
	t.Helper()
	s := &stage{server: scripted.New(steps...), ledger: &memory{replies: map[string]Reply{}, asked: map[string][]byte{}}}
	server := httptest.NewServer(s.server)
	t.Cleanup(server.Close)
	s.url = server.URL
	config := Config{Model: "scripted", BaseURL: server.URL, BackoffS: 0.002, Getenv: func(name string) string {
		return map[string]string{"OPENAI_API_KEY": testKey}[name]
	}, Notify: func(e Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}}
	if change != nil {
		change(&config)
	}
	author, err := New(config, s.ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(author.Close)
	s.author = author
	return s
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meanCard is the card of the prompt's example.
func meanCard(target string) *card.Card {
	call := card.Call{Overload: "aten::mean.dim",
		Args: []card.Arg{
			{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{64, 1000}, Strides: []int64{1000, 1}},
			{Name: "dim", Kind: "ints", Value: json.RawMessage("[1]")},
			{Name: "keepdim", Kind: "bool", Value: json.RawMessage("false")},
			{Name: "dtype", Kind: "none"}},
		Outputs: []card.Output{{DType: "float32", Sizes: []int64{64}, Strides: []int64{1}, Alias: -1}}}
	c := &card.Card{Schema: 1, ID: card.ID(call, "contiguous"), Target: target, Overload: call.Overload, Layout: "contiguous", Share: 0.1,
		Variants: []card.Variant{{ID: "v0", Call: call, Calls: 1, EagerUS: 50, Bytes: 256256, RoofUS: 25}}}
	if target == "host" {
		c.Threads = 2
	}
	return c
}

func given(seed int64) propose.Brief {
	return propose.Brief{Card: meanCard("host"), Facts: propose.Facts{Target: "host", ISA: "avx2", Threads: 2, L1Bytes: 32768, L2Bytes: 1 << 20, LLCBytes: 32 << 20, CacheLine: 64},
		Seed: seed, Seen: func(string) bool { return false }}
}

func TestAGoodReplyIsACandidateInEveryFormThatServersHave(t *testing.T) {
	for name, step := range map[string]scripted.Step{
		"stream":                           {Reply: "mean"},
		"whole, though a stream was asked": {Reply: "mean", Whole: true},
		"reasoning_content":                {Reply: "mean", Reasoning: "Let me think. ```cpp\nnothing\n```"},
		"reasoning":                        {Reply: "mean", Reasoning: "Let me think. ```json\n{}\n```", Field: "reasoning"},
		"no usage":                         {Reply: "mean", NoUsage: true},
		"another model":                    {Reply: "mean", Model: "scripted-2031-01-01"},
	} {
		for _, whole := range []bool{false, true} {
			s := on(t, func(c *Config) { c.Whole = whole }, step)
			candidate, err := s.author.Propose(t.Context(), given(1))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if candidate.Author != "llm" || candidate.ID != card.CandidateID(candidate.Source, candidate.Spec) || !strings.Contains(candidate.Source, "KF_ENTRY") ||
				candidate.Spec.Kernels[0].Work != "self_size0" || !strings.Contains(candidate.Change, "accumulators") {
				t.Errorf("%s: found %+v", name, candidate)
			}
			for key, reply := range s.ledger.replies {
				if record := s.server.Records()[0]; key != record.Key || reply.Finish != Stop || reply.TokensIn < 1000 || reply.TokensOut < 100 ||
					reply.Estimated != step.NoUsage || reply.Model != or(step.Model, "scripted") || reply.WallS <= 0 || !reply.Priced {
					t.Errorf("%s: found %+v of %+v", name, reply, record)
				}
				if step.Reasoning != "" && reply.TokensReasoning == 0 {
					t.Errorf("%s: no tokens of reasoning in %+v", name, reply)
				}
			}
		}
	}
}

func TestWhatIsPaidIsKeptAndNeverAskedAgain(t *testing.T) {
	s := on(t, nil, scripted.Step{Reply: "mean", DelayMS: 20})
	var group sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids { // of one request at the same time
		group.Go(func() {
			candidate, err := s.author.Propose(t.Context(), given(7))
			if err != nil {
				t.Error(err)
			}
			ids[i] = candidate.ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("found %q", ids)
		}
	}
	second, err := New(s.author.config, s.ledger) // another process with the same store
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if candidate, err := second.Propose(t.Context(), given(7)); err != nil || candidate.ID != ids[0] {
		t.Errorf("found %v, %v", candidate.ID, err)
	}
	if n := len(s.server.Records()); n != 1 {
		t.Errorf("%d requests were paid (expected 1)", n)
	}
	if _, err := s.author.Propose(t.Context(), given(8)); err != nil || len(s.server.Records()) != 2 {
		t.Errorf("another seed is another request: %v, %d requests", err, len(s.server.Records()))
	}
	for key, asked := range s.ledger.asked {
		var request Request
		if err := json.Unmarshal(asked, &request); err != nil || request.Key() != key || request.Schema != PromptSchema {
			t.Errorf("the kept request of %s has the key %s, %v", key, request.Key(), err)
		}
	}
}

// An unusable reply is paid too: kept, with its key in the error.
func TestAReplyIsKeptBeforeItIsRead(t *testing.T) {
	s := on(t, nil, scripted.Step{Text: "I am not sure."})
	_, err := s.author.Propose(t.Context(), given(1))
	unusable, ok := errors.AsType[*propose.Unusable](err)
	if !ok || s.ledger.replies[unusable.Reply].Text != "I am not sure." || !strings.Contains(unusable.Reason, "no block of code and no block of JSON") {
		t.Fatalf("found %v, %+v", err, s.ledger.replies)
	}
	s = on(t, nil, scripted.Step{Reply: "mean"})
	s.ledger.fails = errors.New("no space left on device")
	if _, err := s.author.Propose(t.Context(), given(1)); !errors.Is(err, s.ledger.fails) {
		t.Errorf("a ledger that cannot keep: %v", err)
	}
}

func TestACandidateThatIsKnownIsNotGivenAgain(t *testing.T) {
	s := on(t, nil, scripted.Step{Reply: "mean"})
	candidate, err := s.author.Propose(t.Context(), given(1))
	if err != nil {
		t.Fatal(err)
	}
	b := given(2)
	b.Seen = func(id string) bool { return id == candidate.ID }
	_, err = s.author.Propose(t.Context(), b)
	if unusable, ok := errors.AsType[*propose.Unusable](err); !ok || !strings.Contains(unusable.Reason, "judged already") {
		t.Errorf("found %v", err)
	}
	b = given(3)
	b.Repair = &propose.Attempt{Candidate: candidate, Verdict: card.Verdict{Status: card.CompileError, Detail: "error"}}
	_, err = s.author.Propose(t.Context(), b)
	if unusable, ok := errors.AsType[*propose.Unusable](err); !ok || !strings.Contains(unusable.Reason, "unchanged") {
		t.Errorf("found %v", err)
	}
}

func TestCancellingEndsACallAtOnce(t *testing.T) {
	for _, do := range []string{"endless", "silent", "stall"} {
		s := on(t, nil, scripted.Step{Do: do, Text: "Here is"})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("Ctrl-C")
		time.AfterFunc(30*time.Millisecond, func() { cancel(why) })
		began := time.Now()
		_, err := s.author.Propose(ctx, given(1))
		if took := time.Since(began); !errors.Is(err, why) || took > 20*time.Second { // its own limits are longer
			t.Errorf("%s: %v after %v", do, err, took)
		}
		if len(s.ledger.replies) != 0 {
			t.Errorf("%s: kept %+v", do, s.ledger.replies)
		}
	}
}

func TestReasoningThatTakesAllTokensIsAskedOnceMoreWithTwiceAsMany(t *testing.T) {
	s := on(t, func(c *Config) { c.MaxTokens = 100 }, scripted.Step{Times: 1, Finish: "length", Reasoning: "hm"}, scripted.Step{Reply: "mean"})
	if _, err := s.author.Propose(t.Context(), given(1)); err != nil {
		t.Fatal(err)
	}
	records := s.server.Records()
	if len(records) != 2 || !strings.Contains(string(records[0].Request), `"max_tokens":100`) || !strings.Contains(string(records[1].Request), `"max_tokens":200`) {
		t.Errorf("asked %d times", len(records))
	}
	if _, err := s.author.Propose(t.Context(), given(1)); err != nil || len(s.server.Records()) != 2 {
		t.Errorf("both are in the ledger: %v, %d requests", err, len(s.server.Records()))
	}
}

func TestABudgetOfNothingCallsNobody(t *testing.T) {
	zero := 0.0
	b, err := budget.New(budget.Limits{USD: &zero}, budget.Amount{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := on(t, func(c *Config) { c.Budget = b }, scripted.Step{Reply: "mean"})
	if _, err := s.author.Propose(t.Context(), given(1)); !errors.Is(err, propose.ErrBudget) || !strings.Contains(err.Error(), "0 USD calls no author") {
		t.Errorf("found %v", err)
	}
	if n := len(s.server.Records()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestRatesAreHeld(t *testing.T) {
	s := on(t, func(c *Config) { c.RequestsPerMinute = 1200 }, scripted.Step{Reply: "mean"}) // one each 50 ms
	began := time.Now()
	for seed := range int64(4) {
		if _, err := s.author.Propose(t.Context(), given(seed)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 140*time.Millisecond {
		t.Errorf("4 requests took %v (expected at least 3 pauses of 50 ms)", took)
	}
	s = on(t, func(c *Config) { c.TokensPerMinute, c.MaxTokens = 6e5, 1000 }, scripted.Step{Reply: "mean"})
	s.author.tokens.SetBurst(1000)
	began = time.Now()
	for seed := range int64(3) {
		if _, err := s.author.Propose(t.Context(), given(seed)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("3 requests of 1,000 tokens and more took %v (expected two pauses of 100 ms)", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s = on(t, func(c *Config) { c.RequestsPerMinute = 1 }, scripted.Step{Reply: "mean"})
	_, _ = s.author.Propose(t.Context(), given(1))
	if _, err := s.author.Propose(ctx, given(2)); !errors.Is(err, propose.ErrBudget) {
		t.Errorf("a wait beyond the deadline: %v", err)
	}
}

// The key is never told: not by errors, events, kept requests, or a server that repeats it.
func TestTheKeyIsNeverTold(t *testing.T) {
	s := on(t, nil, scripted.Step{Status: 401, Body: `{"error": {"message": "Incorrect API key provided: ` + testKey + `", "type": "invalid_request_error"}}`})
	_, err := s.author.Propose(t.Context(), given(1))
	if err == nil || !strings.Contains(err.Error(), "HTTP 401") || !strings.Contains(card.AsError(err).Hint, "`OPENAI_API_KEY`") {
		t.Errorf("found %v, hint %q", err, card.AsError(err).Hint)
	}
	told := []any{err, card.AsError(err), s.events, s.ledger.asked, s.author, s.author.endpoint.key}
	for chain := err; chain != nil; chain = errors.Unwrap(chain) {
		told = append(told, chain.Error())
	}
	for _, thing := range told {
		text, _ := json.Marshal(thing)
		if strings.Contains(string(text), testKey) || strings.Contains(sprint(thing), testKey) {
			t.Errorf("told in %T", thing)
		}
	}
	if records := s.server.Records(); len(records) != 1 || records[0].Bearer == "" {
		t.Errorf("found %d requests", len(records))
	}
}

func TestNeitherKeyNorPromptFollowsARedirect(t *testing.T) {
	other := scripted.New(scripted.Step{Reply: "mean"})
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := on(t, nil, scripted.Step{Status: status, Location: elsewhere.URL + "/v1/chat/completions"})
		_, err := s.author.Propose(t.Context(), given(1))
		if err == nil || !strings.Contains(err.Error(), "redirects to another one") || len(s.server.Records()) != 1 {
			t.Errorf("%d: %v after %d requests", status, err, len(s.server.Records()))
		}
	}
	if n := len(other.Records()); n != 0 {
		t.Errorf("the other server got %d requests", n)
	}
}
