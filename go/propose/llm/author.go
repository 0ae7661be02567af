// Package llm asks a language model for candidates, over any server that speaks OpenAI's chat completions.
//
// It owns the prompt, the call with its time-outs, retries and rate limits, the ledger of what was paid, and the reading of a reply. It refuses
// to judge: what a model writes is a candidate like any other. Nothing leaves the machine but what prompt.go writes.
//
//	brief -> prompt -> request -> key --in the ledger--> reply -> candidate, or propose.Unusable
//	                               \--reserve, call, settle, keep--/
//
// A reply is kept before it is read, and a request whose key is in the ledger is never asked again.
package llm

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

// Author is a proposer. It is safe for concurrent use.
type Author struct {
	config   Config
	base     *url.URL
	ledger   Ledger
	price    *budget.Price
	prices   budget.Table
	endpoint *endpoint
	scrub    scrubber

	slots    chan struct{} // one a call in flight
	requests *rate.Limiter
	tokens   *rate.Limiter

	mu      sync.Mutex
	pending map[string]chan struct{} // by key: closed when that request is in the ledger, or has failed
	counted History                  // of this process, for the forecast
}

// New makes an author. It reads the key and the prices, and calls nobody.
func New(config Config, ledger Ledger) (*Author, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Author{config: config, ledger: ledger, pending: map[string]chan struct{}{}, slots: make(chan struct{}, config.InFlight), scrub: newScrubber()}
	if a.base, err = config.base(); err != nil {
		return nil, err
	}
	key, err := config.key(a.base)
	if err != nil {
		return nil, err
	}
	if a.prices, err = budget.Prices(config.PriceFile); err != nil {
		return nil, err
	}
	if a.config.Budget == nil {
		if a.config.Budget, err = budget.New(budget.Limits{}, budget.Amount{}, 0, nil); err != nil {
			return nil, err
		}
	} else if a.price, err = a.prices.For(config.Model, config.Budget.Limits(), loopback(a.base)); err != nil {
		return nil, err
	}
	if a.price == nil { // with a budget of tokens alone
		if price, known := a.prices.Of(config.Model); known || loopback(a.base) {
			a.price = &price
		}
	}
	a.requests, a.tokens = limiter(config.RequestsPerMinute, 1), limiter(config.TokensPerMinute, max(1, config.TokensPerMinute))
	a.endpoint = newEndpoint(a.config, a.base, key)
	return a, nil
}

// limiter lets `perMinute` pass a minute, and `burst` at once.
func limiter(perMinute, burst float64) *rate.Limiter {
	if perMinute == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perMinute/60), int(burst))
}

// Propose implements propose.Proposer. Its errors: *propose.Unusable (the reply holds no candidate), propose.ErrBudget, the context's, or that
// of a server that cannot be had.
func (a *Author) Propose(ctx context.Context, brief propose.Brief) (card.Candidate, error) {
	messages, err := a.prompt(brief)
	if err != nil {
		return card.Candidate{}, err
	}
	request := a.request(messages, brief)
	reply, key, err := a.ask(ctx, request)
	if err == nil && reply.Finish == Length && blank(reply.Text) { // all tokens went into reasoning: the idea is not to blame
		request.MaxTokens *= 2
		reply, key, err = a.ask(ctx, request)
	}
	if err != nil {
		return card.Candidate{}, err
	}
	candidate, err := Parse(reply)
	if err == nil {
		err = fresh(candidate, brief)
	}
	if unusable, ok := errors.AsType[*propose.Unusable](err); ok {
		unusable.Reply = key
	}
	return candidate, err
}

// fresh refuses what is in the tree already.
func fresh(candidate card.Candidate, brief propose.Brief) error {
	switch {
	case brief.Repair != nil && brief.Repair.Candidate.ID == candidate.ID:
		return &propose.Unusable{Reason: "it is the candidate that failed, unchanged"}
	case brief.Seen != nil && brief.Seen(candidate.ID):
		return &propose.Unusable{Reason: fmt.Sprintf("the candidate is `%s`, which was judged already", candidate.ID)}
	}
	return nil
}

func (a *Author) request(messages []Message, brief propose.Brief) Request {
	return Request{Schema: PromptSchema, Model: a.config.Model, Messages: messages, Temperature: a.config.Temperature, TopP: a.config.TopP,
		MaxTokens: a.config.MaxTokens, Effort: a.config.Effort, Seed: brief.Seed, Attempt: brief.Attempt}
}

