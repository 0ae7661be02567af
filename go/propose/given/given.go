// Package given proposes candidates that somebody has already: a red-team corpus, a rejection that is to be shown again.
//
// It owns their order. It refuses to make any, or to mend one that fails.
package given

import (
	"context"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Candidates are proposed below eager, in order, each once; below any other node there is nothing.
type Candidates []card.Candidate

// Propose implements propose.Proposer.
func (c Candidates) Propose(_ context.Context, brief propose.Brief) (card.Candidate, error) {
	if len(brief.Lineage) == 0 {
		for _, candidate := range c {
			if !brief.Seen(candidate.ID) {
				return candidate, nil
			}
		}
	}
	return card.Candidate{}, propose.ErrExhausted
}
