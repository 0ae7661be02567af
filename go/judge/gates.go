package judge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/compile"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The gates of one candidate, in order; what a worker's end means; and how a fault is told in the words of the call.

// Time limits of one request to the worker. A kernel gets 50 times eager's time and a second, on a device two, whatever the machine is doing besides: a
// driver takes most of a second to tell of an address that a kernel may not use, while other processes use the device.
const (
	mapLimit    = 20 * time.Second
	loadLimit   = 20 * time.Second
	runFloor    = time.Second
	deviceFloor = 2 * time.Second
	slowest     = 50
)

// Judge takes a candidate through the gates. An error means that the harness is broken, or that ctx has ended.
func (j *Judge) Judge(ctx context.Context, c *card.Card, candidate card.Candidate) (card.Verdict, error) {
	began := time.Now()
	verdict, compiled := card.Verdict{}, compile.Built{}
	open, err := j.opened(c)
	if err == nil {
		compiled, err = j.compile(ctx, candidate)
	}
	twin, made := false, binary{}
	if compiled.Image != nil {
		made = binaryOf(candidate, compiled.Image)
	}
	if err == nil {
		verdict, twin = j.twin(open, candidate.ID, made)
	}
	if err == nil && !twin {
		err = twice(func() (err error) {
			verdict, err = j.judge(ctx, c, open, candidate, compiled.Image)
			return err
		})
	}
	var failed *failure
	if errors.As(err, &failed) {
		verdict, err = failed.verdict(), nil
	}
	if err == nil && !twin && compiled.Image != nil {
		j.lease.Lock()
		open.judged(candidate.ID, made, verdict)
		j.lease.Unlock()
	}
	if err != nil {
		if ctx.Err() != nil {
			return card.Verdict{}, ctx.Err()
		}
		return card.Verdict{}, fmt.Errorf("judge candidate `%s`: %w", candidate.ID, err)
	}
	verdict.Seconds, verdict.Tier = time.Since(began).Seconds(), j.config.Tier
	if !compiled.Cached {
		verdict.CompileMS = compiled.Seconds * 1e3
	}
	if compiled.Image != nil {
		verdict.Usage = j.target.usage(compiled.Image)
	}
	return verdict, nil
}

// judge is every gate after the compiler's.
func (j *Judge) judge(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte) (card.Verdict, error) {
	j.lease.Lock()
	defer j.lease.Unlock()
	t, err := j.begin(ctx, c, open, candidate, image, c.Variants, false)
	if err != nil {
		return card.Verdict{}, err
	}
	exact, err := t.correct(ctx)
	if err == nil {
		err = j.exactly(exact)
	}
	var verdict card.Verdict
	if err == nil {
		verdict, err = t.cost(ctx)
	}
	t.end(ctx, err == nil)
	return verdict, err
}

// trial is one candidate in one worker: a fresh one, or one in which every candidate before it has passed. Under the lease.
type trial struct {
	judge    *Judge
	card     *card.Card
	open     *opened
	session  *session
	worker   runner
	final    bool         // a finalist's: every case as often as the first
	loading  card.Variant // the last whose load was begun
	id       string       // the candidate's
	variants []card.Variant
	kernels  map[string]int     // of each variant, in the worker
	runUS    map[string]float64 // of each variant, the quickest run seen
	names    map[int]string     // what a worker's buffer is, in words
}

// begin takes a worker, gives it the card's buffers and loads the candidate for each variant: the image check is csrc's, at the load. Loading
// runs nothing of the image, so a worker that had served others and is found dead at it is replaced once, and nobody is blamed.
func (j *Judge) begin(ctx context.Context, c *card.Card, open *opened, candidate card.Candidate, image []byte, variants []card.Variant, fresh bool) (*trial, error) {
	wanted := want{fit: anyWorker, spares: sparesOfSearch}
	if fresh { // its variant alone, and nothing is timed there: a card's other buffers would be mapped, and cleared away, for each finalist anew
		wanted = want{aloneWith(candidate.ID), sparesOfFinalists, open.prepared.ofRuns(variants)}
	}
	for ; ; wanted.fit = unusedWorker {
		var s *session
		err := twice(func() (err error) {
			s, err = j.session(ctx, c, open, wanted)
			return err
		})
		if err != nil {
			return nil, err
		}
		t := &trial{judge: j, card: c, open: open, session: s, worker: clockedWorker{s.runner, j.account, j.turns}, final: fresh, variants: variants, id: candidate.ID,
			kernels: map[string]int{}, runUS: map[string]float64{}, names: bufferNames(c, open.prepared)}
		served := s.used
		s.ran(candidate.ID, fresh)
		if err = s.loadDirt(ctx, t.worker, j.target.dirt()); err != nil {
			t.end(ctx, false)
			return nil, fmt.Errorf("load the kernel of ours that leaves dirt: %w", err)
		}
		if err = t.load(ctx, candidate, image); err == nil {
			return t, nil
		}
		t.end(ctx, false)
		var lost *worker.Lost
		if !served || !errors.As(err, &lost) || ctx.Err() != nil {
			return nil, t.at(t.ended(err, "load"), t.loading, nil, 0)
		}
	}
}

