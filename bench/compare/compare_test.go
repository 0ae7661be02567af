package main

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

// small is a file with one card: 12 points of two families, of which two fail.
func small(t *testing.T, change func(rows []map[string]any) []map[string]any) string {
	t.Helper()
	families := []map[string]any{
		{"name": "rows", "params": []map[string]any{{"name": "VEC", "values": []int{1, 2, 4}, "default": 2}, {"name": "GRAIN", "values": []int{1, 8, 64}, "default": 8}}},
		{"name": "tiles", "params": []map[string]any{{"name": "TILE", "values": []int{4, 8, 16}, "default": 8}}},
	}
	var rows []map[string]any
	for v, vec := range []int{1, 2, 4} {
		for g, grain := range []int{1, 8, 64} {
			cost := 0.9 - 0.2*float64(v) + 0.05*math.Abs(float64(g-1))
			rows = append(rows, map[string]any{"family": "rows", "params": map[string]int{"VEC": vec, "GRAIN": grain}, "status": "ok", "cost": cost,
				"candidate_us": []float64{100 * cost}, "eager_us": []float64{100}})
		}
		rows = append(rows, map[string]any{"family": "tiles", "params": map[string]int{"TILE": 4 << v}, "status": []string{"ok", "launch_error", "crash"}[v], "cost": []float64{0.7, 0, 0}[v],
			"candidate_us": []float64{70}, "eager_us": []float64{100}})
	}
	tensor := map[string]any{"name": "self", "kind": "tensor", "dtype": "float32", "sizes": []int{8}, "strides": []int{1}}
	call := map[string]any{"overload": "aten::relu", "args": []any{tensor}, "outputs": []any{map[string]any{"dtype": "float32", "sizes": []int{8}, "strides": []int{1}, "alias": -1}}}
	card := map[string]any{"schema": 1, "id": "c-00000001", "target": "host", "overload": "aten::relu", "layout": "contiguous", "threads": 2, "share": 1, "children": []any{},
		"variants": []any{map[string]any{"id": "v0", "call": call, "calls": 3, "eager_us": 100.0, "bytes": 64, "roof_us": 1.0}}}
	if change != nil {
		rows = change(rows)
	}
	path := filepath.Join(t.TempDir(), "tables.json.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed := gzip.NewWriter(file)
	defer packed.Close()
	content := map[string]any{"target": "host", "cards": []any{map[string]any{"name": "relu", "card": card, "facts": nil, "families": families, "whole": true, "rows": rows}}}
	if err := json.NewEncoder(packed).Encode(content); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryPolicyTriesEachPointOnce(t *testing.T) {
	found, err := read(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	table := &found.Cards[0]
	for name, search := range policies {
		for seed := range int64(3) {
			costs, err := search(table, 100, seed)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(costs) != 12 {
				t.Errorf("%s tried %d points (expected all 12, each once)", name, len(costs))
			}
			if least := slices.Min(costs); math.Abs(least-0.5) > 1e-12 {
				t.Errorf("%s found %v (expected 0.5)", name, least)
			}
			if again, err := search(table, 100, seed); err != nil || !slices.Equal(costs, again) {
				t.Errorf("%s with seed %d tried other points the second time: %v, %v", name, seed, again, err)
			}
			if first, err := search(table, 5, seed); err != nil || !slices.Equal(first, costs[:5]) {
				t.Errorf("%s with a budget of 5 gave %v, %v (expected the first 5 of %v)", name, first, err, costs)
			}
		}
	}
}

func TestRawMillisecondsAreOfAForward(t *testing.T) {
	found, err := read(small(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := found.Cards[0].eagerMS(); math.Abs(got-0.3) > 1e-12 {
		t.Errorf("eager takes %v ms (expected 0.3: three calls of 100 us)", got)
	}
}

func TestCurveBeginsWithEager(t *testing.T) {
	if got := soFar([]float64{1.4, 0.8, math.Inf(1), 0.9, 0.6}, 6); !slices.Equal(got, []float64{1, 0.8, 0.8, 0.8, 0.6, 0.6}) {
		t.Errorf("found %v", got)
	}
}

func TestARowOutsideItsSpacesIsRefused(t *testing.T) {
	_, err := read(small(t, func(rows []map[string]any) []map[string]any {
		return append(rows, map[string]any{"family": "rows", "params": map[string]int{"VEC": 3, "GRAIN": 8}, "status": "ok", "cost": 0.1})
	}))
	if err == nil || !strings.Contains(err.Error(), "12 of its 13 rows") {
		t.Errorf("found %v", err)
	}
}

func TestASampledTableIsSearchedWhereItHasRows(t *testing.T) {
	found, err := read(small(t, func(rows []map[string]any) []map[string]any { return rows[3:] }))
	if err != nil {
		t.Fatal(err)
	}
	for name, search := range policies {
		costs, err := search(&found.Cards[0], 100, 1)
		if err != nil || len(costs) != 9 {
			t.Errorf("%s tried %d points, %v (expected the 9 that have rows)", name, len(costs), err)
		}
	}
}

// A table of two families for sums of rows of 8, of which an H200 runs the second, which the registry tries later, four times as fast: a search whose
// families still are what was recorded begins with it.
func TestThePriorOrdersRecordedFamilies(t *testing.T) {
	sizes, strides := []int64{4194304, 8}, []int64{8, 1}
	call := card.Call{Overload: "aten::sum.dim_IntList", Args: []card.Arg{
		{Name: "self", Kind: "tensor", DType: "bfloat16", Sizes: sizes, Strides: strides}, {Name: "dim", Kind: "ints", Value: json.RawMessage("[-1]")},
		{Name: "keepdim", Kind: "bool", Value: json.RawMessage("false")}, {Name: "dtype", Kind: "none"}},
		Outputs: []card.Output{{DType: "bfloat16", Sizes: sizes[:1], Strides: []int64{1}, Alias: -1}}}
	sums := &card.Card{Schema: 1, ID: "c-00000000", Target: "cuda", Overload: call.Overload, Layout: "contiguous", Variants: []card.Variant{
		{ID: "v0", Call: call, Calls: 1, EagerUS: 205, Bytes: 75497472, RoofUS: 17.6, Align: []int{16, 16}}}}
	facts := propose.Facts{Target: "cuda", Arch: "sm_90a", SMCount: 132, L2Bytes: 50 << 20, SmemOptin: 227 << 10}
	found := &table{Name: "sums", Facts: &facts, card: sums, rows: map[string]row{}}
	for _, name := range []string{"reduce_rows", "reduce_vectors"} {
		s := spaceOf{Title: name}
		for _, p := range template.Lookup("cuda", name).Params(sums, facts) {
			s.Ranges = append(s.Ranges, recordedParam{p.Name, p.Values, p.Default})
		}
		found.Families = append(found.Families, s)
		for _, at := range template.Points(s.Params(sums, facts)) {
			candidate, err := template.Make(s, sums, facts, at)
			if err != nil {
				t.Fatal(err)
			}
			found.rows[candidate.ID] = row{Family: name, Params: at, Status: card.OK, Cost: map[string]float64{"reduce_rows": 0.38, "reduce_vectors": 0.1}[name]}
		}
	}
	for name, want := range map[string]float64{"mcts": 0.1, "mcts_without_prior": 0.38, "mcts_without_evidence": 0.1} {
		if costs, err := policies[name](found, 1, 1); err != nil || costs[0] != want {
			t.Errorf("%s begins with %v, %v (expected %v)", name, costs, err, want)
		}
	}
	found.Families[1].Ranges = found.Families[1].Ranges[1:]
	if built, err := found.Families[1].Build(sums, facts, template.Point{}); err != nil || len(built.Spec.Kernels) != 0 {
		t.Errorf("a family whose parameters are others now has %d kernels, %v (expected none, and so no prior)", len(built.Spec.Kernels), err)
	}
}
