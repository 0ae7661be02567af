package forge

// log.go owns the data of each event, and the history that follows from a log.

import (
	"encoding/json"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// The data of each kind of event (docs/formats.md, `events`). Readers are lenient: an older log may lack fields that came later.

type sessionEvent struct {
	PID      int      `json:"pid"`
	Resumed  bool     `json:"resumed"`
	Settings Settings `json:"settings"`
}

type forecastEvent struct {
	Runs       []runForecast `json:"runs"`
	Candidates int           `json:"candidates"`
	Seconds    float64       `json:"seconds"`
	USD        float64       `json:"usd"`

	Authors []AuthorForecast `json:"authors,omitempty"`
}

type runForecast struct {
	Card       string  `json:"card"`
	Gain       float64 `json:"gain"`
	Candidates int     `json:"candidates"`
	Seconds    float64 `json:"seconds"`
	Why        string  `json:"why"`
}

// States of a run. It ends only after its finalists were confirmed. One that failed (a broken harness) is taken up by the next session.
const (
	runStarted = "started"
	runEnded   = "ended"
	runFailed  = "failed"
)

type runEvent struct {
	State string `json:"state"`
	Why   string `json:"why"`
}

type selectionEvent struct {
	search.Selection
	Submission int64         `json:"submission,omitempty"` // number of the event that brought the candidate
	Author     string        `json:"author,omitempty"`     // who is asked, if it is not the first source
	Again      search.NodeID `json:"again,omitempty"`      // the node whose unfinished idea may be tried once more here
}

type proposalEvent struct {
	Seq       int             `json:"seq"`
	Candidate *card.Candidate `json:"candidate,omitempty"` // its source is the SHA-256 of the source
	None      string          `json:"none"`                // why there is no candidate
	Closed    bool            `json:"closed,omitempty"`    // and there will be none below this parent
}

type attemptEvent struct {
	Seq       int            `json:"seq"`
	Attempt   int            `json:"attempt"`
	Candidate card.Candidate `json:"candidate"` // its source is the SHA-256 of the source; none: the reply held none
	Verdict   card.Verdict   `json:"verdict"`
	Reply     string         `json:"reply,omitempty"` // key of a reply that held no candidate
}

type verdictEvent struct {
	Seq     int           `json:"seq"`
	Node    search.NodeID `json:"node"`
	Verdict card.Verdict  `json:"verdict"`
}

type spendEvent struct {
	What    string  `json:"what"` // "prepare", "judge", "wait", "call", "lost", "count", "confirm", "model"
	Seconds float64 `json:"seconds"`
	USD     float64 `json:"usd"`
	Author  string  `json:"author,omitempty"` // on whom, if it is not the first source
	*Call           // of "call"; of "lost" its tokens: of an attempt that gave no reply

	Parts map[string]float64 `json:"parts,omitempty"` // of "judge" and "confirm": where the seconds went, as the judge accounts for them
}

// Measured is what a confirmation measured: eager time / our time over cold data, with the interval that decided. The claim is Low.
type Measured struct {
	Ratio         float64 `json:"ratio"`
	Low           float64 `json:"low"`
	High          float64 `json:"high"`
	Samples       int     `json:"samples"`
	Dropped       int     `json:"dropped"` // blocks that did not count, since the device was slowed down
	EagerUS       float64 `json:"eager_us"`
	KernelforgeUS float64 `json:"kernelforge_us"`
	AAHalfWidth   float64 `json:"aa_half_width"` // of eager against eager in the same blocks
	Margin        float64 `json:"margin"`        // the gain that Low had to exceed
	WarmRatio     float64 `json:"warm_ratio"`    // over one set, which a device finds in its cache; 0: not measured
	PoolBytes     int64   `json:"pool_bytes"`    // of the inputs that rotate
}

type samplesEvent struct {
	Variant  string         `json:"variant"`
	Node     int            `json:"node"`
	Accepted bool           `json:"accepted"`
	Decision judge.Decision `json:"decision,omitempty"`
	Measured
	Detail string `json:"detail"`
}

// controlsEvent is what the negative controls of a card came to, per variant, when the card was prepared.
type controlsEvent struct {
	Controls map[string]map[string]string `json:"controls"`
}

// Blob names bytes of the store, or a file of a pack.
type Blob struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// Evidence is why a plan may serve.
type Evidence struct {
	Measured
	Fresh Fresh `json:"fresh"`
	Rule  int   `json:"rule"` // version of the tolerance rule (docs/tolerance.md)
	Tier  int   `json:"tier"` // of the sandbox
	// Controls are the outputs known to be wrong that the inputs were tried with, and how each ended.
	Controls   map[string]string `json:"controls,omitempty"`
	Exhaustive *judge.Exhaustive `json:"exhaustive,omitempty"` // how many of all inputs of a pointwise operator were compared
}

// Winner is a plan as a pack holds it.
type Winner struct {
	judge.Plan
	Code     Blob     `json:"code"`
	Source   Blob     `json:"source"`
	Evidence Evidence `json:"evidence"`
}

type planEvent struct {
	Plan   Winner `json:"plan"`
	Served bool   `json:"served"` // false: a better node came later, it was not faster in a fresh process, or it did not help the model
	Why    string `json:"why"`
}

type modelEvent struct {
	Plans   []string  `json:"plans"` // that were on
	OnMS    []float64 `json:"on_ms"`
	OffMS   []float64 `json:"off_ms"`
	Ratio   float64   `json:"ratio"`
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
	LeftOut []string  `json:"left_out"`
	Why     string    `json:"why"`
}

// decisionEvent is what the measurements of the model led to: the winners that are kept, and those that are not.
type decisionEvent struct {
	Plans   []string `json:"plans"`
	LeftOut []string `json:"left_out"`
}

// Submission is a candidate from outside, to be judged below a node of a run.
type Submission struct {
	Run       string         `json:"run"`
	Parent    int            `json:"parent"`
	Candidate card.Candidate `json:"candidate"`
	By        string         `json:"by"`
}

// Approval says who approved which plans.
type Approval struct {
	Plans []string `json:"plans"`
	By    string   `json:"by"`
}

type stateEvent struct {
	State string `json:"state"` // "running", "done", "failed", "stopped"
	Why   string `json:"why"`
}

// decode reads the data of an event.
func decode[T any](event store.Event) (T, error) {
	var data T
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return data, card.Fail(card.CodeStore, "restore the store from a copy, or remove the study with `kernelforge cache clear --study`",
			"read event %d (`%s`): %w", event.Seq, event.Kind, err)
	}
	return data, nil
}

