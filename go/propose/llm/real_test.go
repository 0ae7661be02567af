package llm

import (
	"errors"
	"os"
	"testing"

	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

const longest = 1500 // seconds of a call, on a machine that does other things too: a given-up one would be asked for again

// A real model, whatever it writes: a candidate or a reason, kept and counted, until the budget ends it.
func TestARealModel(t *testing.T) {
	url := os.Getenv("KF_LLM_URL")
	if url == "" {
		t.Skip("KF_LLM_URL is not set (expected the address of a server; make test-llm starts one)")
	}
	limit := int64(600)
	b, err := budget.New(budget.Limits{TokensOut: &limit}, budget.Amount{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := &memory{replies: map[string]Reply{}, asked: map[string][]byte{}}
	author, err := New(Config{Model: or(os.Getenv("KF_LLM_MODEL"), "small"), BaseURL: url, MaxTokens: 160, TotalS: longest, FirstByteS: longest, Budget: b, Getenv: os.Getenv}, kept)
	if err != nil {
		t.Fatal(err)
	}
	defer author.Close()
	from := given(1)
	for asked := range 8 {
		from.Attempt = asked
		candidate, err := author.Propose(t.Context(), from)
		unusable, ok := errors.AsType[*propose.Unusable](err)
		switch {
		case err == nil:
			t.Logf("a candidate: %s", candidate.Change)
		case ok:
			t.Logf("no candidate: %s", unusable.Reason)
			from.Repair = &propose.Attempt{}
			from.Repair.Verdict.Detail = unusable.Reason
		case errors.Is(err, propose.ErrBudget) && asked > 1:
			t.Logf("after %d replies: %v", asked, err)
			if spent := b.Spent(); spent.TokensOut > limit || spent.TokensIn < 1000 || len(kept.replies) != asked {
				t.Errorf("spent %+v, kept %d replies", spent, len(kept.replies))
			}
			for _, reply := range kept.replies {
				if reply.Estimated || reply.TokensOut < 1 || reply.Model == "" {
					t.Errorf("kept %+v", reply)
				}
			}
			return
		default:
			t.Fatal(err)
		}
	}
	t.Errorf("the budget did not end it: spent %+v", b.Spent())
}
