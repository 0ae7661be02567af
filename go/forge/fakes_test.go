package forge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

func TestMain(m *testing.M) {
	if os.Getenv(childRuns) != "" {
		runAsChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// grid proposes points of two parameters for each of three families, as a template does: defaults at the root, one change below.
type grid struct{}

var gridFamilies = []string{"rows", "tiles", "plain"}

const gridWide = 5 // values of each parameter

func gridCandidate(family string, vec, grain int, change string) card.Candidate {
	c := card.Candidate{Author: "template", Family: family, Params: map[string]int{"VEC": vec, "GRAIN": grain}, Change: change,
		Source: fmt.Sprintf("// %s %d %d", family, vec, grain),
		Spec:   card.Spec{Schema: 1, Kernels: []card.Kernel{{Entry: "kf_main", Work: "1", Grain: "1", Args: []card.SpecArg{{Slot: "self"}}}}}}
	c.ID = card.CandidateID(c.Source, c.Spec)
	return c
}

func (grid) Propose(_ context.Context, brief propose.Brief) (card.Candidate, error) {
	var all []card.Candidate
	if n := len(brief.Lineage); n > 0 {
		parent := brief.Lineage[n-1].Candidate
		for value := range gridWide {
			all = append(all, gridCandidate(parent.Family, value, parent.Params["GRAIN"], "VEC"), gridCandidate(parent.Family, parent.Params["VEC"], value, "GRAIN"))
		}
		turn := int(brief.Seed % int64(len(all)))
		all = append(all[turn:], all[:turn]...)
	} else {
		for _, family := range gridFamilies {
			all = append(all, gridCandidate(family, 0, 0, "default"))
		}
	}
	for _, c := range all {
		if !brief.Seen(c.ID) {
			return c, nil
		}
	}
	return card.Candidate{}, propose.ErrExhausted
}

// tableJudge judges by a recorded table of costs. Its methods can be replaced one by one.
type tableJudge struct {
	table    map[string]card.Verdict // by family and parameters
	open     func(*card.Card) error
	before   func(card.Candidate) // each judgement
	confirms func(judge.Finalist, card.Verdict) judge.Confirmation
	closes   func(context.Context, string) error
	judged   []string // ids of candidates
	opened   map[string]int
	shut     int
}

// newTable reads testdata/costs.tsv: family, VEC, GRAIN, status, cost.
func newTable(path string) (*tableJudge, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	j := &tableJudge{table: map[string]card.Verdict{}, opened: map[string]int{}}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		cost, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			return nil, err
		}
		j.table[strings.Join(fields[:3], " ")] = card.Verdict{Status: card.Status(fields[3]), Cost: cost}
	}
	return j, lines.Err()
}

