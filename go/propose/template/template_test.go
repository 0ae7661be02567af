package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

var hostFacts = propose.Facts{Target: "host", ISA: "avx512", Threads: 2, L1Bytes: 48 << 10, L2Bytes: 1 << 20, LLCBytes: 32 << 20, CacheLine: 64}

func denseArg(name, dtype string, sizes ...int64) card.Arg {
	strides := make([]int64, len(sizes))
	next := int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d], next = next, next*sizes[d]
	}
	return card.Arg{Name: name, Kind: "tensor", DType: dtype, Sizes: sizes, Strides: strides}
}

func jsonArg(name, kind, value string) card.Arg {
	arg := card.Arg{Name: name, Kind: kind, Value: json.RawMessage(value)}
	if kind == "scalar" {
		arg.Type = "int"
	}
	return arg
}

// oneVariant is a card of one variant with one output like `out`.
func oneVariant(overload string, out card.Arg, args ...card.Arg) *card.Card {
	call := card.Call{Overload: overload, Args: args, Outputs: []card.Output{{DType: out.DType, Sizes: out.Sizes, Strides: out.Strides, Alias: -1}}}
	return &card.Card{
		Schema: 1, ID: card.ID(call, "contiguous"), Target: "host", Overload: overload, Layout: "contiguous", Threads: 2, Share: 0.1,
		Variants: []card.Variant{{ID: "v0", Call: call, Calls: 1, EagerUS: 10, Bytes: 1 << 26, RoofUS: 1}},
	}
}

// familyCards has a card for every family of this file's neighbours, by name.
func familyCards() map[string]*card.Card {
	x, y := denseArg("self", "float32", 4, 64, 28, 28), denseArg("other", "float32", 4, 64, 28, 28)
	none := func(name string) card.Arg { return card.Arg{Name: name, Kind: "none"} }
	crossed := denseArg("src", "float32", 64, 256)
	crossed.Sizes, crossed.Strides = []int64{256, 64}, []int64{1, 256}
	up := denseArg("out", "float32", 4, 64, 56, 56)
	item := x
	item.Name = ""
	fold := []card.Arg{jsonArg("dim", "ints", "[2, 3]"), jsonArg("keepdim", "bool", "false"), none("dtype")}
	best := oneVariant("aten::topk", denseArg("out0", "float32", 64, 8), denseArg("self", "float32", 64, 256), jsonArg("k", "int", "8"), jsonArg("dim", "int", "-1"), jsonArg("largest", "bool", "true"), jsonArg("sorted", "bool", "true"))
	best.Variants[0].Call.Outputs = append(best.Variants[0].Call.Outputs, card.Output{DType: "int64", Sizes: []int64{64, 8}, Strides: []int64{8, 1}, Alias: -1})
	return map[string]*card.Card{
		"topk":              best,
		"transpose":         oneVariant("aten::copy_", denseArg("", "float32", 256, 64), denseArg("self", "float32", 256, 64), crossed, jsonArg("non_blocking", "bool", "false")),
		"pointwise":         oneVariant("aten::add.Tensor", x, x, y, jsonArg("alpha", "scalar", "1")),
		"element":           oneVariant("aten::neg", x, x),
		"cat":               oneVariant("aten::cat", denseArg("", "float32", 4, 128, 28, 28), card.Arg{Name: "tensors", Kind: "tensors", Items: []card.Arg{item, item}}, jsonArg("dim", "int", "1")),
		"reduce_rows":       oneVariant("aten::sum.dim_IntList", denseArg("", "float32", 4, 64), append([]card.Arg{x}, fold...)...),
		"reduce_columns":    oneVariant("aten::mean.dim", denseArg("", "float32", 4, 28, 28), x, jsonArg("dim", "ints", "[1]"), fold[1], fold[2]),
		"cumsum_rows":       oneVariant("aten::cumsum", x, x, jsonArg("dim", "int", "-1"), none("dtype")),
		"cumsum_columns":    oneVariant("aten::cumsum", x, x, jsonArg("dim", "int", "1"), none("dtype")),
		"upsample_nearest":  oneVariant("aten::upsample_nearest2d", up, x, jsonArg("output_size", "ints", "[56, 56]"), none("scales_h"), none("scales_w")),
		"upsample_bilinear": oneVariant("aten::upsample_bilinear2d", up, x, jsonArg("output_size", "ints", "[56, 56]"), jsonArg("align_corners", "bool", "false"), none("scales_h"), none("scales_w")),
	}
}

