package card

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// example gives the n-th JSON block below a heading of docs/formats.md, so that the document cannot drift from the code.
func example(t *testing.T, heading string, n int) []byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/formats.md has no heading `%s`", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1)
	if n >= len(blocks) {
		t.Fatalf("docs/formats.md has %d JSON blocks below `%s` (expected more than %d)", len(blocks), heading, n)
	}
	return []byte(blocks[n][1])
}

func documentedCard(t *testing.T) map[string]any {
	t.Helper()
	var call, whole map[string]any
	if err := json.Unmarshal(example(t, "call", 0), &call); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(example(t, "card", 0), &whole); err != nil {
		t.Fatal(err)
	}
	whole["variants"].([]any)[0].(map[string]any)["call"] = call
	return whole
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDocumentedCardIsReadAndWrittenBack(t *testing.T) {
	whole := documentedCard(t)
	c, err := ReadCard(encode(t, whole))
	if err != nil {
		t.Fatal(err)
	}
	var again map[string]any
	if err := json.Unmarshal(encode(t, c), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, again); diff != "" {
		t.Errorf("the card changed on its way through Go (-document +written):\n%s", diff)
	}
}

func TestDocumentedCandidateSpecAndVerdictAreRead(t *testing.T) {
	var spec Spec
	if err := Decode(example(t, "spec", 0), &spec); err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(example(t, "candidate", 0), &whole); err != nil {
		t.Fatal(err)
	}
	whole["spec"], whole["id"] = spec, ""
	candidate, err := ReadCandidate(encode(t, whole))
	if err != nil {
		t.Fatal(err)
	}
	if candidate.ID != CandidateID("...", spec) || candidate.Params["VEC"] != 8 {
		t.Errorf("read %+v", candidate)
	}
	if _, err := ReadVerdict(example(t, "verdict", 0)); err != nil {
		t.Fatal(err)
	}
}

func TestReaderNamesTheFieldThatIsWrong(t *testing.T) {
	valid := string(encode(t, documentedCard(t)))
	for name, test := range map[string]struct{ from, to, want string }{
		"unknown field":    {`"share":0.39`, `"share":0.39,"shore":1`, "`shore`: unknown field"},
		"other case":       {`"share":0.39`, `"Share":0.39`, "`Share`: unknown field"},
		"missing field":    {`"share":0.39,`, ``, "`share`: the field is missing"},
		"twice":            {`"share":0.39`, `"share":0.39,"share":0.4`, "`share`: the field is given twice"},
		"wrong type":       {`"share":0.39`, `"share":"0.39"`, "share"},
		"null":             {`"share":0.39`, `"share":null`, "`share`: found null"},
		"text after":       {`"threads":2`, `"threads":2}{"a":1`, ""},
		"nested missing":   {`"calls":2,`, ``, "`variants[0].calls`: the field is missing"},
		"nested unknown":   {`"calls":2`, `"calls":2,"x":{}`, "`variants[0].x`: unknown field"},
		"list for number":  {`"calls":2`, `"calls":[2]`, "`variants[0].calls`: found a list"},
		"not a dtype":      {`"dtype":"float32"`, `"dtype":"float8"`, "float8"},
		"not a layout":     {`"layout":"contiguous"`, `"layout":"blocked"`, "blocked"},
		"not an id":        {`"id":"c-3f2a9c1d"`, `"id":"c-3f2a"`, "8 hexadecimal digits"},
		"share above one":  {`"share":0.39`, `"share":39`, "expected 0 to 1"},
		"no eager time":    {`"eager_us":9800`, `"eager_us":0`, "`eager_us` is 0"},
		"other overload":   {`"overload":"aten::max_pool2d_with_indices"`, `"overload":"aten::relu"`, "overload"},
		"no threads":       {`"threads":2,`, ``, "`threads` is 0 (expected 1 or more)"},
		"a device's":       {`"target":"host"`, `"target":"cuda"`, "`threads` is 2 (expected none"},
		"a newer schema":   {`"schema":1`, `"schema":2`, "`schema` is 2 (expected 1)"},
		"a negative size":  {`"sizes":[4,64,56,56]`, `"sizes":[4,64,56,-56]`, "a size is -56"},
		"an odd address":   {`"align":[64]`, `"align":[48]`, "`align` has 48 (expected powers of two)"},
		"address missing":  {`"align":[64]`, `"align":[64,64]`, "`align` has 2 numbers (expected one for each of 1 input slots, or none)"},
		"a stride missing": {`"strides":[200704,3136,56,1]`, `"strides":[200704,3136,56]`, "4 sizes and 3 strides"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(valid, test.from, test.to, 1)
			if text == valid {
				t.Fatalf("`%s` is not in the document", test.from)
			}
			_, err := ReadCard([]byte(text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("found %v (expected an error with %q)", err, test.want)
			}
		})
	}
}

func TestCardIdentityIgnoresSizesAndNothingElse(t *testing.T) {
	c, err := ReadCard(encode(t, documentedCard(t)))
	if err != nil {
		t.Fatal(err)
	}
	call := c.Variants[0].Call
	id := ID(call, c.Layout)
	if !cardPattern.MatchString(id) {
		t.Fatalf("the id is `%s`", id)
	}
	change := func(edit func(*Call)) Call {
		var other Call
		if err := Decode(encode(t, call), &other); err != nil {
			t.Fatal(err)
		}
		edit(&other)
		return other
	}
	larger := change(func(c *Call) { c.Args[0].Sizes[0] = 8; c.Args[0].Strides[0]++ })
	if ID(larger, c.Layout) != id {
		t.Error("another size made another card")
	}
	if CallKey(larger) == CallKey(call) {
		t.Error("another size is the same variant")
	}
	for name, other := range map[string]Call{
		"dtype":    change(func(c *Call) { c.Args[0].DType = "float64" }),
		"scalar":   change(func(c *Call) { c.Args[1].Value = json.RawMessage("[3, 2]") }),
		"bool":     change(func(c *Call) { c.Args[5].Value = json.RawMessage("false") }),
		"alias":    change(func(c *Call) { c.Outputs[0].Alias = 0 }),
		"overload": change(func(c *Call) { c.Overload = "aten::max_pool2d" }),
		"rank": change(func(c *Call) {
			c.Args[0].Sizes, c.Args[0].Strides = c.Args[0].Sizes[1:], c.Args[0].Strides[1:]
		}),
	} {
		if ID(other, c.Layout) == id {
			t.Errorf("another %s made no other card", name)
		}
	}
	if ID(call, "channels_last") == id {
		t.Error("another layout made no other card")
	}
	spaced := change(func(c *Call) { c.Args[1].Value = json.RawMessage("[ 3,3 ]") })
	if ID(spaced, c.Layout) != id {
		t.Error("white space made another card")
	}
}

func TestZeroDimTensorKeepsItsEmptySizes(t *testing.T) {
	text := encode(t, Arg{Name: "self", Kind: "tensor", DType: "float32"})
	if !strings.Contains(string(text), `"sizes":[]`) || !strings.Contains(string(text), `"strides":[]`) {
		t.Errorf("written as %s", text)
	}
}

func TestNegativeZeroIsAnotherScalar(t *testing.T) {
	scalar := func(bits string) Call {
		return Call{Overload: "aten::add.Scalar", Args: []Arg{{Name: "other", Kind: "scalar", Type: "float", Bits: bits}}}
	}
	if CallKey(scalar("0000000000000000")) == CallKey(scalar("8000000000000000")) {
		t.Error("-0.0 and 0.0 are one call")
	}
}

func TestOnlyOKHasACost(t *testing.T) {
	for _, verdict := range []Verdict{{Status: OK}, {Status: OK, Cost: -1}, {Status: Crash, Cost: 0.5}, {Status: "fine", Cost: 1}} {
		if verdict.Validate() == nil {
			t.Errorf("%+v was accepted", verdict)
		}
	}
}

func TestErrorKeepsCodeAndHintThroughLayers(t *testing.T) {
	inner := Fail(CodeLocked, "wait for it", "open study `%s`", "s-1")
	outer := AsError(Fail(CodeInternal, "", "start: %w", inner))
	if outer.Code != CodeInternal || outer.Text != "start: open study `s-1`" {
		t.Errorf("found %+v", outer)
	}
}

// Any candidate survives its JSON form, and its id depends on every part of source and spec.
func TestCandidateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidate := Candidate{
			Author: "template", Family: rapid.String().Draw(t, "family"), Source: rapid.StringN(1, 40, -1).Draw(t, "source"),
			Params: rapid.MapOf(rapid.StringMatching(`[A-Z]{1,4}`), rapid.IntRange(-9, 9)).Draw(t, "params"),
			Spec: Spec{Schema: 1, Kernels: []Kernel{{Entry: "kf_main", Work: "out0_numel", Grain: "1",
				Args: []SpecArg{{Slot: "self"}, {Int: rapid.StringMatching(`[1-9]`).Draw(t, "int")}}}}},
		}
		candidate.ID = CandidateID(candidate.Source, candidate.Spec)
		text, err := json.Marshal(candidate)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadCandidate(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again.ID != candidate.ID || again.Source != candidate.Source {
			t.Fatalf("wrote %+v, read %+v", candidate, again)
		}
		if CandidateID(candidate.Source+" ", candidate.Spec) == candidate.ID {
			t.Fatal("another source has the same id")
		}
	})
}

func FuzzReadCard(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "id": "c-3f2a9c1d", "variants": [{"id": "v0", "call": {}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadCard(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCard(text); err != nil {
			t.Fatalf("read once, not twice: %v", err)
		}
	})
}
