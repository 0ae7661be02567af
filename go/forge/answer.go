package forge

// answer.go owns what people and agents outside of a search learn of a run: the brief before a candidate, the answer after it.

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// MaxSource is the most bytes of a source that is taken from outside.
const MaxSource = 256 << 10

// States of an answer.
const (
	AnswerJudged   = "judged"
	AnswerWaiting  = "waiting"
	AnswerUnjudged = "unjudged" // the card could not be judged; the same candidate may be submitted again
)

// Answer is what became of a candidate.
type Answer struct {
	State     string         `json:"state"`
	Card      string         `json:"card"`
	Candidate string         `json:"candidate"`
	Node      int            `json:"node"` // 0 until it is judged
	Verdict   *card.Verdict  `json:"verdict"`
	Measured  []string       `json:"measured"`  // in words, of a candidate that ran: its rate, and how its kernels fill the device
	Best      float64        `json:"best"`      // least cost in the run, eager's 1 included
	Confirmed []samplesEvent `json:"confirmed"` // of this candidate, by variant
	Serves    []string       `json:"serves"`    // variants that it is the winner of
	Why       string         `json:"why"`       // it is not judged
}

// Brief gives what a proposer is told below a node of a run. facts: of this machine, for a study of the host.
func Brief(s *store.Store, id, runID string, parent int, facts func(*card.Card) propose.Facts) (propose.Brief, error) {
	study, past, err := load(s, id)
	if err != nil {
		return propose.Brief{}, err
	}
	c, err := cardOf(study, runID, "ask about")
	if err != nil {
		return propose.Brief{}, err
	}
	tree, err := readTree(past.run(runID), past.c())
	if err != nil {
		return propose.Brief{}, err
	}
	if parent < 0 || parent >= tree.tree.Len() {
		return propose.Brief{}, card.Fail(card.CodeNotFound, "0 is eager", "ask about node %d of run `%s` of study `%s`: no such node (the run has %d)", parent, runID, id, tree.tree.Len())
	}
	told := past.facts
	if told == nil {
		told = new(propose.Facts)
		if *told = facts(c); told.Target == "" {
			told.Target, told.DeviceName = study.Target, study.Device()
		}
	}
	brief := propose.Brief{Card: c, Facts: *told, Seen: func(candidate string) bool {
		return slices.ContainsFunc(tree.candidates[1:], func(k card.Candidate) bool { return k.ID == candidate })
	}}
	attempt := func(node search.NodeID) (propose.Attempt, error) {
		candidate := tree.candidates[node]
		var source []byte
		if candidate.Source != "" { // a reply that held no candidate has none
			if source, err = s.Get(id, candidate.Source); err != nil {
				return propose.Attempt{}, err
			}
		}
		candidate.Source = string(source)
		return propose.Attempt{Node: int(node), Candidate: candidate, Verdict: tree.verdicts[node]}, nil
	}
	if parent > 0 {
		for _, node := range tree.tree.Lineage(search.NodeID(parent)) {
			a, err := attempt(node)
			if err != nil {
				return propose.Brief{}, err
			}
			brief.Lineage = append(brief.Lineage, a)
		}
		last := &brief.Lineage[len(brief.Lineage)-1]
		last.Counters = past.run(runID).ofParent(study.Target, parent, last.Verdict)
	}
	for _, node := range tree.tree.Node(search.NodeID(parent)).Children {
		a, err := attempt(node)
		if err != nil {
			return propose.Brief{}, err
		}
		brief.Children = append(brief.Children, a)
	}
	return brief, nil
}

func cardOf(study *store.Study, runID, what string) (*card.Card, error) {
	at := slices.IndexFunc(study.Cards, func(c *card.Card) bool { return c.ID == runID })
	if at < 0 {
		var ids []string
		for _, c := range study.Cards {
			ids = append(ids, c.ID+" ("+c.Overload+")")
		}
		return nil, card.Fail(card.CodeNotFound, "", "%s card `%s` of study `%s`: no such card (it has %v)", what, runID, study.ID, ids)
	}
	return study.Cards[at], nil
}

// AnswerOf says what became of a candidate of a run. CodeNotFound if nobody submitted it.
func AnswerOf(s *store.Store, id, runID, candidate string) (*Answer, error) {
	// The inbox first: what is taken from it is in the log at the same moment, so that a candidate is seen in one of them.
	waits, err := waitsInInbox(s, id, runID, candidate)
	if err != nil {
		return nil, err
	}
	study, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	c, err := cardOf(study, runID, "read a verdict on")
	if err != nil {
		return nil, err
	}
	run := past.run(runID)
	tree, err := readTree(run, past.c())
	if err != nil {
		return nil, err
	}
	answer := &Answer{State: AnswerWaiting, Card: runID, Candidate: candidate, Measured: []string{}, Confirmed: []samplesEvent{}, Serves: []string{}}
	answer.Best, _ = tree.tree.Best()
	for node := 1; node < len(tree.candidates); node++ {
		if tree.candidates[node].ID == candidate {
			answer.State, answer.Node, answer.Verdict = AnswerJudged, node, &tree.verdicts[node]
			facts := propose.Facts{}
			if past.facts != nil {
				facts = *past.facts
			}
			answer.Measured = brief.Measured(c, facts, tree.candidates[node].Spec, tree.verdicts[node])
			run.evidence(answer)
			return answer, nil
		}
	}
	if waits {
		return answer, nil
	}
	submitted := int64(0)
	for _, event := range run.submitted {
		data, err := decode[Submission](event)
		if err != nil {
			return nil, err
		}
		if data.Candidate.ID == candidate {
			submitted = event.Seq
		}
	}
	if submitted == 0 {
		return nil, card.Fail(card.CodeNotFound, "", "read the verdict on candidate `%s` of run `%s` of study `%s`: nobody submitted it", candidate, runID, id)
	}
	if run.taken[submitted] && run.stateSeq > submitted && (run.state.State == runFailed || run.state.State == runEnded) {
		answer.State, answer.Why = AnswerUnjudged, run.state.Why
	}
	return answer, nil
}

