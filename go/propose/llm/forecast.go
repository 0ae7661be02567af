package llm

// forecast.go owns what an author's calls will take, told before the first: from the prompt as it is, and from what the model's replies were like.

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
)

const (
	enough     = 3    // replies of a model that say more of it than the price table
	growth     = 4000 // bytes by which a prompt below a parent is longer than at the root: its source and spec, and what was tried
	guessReply = 30.0 // seconds of a reply, before there was one
)

// Forecast tells what `calls` calls for this brief and those that grow from it come to, within the budget. It calls nobody.
func (a *Author) Forecast(from propose.Brief, calls int64) (budget.Forecast, error) {
	messages, err := a.prompt(from)
	if err != nil {
		return budget.Forecast{}, err
	}
	history, err := a.history()
	if err != nil {
		return budget.Forecast{}, err
	}
	bytes := float64(len(a.request(messages, from).Canonical()))
	if len(from.Lineage) == 0 && calls > 1 {
		bytes += growth * float64(calls-1) / float64(calls)
	}
	plan := budget.Plan{Calls: calls, TokensIn: float64(guess(int(bytes))), TokensOut: float64(a.replyTokens()), Seconds: guessReply, InFlight: a.config.InFlight, Price: a.price,
		Basis: fmt.Sprintf("prices of %s, prompts counted by their bytes, the table's mean reply", a.prices.Date)}
	if n := float64(history.Replies); history.Replies >= enough {
		plan.TokensIn = bytes * float64(history.TokensIn) / float64(history.RequestBytes)
		plan.TokensOut, plan.Seconds = float64(history.TokensOut)/n, history.WallS/n
		plan.Basis = fmt.Sprintf("prices of %s, %d replies of this model", a.prices.Date, history.Replies)
	}
	return a.config.Budget.Forecast(plan), nil
}

// history is what is known of the model's replies: of all studies, where the ledger knows, else of this process.
func (a *Author) history() (History, error) {
	if historian, ok := a.ledger.(Historian); ok {
		if kept, err := historian.History(a.config.Model); err != nil || kept.Replies > 0 {
			return kept, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counted, nil
}

// replyTokens is the mean reply that the price table has for the model.
func (a *Author) replyTokens() int64 {
	if a.price != nil && a.price.ReplyTokens > 0 {
		return min(a.price.ReplyTokens, int64(a.config.MaxTokens))
	}
	return min(a.prices.ReplyTokens, int64(a.config.MaxTokens))
}
