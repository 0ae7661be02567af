package forge

// yield.go owns what each source brought to a run and took for it, as the log tells it.

import (
	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/store"
)

// SourceView is one source on one card. The yield before repair is Valid/Judged, after it (Valid+Mended)/Judged.
type SourceView struct {
	Author     string  `json:"author"`     // "template", "submitted", or an author's name
	Asked      int     `json:"asked"`      // for a candidate
	Judged     int     `json:"judged"`     // nodes
	Valid      int     `json:"valid"`      // of them ok at once
	Mended     int     `json:"mended"`     // ok after a repair
	Unfinished int     `json:"unfinished"` // repairs ran out
	Repairs    int     `json:"repairs"`    // failures that went back to the author
	Gain       float64 `json:"gain"`       // by which its candidates brought the best cost down: before / after, over all of them
	Seconds    float64 `json:"seconds"`    // of the search: judging its candidates, waiting for it
	Calls      int     `json:"calls"`      // that were paid
	TokensIn   int64   `json:"tokens_in"`
	TokensOut  int64   `json:"tokens_out"`
	USD        float64 `json:"usd"`
	Stopped    string  `json:"stopped"` // why it was asked no more on this card
}

// authorEvent says that an author is asked no more, on a card or at all.
type authorEvent struct {
	Author string `json:"author"`
	State  string `json:"state"` // "stopped"
	Why    string `json:"why"`
}

// AuthorForecast is what an author will take if each candidate that is left is asked of it: the most without repairs, less where others propose.
type AuthorForecast struct {
	Author string `json:"author"`
	budget.Forecast
	Text string `json:"text"`
}

const (
	sourceFirst     = "template"
	sourceSubmitted = "submitted"
)

// sourcesOf derives it, in the order in which they were first asked.
func sourcesOf(run *runHistory) ([]SourceView, error) {
	views := []SourceView{{Author: sourceFirst, Gain: 1}}
	of := func(author string) *SourceView {
		if author == "" {
			author = sourceFirst
		}
		for i := range views {
			if views[i].Author == author {
				return &views[i]
			}
		}
		views = append(views, SourceView{Author: author, Gain: 1})
		return &views[len(views)-1]
	}
	asked, repairs, best := map[int]string{}, map[int]int{}, 1.0
	for _, event := range run.events {
		var err error
		switch event.Kind {
		case store.KindSelection:
			var data selectionEvent
			if data, err = decode[selectionEvent](event); err == nil {
				if asked[data.Seq] = data.Author; data.Submission != 0 {
					asked[data.Seq] = sourceSubmitted
				}
				of(asked[data.Seq]).Asked++
			}
		case store.KindAttempt:
			var data attemptEvent
			if data, err = decode[attemptEvent](event); err == nil {
				repairs[data.Seq]++
				of(asked[data.Seq]).Repairs++
			}
		case store.KindVerdict:
			var data verdictEvent
			if data, err = decode[verdictEvent](event); err == nil {
				best = of(asked[data.Seq]).judged(data.Verdict, repairs[data.Seq] > 0, best)
			}
		case store.KindSpend:
			var data spendEvent
			if data, err = decode[spendEvent](event); err == nil {
				of(data.Author).spent(data)
			}
		case store.KindAuthor:
			var data authorEvent
			if data, err = decode[authorEvent](event); err == nil {
				of(data.Author).Stopped = data.Why
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return views, nil
}

// judged counts a node, and gives the best cost after it.
func (v *SourceView) judged(verdict card.Verdict, repaired bool, best float64) float64 {
	v.Judged++
	switch {
	case verdict.Unfinished:
		v.Unfinished++
	case verdict.Status == card.OK && repaired:
		v.Mended++
	case verdict.Status == card.OK:
		v.Valid++
	}
	if verdict.Status != card.OK || verdict.Cost >= best {
		return best
	}
	v.Gain *= best / verdict.Cost
	return verdict.Cost
}

func (v *SourceView) spent(data spendEvent) {
	if data.What == "judge" || data.What == "wait" {
		v.Seconds += data.Seconds
	}
	v.USD += data.USD
	if data.What == "call" {
		v.Calls++
	}
	if data.Call != nil {
		v.TokensIn += data.TokensIn
		v.TokensOut += data.TokensOut
	}
}
