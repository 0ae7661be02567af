package forge

// ledger.go owns the memory of what authors were paid for: each reply is on the disk, with what it took, before anybody reads it.

import (
	"sync"

	"github.com/kernelforge/kernelforge/go/store"
)

// Ledger is one author's part of it. Safe for concurrent use.
type Ledger struct {
	work   *work
	author string
}

// Reply gives the kept reply to a request, or notes that it is asked for now. store.ErrLost: an earlier session asked and kept no answer.
func (l *Ledger) Reply(key string) (reply []byte, found bool, err error) {
	return l.work.store.Ask(l.work.ID, l.work.session, key)
}

// Keep keeps a paid reply. call.Reply is its key.
func (l *Ledger) Keep(request, reply []byte, call Call, usd float64) error {
	l.work.paid.Lock()
	defer l.work.paid.Unlock()
	events, err := l.work.store.Keep(l.work.ID, l.work.session, call.Reply, request, reply,
		store.Entry{Run: l.work.paid.run, Kind: store.KindSpend, Data: spendEvent{What: "call", USD: usd, Author: l.author, Call: &call}})
	if err != nil {
		return err
	}
	l.work.paid.events = append(l.work.paid.events, events...)
	select {
	case l.work.arrivals <- struct{}{}:
	default:
	}
	return nil
}

// Lost notes what an attempt may have been billed that gave no reply: sessions after this one count it as spent, as this one does.
func (l *Ledger) Lost(tokensIn, tokensOut int64, usd float64) error {
	l.work.paid.Lock()
	defer l.work.paid.Unlock()
	events, err := l.work.store.Append(l.work.ID, store.Entry{Run: l.work.paid.run, Kind: store.KindSpend,
		Data: spendEvent{What: "lost", USD: usd, Author: l.author, Call: &Call{TokensIn: tokensIn, TokensOut: tokensOut}}})
	if err != nil {
		return err
	}
	l.work.paid.events = append(l.work.paid.events, events...)
	return nil
}

// Replies gives the newest replies of the store, of all its studies, with what was asked.
func (l *Ledger) Replies(most int, each func(request, reply []byte) error) error {
	return l.work.store.Conversations(most, each)
}

// Call is one paid reply. Calls run side by side with everything else, so their seconds are none of the search's.
type Call struct {
	Reply       string  `json:"reply"` // its key
	Model       string  `json:"model"`
	TokensIn    int64   `json:"tokens_in"`
	TokensOut   int64   `json:"tokens_out"`
	CallSeconds float64 `json:"call_seconds"`
}

// Spent is what authors were paid so far.
type Spent struct {
	Calls     int
	TokensIn  int64
	TokensOut int64
	USD       float64
}

// Spent gives what earlier sessions of the study paid, when its authors are made.
func (l *Ledger) Spent() Spent {
	past := l.work.past
	return Spent{past.calls, past.tokensIn, past.tokensOut, past.spent.USD}
}

// paid are the events of replies that the study's goroutine has not counted yet.
type paid struct {
	sync.Mutex
	run    string // whose calls fly
	events []store.Event
}

// collect counts what was paid since the last time.
func (r *run) collect() error {
	r.paid.Lock()
	events := r.paid.events
	r.paid.events = nil
	r.paid.Unlock()
	for _, event := range events {
		data, err := decode[spendEvent](event)
		if err != nil {
			return err
		}
		r.rates.Spend(r.sourceOf(data.Author), 0, data.USD)
	}
	if len(events) == 0 {
		return nil
	}
	return r.publish(events)
}
