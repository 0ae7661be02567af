package forge

// view.go owns what readers see of a study. It refuses to write, and needs no running study.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// StudyLine is a study in a list.
type StudyLine struct {
	Study  string `json:"study"`
	Model  string `json:"model"`
	Target string `json:"target"`
	Device string `json:"device"`
	Made   string `json:"made"`
	State  string `json:"state"`
	Runs   int    `json:"runs"`
}

// StudyView is a study as its log tells it.
type StudyView struct {
	StudyLine
	Pins     map[string]any   `json:"pins"`
	Running  bool             `json:"running"`
	Runs     []RunView        `json:"runs"`
	Spend    SpendView        `json:"spend"`
	Approved []string         `json:"approved"`
	Waiting  []string         `json:"waiting"`  // winners that nobody approved yet
	Forecast []AuthorForecast `json:"forecast"` // of authors, by the newest session
	Stopped  []authorEvent    `json:"stopped"`  // authors that were asked no more on any card
	Result   json.RawMessage  `json:"result"`
	Origin   json.RawMessage  `json:"origin"` // what a command needs to make the model again; null: a program made it
}

// SpendView is what a study took.
type SpendView struct {
	Seconds    float64 `json:"seconds"`
	USD        float64 `json:"usd"`
	Candidates int     `json:"candidates"`
	Calls      int     `json:"calls"` // of authors, that were paid
	TokensIn   int64   `json:"tokens_in"`
	TokensOut  int64   `json:"tokens_out"`
}

// RunView is a run with its tree. Node 0 is eager.
type RunView struct {
	Card     string     `json:"card"`
	Overload string     `json:"overload"`
	State    string     `json:"state"` // "", "started", "ended" or "failed"
	Why      string     `json:"why"`
	Nodes    []NodeLine `json:"nodes"`
	Best     float64    `json:"best"` // least cost, eager's 1 included
	Winners  []Winner   `json:"winners"`
	// Confirmed is every confirmation, also of finalists that eager beat, by variant and node.
	Confirmed []samplesEvent `json:"confirmed"`
	// Controls are how outputs known to be wrong ended, by variant.
	Controls map[string]map[string]string `json:"controls"`
	// LeftOut says why winners of confirmations are not served, by variant.
	LeftOut map[string]string `json:"left_out"`
	// Sources are what each source brought and took.
	Sources []SourceView `json:"sources"`
}

// NodeLine is a node in a tree.
type NodeLine struct {
	Node   search.NodeID  `json:"node"`
	Parent search.NodeID  `json:"parent"`
	Status card.Status    `json:"status"` // "eager" for node 0
	Cost   float64        `json:"cost"`
	Best   float64        `json:"best"` // least cost in its subtree; 0 if it failed
	Visits int            `json:"visits"`
	Author string         `json:"author"`
	Family string         `json:"family"`
	Params map[string]int `json:"params"`
	Change string         `json:"change"`
	// Repairs are failures that went back to the author; Unfinished: they ran out.
	Repairs    int  `json:"repairs,omitempty"`
	Unfinished bool `json:"unfinished,omitempty"`
}

// NodeView is one node with everything that is known of it.
type NodeView struct {
	Candidate *card.Candidate `json:"candidate"` // null for eager
	Card      *card.Card      `json:"card"`
	Verdict   card.Verdict    `json:"verdict"`
	Lineage   []search.NodeID `json:"lineage"`
	Log       string          `json:"log"`
	Attempts  []attemptEvent  `json:"attempts"` // that failed and went back to the author, with their sources
	Counters  *card.Counters  `json:"counters"` // what the hardware of a device counted, or why that is not known; null: nobody asked
}

const statusEager card.Status = "eager"

// Studies lists the studies of a store, the newest first.
func Studies(s *store.Store) ([]StudyLine, error) {
	ids, err := s.Studies()
	if err != nil {
		return nil, err
	}
	lines := []StudyLine{}
	for _, id := range ids {
		study, past, err := load(s, id)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line(s, study, past))
	}
	return lines, nil
}

