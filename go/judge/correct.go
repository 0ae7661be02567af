package judge

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The correctness of one candidate: which inputs are run how often, in which state of the machine, and what their comparisons say.

// How often a case is run. Poison and dirt alternate between two patterns, so that an output that was not written, or that depends on what lay
// around, shows as a difference. A search may repeat fewer times on all but a variant's first case, or leave those out (traits).
const (
	repeats      = 5
	patterns     = 2
	parts        = 3  // of an output that is right but for one element, one row or its end; their patterns follow the two
	mostSearched = 20 // of the heaviest variant's first case, as long as it is cheap
	mostFinal    = 200
	crowded      = 5 // runs of a finalist's first case while other threads want the same CPUs

	beyond = mostFinal + crowded // the number of the first run after all of these
)

// changedInput is the kind of a case that is its variant's first one with one element changed, another each time: what a kernel keeps from run to run
// must not be taken for it.
const changedInput = "changed"

// patience is what runs beyond the repeats may take, and beyond the first under the sanitizer's tools, and one candidate under ncu. 15 ms is what a
// search can spare for a candidate.
type patience struct{ search, final, tools, count time.Duration }

var usualPatience = patience{15 * time.Millisecond, time.Second, 2 * time.Second, countLimit}

// step is one run of a case.
type step struct {
	variant card.Variant
	input   Case
	repeat  int
	most    int  // beyond this run, as long as patience lasts; 0: no more
	crowd   bool // with other threads on the machine
	left    bool // it finds workspaces, registers and stack as the run before left them
	stale   int  // it finds outputs that are right already, but for a part (the number of a pattern); 0: poison
	gate    Gate // what a difference from the first run says; "": as the referee says
}

// steps are the runs that every candidate must pass. A finalist's last ones are its first inputs again, in a process that has served others by then.
func (t *trial) steps() []step {
	var steps, again []step
	for i, v := range heaviestFirst(t.variants) {
		often := t.repeatsOf(i, true)
		first, original := true, Case{}
		for _, k := range t.open.prepared.Cases {
			if k.Variant != v.ID || (k.Final && !t.final) {
				continue
			}
			if k.Kind == changedInput {
				steps = append(steps, t.changed(v, original, k)...)
				continue
			}
			for repeat := range often {
				now := step{variant: v, input: k, repeat: repeat}
				if t.judge.off(GateRepeats) && repeat > 0 {
					now.gate = GateDirty
				}
				steps = append(steps, now)
			}
			if first {
				original = k
				steps = append(t.more(steps, i), t.stale(v, k, i)...)
				if t.final && !t.judge.off(GateFresh) {
					again = append(again, step{variant: v, input: k, repeat: beyond, gate: GateFresh})
				}
			}
			if first, often = false, t.repeatsOf(i, false); often == 0 {
				break
			}
		}
	}
	return append(steps, again...)
}

// more has the first case of a variant, whose runs end these steps, run more often: while it is cheap, and of a finalist with other threads on the
// machine.
func (t *trial) more(steps []step, place int) []step {
	if t.judge.off(GateRepeats) {
		return steps
	}
	last := &steps[len(steps)-1]
	if t.final {
		last.most = mostFinal
	} else if place == 0 {
		last.most = mostSearched
	}
	for i := range crowded {
		if t.final && t.judge.target.traits().crowd {
			steps = append(steps, step{variant: last.variant, input: last.input, repeat: mostFinal + i, crowd: true})
		}
	}
	return steps
}

// stale are runs on outputs that are right already, but for a part: a kernel that ends where what it sees looks right leaves that part.
func (t *trial) stale(v card.Variant, k Case, place int) []step {
	if t.judge.off(GatePoison) || t.judge.off(GateRepeats) || (!t.final && place > 0) {
		return nil
	}
	var steps []step
	for i := range parts {
		if t.final || i == 0 { // a search has time for one
			steps = append(steps, step{variant: v, input: k, repeat: beyond + 1 + i, stale: patterns + i})
		}
	}
	return steps
}

// changed are the runs of a changed input: what it was changed from goes right before it, and it finds what that has left.
func (t *trial) changed(v card.Variant, original, k Case) []step {
	if t.judge.off(GateDirty) {
		return nil
	}
	return []step{{variant: v, input: original, repeat: beyond + parts + 1 + k.ID, left: true}, {variant: v, input: k, left: true}}
}

// correct runs every case of the trial's variants, each some times on poisoned outputs, and has the referee compare every run. The first
// runs are the smoke test: nothing is compared again after a failure. It tells whether every output was bitwise equal to eager's.
func (t *trial) correct(ctx context.Context) (exact bool, err error) {
	exact = true
	spend := t.judge.patience.search
	if t.final {
		spend = t.judge.patience.final
	}
	var before *step
	turn := 0
	var began time.Time // of the runs beyond the repeats
	for steps := t.steps(); len(steps) > 0 || before != nil; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		var poison *Poison
		if len(steps) > 0 {
			poison = &Poison{Case: steps[0].input.ID, Pattern: turn % patterns}
			if steps[0].stale > 0 {
				poison.Pattern = steps[0].stale
			}
		}
		checked, err := t.judge.referee.Check(ctx, t.card.ID, before.compare(), poison) // compares the run before, and poisons for the next
		if err != nil {
			return false, fmt.Errorf("check: %w", err)
		}
		if before != nil {
			if err := t.passed(*before, checked); err != nil {
				return false, t.byDirt(ctx, *before, turn-1, err)
			}
			exact = exact && checked.Exact
			before = nil
		}
		if len(steps) == 0 {
			break
		}
		now := steps[0]
		steps = steps[1:]
		dirt := turn
		if now.left {
			dirt = noTurn
		}
		if err := t.crowded(now.crowd, func() error { return t.run(ctx, now.variant, now.input, now.repeat, dirt) }); err != nil {
			return false, err
		}
		if now.repeat == repeats-1 {
			began = time.Now()
		}
		if now.repeat+1 < now.most && time.Since(began) < spend {
			next := now
			next.repeat++
			steps = slices.Insert(steps, 0, next)
		}
		before = &now
		turn++
	}
	return exact, nil
}

