package budget

// price.go owns what tokens cost: a dated table, and a user's own file over it. It refuses to guess a price.

import (
	_ "embed"
	"os"
	"regexp"

	"github.com/kernelforge/kernelforge/go/card"
)

//go:embed prices.json
var shipped []byte

// Price is what a million tokens cost, USD.
type Price struct {
	In          float64  `json:"usd_per_mtok_in"`
	CachedIn    *float64 `json:"usd_per_mtok_cached_in,omitempty"` // of a prompt that the server had; absent: as In
	Out         float64  `json:"usd_per_mtok_out"`
	ReplyTokens int64    `json:"mean_reply_tokens,omitempty"` // with reasoning, for a forecast before there is a history; absent: the table's
}

// Of is the price of one reply. cached is the part of in that the server took from its cache.
func (p Price) Of(in, cached, out int64) float64 {
	cached = min(max(cached, 0), in)
	cheap := p.In
	if p.CachedIn != nil {
		cheap = *p.CachedIn
	}
	return (float64(in-cached)*p.In + float64(cached)*cheap + float64(out)*p.Out) / 1e6
}

// Worst is the most that a call can cost: nothing from a cache, the longest reply.
func (p Price) Worst(in, out int64) float64 {
	return max(p.Of(in, 0, out), p.Of(in, in, out)) // a cache may cost more, if somebody writes so
}

// Table is the prices of models by name.
type Table struct {
	Schema      int              `json:"schema"`
	Date        string           `json:"date"`
	Source      string           `json:"source,omitempty"` // where the prices are from
	ReplyTokens int64            `json:"mean_reply_tokens"`
	Models      map[string]Price `json:"models"`
}

// Prices gives the shipped table with the user's file over it; path may be "". A user's file has the form of the shipped one (docs/authors.md).
func Prices(path string) (Table, error) {
	table, err := readTable(shipped, "the shipped prices")
	if err != nil || path == "" {
		return table, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return table, card.Fail(card.CodeRequest, "docs/authors.md shows a price file", "read the price file `%s`: %w", path, err)
	}
	own, err := readTable(text, "the price file `"+path+"`")
	if err != nil {
		return table, err
	}
	for model, price := range own.Models {
		table.Models[model] = price
	}
	table.Date, table.Source, table.ReplyTokens = own.Date, own.Source, own.ReplyTokens
	return table, nil
}

func readTable(text []byte, what string) (Table, error) {
	var table Table
	hint := "docs/authors.md shows a price file"
	if err := card.Decode(text, &table); err != nil {
		return table, card.Fail(card.CodeRequest, hint, "read %s: %w", what, err)
	}
	if table.Schema != card.Schema {
		return table, card.Fail(card.CodeRequest, hint, "read %s: `schema` is %d (expected %d)", what, table.Schema, card.Schema)
	}
	if table.ReplyTokens < 1 {
		return table, card.Fail(card.CodeRequest, hint, "read %s: `mean_reply_tokens` is %d (expected 1 or more)", what, table.ReplyTokens)
	}
	if table.Models == nil {
		table.Models = map[string]Price{}
	}
	for model, price := range table.Models {
		if !(price.In >= 0 && price.Out >= 0 && price.ReplyTokens >= 0) || price.CachedIn != nil && !(*price.CachedIn >= 0) {
			return table, card.Fail(card.CodeRequest, hint, "read %s: model `%s` has a price below 0", what, model)
		}
	}
	return table, nil
}

// dated is the end of a model's name that is a date: the same model at the same price.
var dated = regexp.MustCompile(`-(20[0-9]{2}-[0-9]{2}-[0-9]{2}|20[0-9]{6}|latest)$`)

// Plain is a model's name without a date at its end.
func Plain(model string) string { return dated.ReplaceAllString(model, "") }

// Of is the price of a model, by its name or its name without a date.
func (t Table) Of(model string) (Price, bool) {
	price, ok := t.Models[model]
	if !ok {
		price, ok = t.Models[Plain(model)]
	}
	if price.ReplyTokens == 0 {
		price.ReplyTokens = t.ReplyTokens
	}
	return price, ok
}

// For is the price by which a model's calls are counted, nil if it has none and the limits do without: then tokens out have a limit and USD has
// none. An unknown model of a server on this machine (free) costs nothing.
func (t Table) For(model string, limits Limits, free bool) (*Price, error) {
	if price, ok := t.Of(model); ok {
		return &price, nil
	}
	if free {
		return &Price{ReplyTokens: t.ReplyTokens}, nil
	}
	if limits.USD != nil && *limits.USD > 0 {
		return nil, card.Fail(card.CodeRequest, "give its price in a file (docs/authors.md, prices), or limit tokens in place of USD",
			"hold a budget of %s USD: the model `%s` is not in the price table of %s", number(*limits.USD), model, t.Date)
	}
	if limits.TokensOut == nil && (limits.USD == nil || *limits.USD > 0) {
		return nil, card.Fail(card.CodeRequest, "give its price in a file (docs/authors.md, prices), or a limit of tokens out",
			"ask the model `%s`: it is not in the price table of %s, and nothing limits what it may cost", model, t.Date)
	}
	return nil, nil
}