func load(s *store.Store, id string) (*store.Study, *history, error) {
	study, err := s.Study(id)
	if err != nil {
		return nil, nil, err
	}
	events, err := s.Events(id, 0)
	if err != nil {
		return nil, nil, err
	}
	past, err := readHistory(events)
	return study, past, err
}

func line(s *store.Store, study *store.Study, past *history) StudyLine {
	state := past.state.State
	if state == StateRunning && !s.Running(study.ID) {
		state = stateStopped // its process died
	}
	return StudyLine{study.ID, study.Model, study.Target, study.Device(), study.Made.UTC().Format(time.RFC3339), state, len(study.Cards)}
}

// View derives a whole study from its log.
func View(s *store.Store, id string) (*StudyView, error) {
	study, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	view := &StudyView{StudyLine: line(s, study, past), Pins: study.Pins, Running: s.Running(id), Runs: []RunView{}, Result: past.result,
		Spend: SpendView{past.spent.Seconds, past.spent.USD, past.judged, past.calls, past.tokensIn, past.tokensOut}, Approved: []string{}, Waiting: []string{},
		Stopped: past.stopped(), Forecast: append([]AuthorForecast{}, past.forecast...)}
	if view.Origin = past.origin; view.Origin == nil {
		view.Origin = json.RawMessage("null")
	}
	if view.Result == nil {
		view.Result = json.RawMessage("null")
	}
	for _, c := range study.Cards {
		run := past.run(c.ID)
		tree, err := readTree(run, past.c())
		if err != nil {
			return nil, err
		}
		winners := past.winnersOf(c)
		for i := range winners {
			winners[i].State = past.stateOf(winners[i].ID)
			if winners[i].State == "approved" {
				view.Approved = append(view.Approved, winners[i].ID)
			} else {
				view.Waiting = append(view.Waiting, winners[i].ID)
			}
		}
		best, _ := tree.tree.Best()
		sources, err := sourcesOf(run)
		if err != nil {
			return nil, err
		}
		view.Runs = append(view.Runs, RunView{c.ID, c.Overload, run.state.State, run.state.Why, tree.lines(), best, append([]Winner{}, winners...),
			run.confirmations(), run.controls, run.leftOut(), sources})
	}
	return view, nil
}

// confirmations lists what was confirmed, in an order that does not depend on the log's.
func (p *runHistory) confirmations() []samplesEvent {
	all := []samplesEvent{}
	for _, key := range slices.Sorted(maps.Keys(p.confirmed)) {
		all = append(all, p.confirmed[key])
	}
	return all
}

// leftOut says of each variant whose winner is not served why.
func (p *runHistory) leftOut() map[string]string {
	reasons := map[string]string{}
	for variant, plan := range p.winners {
		if !plan.Served {
			reasons[variant] = plan.Why
		}
	}
	return reasons
}

// Node gives one node of a run.
func Node(s *store.Store, id, runID string, node int) (*NodeView, error) {
	study, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(study.Cards, func(c *card.Card) bool { return c.ID == runID })
	if at < 0 {
		return nil, card.Fail(card.CodeNotFound, "", "read node %d of run `%s` of study `%s`: no such run", node, runID, id)
	}
	tree, err := readTree(past.run(runID), past.c())
	if err != nil {
		return nil, err
	}
	if node < 0 || node >= tree.tree.Len() {
		return nil, card.Fail(card.CodeNotFound, "", "read node %d of run `%s` of study `%s`: no such node (the run has %d)", node, runID, id, tree.tree.Len())
	}
	view := &NodeView{Card: study.Cards[at], Lineage: append([]search.NodeID{search.Root}, tree.tree.Lineage(search.NodeID(node))...)}
	if node == 0 {
		view.Verdict = card.Verdict{Status: statusEager, Cost: 1}
		return view, nil
	}
	candidate := tree.candidates[node]
	source, err := s.Get(id, candidate.Source)
	if err != nil {
		return nil, err
	}
	candidate.Source = string(source)
	view.Candidate, view.Verdict, view.Log = &candidate, tree.verdicts[node], tree.verdicts[node].Detail
	view.Attempts = []attemptEvent{}
	if read, ok := past.run(runID).counted[node]; ok {
		view.Counters = &read.Counters
	}
	for _, attempt := range tree.attempts[node] {
		if hash := attempt.Candidate.Source; hash != "" { // an older log has none
			source, err := s.Get(id, hash)
			if err != nil {
				return nil, err
			}
			attempt.Candidate.Source = string(source)
		}
		view.Attempts = append(view.Attempts, attempt)
		view.Log += fmt.Sprintf("\n\nbefore repair %d: %s: %s", attempt.Attempt, attempt.Verdict.Status, attempt.Verdict.Detail)
	}
	return view, nil
}

