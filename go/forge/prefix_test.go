package forge

// A process may die between any two steps of a log. So every prefix of a log is a place where a study may have to go on.

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// story is a study that can be account again from any event: how it starts, and what another process sent to it before.
type story struct {
	width     int
	proposer  func() propose.Proposer
	submitted []card.Candidate
	model     func(cards map[string]bool) float64 // speed-up of the whole model; nil: 3
}

var stories = map[string]story{
	"one at a time":   {width: 1, proposer: func() propose.Proposer { return grid{} }},
	"side by side":    {width: 3, proposer: func() propose.Proposer { return grid{} }},
	"with repairs":    {width: 1, proposer: func() propose.Proposer { return stubborn{} }},
	"repaired beside": {width: 2, proposer: func() propose.Proposer { return stubborn{} }},
	"with candidates from outside": {width: 2, proposer: func() propose.Proposer { return grid{} },
		submitted: []card.Candidate{gridCandidate("rows", 4, 2, "by hand"), gridCandidate("broken", 1, 1, "by hand"), gridCandidate("rows", 4, 2, "by hand")}},
	"with winners that hurt": {width: 1, proposer: func() propose.Proposer { return grid{} }, model: func(cards map[string]bool) float64 {
		if cards["c-00000002"] {
			return 0.9
		}
		return 1.5
	}},
}

// stubborn proposes a draft that does not compile at every second place, and mends it step by step: one draft at the second try, others never.
type stubborn struct{ grid }

func (s stubborn) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	draft := gridCandidate("broken", 10*int(brief.Seed%7), 0, "draft")
	if brief.Seed%2 == 0 && !brief.Seen(draft.ID) {
		return draft, nil
	}
	return s.grid.Propose(ctx, brief)
}

func (stubborn) Repair(_ context.Context, _ propose.Brief, failed propose.Attempt) (card.Candidate, error) {
	vec := failed.Candidate.Params["VEC"]
	if vec == 21 {
		return gridCandidate("tiles", 3, 3, "mended"), nil
	}
	return gridCandidate("broken", vec+1, 0, "mended"), nil
}

// account is a study that has ended: its log, and what it came to.
type account struct {
	events []store.Event
	blobs  [][]byte
	view   *StudyView
	judged int
}

// tell runs the story on what is in a store, to its end.
func (s story) tell(t *testing.T, path string) account {
	t.Helper()
	table := tableFor(t)
	config := configFor(t, path, table, Settings{Seed: 3, Candidates: 6, Width: s.width}, reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.3))
	config.Proposer = s.proposer()
	running, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, last := drive(t, running, map[string]func(json.RawMessage) (any, error){"confirm_model": s.answer}); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %s, %+v", last.State, last.Error)
	}
	return read(t, path, len(table.judged))
}

// answer is the referee's: how fast the model is with these plans.
func (s story) answer(body json.RawMessage) (any, error) {
	var task struct {
		Plans []struct{ Plan struct{ Card string } }
	}
	err := json.Unmarshal(body, &task)
	if s.model == nil {
		return modelTimes(3), err
	}
	cards := map[string]bool{}
	for _, p := range task.Plans {
		cards[p.Plan.Card] = true
	}
	return modelTimes(s.model(cards)), err
}

func read(t *testing.T, path string, judged int) account {
	t.Helper()
	opened, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	end := account{judged: judged}
	if end.events, err = opened.Events("s-test", 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range hashes(t, end.events) {
		bytes, err := opened.Get("s-test", name)
		if err != nil {
			t.Fatal(err)
		}
		end.blobs = append(end.blobs, bytes)
	}
	if end.view, err = View(opened, "s-test"); err != nil {
		t.Fatal(err)
	}
	return end
}

// hashes are those of the bytes that events speak of.
func hashes(t *testing.T, events []store.Event) (names []string) {
	t.Helper()
	for _, event := range events {
		switch event.Kind {
		case store.KindProposal:
			data, err := decode[proposalEvent](event)
			if err != nil {
				t.Fatal(err)
			}
			if data.Candidate != nil {
				names = append(names, data.Candidate.Source)
			}
		case store.KindPlan:
			data, err := decode[planEvent](event)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, data.Plan.Code.SHA256, data.Plan.Source.SHA256)
		}
	}
	return names
}

// begin makes a store whose study has come as far as these events.
func (e account) begin(t *testing.T, path string, events []store.Event) {
	t.Helper()
	made, err := store.Open(path, store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	entries := make([]store.Entry, len(events))
	for i, event := range events {
		entries[i] = store.Entry{Run: event.Run, Kind: event.Kind, Data: json.RawMessage(event.Data)}
	}
	if err := made.Create(study(reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.3)), entries...); err != nil {
		t.Fatal(err)
	}
	for _, bytes := range e.blobs {
		if _, err := made.Put("s-test", bytes); err != nil {
			t.Fatal(err)
		}
	}
}

