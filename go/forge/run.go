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
	flights  []*flight // oldest first
	opened   bool
	started  bool
	spentNow float64 // seconds of this session
}

// flight is a proposal on its way from a selection to a verdict.
type flight struct {
	selection search.Selection
	size      int             // nodes in the tree when it was selected: a brief shows no later ones
	candidate *card.Candidate // known already: submitted, or read back from the log
	submitted bool
	logged    bool          // the log has the candidate
	repairs   int           // that the log has
	proposal  chan proposal // holds one
}

type proposal struct {
	candidate card.Candidate
	err       error
}

// search grows the tree until a rule stops it, and says why it stopped.
func (r *run) search(ctx context.Context) (why string, err error) {
	for {
		if r.finishing() {
			return stoppedByUser, nil
		}
		if err := r.receive(); err != nil {
			return "", err
		}
		why, err := r.fill(ctx)
		if err != nil {
			return "", err
		}
		if len(r.flights) == 0 {
			return why, nil
		}
		if err := r.settle(ctx, r.flights[0]); err != nil {
			return "", err
		}
		r.flights = r.flights[1:]
	}
}

// fill selects places to grow until enough proposals are on their way, and says why it could not.
func (r *run) fill(ctx context.Context) (why string, err error) {
	for len(r.flights) < r.settings.Width {
		f := &flight{size: r.tree.Len()}
		event := selectionEvent{}
		if submission, ok := r.history.nextSubmission(); ok {
			data, err := decode[Submission](submission)
			if err != nil {
				return "", err
			}
			f.submitted, f.candidate, event.Submission = true, &data.Candidate, submission.Seq
			f.selection, err = r.tree.SelectAt(search.NodeID(data.Parent))
			if err != nil { // the parent is not in this tree: the candidate is still worth a judgement
				if f.selection, err = r.tree.SelectAt(search.Root); err != nil {
					return "", err
				}
			}
		} else {
			if why := search.First(r.rules(), r.progress()); why != "" {
				return why, nil
			}
			f.selection, err = r.tree.Select()
			if errors.Is(err, search.ErrWait) {
				return "", nil
			}
			if errors.Is(err, search.ErrExhausted) {
				return "every candidate that can be proposed was tried", nil
			}
		}
		event.Selection = f.selection
		if err := r.learn(); err != nil {
			return "", err
		}
		if err := r.start(); err != nil {
			return "", err
		}
		if err := r.append(r.card.ID, store.Entry{Kind: store.KindSelection, Data: event}); err != nil {
			return "", err
		}
		r.launch(ctx, f)
	}
	return "", nil
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
	return nil
}

// launch asks for a proposal beside everything else; the answer waits in the flight.
func (r *run) launch(ctx context.Context, f *flight) {
	f.proposal = make(chan proposal, 1)
	r.flights = append(r.flights, f)
	if f.candidate != nil {
		f.proposal <- proposal{candidate: *f.candidate}
		return
	}
	brief := r.brief(f.selection, f.size)
	r.group.Go(func() { f.proposal <- r.propose(ctx, brief) })
}

func (r *run) propose(ctx context.Context, brief propose.Brief) (p proposal) {
	p.err = safe("propose", func() (err error) {
		p.candidate, err = r.proposer.Propose(ctx, brief)
		return err
	})
	return p
}

// brief is what a proposer may know: the tree as it was with `size` nodes.
func (r *run) brief(selection search.Selection, size int) propose.Brief {
	brief := propose.Brief{Card: r.card, Facts: r.facts, Seed: selection.Seed}
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

// settle brings the oldest proposal to its end: a node, or nothing.
func (r *run) settle(ctx context.Context, f *flight) error {
	var p proposal
	select {
	case p = <-f.proposal:
	case <-ctx.Done():
		return cancelled(ctx)
	}
	twin, known := r.byID[p.candidate.ID]
	if p.err == nil && known && !f.submitted { // made side by side with its twin: ask again, now that the twin is known
		p = r.propose(ctx, r.brief(f.selection, r.tree.Len()))
		twin, known = r.byID[p.candidate.ID]
	}
	seq := f.selection.Seq
	switch {
	case errors.Is(p.err, propose.ErrExhausted):
		return r.drop(seq, "nothing left to propose here", true)
	case p.err != nil:
		if err := cancelled(ctx); err != nil {
			return err
		}
		return card.Fail(card.CodePropose, card.AsError(p.err).Hint, "propose a child of node %d of `%s`: %w", f.selection.Parent, r.card.ID, p.err)
	case known:
		return r.drop(seq, fmt.Sprintf("the candidate is node %d already", twin), !f.submitted)
	}
	if err := p.candidate.Validate(); err != nil {
		return card.Fail(card.CodePropose, "", "propose a child of node %d of `%s`: %w", f.selection.Parent, r.card.ID, err)
	}
	if !f.logged {
		entry, err := r.proposed(seq, p.candidate)
		if err != nil {
			return err
		}
		if err := r.append(r.card.ID, entry); err != nil {
			return err
		}
	}
	r.ahead(ctx, p.candidate)
	if err := r.open(ctx); err != nil {
		return err
	}
	began := r.now()
	candidate, verdict, err := r.judgeAndRepair(ctx, f, p.candidate)
	if err != nil {
		return err
	}
	spent := r.now().Sub(began).Seconds()
	r.spentNow += spent
	node := search.NodeID(r.tree.Len())
	err = r.append(r.card.ID,
		store.Entry{Kind: store.KindVerdict, Data: verdictEvent{Seq: seq, Node: node, Verdict: verdict}},
		store.Entry{Kind: store.KindSpend, Data: spendEvent{What: "judge", Seconds: spent}})
	if err != nil {
		return err
	}
	return r.attach(seq, candidate, verdict)
}

func (r *run) drop(seq int, why string, closed bool) error {
	err := r.append(r.card.ID, store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: seq, None: why, Closed: closed}})
	if err != nil {
		return err
	}
	return r.tree.Drop(seq, closed)
}

