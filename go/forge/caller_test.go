package forge

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// called runs a study whose only author is a function of the user's process.
func called(t *testing.T, path string, reply func(brief map[string]any) any) (asked []map[string]any) {
	t.Helper()
	config := configFor(t, path, tableFor(t), Settings{Candidates: 3, Authors: []string{"call:mine"}}, reluCard("c-00000001", 0.5))
	config.Proposer = exhausted{}
	config.Authors = []Author{Caller("call:mine")}
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	_, last := drive(t, s, map[string]func(json.RawMessage) (any, error){"propose": func(body json.RawMessage) (any, error) {
		var task struct {
			Author string
			Brief  map[string]any
		}
		if err := json.Unmarshal(body, &task); err != nil {
			return nil, err
		}
		if task.Author != "call:mine" {
			t.Errorf("`%s` is asked", task.Author)
		}
		asked = append(asked, task.Brief)
		return reply(task.Brief), nil
	}})
	if last.State != StateDone {
		t.Fatalf("the study ended with %+v", last.Error)
	}
	return asked
}

// exhausted has no template for anything.
type exhausted struct{}

func (exhausted) Propose(context.Context, propose.Brief) (card.Candidate, error) {
	return card.Candidate{}, propose.ErrExhausted
}

func (exhausted) Serves(*card.Card) bool { return false }

func written(source string, spec any) any {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // of this file
	}
	return map[string]any{"candidate": map[string]any{"source": source, "spec": json.RawMessage(text), "change": "an idea"}, "raised": ""}
}

func none(raised string) any { return map[string]any{"candidate": nil, "raised": raised} }

func TestAFunctionOfTheUserProposesUntilItHasNothingMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	spec := gridCandidate("rows", 0, 0, "").Spec
	asked := called(t, path, func(brief map[string]any) any {
		if len(brief["siblings"].([]any)) > 1 {
			return none("")
		}
		return written(strings.Repeat("// more\n", 1+len(brief["siblings"].([]any))), spec)
	})
	v := view(t, path)
	if nodes := v.Runs[0].Nodes; len(nodes) < 2 || nodes[1].Author != "call:mine" || nodes[1].Change != "an idea" {
		t.Errorf("the nodes are %+v", nodes)
	}
	if asked[0]["card"].(map[string]any)["overload"] != "aten::relu" || asked[0]["parent"].(map[string]any)["status"] != "eager" {
		t.Errorf("it is told %v", asked[0])
	}
}

func TestAFunctionThatRaisesIsAskedNoMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	asked := called(t, path, func(map[string]any) any { return none("ZeroDivisionError: no idea") })
	v := view(t, path)
	if len(asked) != 1 || len(v.Runs[0].Nodes) != 1 || !strings.Contains(v.Runs[0].Why, "it raised ZeroDivisionError: no idea") {
		t.Errorf("it was asked %d times, and the run ended with `%s`", len(asked), v.Runs[0].Why)
	}
}

// A spec that cannot be read goes back to who wrote it, with the reason.
func TestASpecThatCannotBeReadGoesBackToTheFunction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	spec := gridCandidate("rows", 0, 0, "").Spec
	var why string
	called(t, path, func(brief map[string]any) any {
		if repair, ok := brief["repair"].(map[string]any); ok {
			if why == "" {
				why, _ = repair["why"].(string)
			}
			return written("// mended", spec)
		}
		if len(brief["siblings"].([]any)) > 0 || len(brief["path"].([]any)) > 0 {
			return none("")
		}
		return written("// broken", map[string]any{"schema": 1})
	})
	if !strings.Contains(why, "the field is missing") {
		t.Errorf("it is told `%s`", why)
	}
	s := guests(t, path)
	lines, err := Cards(s, "s-test")
	if err != nil || len(lines) != 1 || lines[0].Nodes < 1 || lines[0].EagerUS != 400 {
		t.Errorf("the cards are %+v, %v", lines, err)
	}
}

func TestACardIsFoundByItsIDOrItsOperator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 1}, reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)))
	s := guests(t, path)
	for name, want := range map[string]string{"c-00000002": "c-00000002", "relu": "", "aten::relu": "", "softmax": "", "": ""} {
		id, err := FindCard(s, "s-test", name)
		if id != want || (err == nil) != (want != "") || (err != nil && card.AsError(err).Code != card.CodeNotFound) {
			t.Errorf("`%s` is `%s`, %v", name, id, err)
		}
	}
	if _, err := FindCard(s, "no-such", "relu"); err == nil {
		t.Error("a study that is not there has a card")
	}
}

// A card that no template serves waits for an author, and costs nothing until one comes.
func TestACardWithoutATemplateCostsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	j := tableFor(t)
	config := configFor(t, path, j, Settings{Candidates: 3}, reluCard("c-00000001", 0.5))
	config.Proposer = exhausted{}
	events, _ := run1(t, config)
	v := view(t, path)
	if v.Runs[0].State != runEnded || v.Runs[0].Why != "no template serves it" || len(j.judged)+j.opened["c-00000001"] != 0 {
		t.Errorf("the run is %+v, and %v was judged", v.Runs[0], j.judged)
	}
	for _, event := range events {
		if event.Kind == store.KindSelection || event.Kind == store.KindForecast && !strings.Contains(string(event.Data), `"candidates":0`) {
			t.Errorf("found the event %s", event.Data)
		}
	}
}
