package forge

// ahead.go owns the hints to a judge that can compile beside its measurements. It refuses to decide anything: the tree is the same without it.

import (
	"context"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/search"
)

// free is the author whose proposals cost nothing, so that one more may be asked for to guess.
const free = "template"

// ahead lets the judge compile this candidate while the card is prepared, and the one that will probably come next while this one is measured.
// A wrong guess costs a compile and nothing else: what is proposed and logged is decided in settle.
func (r *run) ahead(ctx context.Context, at *flight, now card.Candidate) {
	judge, ok := r.theJudge.(interface {
		Ahead(context.Context, card.Candidate)
	})
	if !ok {
		return
	}
	judge.Ahead(ctx, now)
	for _, next := range r.flights {
		if next == at {
			continue
		}
		p, ok := r.proposalOf(ctx, next)
		if !ok {
			continue
		}
		if _, known := r.byID[p.candidate.ID]; p.err == nil && (known || p.candidate.ID == now.ID) && p.candidate.Author == free {
			p = r.propose(ctx, r.sources[0].proposer, r.briefAfter(next.selection, now.ID)) // a twin will be asked for again; templates ask nobody
		}
		if p.err == nil {
			judge.Ahead(ctx, p.candidate)
		}
	}
}

// proposalOf looks at what a flight has brought. Templates answer at once, so they are waited for: the flight that was just launched is the next one.
func (r *run) proposalOf(ctx context.Context, f *flight) (p proposal, ok bool) {
	if (f.slow() || r.recording != nil) && len(f.proposal) == 0 {
		return p, false
	}
	select {
	case p = <-f.proposal:
	case <-ctx.Done():
		return p, false
	}
	f.proposal <- p // it holds one, and only this goroutine takes
	return p, true
}

// briefAfter is the brief as it will be when a candidate has become a node, as far as it can be known.
func (r *run) briefAfter(selection search.Selection, id string) propose.Brief {
	brief := r.brief(selection, r.tree.Len())
	seen := brief.Seen
	brief.Seen = func(other string) bool { return other == id || seen(other) }
	return brief
}
