package forge

// run.go owns the search on one card: select, propose, judge, attach, each logged before the next depends on it.

import (
	"context"
	"errors"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// run is the search on one card: a tree, what its nodes are, and the proposals that have no result yet.
type run struct {
	*work
	card     *card.Card // as the referee knows it now
	names    naming
	floor    float64
	gain     float64
	seconds  float64 // budget of this session
	history  *runHistory
	tree     *search.Tree
	nodes    []propose.Attempt // by node; [0] is eager
	byID     map[string]search.NodeID
	counters map[search.NodeID]*card.Counters // as the log has them
	tried    map[search.NodeID]bool           // counters that were read in this session, or could not be
	flights  []*flight                        // oldest first
	opened   bool
	started  bool
	spentNow float64 // seconds of this session

	sources []*source // who proposes; [0] answers at once, the others are authors
	rates   *search.Sources
	ideas   []idea
	answers chan struct{} // holds one: an author has answered
	calls   context.Context
	hangUp  context.CancelFunc // of calls that fly
}

// search grows the tree until a rule stops it, and says why it stopped.
func (r *run) search(ctx context.Context) (why string, err error) {
	defer r.hangUp()
	if r.recording != nil {
		return r.follow(ctx, r.recording.moves[r.card.ID])
	}
	for {
		if r.finishing() {
			return stoppedByUser, nil
		}
		if err := errors.Join(r.receive(), r.collect()); err != nil {
			return "", err
		}
		if err := r.wishes(ctx); err != nil {
			return "", err
		}
		why, err := r.fill(ctx)
		if err != nil {
			return "", err
		}
		if len(r.flights) == 0 {
			return why, nil
		}
		f, err := r.ready(ctx)
		if err != nil {
			return "", err
		}
		if f == nil {
			continue
		}
		ended, err := r.settle(ctx, f)
		if err != nil {
			return "", err
		}
		if ended {
			r.land(f)
		}
	}
}

// fill selects places to grow until enough proposals are on their way, and says why it could not.
func (r *run) fill(ctx context.Context) (why string, err error) {
	closed := map[int]string{} // sources that have no place to add to now, and why
	for {
		f := &flight{size: r.tree.Len()}
		event := selectionEvent{}
		if submission, ok := r.history.nextSubmission(); ok && r.room(0) {
			data, err := decode[Submission](submission)
			if err != nil {
				return "", err
			}
			f.submitted, f.candidate, event.Submission = true, &data.Candidate, submission.Seq
			f.selection, err = r.tree.SelectAt(0, search.NodeID(data.Parent))
			if err != nil { // the parent is not in this tree: the candidate is still worth a judgement
				if f.selection, err = r.tree.SelectAt(0, search.Root); err != nil {
					return "", err
				}
			}
		} else if r.settings.Attend {
			return "", nil
		} else {
			who, why := r.turn(closed)
			if who < 0 {
				return why, nil
			}
			if why := search.First(r.rules(), r.progress()); why != "" {
				return why, nil
			}
			f.selection, err = r.tree.Select(who)
			if errors.Is(err, search.ErrWait) {
				closed[who] = ""
				continue
			}
			if errors.Is(err, search.ErrExhausted) {
				closed[who] = "every candidate that can be proposed was tried"
				continue
			}
			r.ask(f, who, &event)
		}
		event.Selection = f.selection
		if err := r.learn(); err != nil {
			return "", err
		}
		if err := r.start(); err != nil {
			return "", err
		}
		if f.slow() { // before the selection is logged: its brief is the same when it is taken up again
			if f.counters, _, err = r.counted(ctx, f.selection.Parent); err != nil {
				return "", err
			}
		}
		if err := r.append(r.card.ID, store.Entry{Kind: store.KindSelection, Data: event}); err != nil {
			return "", err
		}
		r.launch(ctx, f)
	}
}

// learn has the judge open the device, where that alone tells what proposers must know of it.
func (r *run) learn() error {
	if r.facts.Target != "" {
		return nil
	}
	judge, err := r.judge()
	if err != nil {
		return err
	}
	if told, ok := judge.(interface{ Facts() propose.Facts }); ok {
		r.facts = told.Facts()
	}
	if r.past.facts == nil || *r.past.facts != r.facts {
		return r.append("", store.Entry{Kind: store.KindFacts, Data: r.facts})
	}
	return nil
}

// launch asks for a proposal beside everything else; the answer waits in the flight.
func (r *run) launch(ctx context.Context, f *flight) {
	r.rates.Begin(f.selection.Source)
	r.flights = append(r.flights, f)
	r.take(ctx, f)
}

// take asks the flight's source, unless the candidate is known.
func (r *run) take(ctx context.Context, f *flight) {
	f.proposal = make(chan proposal, 1)
	if f.candidate != nil {
		f.proposal <- proposal{candidate: *f.candidate}
		r.answered()
		return
	}
	if r.recording != nil { // which answers in its time
		return
	}
	source := r.sources[f.selection.Source]
	if source.proposer == nil || r.settings.Attend {
		f.proposal <- proposal{err: errNotAsked}
		r.answered()
		return
	}
	brief := r.brief(f.selection, f.size)
	if f.slow() {
		ctx = r.calls
		r.inform(&brief, f)
	}
	r.group.Go(func() {
		f.proposal <- r.propose(ctx, source.proposer, brief)
		r.answered()
	})
}

func (r *run) propose(ctx context.Context, proposer propose.Proposer, brief propose.Brief) (p proposal) {
	p.err = safe("propose", func() (err error) {
		p.candidate, err = proposer.Propose(ctx, brief)
		return err
	})
	return p
}

// brief is what a proposer may know: the tree as it was with `size` nodes.
func (r *run) brief(selection search.Selection, size int) propose.Brief {
	brief := propose.Brief{Card: r.card, Facts: r.facts, Seed: selection.Seed, Tried: r.nodes[1:size:size]}
	for _, id := range r.tree.Lineage(selection.Parent) {
		brief.Lineage = append(brief.Lineage, r.nodes[id])
	}
	for _, id := range r.tree.Node(selection.Parent).Children {
		if int(id) < size {
			brief.Children = append(brief.Children, r.nodes[id])
		}
	}
	seen := make(map[string]bool, size)
	for _, node := range r.nodes[1:size] {
		seen[node.Candidate.ID] = true
	}
	brief.Seen = func(id string) bool { return seen[id] }
	return brief
}

// judgeError keeps the code of what broke, and calls it a judge's error where it has none.
func judgeError(err error, format string, args ...any) error {
	known := card.AsError(err)
	if known.Code == card.CodeInternal {
		known.Code = card.CodeJudge
	}
	return card.Fail(known.Code, known.Hint, "%s: %w", fmt.Sprintf(format, args...), err)
}

// start logs the run's beginning, once for each session that does something in it.
func (r *run) start() error {
	if r.started {
		return nil
	}
	r.started = true
	return r.append(r.card.ID, store.Entry{Kind: store.KindRun, Data: runEvent{State: runStarted}})
}

// rules stop the run; the first that holds gives the reason.
func (r *run) rules() []search.Rule {
	rules := []search.Rule{
		search.LittleToGain{Share: r.card.Share, Floor: r.floor, Least: *r.settings.MinGain},
		search.Candidates(r.settings.Candidates),
	}
	if *r.settings.MinGain > 0 { // with 0 a study goes to its budget
		rules = append([]search.Rule{search.NearFloor(r.floor)}, rules...)
	}
	if r.settings.Seconds > 0 {
		rules = append(rules, search.Seconds(r.seconds))
		if r.history.judged == 0 {
			rules = append(rules, first{r.secondsLeft(), r.each()})
		}
	}
	return rules
}

func (r *run) progress() search.Progress {
	best, _ := r.tree.Best()
	p := search.Progress{Candidates: r.tree.Len() - 1 + len(r.flights), Seconds: r.spentNow, Best: best}
	if r.history.judged > 0 {
		p.NextSeconds = r.history.judgeTime / float64(r.history.judged)
	}
	return p
}
