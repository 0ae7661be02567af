package forge

// inbox.go owns what other processes may ask of a study: approvals and candidates.

import (
	"errors"
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/store"
)

// Approve marks winners as approved. A study that another process runs hears of it through its inbox: queued is true then.
func Approve(s *store.Store, id string, plans []string, by string) (queued bool, err error) {
	view, err := View(s, id)
	if err != nil {
		return false, err
	}
	known := append(slices.Clone(view.Approved), view.Waiting...)
	for _, plan := range plans {
		if !slices.Contains(known, plan) {
			return false, card.Fail(card.CodeNotFound, "", "approve plan `%s` of study `%s`: it has no such winner (it has %v)", plan, id, known)
		}
	}
	return deliver(s, id, store.KindApproval, Approval{Plans: plans, By: by})
}

// Submit hands a candidate to a study: it is judged as a child of a node when the study runs, before anything else of that run.
func Submit(s *store.Store, id string, submission Submission) (queued bool, err error) {
	if err := submission.Candidate.Validate(); err != nil {
		return false, card.Fail(card.CodeRequest, "", "submit to study `%s`: %w", id, err)
	}
	if size := len(submission.Candidate.Source); size > MaxSource {
		return false, card.Fail(card.CodeRequest, "", "submit to study `%s`: the source has %d bytes (expected at most %d)", id, size, MaxSource)
	}
	node, err := Node(s, id, submission.Run, submission.Parent)
	if err != nil {
		return false, err
	}
	if node.Verdict.Status != card.OK && node.Verdict.Status != statusEager {
		return false, card.Fail(card.CodeRequest, "submit it below another node, 0 is eager",
			"submit to study `%s`: node %d of run `%s` ended with `%s` and has no children", id, submission.Parent, submission.Run, node.Verdict.Status)
	}
	return deliver(s, id, store.KindSubmission, submission)
}

// deliver sends a message, and takes it in at once if no process runs the study.
func deliver(s *store.Store, id, kind string, message any) (queued bool, err error) {
	if err := s.Send(id, kind, message); err != nil {
		return false, err
	}
	err = takeInbox(s, id)
	if err != nil && card.AsError(err).Code == card.CodeLocked {
		return true, nil
	}
	return false, err
}

// takeInbox takes in what waits for a study that no process runs.
func takeInbox(s *store.Store, id string) error {
	if waiting, err := s.Waiting(id); err != nil || waiting == 0 {
		return err
	}
	lock, err := s.Lock(id)
	if err != nil {
		return err
	}
	_, err = s.Receive(id)
	return errors.Join(err, lock.Release())
}
