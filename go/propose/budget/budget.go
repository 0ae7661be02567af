// Package budget holds what a study may spend, and refuses a spend before it is made.
//
// It owns limits, what is spent and what is reserved, prices and the forecast. It refuses to know what is bought: a caller reserves the worst
// case of a step, makes it, and settles what it took.
//
//	spent + reserved + worst <= limit        for every limit that is set; else the step is not made
//
// So many steps in flight together overshoot only by what a single step took beyond its own worst case. Time of the wall is not summed: it is
// read from a clock, and a step has to begin before its end.
package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Amount is what a step takes. Zero fields are not asked for.
type Amount struct {
	Candidates int64   `json:"candidates,omitempty"`
	DeviceS    float64 `json:"device_s,omitempty"` // seconds in which a candidate or a reference had the device
	TokensIn   int64   `json:"tokens_in,omitempty"`
	TokensOut  int64   `json:"tokens_out,omitempty"` // with those of reasoning
	USD        float64 `json:"usd,omitempty"`
}

// Add gives the sum.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.Candidates + b.Candidates, a.DeviceS + b.DeviceS, a.TokensIn + b.TokensIn, a.TokensOut + b.TokensOut, a.USD + b.USD}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Candidates - b.Candidates, a.DeviceS - b.DeviceS, a.TokensIn - b.TokensIn, a.TokensOut - b.TokensOut, a.USD - b.USD}
}

// call tells whether an author is asked, whatever that costs.
func (a Amount) call() bool { return a.TokensIn > 0 || a.TokensOut > 0 || a.USD > 0 }

// Limits are what may be spent; nil: no limit. A limit of zero USD means that no author is called at all, also one that costs nothing.
type Limits struct {
	Candidates *int64   `json:"candidates,omitempty"`
	WallS      *float64 `json:"wall_s,omitempty"`
	DeviceS    *float64 `json:"device_s,omitempty"`
	TokensIn   *int64   `json:"tokens_in,omitempty"`
	TokensOut  *int64   `json:"tokens_out,omitempty"`
	USD        *float64 `json:"usd,omitempty"`
}

// Validate names a limit that is none.
func (l Limits) Validate() error {
	for _, line := range l.lines() {
		if line.limit != nil && !(*line.limit >= 0) {
			return card.Fail(card.CodeRequest, "leave it out for no limit", "read budgets: `%s` is %v (expected 0 or more)", line.name, *line.limit)
		}
	}
	if l.WallS != nil && !(*l.WallS >= 0) {
		return card.Fail(card.CodeRequest, "leave it out for no limit", "read budgets: `wall_s` is %v (expected 0 or more)", *l.WallS)
	}
	return nil
}

// line is one limit beside what it is of.
type line struct {
	name  string
	limit *float64
	of    func(Amount) float64
}

func (l Limits) lines() []line {
	whole := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		x := float64(*n)
		return &x
	}
	return []line{
		{"candidates", whole(l.Candidates), func(a Amount) float64 { return float64(a.Candidates) }},
		{"device_s", l.DeviceS, func(a Amount) float64 { return a.DeviceS }},
		{"tokens_in", whole(l.TokensIn), func(a Amount) float64 { return float64(a.TokensIn) }},
		{"tokens_out", whole(l.TokensOut), func(a Amount) float64 { return float64(a.TokensOut) }},
		{"usd", l.USD, func(a Amount) float64 { return a.USD }},
	}
}

// Refused is a step that was not made: which limit, and how far it is used. errors.Is(err, propose.ErrBudget) holds.
type Refused struct {
	Limit    string  // its name in Limits
	Allowed  float64 // in the unit of its name
	Spent    float64
	Reserved float64 // by steps in flight
	Worst    float64 // of the step that was refused
}