// proposed keeps the source of a candidate by its hash, and gives the event of the candidate without it.
func (r *run) proposed(seq int, candidate card.Candidate) (store.Entry, error) {
	hash, err := r.store.Put(r.study.ID, []byte(candidate.Source))
	candidate.Source = hash
	return store.Entry{Kind: store.KindProposal, Data: proposalEvent{Seq: seq, Candidate: &candidate}}, err
}

// attach enters a judged candidate into the tree.
func (r *run) attach(seq int, candidate card.Candidate, verdict card.Verdict) error {
	id, err := r.tree.Attach(seq, search.Result{OK: verdict.Status == card.OK, Cost: verdict.Cost})
	if err != nil {
		return err
	}
	r.nodes = append(r.nodes, propose.Attempt{Node: int(id), Candidate: candidate, Verdict: verdict})
	r.byID[candidate.ID] = id
	return nil
}

// judgeAndRepair has a candidate judged. A source that can repair gets at most three tries on a compile or launch error; the last verdict counts.
func (r *run) judgeAndRepair(ctx context.Context, f *flight, candidate card.Candidate) (card.Candidate, card.Verdict, error) {
	repairer, mends := r.proposer.(Repairer)
	for attempt := f.repairs + 1; ; attempt++ {
		verdict, err := r.judgeOnce(ctx, candidate)
		if err != nil {
			return candidate, verdict, err
		}
		broken := verdict.Status == card.CompileError || verdict.Status == card.LaunchError
		if !broken || !mends || f.submitted {
			return candidate, verdict, nil
		}
		if attempt > maxRepairs {
			verdict.Detail = fmt.Sprintf("given up after %d repairs, which does not prove that the idea cannot work: %s", maxRepairs, verdict.Detail)
			return candidate, verdict, nil
		}
		failed := propose.Attempt{Candidate: candidate, Verdict: verdict}
		mended, err := repairer.Repair(ctx, r.brief(f.selection, r.tree.Len()), failed)
		if errors.Is(err, propose.ErrExhausted) {
			return candidate, verdict, nil
		}
		if err != nil {
			return candidate, verdict, card.Fail(card.CodePropose, card.AsError(err).Hint, "repair `%s`: %w", candidate.ID, err)
		}
		if err := mended.Validate(); err != nil {
			return candidate, verdict, card.Fail(card.CodePropose, "", "repair `%s`: %w", candidate.ID, err)
		}
		if _, known := r.byID[mended.ID]; known || mended.ID == candidate.ID {
			return candidate, verdict, nil
		}
		failed.Candidate.Source = ""
		next, err := r.proposed(f.selection.Seq, mended)
		if err != nil {
			return candidate, verdict, err
		}
		failure := store.Entry{Kind: store.KindAttempt, Data: attemptEvent{f.selection.Seq, attempt, failed.Candidate, verdict}}
		if err := r.append(r.card.ID, failure, next); err != nil { // in one step: a resumed run neither judges nor mends a failure again
			return candidate, verdict, err
		}
		candidate = mended
	}
}

func (r *run) judgeOnce(ctx context.Context, candidate card.Candidate) (card.Verdict, error) {
	judge, err := r.judge()
	if err != nil {
		return card.Verdict{}, err
	}
	verdict, err := judge.Judge(ctx, r.card, candidate)
	if stopped := cancelled(ctx); stopped != nil {
		return card.Verdict{}, stopped
	}
	if err == nil {
		err = verdict.Validate()
	}
	if err != nil {
		return card.Verdict{}, judgeError(err, "judge `%s` on `%s`", candidate.ID, r.card.ID)
	}
	return r.names.stored(verdict), nil
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
		search.USD(r.settings.MaxCost),
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
	p := search.Progress{Candidates: r.tree.Len() - 1 + len(r.flights), Seconds: r.spentNow, Best: best, USD: r.past.spent.USD}
	if r.history.judged > 0 {
		p.NextSeconds = r.history.judgeTime / float64(r.history.judged)
	}
	return p
}