// session gives a worker that has the card's buffers. One that died while it waited is replaced: no candidate is to blame.
func (j *Judge) session(ctx context.Context, c *card.Card, open *opened, wanted want) (*session, error) {
	for {
		began := time.Now()
		s, err := j.workers.take(ctx, wanted.fit, wanted.spares)
		j.account.since(partWorker, began)
		if err != nil {
			return nil, err
		}
		began = time.Now()
		err = s.use(ctx, c, open.prepared, wanted.buffers)
		j.account.since(partMap, began)
		if err == nil {
			return s, nil
		}
		j.workers.give(s, false)
		if !s.used || ctx.Err() != nil {
			return nil, err
		}
		wanted.fit = unusedWorker
	}
}

// end gives the worker back. It is fit for another candidate if this one has passed and is unloaded.
func (t *trial) end(ctx context.Context, passed bool) {
	if passed && t.judge.target.traits().reuse {
		for _, kernel := range t.kernels {
			passed = passed && t.worker.Unload(ctx, loadLimit, kernel) == nil
		}
	}
	t.judge.workers.give(t.session, passed)
}

func (t *trial) load(ctx context.Context, candidate card.Candidate, image []byte) error {
	for _, v := range t.variants {
		t.loading = v
		kernel, err := t.worker.Load(ctx, loadLimit, t.judge.plan(t.card, v, candidate, t.open.prepared.Align[v.ID]), image)
		if err != nil {
			return err
		}
		t.kernels[v.ID] = kernel
	}
	return nil
}

// plan binds a candidate to a variant.
func (j *Judge) plan(c *card.Card, v card.Variant, candidate card.Candidate, align []int) Plan {
	sum := sha256.Sum256([]byte(c.ID + " " + v.ID + " " + candidate.ID))
	plan := Plan{ID: "p-" + hex.EncodeToString(sum[:])[:8], Card: c.ID, Variant: v.ID, State: "approved", Call: v.Call, Spec: candidate.Spec,
		Align: align, Deterministic: true}
	j.target.bind(&plan)
	return plan
}

// ended turns what the worker said, or its end, into the candidate's failure. Errors of the harness stay errors.
func (t *trial) ended(err error, what string) error {
	var lost *worker.Lost
	var fault *worker.Fault
	switch {
	case errors.As(err, &lost) && lost.Timeout:
		return fail(GateDeadline, card.Timeout, "%s: %s", what, lost.Detail)
	case errors.As(err, &lost):
		detail := lost.Detail
		if name, ok := t.names[lost.Buffer]; ok {
			detail = strings.ReplaceAll(detail, fmt.Sprintf("buffer %d", lost.Buffer), name)
		}
		return &failure{gate: crashGate(lost), status: card.Crash, detail: fmt.Sprintf("%s: %s", what, detail), cause: lost}
	case errors.As(err, &fault):
		switch fault.Code {
		case worker.FaultCode:
			return fail(GateImage, card.Rejected, "image: %s", withHint(fault))
		case worker.FaultSpec, worker.FaultLaunch:
			return fail(GateLaunch, card.LaunchError, "%s", withHint(fault))
		}
		return card.Fail(card.CodeJudge, fault.Hint, "%s: the worker answered: %w", what, fault)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func withHint(f *worker.Fault) string {
	if f.Hint == "" {
		return f.Text
	}
	return f.Text + "; hint: " + f.Hint
}

// runLimit is what one run of a variant may take.
func (j *Judge) runLimit(v card.Variant) time.Duration {
	return j.target.traits().runFloor + time.Duration(slowest*v.EagerUS*float64(time.Microsecond))
}

// heaviestFirst orders variants by what they take of the model.
func heaviestFirst(variants []card.Variant) []card.Variant {
	return slices.SortedStableFunc(slices.Values(variants), func(a, b card.Variant) int { return cmp.Compare(weight(b), weight(a)) })
}

func weight(v card.Variant) float64 { return float64(max(v.Calls, 1)) * v.EagerUS }

// run runs a variant's kernel on a case once. Runs find different dirt in turn.
func (t *trial) run(ctx context.Context, v card.Variant, k Case, repeat, turn int) error {
	dirt, before := t.dirtOf(turn)
	us, err := t.worker.Run(ctx, t.judge.runLimit(v), t.kernels[v.ID], slotsOf(k.Slots), dirt, before)
	if err != nil {
		what := fmt.Sprintf("run variant `%s` on a %s input at the %s of its memory", v.ID, k.Kind, k.Placement)
		return t.at(t.ended(err, what), v, &k, repeat)
	}
	if quickest, ok := t.runUS[v.ID]; !ok || us < quickest {
		t.runUS[v.ID] = us
	}
	return nil
}

func slotsOf(slots []Slot) []worker.Slot {
	out := make([]worker.Slot, len(slots))
	for i, s := range slots {
		out[i] = worker.Slot(s)
	}
	return out
}