func tableFor(t *testing.T) *tableJudge {
	t.Helper()
	j, err := newTable(filepath.Join("testdata", "costs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *tableJudge) Open(_ context.Context, c *card.Card, _ int64) error {
	j.opened[c.ID]++
	if j.open != nil {
		return j.open(c)
	}
	return nil
}

func (j *tableJudge) Judge(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error) {
	if j.opened[c.ID] == 0 {
		return card.Verdict{}, fmt.Errorf("card `%s` was not prepared", c.ID)
	}
	if j.before != nil {
		j.before(candidate)
	}
	if err := ctx.Err(); err != nil {
		return card.Verdict{}, err
	}
	verdict, ok := j.table[fmt.Sprintf("%s %d %d", candidate.Family, candidate.Params["VEC"], candidate.Params["GRAIN"])]
	if !ok {
		verdict = card.Verdict{Status: card.CompileError, Detail: "not in the table"}
	}
	if verdict.Status == card.OK {
		for i, v := range c.Variants { // the second variant likes another grain
			cost := verdict.Cost * (1 + 0.05*float64(i*(candidate.Params["GRAIN"]-2)))
			verdict.Variants = append(verdict.Variants, card.VariantCost{ID: v.ID, Cost: cost, EagerUS: v.EagerUS, CandidateUS: cost * v.EagerUS, Samples: 8})
		}
	}
	j.judged = append(j.judged, candidate.ID)
	return verdict, nil
}

func (j *tableJudge) Confirm(_ context.Context, c *card.Card, finalists []judge.Finalist) ([]judge.Confirmation, error) {
	var all []judge.Confirmation
	for _, f := range finalists {
		verdict := j.table[fmt.Sprintf("%s %d %d", f.Candidate.Family, f.Candidate.Params["VEC"], f.Candidate.Params["GRAIN"])]
		confirmation := judge.Confirmation{Variant: f.Variant, Node: f.Node, Accepted: true, Ratio: 1 / verdict.Cost, Low: 0.98 / verdict.Cost,
			High: 1.02 / verdict.Cost, Samples: 32, EagerUS: 100, OursUS: 100 * verdict.Cost, Image: []byte("image of " + f.Candidate.ID)}
		if j.confirms != nil {
			confirmation = j.confirms(f, verdict)
		}
		for _, v := range c.Variants {
			if v.ID == f.Variant {
				confirmation.Plan = judge.Plan{Variant: f.Variant, Node: f.Node, Call: v.Call, Spec: f.Candidate.Spec, Threads: c.Threads,
					Align: []int{16, 16}, Deterministic: true, Exact: true}
			}
		}
		all = append(all, confirmation)
	}
	return all, nil
}

func (j *tableJudge) Close(ctx context.Context, cardID string) error {
	j.opened[cardID] = 0
	if j.closes != nil {
		return j.closes(ctx, cardID)
	}
	return nil
}

func (j *tableJudge) Shutdown() { j.shut++ }

// reluCard is a card with two variants.
func reluCard(id string, share float64) *card.Card {
	variant := func(name string, size int64) card.Variant {
		tensor := card.Arg{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{size}, Strides: []int64{1}}
		return card.Variant{ID: name, Calls: 2, EagerUS: 100, RoofUS: 10, Bytes: 8 * size, Call: card.Call{Overload: "aten::relu",
			Args: []card.Arg{tensor}, Outputs: []card.Output{{DType: "float32", Sizes: []int64{size}, Strides: []int64{1}, Alias: -1}}}}
	}
	return &card.Card{Schema: 1, ID: id, Target: "host", Overload: "aten::relu", Layout: "contiguous", Threads: 2, Share: share,
		Variants: []card.Variant{variant("v0", 1024), variant("v1", 4096)}}
}

func study(cards ...*card.Card) *store.Study {
	return &store.Study{ID: "s-test", Target: "host", Model: "net", Cards: cards,
		Pins: map[string]any{"torch": "2.15.0", "device": "a cpu avx2", "threads": 2.0, "runtime": "1", "toolchain": "g++ 12.2.0"}}
}

// clock gives a time that moves one second with every look, so that budgets in seconds are exact.
func clock() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time { now = now.Add(time.Second); return now }
}

func configFor(t *testing.T, path string, j Judge, settings Settings, cards ...*card.Card) Config {
	t.Helper()
	s, err := store.Open(path, store.PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Store: s, Study: study(cards...), Settings: settings, Proposer: grid{}, Facts: propose.Facts{Target: "host", Threads: 2},
		Judge: func(judge.Referee) (Judge, error) { return j, nil }, Now: clock()}
}

// drive is the referee's side: it polls, answers tasks, and gives back all events and the last poll.
func drive(t testing.TB, s *Study, answers map[string]func(json.RawMessage) (any, error)) (events []store.Event, last Poll) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		poll := s.Poll(100 * time.Millisecond)
		events = append(events, poll.Events...)
		for _, body := range poll.Tasks {
			answerTask(t, s, body, answers)
		}
		if poll.State == StateDone || poll.State == StateFailed {
			<-s.Ended()
			rest := s.Poll(0)
			return append(events, rest.Events...), rest
		}
	}
	t.Fatal("the study did not end")
	return nil, Poll{}
}

func answerTask(t testing.TB, s *Study, body json.RawMessage, answers map[string]func(json.RawMessage) (any, error)) {
	t.Helper()
	var head struct {
		Task int
		Kind string
	}
	if err := json.Unmarshal(body, &head); err != nil {
		t.Fatal(err)
	}
	answer := answers[head.Kind]
	if answer == nil && head.Kind == "confirm_model" {
		answer = func(json.RawMessage) (any, error) { return modelTimes(3), nil }
	}
	if answer == nil {
		t.Fatalf("task %s has no answer here", body)
	}
	result, err := answer(body)
	if err != nil {
		err = s.Answer(head.Task, nil, card.AsError(err))
	} else {
		text, failed := json.Marshal(result)
		if failed != nil {
			t.Fatal(failed)
		}
		err = s.Answer(head.Task, text, nil)
	}
	if err != nil && !(s.finishing() && card.AsError(err).Code == card.CodeNotFound) { // a study that is stopped at once waits for no answer
		t.Fatal(err)
	}
}

// modelTimes are twelve pairs of forwards with this ratio, give or take a percent.
func modelTimes(ratio float64) ModelTimes {
	times := ModelTimes{Status: card.OK}
	for i := range 12 {
		times.OnMS = append(times.OnMS, 10)
		times.OffMS = append(times.OffMS, 10*ratio*(1+0.001*float64(i-6)))
	}
	return times
}

func run1(t *testing.T, config Config) ([]store.Event, Poll) {
	t.Helper()
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	return drive(t, s, nil)
}

func view(t *testing.T, path string) *StudyView {
	t.Helper()
	s, err := store.OpenExisting(path, store.PatienceCall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v, err := View(s, "s-test")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// treeText is a whole run as text: what two runs must share to be called the same tree.
func treeText(run RunView) string {
	var text strings.Builder
	for _, n := range run.Nodes {
		fmt.Fprintf(&text, "%d<%d %s %.4f %s %v visits %d\n", n.Node, n.Parent, n.Status, n.Cost, n.Family, n.Params, n.Visits)
	}
	return text.String()
}
