package main

import (
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
