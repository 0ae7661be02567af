package llm

import (
	"errors"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/llm/scripted"
)

func reply(t testing.TB, name string) string {
	t.Helper()
	text, err := scripted.Reply(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const (
	someCode = "```cpp\nKF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {}\n```\n"
	someSpec = "```json\n{\"change\": \"c\", \"spec\": {\"schema\": 1, \"constants\": {}, \"workspaces\": [], \"kernels\": [{\"entry\": \"kf_main\", \"work\": \"1\", \"grain\": \"1\", \"args\": []}]}}\n```\n"
)

func TestOneBlockOfEachIsRead(t *testing.T) {
	want, err := Parse(Reply{Finish: Stop, Text: someCode + someSpec})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"the other way round":         someSpec + someCode,
		"words around":                "# Idea\n\nUse `kf_fma`.\n" + someCode + "and\n" + someSpec + "Good luck!",
		"CRLF":                        strings.ReplaceAll(someCode+someSpec, "\n", "\r\n"),
		"CR":                          strings.ReplaceAll(someCode+someSpec, "\n", "\r"),
		"a byte order mark":           "\uFEFF" + someCode + someSpec,
		"tildes":                      strings.ReplaceAll(someCode+someSpec, "```", "~~~~"),
		"longer fences":               strings.ReplaceAll(someCode+someSpec, "```", "`````"),
		"another word for C++":        strings.Replace(someCode, "cpp", "C++ title=\"a.cc\"", 1) + someSpec,
		"braces around the word":      strings.Replace(someCode, "cpp", "{.cpp}", 1) + someSpec,
		"no words":                    strings.Replace(someCode, "cpp", "", 1) + strings.Replace(someSpec, "json", "", 1),
		"other blocks":                "```text\nnotes\n```\n" + someCode + "```bash\nmake\n```\n" + someSpec,
		"indented":                    "  " + strings.Replace(someCode, "\n```", "\n  ```", 1) + someSpec,
		"reasoning in the text":       "<think>\nFirst " + someCode + "no.\n</think>\n" + someCode + someSpec,
		"reasoning without its start": "First " + someCode + "no.\n</think>\n" + someCode + someSpec,
		"a fence within a comment":    someCode + someSpec + "Use ``` to quote.\n",
	} {
		got, err := Parse(Reply{Finish: Stop, Text: text})
		if err != nil || got.ID != want.ID {
			t.Errorf("%s: %v, source %q", name, err, got.Source)
		}
	}
}

func TestWhatIsUnusableSaysWhy(t *testing.T) {
	spec := func(old, new string) string { return someCode + strings.Replace(someSpec, old, new, 1) }
	for name, c := range map[string]struct{ text, reason string }{
		"nothing":               {"no", "no block of code and no block of JSON"},
		"two of code":           {someCode + someCode + someSpec, "2 blocks of code and one block of JSON"},
		"two of JSON":           {someCode + someSpec + someSpec, "one block of code and 2 blocks of JSON"},
		"no spec":               {someCode, "one block of code and no block of JSON"},
		"an open fence":         {someSpec + "```cpp\nvoid", "no closing fence"},
		"invalid UTF-8":         {someCode + "\xff" + someSpec, "not UTF-8"},
		"a NUL":                 {strings.Replace(someCode, "{}", "{\x00}", 1) + someSpec, "control character U+0000"},
		"an escape":             {strings.Replace(someCode, "{}", "{\x1b[2J}", 1) + someSpec, "control character U+001B"},
		"empty code":            {"```cpp\n\n```\n" + someSpec, "is empty"},
		"a long reply":          {someCode + someSpec + strings.Repeat("x", maxText), "expected at most 524288"},
		"long code":             {"```cpp\n" + strings.Repeat("// x\n", maxSource/5+1) + "```\n" + someSpec, "expected at most 65536"},
		"a long spec":           {spec("{", "{"+strings.Repeat(" ", maxSpec)), "expected at most 16384"},
		"no JSON":               {spec("{", "("), "the JSON block:"},
		"a field too many":      {spec(`"schema"`, `"color": 3, "schema"`), "`spec.color`: unknown field"},
		"a field too few":       {spec(`"workspaces": [],`, ``), "`spec.workspaces`: the field is missing"},
		"a wrong type":          {spec(`"work": "1"`, `"work": 1`), "`spec.kernels.work`: found a JSON number"},
		"twice the same field":  {spec(`"schema": 1`, `"schema": 1, "schema": 1`), "given twice"},
		"no kernels":            {spec(`[{"entry": "kf_main", "work": "1", "grain": "1", "args": []}]`, `[]`), "`spec.kernels` is empty"},
		"a constant with code":  {spec(`"constants": {}`, `"constants": {"N": "1); evil("}`), "constant `N`"},
		"many kernels":          {spec(`"kernels": [`, `"kernels": [`+strings.Repeat(`{"entry": "k", "args": []}, `, 16)), "17 kernels"},
		"thinking without end":  {"<think>\nhm " + someCode + someSpec, "before its reasoning does"},
		"only thinking":         {someCode + someSpec + "</think>", "no block of code"},
		"a fence inside a line": {"x ```cpp\nvoid f();\n```\n" + someSpec, "no block of JSON"},
	} {
		_, err := Parse(Reply{Finish: Stop, Text: c.text})
		unusable, ok := errors.AsType[*propose.Unusable](err)
		if !ok || !strings.Contains(unusable.Reason, c.reason) {
			t.Errorf("%s: found %v (expected %q)", name, err, c.reason)
		}
	}
}

func TestTheIdeaIsOneShortLine(t *testing.T) {
	text := someCode + strings.Replace(someSpec, `"c"`, `"a\nb\u0007 `+strings.Repeat("long ", 200)+`"`, 1)
	got, err := Parse(Reply{Finish: Stop, Text: text})
	if err != nil || !strings.HasPrefix(got.Change, "a b long") || len(got.Change) > maxChange+3 {
		t.Errorf("found %q, %v", got.Change, err)
	}
}

// Whatever comes: a candidate that is valid and came from one block of each, or a reason.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"mean", "several"} {
		f.Add(reply(f, name))
	}
	for _, text := range []string{someCode + someSpec, "```", "~~~json\n{}\n~~~", "</think>```cpp\n```", "\r\n```\r```json\n{\"change\":\"\",\"spec\":null}\n```"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		candidate, err := Parse(Reply{Finish: Stop, Text: text})
		if err != nil {
			if unusable, ok := errors.AsType[*propose.Unusable](err); !ok || unusable.Reason == "" || candidate.ID != "" {
				t.Fatalf("found %v with %+v", err, candidate)
			}
			return
		}
		if err := candidate.Validate(); err != nil {
			t.Fatal(err)
		}
		if candidate.Author != "llm" || len(candidate.Source) > maxSource || strings.ContainsAny(candidate.Source, "\r\x00\x1b") || strings.Contains(candidate.Change, "\n") {
			t.Fatalf("found %+v", candidate)
		}
		again := "```cpp\n" + candidate.Source + "```\n"
		if twice, err := Parse(Reply{Finish: Stop, Text: again}); err == nil || twice.ID != "" {
			t.Fatalf("code alone is read as %+v", twice)
		}
		if card.CandidateID(candidate.Source, candidate.Spec) != candidate.ID {
			t.Fatal("another id")
		}
	})
}
