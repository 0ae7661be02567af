package brief

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// at::_ops entries end in their overload's name, so the longest known word that begins one is its operator.
func TestEveryHookedOperatorHasWords(t *testing.T) {
	text, err := os.ReadFile("../../../torchext/ops.def")
	if err != nil {
		t.Fatal(err)
	}
	entries := regexp.MustCompile(`(?m)^KF_[A-Z]+\((\w+),`).FindAllStringSubmatch(string(text), -1)
	if len(entries) < 100 {
		t.Fatalf("found %d entries in ops.def (expected all of them)", len(entries))
	}
	for _, entry := range entries {
		known := ""
		for name := range operators {
			if strings.HasPrefix(entry[1], name) && len(name) > len(known) {
				known = name
			}
		}
		if known == "" {
			t.Errorf("`%s` is hooked and has no words", entry[1])
		}
	}
}

func TestAnOverloadOfAnyFormFindsItsOperator(t *testing.T) {
	for overload, operator := range map[string]string{
		"aten::add_.Tensor": "add", "aten::add.out": "add", "aten::relu_": "relu", "aten::_softmax": "_softmax", "aten::copy_": "copy",
		"aten::_slow_conv2d_forward.output": "_slow_conv2d_forward", "aten::mean.dim": "mean", "aten::addmm": "addmm",
	} {
		if got := Operator(overload); got != operators[operator] || got.Words == "" {
			t.Errorf("`%s` is %+v (expected the words of `%s`)", overload, got, operator)
		}
	}
	if got := Operator("aten::no_such"); got != (Words{}) {
		t.Errorf("an unknown overload has the words %+v", got)
	}
}

func linear() *card.Card {
	call := card.Call{Overload: "aten::addmm", Args: []card.Arg{
		{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{8}, Strides: []int64{1}},
		{Name: "mat1", Kind: "tensor", DType: "float32", Sizes: []int64{4, 16}, Strides: []int64{16, 1}},
		{Name: "mat2", Kind: "tensor", DType: "float32", Sizes: []int64{16, 8}, Strides: []int64{1, 16}},
		{Name: "beta", Kind: "scalar", Type: "int", Value: json.RawMessage("1")},
		{Name: "alpha", Kind: "scalar", Type: "int", Value: json.RawMessage("1")},
	}, Outputs: []card.Output{{DType: "float32", Sizes: []int64{4, 8}, Strides: []int64{8, 1}, Alias: -1}}}
	return &card.Card{Schema: 1, ID: card.ID(call, "contiguous"), Target: "host", Overload: call.Overload, Layout: "contiguous", Threads: 2, Share: 0.5,
		Variants: []card.Variant{{ID: "v0", Call: call, Calls: 3, EagerUS: 20, Bytes: 928, RoofUS: 2, Align: []int{64, 64, 64}}}}
}

func TestABriefTellsTheCallTheParentAndWhatFailed(t *testing.T) {
	c := linear()
	spec := hostExample.Spec
	parent := propose.Attempt{Node: 4, Candidate: card.Candidate{ID: "k-000000000001", Author: "person", Change: "tiles of 8", Source: "one", Spec: spec},
		Verdict: card.Verdict{Status: card.OK, Cost: 0.5, Variants: []card.VariantCost{{ID: "v0", Cost: 0.5, CandidateUS: 10, EagerUS: 20}}}}
	failed := propose.Attempt{Node: 5, Candidate: card.Candidate{ID: "k-000000000002", Author: "agent", Source: "two", Spec: spec},
		Verdict: card.Verdict{Status: card.WrongValue, Gate: "values", Detail: "out0[3] is 7 (expected 8, allowed 0.1)"}}
	from := propose.Brief{Card: c, Facts: propose.Facts{Target: "host", ISA: "avx2", Threads: 2, CacheLine: 64}, Lineage: []propose.Attempt{parent},
		Children: []propose.Attempt{failed}}
	b := Of(from, nil)
	if b.Parent.Node != 4 || b.Parent.Source != "one" || b.Parent.RoofShare["v0"] != 0.2 {
		t.Errorf("the parent is %+v", b.Parent)
	}
	if len(b.Path) != 1 || len(b.Siblings) != 1 || b.Siblings[0].Why != failed.Verdict.Detail {
		t.Errorf("path %+v, siblings %+v", b.Path, b.Siblings)
	}
	if diff := cmp.Diff([]string{"self", "mat1", "mat2", "out0"}, b.Launch.Slots); diff != "" {
		t.Error(diff)
	}
	values := map[string]int64{}
	for _, name := range b.Launch.Names {
		values[name.Name] = name.Value
	}
	for name, value := range map[string]int64{"mat1_size1": 16, "mat2_stride1": 16, "out0_numel": 32, "self_dim": 1, "threads": 2, "cache_line": 64} {
		if got, ok := values[name]; !ok || got != value {
			t.Errorf("name `%s` is %d, known: %t (expected %d)", name, got, ok, value)
		}
	}
	if values["llc_bytes"] != 0 || b.Card.Variants[0].Arguments[3].Value != "1" {
		t.Errorf("names %v, arguments %+v", values, b.Card.Variants[0].Arguments)
	}

	text := Text(b)
	for _, words := range []string{"aten::addmm", "mat2: float32 [16 8] strides [1 16] aligned to 16 bytes", "alpha = 1", "mat1_size1=16", "20 % of a copy's rate",
		"tiles of 8", failed.Verdict.Detail, "ceildiv(out0_numel, threads)", "eager 20 us"} {
		if !strings.Contains(text, words) {
			t.Errorf("the text does not say `%s`:\n%s", words, text)
		}
	}

	hidden := Of(from, func(v card.Verdict) string { return "wrong value" })
	if hidden.Siblings[0].Why != "wrong value" {
		t.Errorf("a filter of details leaves %q", hidden.Siblings[0].Why)
	}
	from.Repair = &failed
	if mend := Of(from, nil).Repair; mend == nil || mend.Source != "two" || mend.Node != -1 {
		t.Errorf("what is to be mended is %+v", mend)
	}
	if root := Of(propose.Brief{Card: c}, nil); root.Parent.Status != "eager" || root.Parent.Cost != 1 || root.Parent.Spec != nil {
		t.Errorf("the parent at the root is %+v", root.Parent)
	}
}