// Every point of a family's space is a valid candidate, no two points are the same kernel, and the space is small.
func TestEveryPointIsAValidAndDifferentCandidate(t *testing.T) {
	for name, c := range familyCards() {
		family := Lookup("host", name)
		if family == nil || !family.Applies(c) {
			t.Fatalf("family `%s` does not apply to its card of `%s`", name, c.Overload)
		}
		for _, isa := range []string{"avx512", "avx2", "sse2"} {
			facts := hostFacts
			facts.ISA = isa
			params := family.Params(c, facts)
			for _, param := range params {
				if !slices.Contains(param.Values, param.Default) {
					t.Errorf("%s: default of %s is %d (expected one of %v)", name, param.Name, param.Default, param.Values)
				}
			}
			points := Points(params)
			if len(points) > MaxPoints {
				t.Errorf("%s: %d points (expected at most %d)", name, len(points), MaxPoints)
			}
			seen := map[string]Point{}
			for _, point := range points {
				candidate, err := Make(family, c, facts, point)
				if err != nil {
					t.Fatal(err)
				}
				candidate.Change = "test"
				if err := candidate.Validate(); err != nil {
					t.Fatalf("%s at %v: %v", name, point, err)
				}
				if twin, ok := seen[candidate.ID]; ok {
					t.Errorf("%s: %v and %v are the same kernel", name, twin, point)
				}
				seen[candidate.ID] = point
				if strings.Contains(candidate.Source, "// @") {
					t.Fatalf("%s: the page still has a mark: a part of it was not filled in", name)
				}
			}
		}
	}
}

