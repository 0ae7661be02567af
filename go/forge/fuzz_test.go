package forge

import (
	"encoding/json"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// A damaged log is an error, never a panic: the store is a file, and files are damaged.
func FuzzReadLog(f *testing.F) {
	log := func(entries ...store.Entry) []byte {
		events := []store.Event{}
		for i, entry := range entries {
			data, err := json.Marshal(entry.Data)
			if err != nil {
				f.Fatal(err)
			}
			events = append(events, store.Event{Seq: int64(i + 1), Run: "c-1", Kind: entry.Kind, Data: data})
		}
		text, err := json.Marshal(events)
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	candidate := gridCandidate("rows", 1, 2, "VEC")
	f.Add(log(
		store.Entry{Kind: store.KindSelection, Data: selectionEvent{Selection: search.Selection{Seq: 1}}},
		store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: 1, Candidate: &candidate}},
		store.Entry{Kind: store.KindVerdict, Data: verdictEvent{Seq: 1, Node: 1, Verdict: card.Verdict{Status: card.OK, Cost: 0.5}}},
		store.Entry{Kind: store.KindSelection, Data: selectionEvent{Selection: search.Selection{Seq: 2, Parent: 1}}},
		store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: 2, None: "nothing", Closed: true}}))
	f.Add(log(store.Entry{Kind: store.KindVerdict, Data: verdictEvent{Seq: 7}}))
	f.Add(log(store.Entry{Kind: store.KindPlan, Data: planEvent{}}, store.Entry{Kind: store.KindSpend, Data: spendEvent{What: "judge", Seconds: 1}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		var events []store.Event
		if json.Unmarshal(text, &events) != nil {
			return
		}
		past, err := readHistory(events)
		if err != nil {
			return
		}
		for _, run := range past.runs {
			tree, err := readTree(run, past.c())
			if err != nil {
				continue
			}
			if lines := tree.lines(); len(lines) != tree.tree.Len() || len(tree.candidates) != len(lines) || len(tree.verdicts) != len(lines) {
				t.Fatalf("%d lines for %d nodes", len(lines), tree.tree.Len())
			}
		}
	})
}