func (r *Refused) Error() string {
	if r.Limit == "wall_s" {
		return fmt.Sprintf("the budget of %s s of time is used up", number(r.Allowed))
	}
	if r.Limit == "usd" && r.Allowed == 0 {
		return "a budget of 0 USD calls no author"
	}
	text := fmt.Sprintf("the budget of %s `%s` has %s left, and the next step may take %s", number(r.Allowed), r.Limit, number(max(0, r.Allowed-r.Spent-r.Reserved)), number(r.Worst))
	if r.Reserved > 0 {
		text += fmt.Sprintf(" (spent %s, held for steps in flight %s)", number(r.Spent), number(r.Reserved))
	}
	return text
}

// Unwrap gives propose.ErrBudget.
func (r *Refused) Unwrap() error { return propose.ErrBudget }

func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// Budget is safe for concurrent use.
type Budget struct {
	limits Limits
	now    func() time.Time

	mu       sync.Mutex
	changed  chan struct{} // closed at the next settlement
	end      time.Time     // zero: none
	spent    Amount
	reserved Amount
}

// New makes a budget of which `spent` and `wall` are used already, by sessions before this one. now may be nil: the machine's clock.
func New(limits Limits, spent Amount, wall time.Duration, now func() time.Time) (*Budget, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	b := &Budget{limits: limits, spent: spent, now: now, changed: make(chan struct{})}
	if limits.WallS != nil {
		b.end = now().Add(time.Duration(*limits.WallS*float64(time.Second)) - wall)
	}
	return b, nil
}

// Limits gives what it was made with.
func (b *Budget) Limits() Limits { return b.limits }

// Spent gives what was settled, with that of sessions before.
func (b *Budget) Spent() Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// Deadline is the end of the time of the wall; false: there is none. A step that is under way then is cut off by who makes it.
func (b *Budget) Deadline() (time.Time, bool) { return b.end, !b.end.IsZero() }

// Reserve holds the worst case of a step, or refuses it with a *Refused.
func (b *Budget) Reserve(worst Amount) (*Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end.IsZero() && !b.now().Before(b.end) {
		return nil, &Refused{Limit: "wall_s", Allowed: *b.limits.WallS}
	}
	for _, line := range b.limits.lines() {
		if line.limit == nil {
			continue
		}
		refused := &Refused{Limit: line.name, Allowed: *line.limit, Spent: line.of(b.spent), Reserved: line.of(b.reserved), Worst: line.of(worst)}
		closed := line.name == "usd" && *line.limit == 0 && worst.call()
		asked := refused.Worst > 0
		if closed || asked && refused.Spent+refused.Reserved+refused.Worst > refused.Allowed*(1+1e-12) { // 1e-12: sums of many small prices
			return nil, refused
		}
	}
	b.reserved = b.reserved.Add(worst)
	return &Reservation{budget: b, worst: worst}, nil
}

// Wait is Reserve, but where only steps in flight stand in the way it waits for them: they may take less than their worst case.
func (b *Budget) Wait(ctx context.Context, worst Amount) (*Reservation, error) {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		held, err := b.Reserve(worst)
		refused, ok := errors.AsType[*Refused](err)
		if !ok || !(refused.Reserved > 0 && refused.Spent+refused.Worst <= refused.Allowed) {
			return held, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Reservation is the worst case of one step. It is settled exactly once; later calls do nothing.
type Reservation struct {
	budget *Budget
	worst  Amount
	once   sync.Once
}

// Settle replaces the worst case by what the step took; Amount{} if it was not made.
func (r *Reservation) Settle(actual Amount) {
	r.once.Do(func() {
		r.budget.mu.Lock()
		defer r.budget.mu.Unlock()
		r.budget.reserved = r.budget.reserved.minus(r.worst)
		r.budget.spent = r.budget.spent.Add(actual)
		if r.budget.reserved.USD < 1e-12 { // what subtraction of many prices leaves
			r.budget.reserved.USD = 0
		}
		close(r.budget.changed)
		r.budget.changed = make(chan struct{})
	})
}