// history is a study as its log tells it.
type history struct {
	settings  *Settings // of the newest session; nil before the first
	session   int64     // the event of its beginning
	state     stateEvent
	runs      map[string]*runHistory
	order     []string // of the runs, as they began
	spent     spendEvent
	calls     int // of authors, that were paid
	tokensIn  int64
	tokensOut int64
	stops     []authorEvent // of authors, on every card
	forecast  []AuthorForecast
	decision  *decisionEvent
	approved  map[string]bool
	review    bool // as the newest session wished
	exact     bool // likewise
	origin    json.RawMessage
	facts     *propose.Facts // of the device, as it last told them; nil on the host
	off       judge.Gates    // that a session of a test switched off
	result    json.RawMessage
	judged    int // candidates, over all runs
	judgeTime float64
}

// runHistory is the part of one run: what its tree is made of, in order.
type runHistory struct {
	events    []store.Event // selections, proposals, attempts, verdicts, spends
	state     runEvent
	stateSeq  int64          // of the event that brought the state
	searched  string         // why it ended last; "": it never did
	endedWith *Settings      // of the session in which it ended
	best      float64        // least cost of a candidate; 0 before the first that is ok
	taken     map[int64]bool // submissions that were taken up
	submitted []store.Event
	confirmed map[string]samplesEvent      // by variant and node
	winners   map[string]planEvent         // by variant: the newest
	controls  map[string]map[string]string // by variant: the newest
	counted   map[int]countedAt            // by node: the newest
	wished    []int                        // nodes whose counters are asked for
	spent     spendEvent
	judgeTime float64
	judged    int
}

func confirmKey(variant string, node int) string { return fmt.Sprintf("%s/%d", variant, node) }

