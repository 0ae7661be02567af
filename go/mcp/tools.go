package mcp

// tools.go owns the six tools: what each takes and gives. A wrong call is the tool's answer, with a hint, never the end of the session.

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/propose/brief"
	"github.com/kernelforge/kernelforge/go/store"
)

const (
	usualWait = 45.0             // seconds that a call waits for a verdict; clients give up on a call after about a minute
	mostWait  = 600.0            // that it may be asked to
	countWait = 25 * time.Second // for the counters of a parent: one reading, and a candidate before it
)

type nothing struct{}

type onCard struct {
	Card string `json:"card" jsonschema:"the card's id, or a part of its operator's name that fits one card alone"`
}

type onParent struct {
	Card   string `json:"card" jsonschema:"the card's id, or a part of its operator's name that fits one card alone"`
	Parent int    `json:"parent,omitempty" jsonschema:"node to improve on; 0 (the default) is eager itself"`
}

type onNode struct {
	Card string `json:"card" jsonschema:"the card's id, or a part of its operator's name that fits one card alone"`
	Node int    `json:"node" jsonschema:"number of the node in the card's tree"`
}

type submission struct {
	Card   string   `json:"card" jsonschema:"the card's id, or a part of its operator's name that fits one card alone"`
	Source string   `json:"source" jsonschema:"the whole source of the kernel"`
	Spec   any      `json:"spec" jsonschema:"the launch spec, a JSON object as get_brief shows it"`
	Parent int      `json:"parent,omitempty" jsonschema:"node that it improves on; 0 (the default) is eager itself"`
	Idea   string   `json:"idea,omitempty" jsonschema:"what differs from the parent, in one sentence"`
	WaitS  *float64 `json:"wait_s,omitempty" jsonschema:"seconds to wait for the verdict, 45 by default; afterwards get_verdict has it"`
}

type onCandidate struct {
	Card      string   `json:"card" jsonschema:"the card's id, or a part of its operator's name that fits one card alone"`
	Candidate string   `json:"candidate" jsonschema:"the candidate's id, as submit_candidate gave it"`
	WaitS     *float64 `json:"wait_s,omitempty" jsonschema:"seconds to wait for the verdict, 45 by default"`
}

func (s *Server) addTools() {
	read := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(s.server, &sdk.Tool{Name: "list_cards", Annotations: read,
		Description: "List the operators (cards) of the study, the most worthwhile first: share of the model's time, eager's time, the time of a plain copy of the bytes, the best cost so far."},
		tool(s.listCards))
	sdk.AddTool(s.server, &sdk.Tool{Name: "get_brief", Annotations: read,
		Description: "Tell all that an author must know to write a kernel for a card: the operator, exact shapes and strides, the target, how source and launch spec have to look with an example, what the judge checks, the parent's source and numbers (on a GPU with what its hardware counters say bounds it: the first time that takes some seconds), and what was tried below it."},
		s.getBrief)
	sdk.AddTool(s.server, &sdk.Tool{Name: "get_node", Annotations: read,
		Description: "Show one candidate of a card's tree with its source, launch spec, verdict and log."}, tool(s.getNode))
	sdk.AddTool(s.server, &sdk.Tool{Name: "submit_candidate",
		Description: "Have a kernel judged: compiled, held against eager on many inputs, timed. Answers with the verdict, or with state `waiting` after wait_s seconds. A candidate that is known already is not judged again."},
		tool(s.submit))
	sdk.AddTool(s.server, &sdk.Tool{Name: "get_verdict", Annotations: read,
		Description: "Say what became of a candidate that was submitted."}, tool(s.getVerdict))
	sdk.AddTool(s.server, &sdk.Tool{Name: "get_tree", Annotations: read,
		Description: "Show all candidates of a card as a tree: node, parent, status, cost, author, idea."}, tool(s.getTree))
}

// tool makes a handler of a function that gives JSON.
func tool[In any](do func(context.Context, In) (any, error)) sdk.ToolHandlerFor[In, any] {
	return func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, nil, told(err)
		}
		return nil, out, nil
	}
}

// told is an error as a client reads it: with its hint.
func told(err error) error {
	known := card.AsError(err)
	if known.Hint == "" {
		return errors.New(known.Text)
	}
	return errors.New(known.Text + "\nhint: " + known.Hint)
}

