package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/propose/llm"
	"github.com/kernelforge/kernelforge/go/store"
)

func TestAuthorsOfARequestAreMadeOrRefusedBeforeAStudyBegins(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Create(&store.Study{ID: "s-old", Target: "host", Model: "net"}); err != nil {
		t.Fatal(err)
	}
	near := llm.Config{BaseURL: "http://127.0.0.1:1/v1"}
	for name, c := range map[string]struct {
		requests []authorRequest
		text     string // of the error; "": none
	}{
		"a model on this machine": {[]authorRequest{{Name: "openai:small", Config: near}, {Name: "call:mine"}}, ""},
		"a recording":             {[]authorRequest{{Name: "replay:s-old"}}, ""},
		"a recording of nothing":  {[]authorRequest{{Name: "replay:s-none"}}, "there is none of this name"},
		"two with a recording":    {[]authorRequest{{Name: "replay:s-old"}, {Name: "openai:small", Config: near}}, "has no other author"},
		"no key":                  {[]authorRequest{{Name: "openai:large", Config: llm.Config{BaseURL: "https://far.example/v1"}}}, "holds no key"},
		"no kind":                 {[]authorRequest{{Name: "small"}}, "no author's name"},
		"another kind":            {[]authorRequest{{Name: "oracle:small"}}, "there is no kind"},
	} {
		settings := forge.Settings{}
		authors, recording, err := authorsOf(c.requests, &settings, s)
		switch {
		case c.text != "":
			if err == nil || !strings.Contains(err.Error(), c.text) || card.AsError(err).Code == card.CodeInternal {
				t.Errorf("%s: found %v (expected %q)", name, err, c.text)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case (recording != nil) != (name == "a recording") || len(authors)+len(settings.Authors) == 0 || recording == nil && len(authors) != len(c.requests):
			t.Errorf("%s: %d authors, recording %v, settings name %v", name, len(authors), recording, settings.Authors)
		}
	}
}

// The first forecast of a study knows the replies that other studies of the store paid for.
func TestTheRepliesOfAModelAreKnownToEveryStudyOfAStore(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var bytes int64
	for i, model := range []string{"small", "large", "small", "small"} {
		request := llm.Request{Schema: 1, Model: model, Seed: int64(i)}
		text, err := json.Marshal(llm.Reply{Text: "...", Model: model + "-2026", TokensIn: 100, TokensOut: int64(10 * i), WallS: 2})
		if err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			text = []byte("not a reply of ours")
		} else if model == "small" {
			bytes += int64(len(request.Canonical()))
		}
		if _, err := s.Keep("s-one", "session", request.Key(), request.Canonical(), text); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Ask("s-one", "session", "unanswered"); err != nil {
		t.Fatal(err)
	}
	found, err := history("small", s.Conversations)
	if expected := (llm.History{Replies: 2, RequestBytes: bytes, TokensIn: 200, TokensOut: 20, WallS: 4}); err != nil || found != expected {
		t.Errorf("found %+v, %v (expected %+v)", found, err, expected)
	}
	if found, err := history("small-2026", s.Conversations); err != nil || found != (llm.History{}) {
		t.Errorf("found %+v, %v (expected nothing: it is the name that was asked for that counts)", found, err)
	}
}