// first runs the story without any harm. Candidates from outside come before its first session, as to a study that was stopped at once.
func (s story) first(t *testing.T, folder string) (whole account, from int) {
	t.Helper()
	path := filepath.Join(folder, "whole.db")
	var sent []store.Event
	for _, candidate := range s.submitted {
		data, err := json.Marshal(Submission{Run: "c-00000001", Candidate: candidate, By: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		sent = append(sent, store.Event{Run: "c-00000001", Kind: store.KindSubmission, Data: data})
	}
	if len(sent) > 0 {
		account{}.begin(t, path, sent)
	}
	return s.tell(t, path), len(sent)
}

// mustEqual compares what a study came to with what it came to undisturbed: every selection with all its terms, trees, winners.
func (e account) mustEqual(t *testing.T, want account) {
	t.Helper()
	for _, kind := range []string{store.KindSelection, store.KindVerdict, store.KindSamples, store.KindPlan, store.KindDecision} {
		if diff := cmp.Diff(dataOf(want.events, kind), dataOf(e.events, kind)); diff != "" {
			t.Errorf("%s (-whole +resumed):\n%s", kind, diff)
		}
	}
	for i := range want.view.Runs {
		if diff := cmp.Diff(want.view.Runs[i], e.view.Runs[i]); diff != "" {
			t.Errorf("run %d (-whole +resumed):\n%s", i, diff)
		}
	}
}

func dataOf(events []store.Event, kind string) (all []string) {
	for _, event := range events {
		if event.Kind == kind {
			all = append(all, event.Run+" "+string(event.Data))
		}
	}
	return all
}

func verdicts(events []store.Event) int {
	count := 0
	for _, event := range events {
		if event.Kind == store.KindVerdict || event.Kind == store.KindAttempt {
			count++
		}
	}
	return count
}

// torn says that a log cannot end here: events of one step have one time.
func torn(events []store.Event, length int) bool {
	return length < len(events) && events[length-1].At == events[length].At
}

// points says which prefixes of a log are tried: all of them with KF_EVERY_POINT, else one in eight, from a place that chance names.
func points(t *testing.T) (first, step int) {
	if os.Getenv(everyPoint) != "" {
		return 0, 1
	}
	_, chance := drawn(t)
	first = chance.IntN(8)
	t.Logf("every eighth prefix from %d (%s=1: all)", first, everyPoint)
	return first, 8
}

// drawn is the chance of a test: the same at every run, unless KF_SEED names another seed.
func drawn(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("KF_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read KF_SEED: %v", err)
		}
	}
	return seed, rand.New(rand.NewPCG(seed, 1))
}

const everyPoint = "KF_EVERY_POINT"

// Every prefix of a log is resumed, and ends in the same tree, bit for bit; nothing that had its verdict is judged again.
func TestEveryPrefixOfALogResumesToTheSameTree(t *testing.T) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			whole, from := s.first(t, folder)
			first, step := points(t)
			for length := max(from, 1) + first; length < len(whole.events); length += step {
				if torn(whole.events, length) {
					continue
				}
				path := filepath.Join(folder, fmt.Sprintf("%d.db", length))
				whole.begin(t, path, whole.events[:length])
				resumed := s.tell(t, path)
				resumed.mustEqual(t, whole)
				if expected := whole.judged - verdicts(whole.events[:length]); resumed.judged != expected {
					t.Errorf("%d candidates were judged (expected %d)", resumed.judged, expected)
				}
				if t.Failed() {
					t.Fatalf("cut after event %d of %d, `%s`", length, len(whole.events), whole.events[length-1].Kind)
				}
			}
		})
	}
}

// A study that dies again and again, wherever that is, comes to the same end: the log of a resumed study is cut and resumed in turn.
func TestALogThatIsCutAgainAndAgainResumesToTheSameTree(t *testing.T) {
	times := 2
	if os.Getenv(everyPoint) != "" {
		times = 20
	}
	seed, chance := drawn(t)
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			whole, from := s.first(t, folder)
			for trial := range times {
				now, length := whole, max(from, 1)
				for cut := range 3 {
					length += chance.IntN(len(now.events) - length)
					for torn(now.events, length) {
						length++
					}
					path := filepath.Join(folder, fmt.Sprintf("%d-%d.db", trial, cut))
					now.begin(t, path, now.events[:length])
					now = s.tell(t, path)
				}
				if now.mustEqual(t, whole); t.Failed() {
					t.Fatalf("KF_SEED=%d, trial %d", seed, trial)
				}
			}
		})
	}
}
