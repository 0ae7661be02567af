package forge

// open.go owns a card's time with the referee: prepared, tried with outputs that are known to be wrong, given back.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/store"
)

// open begins the run and prepares its card, once.
func (r *run) open(ctx context.Context) error {
	if r.opened {
		return nil
	}
	if err := r.start(); err != nil {
		return err
	}
	return r.prepare(ctx)
}

// prepare prepares the card, once: also where the run is not gone on with.
func (r *run) prepare(ctx context.Context) error {
	if r.opened {
		return nil
	}
	theJudge, err := r.judge()
	if err != nil {
		return err
	}
	began := r.now()
	r.opened = true // also if Open fails half way: Close gives back what there is
	if err := theJudge.Open(ctx, r.card, seedOf(r.settings.Seed, r.card.ID)); err != nil {
		if stopped := cancelled(ctx); stopped != nil {
			return stopped
		}
		return judgeError(err, "prepare card `%s`", r.card.ID)
	}
	spent := r.now().Sub(began).Seconds()
	r.spentNow += spent
	if err := r.append(r.card.ID, store.Entry{Kind: store.KindSpend, Data: spendEvent{What: "prepare", Seconds: spent}}); err != nil {
		return err
	}
	return r.control(theJudge)
}

// blind says that the inputs of a card let an output pass that is known to be wrong: nothing may be judged on them, and eager stays.
type blind struct{ why string }

func (b *blind) Error() string { return b.why }

// control logs how the card's negative controls ended, and refuses inputs that do not discriminate.
func (r *run) control(theJudge Judge) error {
	told, ok := theJudge.(interface {
		Controls(card string) map[string]map[string]string
	})
	if !ok {
		return nil
	}
	data := controlsEvent{Controls: map[string]map[string]string{}}
	var passed []string
	for variant, controls := range told.Controls(r.card.ID) {
		if stored, ok := r.names.toStored[variant]; ok {
			variant = stored
		}
		data.Controls[variant] = controls
		for name, ended := range controls {
			if ended == judge.ControlPasses {
				passed = append(passed, fmt.Sprintf("`%s` on variant `%s`", name, variant))
			}
		}
	}
	if len(data.Controls) == 0 {
		return nil
	}
	if err := r.append(r.card.ID, store.Entry{Kind: store.KindControls, Data: data}); err != nil {
		return err
	}
	if len(passed) > 0 {
		slices.Sort(passed)
		return &blind{"its inputs cannot tell right from wrong, so nothing is judged: they let pass " + strings.Join(passed, ", ")}
	}
	return nil
}

// close gives the card's buffers back.
func (r *run) close(ctx context.Context) error {
	if !r.opened {
		return nil
	}
	r.opened = false
	theJudge, err := r.judge()
	if err != nil {
		return err
	}
	return theJudge.Close(ctx, r.card.ID)
}
