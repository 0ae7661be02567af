package judge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

// The policy is no obstacle to the kernels that are built in: every page of the templates passes the scan.
func TestTheTemplatesPassThePolicy(t *testing.T) {
	for folder, rules := range map[string]*rules{"host": hostRules, "cuda": cudaRules} {
		pages, err := filepath.Glob("../propose/template/" + folder + "/*")
		if err != nil || len(pages) == 0 {
			t.Fatalf("%d pages for %s, %v", len(pages), folder, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if err := rules.scan(string(text)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// From a template to a verdict: the first proposals for a card pass every gate with a real compiler and worker.
func TestTheFirstProposalsPassEveryGate(t *testing.T) {
	b := real(t)
	b.open(t)
	proposer := template.New(b.judge.Facts())
	seen := map[string]bool{}
	for range 3 {
		candidate, err := proposer.Propose(t.Context(), propose.Brief{Card: b.card, Facts: b.judge.Facts(), Seen: func(id string) bool { return seen[id] }, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		seen[candidate.ID] = true
		verdict, err := b.judge.Judge(t.Context(), b.card, candidate)
		if err != nil || verdict.Status != card.OK {
			t.Errorf("%s %v: %+v, %v", candidate.Family, candidate.Params, verdict, err)
		}
		t.Logf("%s %v: cost %.3f, %.2f s", candidate.Family, candidate.Params, verdict.Cost, verdict.Seconds)
	}
}