// The compiler sees constants before the prelude, so a constant that the prelude uses as a word of its own would rewrite it. KF_LANES is meant to.
func TestConstantsAreNoWordsOfThePrelude(t *testing.T) {
	text, err := os.ReadFile("../../host/prelude/kf_kernel.h")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`//[^\n]*|"[^"\n]*"`).ReplaceAllString(string(text), "")
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`).FindAllString(code, -1) {
		words[word] = true
	}
	cards := slices.Collect(maps.Values(familyCards()))
	for _, c := range normPoolCards {
		cards = append(cards, c.card)
	}
	for _, c := range cards {
		for _, family := range Applicable(c) {
			candidate, err := Make(family, c, hostFacts, Points(family.Params(c, hostFacts))[0])
			if err != nil {
				t.Fatal(err)
			}
			for name := range candidate.Spec.Constants {
				if words[name] && name != "KF_LANES" {
					t.Errorf("%s: the constant `%s` is a word of the prelude (expected another name)", family.Name(), name)
				}
			}
		}
	}
}

// The root's children are the defaults in the registry's order; then the whole space is proposed once each, then nothing is left.
func TestRootExhaustsTheSpaceWithoutRepeats(t *testing.T) {
	for name, c := range familyCards() {
		want := 0
		applicable := Applicable(c)
		for _, family := range applicable {
			want += len(Points(family.Params(c, hostFacts)))
		}
		seen := map[string]bool{}
		proposer := New(hostFacts)
		for i := 0; ; i++ {
			candidate, err := proposer.Propose(context.Background(), propose.Brief{Card: c, Facts: hostFacts, Seen: func(id string) bool { return seen[id] }, Seed: int64(i)})
			if errors.Is(err, propose.ErrExhausted) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if seen[candidate.ID] {
				t.Fatalf("%s: `%s` was proposed twice", name, candidate.ID)
			}
			if i < len(applicable) && candidate.Change != "default of "+applicable[i].Name() {
				t.Errorf("%s: child %d of the root is %q (expected the default of %s)", name, i, candidate.Change, applicable[i].Name())
			}
			seen[candidate.ID] = true
		}
		if len(seen) != want {
			t.Errorf("%s: %d candidates (expected %d, the whole space)", name, len(seen), want)
		}
	}
}

// A child changes one parameter; all of them are proposed before the parent is exhausted.
func TestChildChangesOneParameter(t *testing.T) {
	for name, c := range familyCards() {
		family := Lookup("host", name)
		params := family.Params(c, hostFacts)
		parent, err := Make(family, c, hostFacts, Points(params)[0])
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, param := range params {
			want += len(param.Values) - 1
		}
		seen := map[string]bool{parent.ID: true}
		brief := propose.Brief{Card: c, Facts: hostFacts, Lineage: []propose.Attempt{{Candidate: parent}}, Seen: func(id string) bool { return seen[id] }}
		for ; ; brief.Seed++ {
			child, err := New(hostFacts).Propose(context.Background(), brief)
			if errors.Is(err, propose.ErrExhausted) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			differ := 0
			for _, param := range params {
				if child.Params[param.Name] != parent.Params[param.Name] {
					differ++
					if text := fmt.Sprintf("%s %d -> %d", param.Name, parent.Params[param.Name], child.Params[param.Name]); child.Change != text {
						t.Errorf("%s: change is %q (expected %q)", name, child.Change, text)
					}
				}
			}
			if differ != 1 {
				t.Fatalf("%s: a child changes %d parameters (expected 1)", name, differ)
			}
			seen[child.ID] = true
		}
		if len(seen)-1 != want {
			t.Errorf("%s: %d children (expected %d)", name, len(seen)-1, want)
		}
	}
}

// The same brief and seed give the same candidate; the seed is what chance there is.
func TestSeedDecides(t *testing.T) {
	c := familyCards()["pointwise"]
	propose4 := func(seed int64) string {
		seen := map[string]bool{}
		var ids []string
		for i := int64(0); i < 4; i++ {
			candidate, err := New(hostFacts).Propose(context.Background(), propose.Brief{Card: c, Facts: hostFacts, Seen: func(id string) bool { return seen[id] }, Seed: seed + i})
			if err != nil {
				t.Fatal(err)
			}
			seen[candidate.ID] = true
			ids = append(ids, candidate.ID)
		}
		return strings.Join(ids, " ")
	}
	if a, b := propose4(1), propose4(1); a != b {
		t.Errorf("seed 1 gave %s, then %s", a, b)
	}
	different := false
	for seed := int64(2); seed < 10; seed++ {
		different = different || propose4(seed*100) != propose4(1)
	}
	if !different {
		t.Error("eight seeds gave the same candidates")
	}
}

// A parent of another author has no children here.
func TestForeignParentIsExhausted(t *testing.T) {
	c := familyCards()["pointwise"]
	parent := card.Candidate{Author: "person", Family: "pointwise", ID: "k-000000000000"}
	_, err := New(hostFacts).Propose(context.Background(), propose.Brief{Card: c, Facts: hostFacts, Lineage: []propose.Attempt{{Candidate: parent}}})
	if !errors.Is(err, propose.ErrExhausted) {
		t.Errorf("error is %v (expected %v)", err, propose.ErrExhausted)
	}
}

// What a family cannot do exactly as eager, it refuses.
func TestRefusals(t *testing.T) {
	x := denseArg("self", "float32", 4, 8)
	bound := jsonArg("min", "scalar", `"nan"`)
	bound.Type, bound.Bits = "float", "7ff8000000000000"
	narrow := denseArg("src", "float32", 4, 8)
	many := familyCards()["topk"]
	many.Variants[0].Call.Args[1] = jsonArg("k", "int", "129")
	many.Variants[0].Call.Outputs[0].Sizes, many.Variants[0].Call.Outputs[1].Sizes = []int64{64, 129}, []int64{64, 129}
	cards := map[string]*card.Card{
		"topk of 129":                many,
		"a NaN bound":                oneVariant("aten::clamp_min", x, x, bound),
		"pow with exponent 7":        oneVariant("aten::pow.Tensor_Scalar", x, x, jsonArg("exponent", "scalar", "7")),
		"gelu in float64":            oneVariant("aten::gelu", denseArg("", "float64", 4, 8), denseArg("self", "float64", 4, 8), jsonArg("approximate", "string", `"none"`)),
		"float to integer":           oneVariant("aten::copy_", denseArg("", "int32", 4, 8), denseArg("self", "int32", 4, 8), narrow, jsonArg("non_blocking", "bool", "false")),
		"a sum of integers":          oneVariant("aten::sum.dim_IntList", denseArg("", "int64", 4), denseArg("self", "int64", 4, 8), jsonArg("dim", "ints", "[1]"), jsonArg("keepdim", "bool", "false"), card.Arg{Name: "dtype", Kind: "none"}),
		"an overload of another day": oneVariant("aten::sinh", x, x),
	}
	for what, c := range cards {
		if list := Applicable(c); len(list) != 0 {
			t.Errorf("%s: %d families apply, first `%s` (expected none)", what, len(list), list[0].Name())
		}
	}
}