func (s *Server) listCards(context.Context, nothing) (out any, err error) {
	err = s.with(func(st *store.Store) error {
		study, err := st.Study(s.config.Study)
		if err != nil {
			return err
		}
		cards, err := forge.Cards(st, s.config.Study)
		out = map[string]any{"study": study.ID, "model": study.Model, "target": study.Target, "cards": cards}
		return err
	})
	return out, err
}

func (s *Server) getBrief(ctx context.Context, _ *sdk.CallToolRequest, in onParent) (*sdk.CallToolResult, any, error) {
	if err := s.count(ctx, in.Card, in.Parent); err != nil {
		return nil, nil, told(err)
	}
	var b brief.Brief
	err := s.on(in.Card, func(st *store.Store, id string) error {
		known, err := forge.Brief(st, s.config.Study, id, in.Parent, s.config.Facts)
		if err == nil {
			b = brief.Of(known, func(v card.Verdict) string { return s.told(v).Detail })
		}
		return err
	})
	if err != nil {
		return nil, nil, told(err)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: brief.Text(b)}}}, b, nil
}

func (s *Server) getNode(_ context.Context, in onNode) (out any, err error) {
	err = s.on(in.Card, func(st *store.Store, id string) error {
		node, err := forge.Node(st, s.config.Study, id, in.Node)
		if err == nil {
			verdict := s.told(node.Verdict)
			out = map[string]any{"node": in.Node, "candidate": node.Candidate, "verdict": verdict, "lineage": node.Lineage,
				"counters": node.Counters, "counted": brief.Counted(node.Card, node.Counters)}
		}
		return err
	})
	return out, err
}

func (s *Server) getTree(_ context.Context, in onCard) (out any, err error) {
	err = s.on(in.Card, func(st *store.Store, id string) error {
		view, err := forge.View(st, s.config.Study)
		if err != nil {
			return err
		}
		for _, run := range view.Runs {
			if run.Card == id {
				out = run
			}
		}
		return nil
	})
	return out, err
}

func (s *Server) submit(ctx context.Context, in submission) (any, error) {
	candidate, err := in.candidate()
	if err != nil {
		return nil, err
	}
	wait, err := seconds(in.WaitS)
	if err != nil {
		return nil, err
	}
	var id string
	err = s.on(in.Card, func(st *store.Store, found string) error {
		id = found
		_, err := forge.Submit(st, s.config.Study, forge.Submission{Run: id, Parent: in.Parent, Candidate: candidate, By: candidate.Author})
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	s.open[id+" "+candidate.ID] = true
	s.mutex.Unlock()
	return s.await(ctx, id, candidate.ID, wait)
}

// candidate makes one of what was submitted. Some clients send the spec as a text of JSON.
func (in submission) candidate() (card.Candidate, error) {
	text, isText := in.Spec.(string)
	data := []byte(text)
	if !isText {
		var err error
		if data, err = json.Marshal(in.Spec); err != nil {
			return card.Candidate{}, card.Fail(card.CodeRequest, "", "read `spec`: %w", err)
		}
	}
	c := card.Candidate{Author: "agent", Change: in.Idea, Source: in.Source}
	if err := card.Decode(data, &c.Spec); err != nil {
		return c, card.Fail(card.CodeRequest, "get_brief shows a spec that works", "read `spec`: %w", err)
	}
	c.ID = card.CandidateID(c.Source, c.Spec)
	if err := c.Validate(); err != nil {
		return c, card.Fail(card.CodeRequest, "get_brief shows a spec that works", "%w", err)
	}
	return c, nil
}

func (s *Server) getVerdict(ctx context.Context, in onCandidate) (any, error) {
	wait, err := seconds(in.WaitS)
	if err != nil {
		return nil, err
	}
	var id string
	if err := s.on(in.Card, func(_ *store.Store, found string) error {
		id = found
		return nil
	}); err != nil {
		return nil, err
	}
	return s.await(ctx, id, in.Candidate, wait)
}

func seconds(asked *float64) (time.Duration, error) {
	wait := usualWait
	if asked != nil {
		wait = *asked
	}
	if !(wait >= 0 && wait <= mostWait) {
		return 0, card.Fail(card.CodeRequest, "", "`wait_s` is %v (expected 0 to %v)", wait, mostWait)
	}
	return time.Duration(wait * float64(time.Second)), nil
}

// on opens the store for a call about a card.
func (s *Server) on(name string, use func(*store.Store, string) error) error {
	return s.with(func(st *store.Store) error {
		id, err := forge.FindCard(st, s.config.Study, name)
		if err != nil {
			return err
		}
		return use(st, id)
	})
}