// ask gives the reply to a request: the ledger's, or a paid one that is kept first. Two askers of one request share one call.
func (a *Author) ask(ctx context.Context, request Request) (Reply, string, error) {
	key := request.Key()
	for {
		a.mu.Lock()
		other, waits := a.pending[key]
		if !waits {
			a.pending[key] = make(chan struct{})
		}
		a.mu.Unlock()
		if !waits {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return Reply{}, key, context.Cause(ctx)
		}
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		close(a.pending[key])
		delete(a.pending, key)
	}()
	reply, kept, err := a.ledger.Reply(key)
	if err != nil || kept {
		return reply, key, err
	}
	if reply, err = a.pay(ctx, request, key); err != nil {
		return Reply{}, key, err
	}
	return reply, key, nil
}

// pay makes one request until it has a reply, and keeps it.
func (a *Author) pay(ctx context.Context, request Request, key string) (Reply, error) {
	if end, ok := a.config.Budget.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, &budget.Refused{Limit: "wall_s", Allowed: *a.config.Budget.Limits().WallS})
		defer cancel()
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return Reply{}, context.Cause(ctx)
	}
	reply, err := a.retry(ctx, request, key)
	if err != nil {
		return Reply{}, err
	}
	if err := a.ledger.Keep(key, request.Canonical(), reply); err != nil {
		return Reply{}, fmt.Errorf("keep a reply of `%s` that is paid: %w", a.config.Model, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted = a.counted.with(request, reply)
	return reply, nil
}

func (h History) with(request Request, reply Reply) History {
	return History{h.Replies + 1, h.RequestBytes + int64(len(request.Canonical())), h.TokensIn + reply.TokensIn, h.TokensOut + reply.TokensOut, h.WallS + reply.WallS}
}

// once makes one attempt within the budget and the rates. What a failed attempt may have cost counts as spent.
func (a *Author) once(ctx context.Context, request Request) (Reply, budget.Amount, error) {
	if err := a.requests.Wait(ctx); err != nil {
		return Reply{}, budget.Amount{}, waited(ctx, err)
	}
	expected := guess(len(request.Canonical())) + int64(request.MaxTokens)
	if err := a.tokens.WaitN(ctx, int(min(expected, int64(max(1, a.tokens.Burst()))))); err != nil && a.config.TokensPerMinute > 0 {
		return Reply{}, budget.Amount{}, waited(ctx, err)
	}
	held, err := a.config.Budget.Wait(ctx, a.worst(request))
	if err != nil {
		return Reply{}, budget.Amount{}, card.Fail(card.CodePropose, "raise the budget to go on; what is paid is kept", "ask `%s`: %w", a.config.Model, err)
	}
	began := time.Now()
	reply, err := a.endpoint.call(ctx, request)
	reply.WallS, reply.At = time.Since(began).Seconds(), began.UTC()
	spent := budget.Amount{TokensIn: reply.TokensIn, TokensOut: reply.TokensOut}
	if a.price != nil {
		reply.Priced, reply.USD = true, a.dearest(reply.Model).Of(reply.TokensIn, reply.TokensCached, reply.TokensOut)
		spent.USD = reply.USD
	}
	held.Settle(spent)
	return reply, spent, err
}

// dearest is the price of the model that was asked, or of the one that answered if that costs more.
func (a *Author) dearest(answered string) budget.Price {
	price := *a.price
	if other, ok := a.prices.Of(answered); ok && other.In+other.Out > price.In+price.Out {
		return other
	}
	return price
}

// worst is the most that a call can take. A token is at least one byte, so the prompt has at most as many tokens as bytes.
func (a *Author) worst(request Request) budget.Amount {
	amount := budget.Amount{TokensOut: int64(request.MaxTokens)}
	for _, m := range request.Messages {
		amount.TokensIn += int64(len(m.Content)) + 16 // what a server's template puts around a turn
	}
	if a.price != nil {
		amount.USD = a.price.Worst(amount.TokensIn, amount.TokensOut)
	}
	return amount
}

// waited is why a wait for a rate ended.
func waited(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, ok := ctx.Deadline(); ok { // the limiter sees that the wait would pass the deadline
		return fmt.Errorf("%w: the rate limit leaves no time for the next call", propose.ErrBudget)
	}
	return err
}

// String names it, in every form of printing: what it holds is nobody's to print.
func (a *Author) String() string   { return "openai:" + a.config.Model }
func (a *Author) GoString() string { return a.String() }

// Close ends idle connections.
func (a *Author) Close() { a.endpoint.http.CloseIdleConnections() }
