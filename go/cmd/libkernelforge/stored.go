package main

// stored.go owns the operations on what is stored. They need no running study, and work beside one.

import (
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
	"github.com/kernelforge/kernelforge/go/store"
)

type storeRequest struct {
	Store string `json:"store"`
}

func listStudies(request storeRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) { return forge.Studies(s) })
}

type storedStudyRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
}

func showStudy(request storedStudyRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) { return forge.View(s, request.Study) })
}

type nodeRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
	Run   string `json:"run"`
	Node  int    `json:"node"`
}

func showNode(request nodeRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		return forge.Node(s, request.Study, request.Run, request.Node)
	})
}

func listCards(request storedStudyRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) { return forge.Cards(s, request.Study) })
}

type briefRequest struct {
	Store  string `json:"store"`
	Study  string `json:"study"`
	Run    string `json:"run"`
	Parent int    `json:"parent"`
}

// tellBrief tells what a person or an agent may know before a candidate: the same that any author is told.
func tellBrief(request briefRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		told, err := forge.Brief(s, request.Study, request.Run, request.Parent, factsHere)
		if err != nil {
			return nil, err
		}
		b := brief.Of(told, nil)
		return map[string]any{"brief": b, "text": brief.Text(b)}, nil
	})
}

type countRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
	Run   string `json:"run"`
	Node  int    `json:"node"`
	Send  bool   `json:"send"` // ask who runs the study for them
}

// countNode says whether a node's counters are to be waited for.
func countNode(request countRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		waits, err := forge.Count(s, request.Study, request.Run, request.Node, request.Send)
		return map[string]any{"waits": waits}, err
	})
}

// factsHere are this machine's, for a card of the host. Those of a device stand in the log: the core opens none here.
func factsHere(c *card.Card) propose.Facts {
	if c.Target != "host" {
		return propose.Facts{}
	}
	return host.ThisMachine("/").Facts(c.Threads)
}

type guestRequest struct {
	Store     string `json:"store"`
	Study     string `json:"study"`
	Run       string `json:"run"`
	Candidate string `json:"candidate"`
}

// answerGuest says what became of a candidate from outside.
func answerGuest(request guestRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		return forge.AnswerOf(s, request.Study, request.Run, request.Candidate)
	})
}

type approveRequest struct {
	Store string   `json:"store"`
	Study string   `json:"study"`
	Plans []string `json:"plans"`
	By    string   `json:"by"`
}

func approvePlans(request approveRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		queued, err := forge.Approve(s, request.Study, request.Plans, request.By)
		return map[string]any{"approved": request.Plans, "queued": queued}, err
	})
}

type submitRequest struct {
	Store     string          `json:"store"`
	Study     string          `json:"study"`
	Run       string          `json:"run"`
	Parent    int             `json:"parent"`
	Candidate json.RawMessage `json:"candidate"`
	By        string          `json:"by"`
}

func submitCandidate(request submitRequest) (any, error) {
	candidate, err := card.ReadCandidate(request.Candidate)
	if err != nil {
		return nil, card.Fail(card.CodeRequest, "", "submit to study `%s`: %w", request.Study, err)
	}
	return withStore(request.Store, func(s *store.Store) (any, error) {
		queued, err := forge.Submit(s, request.Study, forge.Submission{Run: request.Run, Parent: request.Parent, Candidate: candidate, By: request.By})
		return map[string]any{"queued": queued, "candidate": candidate.ID}, err
	})
}

type resultRequest struct {
	Store  string          `json:"store"`
	Study  string          `json:"study"`
	Result json.RawMessage `json:"result"`
}

func keepResult(request resultRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		if _, err := s.Study(request.Study); err != nil {
			return nil, err
		}
		_, err := s.Append(request.Study, store.Entry{Kind: store.KindResult, Data: request.Result})
		return struct{}{}, err
	})
}

type clearRequest struct {
	Store string  `json:"store"`
	Study *string `json:"study"` // none: all
}

func clearStore(request clearRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		var ids []string
		if request.Study != nil {
			ids = []string{*request.Study}
		} else {
			var err error
			if ids, err = s.Studies(); err != nil {
				return nil, err
			}
		}
		removed := []string{}
		for _, id := range ids {
			if err := s.Clear(id); err != nil {
				return nil, err
			}
			removed = append(removed, id)
		}
		return map[string]any{"removed": removed}, nil
	})
}

type packRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
	Path  string `json:"path"`
	// Review says whether plans that nobody approved by name are proposed only; null: as the newest session wished.
	Review *bool `json:"review"`
	// Exact keeps plans that are right but not eager's bits out of the pack.
	Exact bool `json:"exact,omitempty"`
}

func writePack(request packRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		plans, err := forge.WritePack(s, request.Study, request.Path, forge.Wishes{Review: request.Review, Exact: request.Exact})
		return map[string]any{"plans": plans, "path": request.Path}, err
	})
}
