package forge

// tasks.go owns the queue between the judge and the referee in the user's process.

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
)

// Queue hands tasks to the referee in the user's process and waits for its answers: judge.Referee over poll and answer. Tasks stay in the
// queue until they are answered, so a poll that was interrupted loses none.
type Queue struct {
	mutex sync.Mutex
	next  int
	tasks []*task // without an answer, oldest first
	wake  func()
	off   judge.Gates // of tests alone: gates that the referee leaves out
}

type task struct {
	id     int
	body   json.RawMessage
	answer chan answer // holds one
}

type answer struct {
	result json.RawMessage
	err    error
}

// NewQueue makes a queue that calls wake whenever a task waits.
func NewQueue(wake func()) *Queue { return &Queue{wake: wake} }

// Waiting gives the bodies of all tasks without an answer, oldest first.
func (q *Queue) Waiting() []json.RawMessage {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	bodies := make([]json.RawMessage, len(q.tasks))
	for i, t := range q.tasks {
		bodies[i] = t.body
	}
	return bodies
}

// Answer delivers the referee's result, or the text of its error.
func (q *Queue) Answer(id int, result json.RawMessage, failure *card.Error) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	at := slices.IndexFunc(q.tasks, func(t *task) bool { return t.id == id })
	if at < 0 {
		return card.Fail(card.CodeNotFound, "", "answer task %d: no such task waits (it was answered before, or the study was stopped)", id)
	}
	reply := answer{result: result}
	if failure != nil {
		reply.err = failure
	}
	q.tasks[at].answer <- reply
	q.tasks = slices.Delete(q.tasks, at, at+1)
	return nil
}

// ask queues a task and waits for its answer.
func ask[T any](ctx context.Context, q *Queue, kind string, fields map[string]any) (*T, error) {
	if err := cancelled(ctx); err != nil {
		return nil, err
	}
	t, err := q.add(kind, fields)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		q.drop(t)
		return nil, cancelled(ctx)
	case reply := <-t.answer:
		if reply.err != nil {
			return nil, card.Fail(card.CodeReferee, card.AsError(reply.err).Hint, "task `%s` of the referee: %w", kind, reply.err)
		}
		result := new(T)
		if err := card.Decode(reply.result, result); err != nil {
			return nil, card.Fail(card.CodeReferee, "", "read the referee's answer to `%s`: %w", kind, err)
		}
		return result, nil
	}
}

func (q *Queue) add(kind string, fields map[string]any) (*task, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.next++
	body := maps.Clone(fields)
	body["task"], body["kind"] = q.next, kind
	if len(q.off) > 0 {
		body["off"] = q.off
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, card.Fail(card.CodeInternal, "", "write task `%s`: %w", kind, err)
	}
	t := &task{id: q.next, body: text, answer: make(chan answer, 1)}
	q.tasks = append(q.tasks, t)
	q.wake()
	return t, nil
}

func (q *Queue) drop(gone *task) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.tasks = slices.DeleteFunc(q.tasks, func(t *task) bool { return t == gone })
}

// Prepare implements judge.Referee.
func (q *Queue) Prepare(ctx context.Context, c *card.Card, seed int64) (*judge.Prepared, error) {
	return ask[judge.Prepared](ctx, q, "prepare", map[string]any{"card": c.ID, "seed": seed})
}

// Check implements judge.Referee.
func (q *Queue) Check(ctx context.Context, cardID string, compare *judge.Compare, poison *judge.Poison) (*judge.Checked, error) {
	return ask[judge.Checked](ctx, q, "check", map[string]any{"card": cardID, "compare": compare, "poison": poison})
}

// TimeEager implements judge.Referee.
func (q *Queue) TimeEager(ctx context.Context, cardID, variant string, samples, inner int) (*judge.Timed, error) {
	return ask[judge.Timed](ctx, q, "time_eager", map[string]any{"card": cardID, "variant": variant, "samples": samples, "inner": inner})
}

// Confirm implements judge.Referee.
func (q *Queue) Confirm(ctx context.Context, cardID, variant string, plan judge.Plan, image string, blocks int, seed int64) (*judge.Confirmed, error) {
	return ask[judge.Confirmed](ctx, q, "confirm", map[string]any{
		"card": cardID, "variant": variant, "plan": plan, "image": image, "blocks": blocks, "seed": seed})
}

// Release implements judge.Referee.
func (q *Queue) Release(ctx context.Context, cardID string) error {
	_, err := ask[struct{}](ctx, q, "release", map[string]any{"card": cardID})
	return err
}

// Loaded is a winner as the referee needs it for the whole model: the plan, and the file of its code.
type Loaded struct {
	Plan  judge.Plan `json:"plan"`
	Image string     `json:"image"`
}

// ModelTimes are forwards of the whole model in pairs, winners on and off, milliseconds.
type ModelTimes struct {
	OnMS   []float64   `json:"on_ms"`
	OffMS  []float64   `json:"off_ms"`
	Status card.Status `json:"status"`
	Detail string      `json:"detail"`
}

// ConfirmModel times the whole model with the winners on and off.
func (q *Queue) ConfirmModel(ctx context.Context, plans []Loaded, blocks int) (*ModelTimes, error) {
	return ask[ModelTimes](ctx, q, "confirm_model", map[string]any{"plans": plans, "blocks": blocks})
}

// FreshServed is what fresh processes said of winners that they served together.
type FreshServed struct {
	Processes int           `json:"processes"` // that served to their end
	Why       string        `json:"why"`       // there are fewer than was asked for
	Results   []FreshResult `json:"results"`
}

// FreshResult is one plan in one process.
type FreshResult struct {
	Plan    string      `json:"plan"`
	Process int         `json:"process"`
	Status  card.Status `json:"status"`
	Detail  string      `json:"detail"`
	EagerNS []float64   `json:"eager_ns"`
	OursNS  []float64   `json:"ours_ns"`
}

// ConfirmFresh has fresh processes serve the winners together and time each. seconds: after these no further process begins; 0: no limit.
func (q *Queue) ConfirmFresh(ctx context.Context, plans []Loaded, processes, blocks int, seed int64, seconds float64) (*FreshServed, error) {
	return ask[FreshServed](ctx, q, "confirm_fresh", map[string]any{
		"plans": plans, "processes": processes, "blocks": blocks, "seed": seed, "seconds": seconds})
}