// evidence adds what was confirmed of a node.
func (h *runHistory) evidence(answer *Answer) {
	for _, key := range slices.Sorted(maps.Keys(h.confirmed)) {
		if sample := h.confirmed[key]; sample.Node == answer.Node {
			answer.Confirmed = append(answer.Confirmed, sample)
		}
	}
	for _, variant := range slices.Sorted(maps.Keys(h.winners)) {
		if winner := h.winners[variant]; winner.Served && winner.Plan.Node == answer.Node {
			answer.Serves = append(answer.Serves, variant)
		}
	}
}

// waitsInInbox says whether a candidate was sent and nobody took it yet.
func waitsInInbox(s *store.Store, id, runID, candidate string) (bool, error) {
	messages, err := s.Inbox(id)
	if err != nil {
		return false, err
	}
	for _, message := range messages {
		if message.Kind != store.KindSubmission {
			continue
		}
		data, err := decode[Submission](store.Event{Seq: message.Seq, Kind: message.Kind, Data: message.Data})
		if err != nil {
			return false, err
		}
		if data.Run == runID && data.Candidate.ID == candidate {
			return true, nil
		}
	}
	return false, nil
}

// Unjudged counts the candidates from outside that have no verdict yet.
func Unjudged(s *store.Store, id string) (count int, err error) {
	_, past, err := load(s, id)
	if err != nil {
		return 0, err
	}
	for _, run := range past.runs {
		if _, waits := run.nextSubmission(); waits || run.unanswered() {
			count++
		}
	}
	messages, err := s.Inbox(id)
	for _, message := range messages {
		if message.Kind == store.KindSubmission {
			count++
		}
	}
	return count, err
}

// CardLine is an operator of a study in a list.
type CardLine struct {
	Card     string  `json:"card"`
	Overload string  `json:"overload"`
	Layout   string  `json:"layout"`
	Share    float64 `json:"share"`    // of the model's operator time
	EagerUS  float64 `json:"eager_us"` // in a forward, all variants
	RoofUS   float64 `json:"roof_us"`  // likewise, at the speed of a copy
	Variants int     `json:"variants"`
	Nodes    int     `json:"nodes"` // candidates that were judged
	Best     float64 `json:"best"`  // least cost, eager's 1 included
	BestNode int     `json:"best_node"`
	Winners  int     `json:"winners"` // variants that are served
	State    string  `json:"state"`
	Why      string  `json:"why"`
}

// Cards lists the operators of a study, the most worthwhile first.
func Cards(s *store.Store, id string) ([]CardLine, error) {
	study, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(study.Cards, func(a, b *card.Card) int {
		_, savedA := gain(a)
		_, savedB := gain(b)
		return cmp.Or(cmp.Compare(savedB, savedA), cmp.Compare(a.ID, b.ID))
	})
	lines := []CardLine{}
	for _, c := range study.Cards {
		run := past.run(c.ID)
		tree, err := readTree(run, past.c())
		if err != nil {
			return nil, err
		}
		best, node := tree.tree.Best()
		line := CardLine{Card: c.ID, Overload: c.Overload, Layout: c.Layout, Share: c.Share, Variants: len(c.Variants), Nodes: tree.tree.Len() - 1,
			Best: best, BestNode: int(node), Winners: len(past.winnersOf(c)), State: run.state.State, Why: run.state.Why}
		for _, v := range c.Variants {
			line.EagerUS += float64(v.Calls) * v.EagerUS
			line.RoofUS += float64(v.Calls) * v.RoofUS
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// FindCard gives the id of the card that is meant: by its id, its overload, or a part of that which fits one card alone.
func FindCard(s *store.Store, id, name string) (string, error) {
	study, err := s.Study(id)
	if err != nil {
		return "", err
	}
	var exact, near []*card.Card
	for _, c := range study.Cards {
		switch {
		case c.ID == name:
			return c.ID, nil
		case c.Overload == name || strings.TrimPrefix(c.Overload, "aten::") == name:
			exact = append(exact, c)
		case name != "" && strings.Contains(c.Overload, name):
			near = append(near, c)
		}
	}
	fit, found := exact, "several cards fit"
	if len(fit) == 0 {
		fit = near
	}
	if len(fit) == 1 {
		return fit[0].ID, nil
	}
	if len(fit) == 0 {
		fit, found = study.Cards, "no card fits"
	}
	var names []string
	for _, c := range fit {
		names = append(names, c.ID+" ("+c.Overload+")")
	}
	return "", card.Fail(card.CodeNotFound, "give the card's id", "find the card `%s` of study `%s`: %s (there are %s)", name, id, found, strings.Join(names, ", "))
}
