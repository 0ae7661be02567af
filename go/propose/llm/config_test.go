package llm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

func env(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestWhereRequestsGo(t *testing.T) {
	keyed := map[string]string{"OPENAI_API_KEY": testKey}
	for name, c := range map[string]struct {
		config    Config
		variables map[string]string
		base      string
		part      string
	}{
		"nothing said":            {Config{Model: "gpt-5-mini"}, keyed, "https://api.openai.com/v1", ""},
		"by the variable":         {Config{Model: "gpt-5-mini"}, map[string]string{"OPENAI_API_KEY": testKey, "OPENAI_BASE_URL": "https://a.example/v1/"}, "https://a.example/v1", ""},
		"a path of its own":       {Config{Model: "gpt-5-mini", BaseURL: "https://a.example/openai/deployments/x"}, keyed, "https://a.example/openai/deployments/x", ""},
		"a port of this machine":  {Config{Model: "m", BaseURL: "http://localhost:8000"}, nil, "http://localhost:8000/v1", ""},
		"by its number":           {Config{Model: "m", BaseURL: "http://127.0.0.1:8000/v1/"}, nil, "http://127.0.0.1:8000/v1", ""},
		"IPv6":                    {Config{Model: "m", BaseURL: "http://[::1]:8000/v1"}, nil, "http://[::1]:8000/v1", ""},
		"http elsewhere":          {Config{Model: "gpt-5", BaseURL: "http://gpu-box:8000/v1"}, keyed, "", "could be read on the way"},
		"by the user's word":      {Config{Model: "gpt-5", BaseURL: "http://gpu-box:8000/v1", InsecureHTTP: true}, keyed, "http://gpu-box:8000/v1", ""},
		"a name like this one's":  {Config{Model: "gpt-5", BaseURL: "http://localhost.example/v1"}, keyed, "", "could be read on the way"},
		"a key in the address":    {Config{Model: "gpt-5", BaseURL: "https://user:" + testKey + "@a.example/v1"}, keyed, "", "carries a user"},
		"a query in the address":  {Config{Model: "gpt-5", BaseURL: "https://a.example/v1?key=" + testKey}, keyed, "", "carries a user, a query"},
		"no address":              {Config{Model: "gpt-5", BaseURL: "a.example"}, keyed, "", "no address"},
		"another scheme":          {Config{Model: "gpt-5", BaseURL: "ftp://a.example/v1"}, keyed, "", "begins with `ftp:`"},
		"no key":                  {Config{Model: "gpt-5"}, nil, "", "the variable `OPENAI_API_KEY` holds no key"},
		"no key of that name":     {Config{Model: "m", BaseURL: "http://localhost:1", APIKeyEnv: "MY_KEY"}, nil, "", "the variable `MY_KEY` holds no key"},
		"a key in the name":       {Config{Model: "gpt-5", APIKeyEnv: testKey}, keyed, "", "`api_key_env` is not the name of a variable"},
		"two places of a key":     {Config{Model: "gpt-5", APIKeyEnv: "A", APIKeyFile: "b"}, keyed, "", "both `api_key_env` and `api_key_file`"},
		"a key with a line break": {Config{Model: "gpt-5"}, map[string]string{"OPENAI_API_KEY": testKey + "\nX-Evil: 1"}, "", "characters that no key has"},
		"no model":                {Config{}, keyed, "", "`model` is empty"},
		"an unknown model":        {Config{Model: "nobody-knows"}, keyed, "", "not in the price table"},
		"a negative time":         {Config{Model: "gpt-5", TotalS: -1}, keyed, "", "`total_s` is -1"},
		"a wild temperature":      {Config{Model: "gpt-5", Temperature: ptr(3.0)}, keyed, "", "`temperature` is 3"},
		"a strange field":         {Config{Model: "gpt-5", TokensField: "tokens"}, keyed, "", "`tokens_field` is `tokens`"},
	} {
		c.config.Getenv = env(c.variables)
		unlimited, err := budget.New(budget.Limits{}, budget.Amount{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.config.Budget = unlimited
		author, err := New(c.config, nil)
		switch {
		case c.part == "" && (err != nil || author.base.String() != c.base):
			t.Errorf("%s: %v (expected %s)", name, err, c.base)
		case c.part != "" && (err == nil || !strings.Contains(err.Error(), c.part) || card.AsError(err).Code != card.CodeRequest):
			t.Errorf("%s: %v (expected %q)", name, err, c.part)
		case err != nil && (strings.Contains(err.Error()+card.AsError(err).Hint, testKey) || strings.Contains(sprint(err), testKey)):
			t.Errorf("%s: the error has the key", name)
		}
	}
}

func TestAKeyInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "the-key")
	config := Config{Model: "gpt-5-mini", APIKeyFile: path, Getenv: env(nil)}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(testKey + "\n")
	author, err := New(config, nil)
	if err != nil || author.endpoint.key != testKey {
		t.Fatalf("found %v", err)
	}
	for text, part := range map[string]string{"": "holds no key", strings.Repeat("k", 5000): "longer than 4096 bytes", "two words": "characters that no key has"} {
		write(text)
		if _, err := New(config, nil); err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	config.APIKeyFile += "-missing"
	if _, err := New(config, nil); err == nil || !strings.Contains(err.Error(), "`the-key-missing`") || strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("found %v", err)
	}
}

func TestASecretDoesNotPrint(t *testing.T) {
	holder := struct{ Key secret }{testKey}
	text, err := json.Marshal(holder)
	if err != nil || strings.Contains(string(text)+sprint(holder)+sprint(holder.Key), "0123456789") {
		t.Errorf("found %s %s", text, sprint(holder))
	}
}