// read derives the history of a study from its log.
func readHistory(events []store.Event) (*history, error) {
	h := &history{runs: map[string]*runHistory{}, approved: map[string]bool{}}
	for _, event := range events {
		if err := h.add(event); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *history) run(id string) *runHistory {
	if h.runs[id] == nil {
		h.runs[id] = &runHistory{taken: map[int64]bool{}, confirmed: map[string]samplesEvent{}, winners: map[string]planEvent{}, counted: map[int]countedAt{}}
		h.order = append(h.order, id)
	}
	return h.runs[id]
}

func (h *history) add(event store.Event) (err error) {
	switch event.Kind {
	case store.KindSession:
		var data sessionEvent
		if data, err = decode[sessionEvent](event); err == nil {
			data.Settings, err = data.Settings.complete()
			h.settings, h.review, h.off = &data.Settings, data.Settings.Review, append(h.off, data.Settings.Off...)
			h.exact, h.stops = data.Settings.Exact, nil // each session asks again
			h.session = event.Seq
		}
	case store.KindForecast:
		var data forecastEvent
		if data, err = decode[forecastEvent](event); err == nil {
			h.forecast = data.Authors
		}
	case store.KindState:
		h.state, err = decode[stateEvent](event)
	case store.KindRun:
		run := h.run(event.Run)
		if run.state, err = decode[runEvent](event); run.state.State == runEnded {
			run.endedWith, run.searched = h.settings, run.state.Why
		}
		run.stateSeq = event.Seq
	case store.KindSelection:
		run := h.run(event.Run)
		run.events = append(run.events, event)
		var data selectionEvent
		if data, err = decode[selectionEvent](event); err == nil && data.Submission != 0 {
			run.taken[data.Submission] = true
		}
	case store.KindAuthor:
		var data authorEvent
		if data, err = decode[authorEvent](event); err == nil && event.Run == "" {
			h.stops = append(h.stops, data)
		} else if err == nil {
			h.run(event.Run).events = append(h.run(event.Run).events, event)
		}
	case store.KindProposal, store.KindAttempt:
		h.run(event.Run).events = append(h.run(event.Run).events, event)
	case store.KindVerdict:
		run := h.run(event.Run)
		run.events = append(run.events, event)
		run.judged++
		h.judged++
		var data verdictEvent
		if data, err = decode[verdictEvent](event); err == nil && data.Verdict.Status == card.OK && (run.best == 0 || data.Verdict.Cost < run.best) {
			run.best = data.Verdict.Cost
		}
	case store.KindSubmission:
		h.run(event.Run).submitted = append(h.run(event.Run).submitted, event)
	case store.KindSpend:
		var data spendEvent
		if data, err = decode[spendEvent](event); err == nil {
			h.spend(event, data)
		}
	case store.KindSamples:
		var data samplesEvent
		if data, err = decode[samplesEvent](event); err == nil {
			h.run(event.Run).confirmed[confirmKey(data.Variant, data.Node)] = data
		}
	case store.KindCount, store.KindCounters:
		err = h.run(event.Run).addCounters(event)
	case store.KindControls:
		var data controlsEvent
		if data, err = decode[controlsEvent](event); err == nil {
			h.run(event.Run).controls = data.Controls
		}
	case store.KindPlan:
		var data planEvent
		if data, err = decode[planEvent](event); err == nil {
			h.run(event.Run).winners[data.Plan.Variant] = data
		}
	case store.KindDecision:
		var data decisionEvent
		if data, err = decode[decisionEvent](event); err == nil {
			h.decision = &data
		}
	case store.KindApproval:
		var data Approval
		if data, err = decode[Approval](event); err == nil {
			for _, plan := range data.Plans {
				h.approved[plan] = true
			}
		}
	case store.KindOrigin:
		h.origin = event.Data
	case store.KindFacts:
		var data propose.Facts
		if data, err = decode[propose.Facts](event); err == nil {
			h.facts = &data
		}
	case store.KindResult:
		h.result = event.Data
	}
	return err
}

// stopped are the authors that the newest session asks no more.
func (h *history) stopped() []authorEvent { return append([]authorEvent{}, h.stops...) }

// stateOf is a plan's state now: the log keeps what it was when the plan was made.
func (h *history) stateOf(plan string) string {
	if h.review && !h.approved[plan] {
		return "proposed"
	}
	return "approved"
}

func (h *history) spend(event store.Event, data spendEvent) {
	h.spent.Seconds += data.Seconds
	h.spent.USD += data.USD
	if data.Call != nil {
		h.tokensIn += data.TokensIn
		h.tokensOut += data.TokensOut
	}
	if data.What == "call" {
		h.calls++
	}
	if event.Run == "" {
		return
	}
	r := h.run(event.Run)
	r.events = append(r.events, event)
	r.spent.Seconds += data.Seconds
	r.spent.USD += data.USD
	if data.What == "judge" {
		r.judgeTime += data.Seconds
		h.judgeTime += data.Seconds
	}
}