// shownTree is a run's tree for readers: candidates have the hash of their source in place of it.
type shownTree struct {
	tree       *search.Tree
	candidates []card.Candidate
	verdicts   []card.Verdict
	attempts   [][]attemptEvent
	sources    []string // by number; [0] is the first
	waiting    map[int]pending
}

// pending is a proposal that has no verdict yet.
type pending struct {
	candidate card.Candidate
	attempts  []attemptEvent
}

func (h *history) c() float64 {
	if h.settings != nil && h.settings.C != nil {
		return *h.settings.C
	}
	return search.Default.C
}

// readTree derives the tree of a run from its log.
func readTree(run *runHistory, c float64) (*shownTree, error) {
	config := search.Default
	config.C = c
	shown := &shownTree{tree: search.New(config, 0, 1), candidates: []card.Candidate{{}}, verdicts: []card.Verdict{{}},
		attempts: [][]attemptEvent{nil}, sources: []string{""}, waiting: map[int]pending{}}
	for _, event := range run.events {
		if err := shown.add(event); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

func (t *shownTree) add(event store.Event) error {
	switch event.Kind {
	case store.KindSelection:
		data, err := decode[selectionEvent](event)
		if err != nil {
			return err
		}
		if !slices.Contains(t.sources, data.Author) {
			t.sources = append(t.sources, data.Author)
		}
		_, err = t.tree.SelectAt(min(slices.Index(t.sources, data.Author), search.MaxSources-1), data.Parent)
		return err
	case store.KindProposal:
		data, err := decode[proposalEvent](event)
		if err != nil {
			return err
		}
		if data.Candidate == nil {
			delete(t.waiting, data.Seq)
			return t.tree.Drop(data.Seq, data.Closed)
		}
		t.waiting[data.Seq] = pending{*data.Candidate, t.waiting[data.Seq].attempts}
	case store.KindAttempt:
		data, err := decode[attemptEvent](event)
		if err != nil {
			return err
		}
		was := t.waiting[data.Seq]
		t.waiting[data.Seq] = pending{was.candidate, append(was.attempts, data)}
	case store.KindVerdict:
		data, err := decode[verdictEvent](event)
		if err != nil {
			return err
		}
		if _, err := t.tree.Attach(data.Seq, search.Result{OK: data.Verdict.Status == card.OK, Cost: data.Verdict.Cost}); err != nil {
			return err
		}
		t.candidates = append(t.candidates, t.waiting[data.Seq].candidate)
		t.attempts = append(t.attempts, t.waiting[data.Seq].attempts)
		delete(t.waiting, data.Seq)
		t.verdicts = append(t.verdicts, data.Verdict)
	}
	return nil
}

func (t *shownTree) lines() []NodeLine {
	lines := make([]NodeLine, t.tree.Len())
	for id := range lines {
		node := t.tree.Node(search.NodeID(id))
		candidate, verdict := t.candidates[id], t.verdicts[id]
		lines[id] = NodeLine{search.NodeID(id), node.Parent, verdict.Status, node.Cost, node.Best, node.Visits, candidate.Author,
			candidate.Family, candidate.Params, candidate.Change, len(t.attempts[id]), verdict.Unfinished}
		if id == 0 {
			lines[id].Status = statusEager
		}
		if !node.OK {
			lines[id].Best = 0 // +Inf has no JSON
		}
		if lines[id].Params == nil {
			lines[id].Params = map[string]int{}
		}
	}
	return lines
}