func (s *step) compare() *Compare {
	if s == nil {
		return nil
	}
	return &Compare{Case: s.input.ID, Repeat: s.repeat}
}

// passed turns a comparison into the candidate's failure, or nil. A finalist's first outputs must be those that the search saw in another process.
func (t *trial) passed(s step, checked *Checked) error {
	if err := t.verdict(checked, s.variant, s.input, s.repeat); err != nil {
		return t.blame(err, s.gate)
	}
	if s.repeat > 0 || checked.OutputHash == "" {
		return nil
	}
	if seen, known := t.open.outputs[t.id][s.input.ID]; t.final && known && seen != checked.OutputHash && !t.judge.off(GateFresh) {
		err := fail(GateFresh, card.WrongValue, "variant `%s`, %s input at the %s of its memory: a fresh process gave other bits than the one that the search used",
			s.variant.ID, s.input.Kind, s.input.Placement)
		return t.at(err, s.variant, &s.input, s.repeat)
	}
	if !t.final {
		t.open.remember(t.id, s.input.ID, checked.OutputHash)
	}
	return nil
}

// remember keeps the hash of a candidate's outputs on a case. Under the lease.
func (o *opened) remember(candidate string, input int, hash string) {
	if o.outputs == nil {
		o.outputs = map[string]map[int]string{}
	}
	if o.outputs[candidate] == nil {
		o.outputs[candidate] = map[int]string{}
	}
	o.outputs[candidate][input] = hash
}

// blame gives a failure another gate, if there is one.
func (t *trial) blame(err error, gate Gate) error {
	if failed, ok := err.(*failure); ok && gate != "" {
		failed.gate = gate
	}
	return err
}

// crowded runs something, with as many threads spinning as there are CPUs if asked: the candidate's are then interrupted where they are not else.
func (t *trial) crowded(crowd bool, run func() error) error {
	if !crowd {
		return run()
	}
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	defer group.Wait()
	defer close(stop)
	return run()
}

// repeatsOf is how often an input is run: a variant's first one, or another; i is the variant's place, the heaviest being 0. A search looks closely at
// the heaviest alone, and may leave the other inputs of light variants to the finalists.
func (t *trial) repeatsOf(i int, first bool) int {
	traits := t.judge.target.traits()
	often := traits.repeats
	switch {
	case t.final, first && i == 0:
		often = repeats
	case first:
		often = max(traits.repeats, patterns)
	case i >= traits.thorough:
		return 0
	}
	switch {
	case t.judge.off(GateRepeats) && t.judge.off(GateDirty):
		return 1
	case t.judge.off(GateRepeats): // each dirt once
		return min(often, patterns)
	}
	return often
}

// between has the run that just ended compared, and memory made ready for the next: one question, since the way to the referee takes longer than the look.
func (t *trial) between(ctx context.Context, before *step, next *Poison) error {
	checked, err := t.judge.referee.Check(ctx, t.card.ID, before.compare(), next)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if before == nil {
		return nil
	}
	return t.verdict(checked, before.variant, before.input, before.repeat)
}

// verdict turns a comparison that failed into the candidate's failure.
func (t *trial) verdict(c *Checked, v card.Variant, k Case, repeat int) error {
	if c.Number != nil { // of what was drawn for this run alone
		k.Number = *c.Number
	}
	switch c.Status {
	case card.OK:
		return nil
	case card.WrongValue, card.WrongShape:
		err := fail(gateOf(c, k, repeat), c.Status, "variant `%s`, %s input at the %s of its memory, run %d: %s", v.ID, k.Kind, k.Placement, repeat+1,
			worker.Clean(c.Detail, 1024))
		return t.at(err, v, &k, repeat)
	}
	return card.Fail(card.CodeReferee, "", "check: the referee answered the status %q (expected ok, wrong_value or wrong_shape)", c.Status)
}

// gateOf is the gate of a comparison that failed: what the referee names, else by the run and the kind of the case. The values of a special input are
// a gate of their own.
func gateOf(c *Checked, k Case, repeat int) Gate {
	switch {
	case c.Gate == GateValues && k.Kind == "special":
		return GateSpecial
	case c.Gate == GateValues && k.Kind == "exhaustive":
		return GateExhaustive
	case c.Gate == GateValues && k.Kind == changedInput:
		return GateDirty
	case c.Gate != "":
		return c.Gate
	case repeat > 0:
		return GateRepeats // it can only differ from the first
	case slices.Contains(gates, Gate(k.Kind)):
		return Gate(k.Kind)
	}
	return GateValues
}
