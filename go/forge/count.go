package forge

// count.go owns the hardware counters of a parent: read once for each node that an author is to improve on, kept in the log, told in its brief. It
// refuses to let anything else depend on them: the tree is the same without, and who waits for a verdict waits no longer than one reading takes.

import (
	"context"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
	"github.com/kernelforge/kernelforge/go/store"
)

// countSeconds is what one reading may take (go/judge, countLimit): with less left of a run's seconds it is not begun.
const countSeconds = 20

// notRead is what a brief says of a parent before somebody reads its counters.
const notRead = "nobody read them yet; a process that runs the study does when it is asked"

type countersEvent struct {
	Node search.NodeID `json:"node"`
	card.Counters
}

// Wish asks who runs a study for the counters of a node.
type Wish struct {
	Run  string `json:"run"`
	Node int    `json:"node"`
}

// counter is a judge of a device.
type counter interface {
	Uncountable() string
	Count(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Counters, error)
}

// counted gives a node's counters: from the log, or read now, once in a session. fresh: the log has a new event of them. nil: there are none to be had.
func (r *run) counted(ctx context.Context, node search.NodeID) (known *card.Counters, fresh bool, err error) {
	known = r.counters[node]
	if node == search.Root || r.card.Target != "cuda" || r.tried[node] || known != nil && len(known.Kernels) > 0 {
		return known, false, nil
	}
	made, err := r.judge()
	if err != nil {
		return nil, false, err
	}
	judge, ok := made.(counter)
	if !ok || r.settings.Seconds > 0 && r.seconds-r.spentNow < countSeconds && !r.settings.Attend {
		return known, false, nil
	}
	found := card.Counters{Why: judge.Uncountable()}
	var entries []store.Entry
	if found.Why == "" {
		if err := r.prepare(ctx); err != nil { // the run has not begun again by that
			return nil, false, err
		}
		began := r.now()
		if found, err = r.count(ctx, judge, r.nodes[node].Candidate); err != nil {
			return nil, false, err
		}
		spent := r.now().Sub(began).Seconds()
		r.spentNow += spent
		entries = append(entries, store.Entry{Kind: store.KindSpend, Data: spendEvent{What: "count", Seconds: spent, Parts: r.took()}})
	}
	if stored, ok := r.names.toStored[found.Variant]; ok {
		found.Variant = stored
	}
	r.tried[node], r.counters[node] = true, &found
	return &found, true, r.append(r.card.ID, append(entries, store.Entry{Kind: store.KindCounters, Data: countersEvent{node, found}})...)
}

func (r *run) count(ctx context.Context, judge counter, candidate card.Candidate) (card.Counters, error) {
	if err := r.alone(ctx); err != nil {
		return card.Counters{}, err
	}
	defer func() { <-r.quiet }()
	found, err := judge.Count(ctx, r.card, candidate)
	if stopped := cancelled(ctx); stopped != nil {
		return card.Counters{}, stopped
	}
	if err != nil {
		return card.Counters{}, judgeError(err, "count `%s` on `%s`", candidate.ID, r.card.ID)
	}
	return found, nil
}

// wishes reads the counters that somebody outside asked for. Who asked waits for an event. What hinders it ends neither the run nor the study: a candidate
// that comes will meet it.
func (r *run) wishes(ctx context.Context) error {
	for len(r.history.wished) > 0 {
		node := search.NodeID(r.history.wished[0])
		r.history.wished = r.history.wished[1:]
		if node < 0 || int(node) >= len(r.nodes) || r.nodes[node].Verdict.Status != card.OK {
			continue
		}
		known, fresh, err := r.counted(ctx, node)
		if err != nil {
			if code := card.AsError(err).Code; code == card.CodeStopped || code == card.CodeStore || code == card.CodeInternal {
				return err
			}
			if err := r.close(ctx); err != nil { // it is prepared anew by who needs it
				return err
			}
			known = &card.Counters{Why: "its card could not be prepared"}
		}
		if !fresh && known != nil {
			if err := r.append(r.card.ID, store.Entry{Kind: store.KindCounters, Data: countersEvent{node, *known}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// replayCounters is the way back from the log.
func (r *run) replayCounters(event store.Event) error {
	data, err := decode[countersEvent](event)
	r.counters[data.Node] = &data.Counters
	return err
}

// Count says whether the counters of a node are to be waited for: a process that runs the study has not read them in this session, and may now. send
// asks it to.
func Count(s *store.Store, id, runID string, node int, send bool) (waits bool, err error) {
	study, past, err := load(s, id)
	if err != nil {
		return false, err
	}
	if _, err := cardOf(study, runID, "read counters of"); err != nil {
		return false, err
	}
	run := past.run(runID)
	read, ok := run.counted[node]
	here := past.settings != nil && past.settings.Attend || run.state.State == runStarted // who searches another card looks at this one later, or never
	if study.Target != "cuda" || node <= 0 || !here || ok && (len(read.Kernels) > 0 || read.seq > past.session) || !s.Running(id) {
		return false, nil
	}
	view, err := Node(s, id, runID, node)
	if err != nil || view.Verdict.Status != card.OK {
		return false, err
	}
	if send && !slices.Contains(run.wished, node) {
		return true, s.Send(id, store.KindCount, Wish{runID, node})
	}
	return true, nil
}

// addCounters takes in a wish, or counters.
func (h *runHistory) addCounters(event store.Event) error {
	if event.Kind == store.KindCount {
		data, err := decode[Wish](event)
		h.wished = append(h.wished, data.Node)
		return err
	}
	data, err := decode[countersEvent](event)
	h.events, h.counted[int(data.Node)] = append(h.events, event), countedAt{data.Counters, event.Seq}
	return err
}

// tellCounters gives a brief the parent's counters, as the log had them when the place was selected.
func (f *flight) tellCounters(brief *propose.Brief) {
	if n := len(brief.Lineage); n > 0 {
		brief.Lineage[n-1].Counters = f.counters
	}
}

// countedAt is what a log has of a node's counters, and where.
type countedAt struct {
	card.Counters
	seq int64
}

// ofParent are a stored node's counters as a brief tells them.
func (h *runHistory) ofParent(target string, node int, verdict card.Verdict) *card.Counters {
	if read, ok := h.counted[node]; ok {
		return &read.Counters
	}
	if target != "cuda" || verdict.Status != card.OK {
		return nil
	}
	return &card.Counters{Why: notRead}
}
