package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
)

// countingText also reads the counters of a device's candidates, or says why not, as stands in the source.
type countingText struct{ byText }

func (countingText) Uncountable() string { return "" }
func (countingText) Count(_ context.Context, _ *card.Card, candidate card.Candidate) (card.Counters, error) {
	if strings.Contains(candidate.Source, "slow") {
		return card.Counters{Why: "it took longer than 20 s under ncu"}, nil
	}
	return card.Counters{Variant: "v0", Kernels: []card.KernelCounters{{Entry: "kf_main", Values: map[string]float64{"memory_pct": 91.2, "dram_pct": 91.2, "sm_pct": 20}}}}, nil
}

// An agent that asks for the brief below a node of a device is told what bounds it: the study that attends reads the counters meanwhile.
func TestTheBriefOfAParentHasItsCounters(t *testing.T) {
	path, running := attendingOn(t, "cuda", countingText{})
	t.Cleanup(func() { halt(running) })
	s, err := New(Config{Store: path, Study: "s-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	session := client(t, overHTTP(t, s))
	onDevice := spec()
	onDevice["kernels"] = []any{map[string]any{"entry": "kf_main", "grid": []any{"1", "1", "1"}, "block": []any{"32", "1", "1"}, "smem": "0", "args": []any{map[string]any{"slot": "self"}, map[string]any{"slot": "out0"}}}}
	for source, says := range map[string]string{"// quick": "`kf_main`: bound by memory: 91 % of DRAM's rate", "// slow": "no hardware counters: it took longer than 20 s under ncu"} {
		answer, _, failure := use(t, session, "submit_candidate", map[string]any{"card": relu, "source": source, "spec": onDevice, "wait_s": 30})
		if failure != "" || answer["state"] != forge.AnswerJudged {
			t.Fatalf("the answer is %v %s", answer, failure)
		}
		node, _, failure := use(t, session, "get_node", map[string]any{"card": relu, "node": answer["node"]})
		if failure != "" || node["counters"] != nil {
			t.Errorf("%s: before anybody asked the node has the counters %v %s", source, node["counters"], failure)
		}
		told, text, failure := use(t, session, "get_brief", map[string]any{"card": relu, "parent": answer["node"]})
		if failure != "" || !strings.Contains(text, says) || !strings.Contains(fmt.Sprint(told["parent"].(map[string]any)["counted"]), says) {
			t.Errorf("%s: the brief is %v %s %s (expected %q)", source, told["parent"], text, failure, says)
		}
		node, _, failure = use(t, session, "get_node", map[string]any{"card": relu, "node": answer["node"]})
		if failure != "" || !strings.Contains(fmt.Sprint(node["counted"]), says) {
			t.Errorf("%s: the node is %v %s", source, node, failure)
		}
	}
}
