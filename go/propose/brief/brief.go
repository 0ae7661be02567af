// Package brief says in words and numbers what an author is told before it writes a candidate: a person, a coding agent, a callable, a language
// model. There is one such text: `kernelforge ask`, the MCP tools and the prompts of go/propose/llm all render this Brief.
//
// It owns what is told. It refuses what must not be: values of inputs and weights, seeds, paths, names of machines or users.
package brief

import (
	"encoding/json"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Schema is the version of Brief's JSON form (docs/formats.md, `brief`).
const Schema = 1

// Brief is everything that an author is told.
type Brief struct {
	Schema    int      `json:"schema"`
	Card      Card     `json:"card"`
	Target    Target   `json:"target"`
	Launch    Launch   `json:"launch"`
	Checks    []string `json:"checks"`   // of the judge, in order
	Parent    Node     `json:"parent"`   // what the candidate improves on; node 0 is eager
	Path      []Step   `json:"path"`     // from the root's child down to the parent; empty at eager
	Siblings  []Step   `json:"siblings"` // children that the parent has already
	Direction string   `json:"direction,omitempty"`
	Repair    *Node    `json:"repair,omitempty"` // the attempt to mend, where that is what is asked for
}

// Card is the operator in words.
type Card struct {
	ID       string    `json:"id"`
	Overload string    `json:"overload"`
	Words    string    `json:"words"`   // what the operator does; "" for one that the table does not know
	Formula  string    `json:"formula"` // in the arguments' names
	Layout   string    `json:"layout"`
	InPlace  bool      `json:"in_place"` // an output is one of the inputs
	Share    float64   `json:"share"`    // of the model's operator time
	Threads  int       `json:"threads,omitempty"`
	Variants []Variant `json:"variants"`
}

// Variant is one exact call that the candidate must serve.
type Variant struct {
	ID        string     `json:"id"`
	Calls     int        `json:"calls"` // per forward
	EagerUS   float64    `json:"eager_us"`
	RoofUS    float64    `json:"roof_us"` // time of a plain copy of `bytes`
	Bytes     int64      `json:"bytes"`   // that must move: each distinct input element once, each output element once
	Arguments []Argument `json:"arguments"`
	Outputs   []Argument `json:"outputs"`
}

// Argument is an argument or an output. One that has a slot is a tensor in memory.
type Argument struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	Slot    string       `json:"slot,omitempty"`
	DType   string       `json:"dtype,omitempty"`
	Sizes   []int64      `json:"sizes,omitzero"`
	Strides []int64      `json:"strides,omitzero"`
	Value   string       `json:"value,omitempty"`
	Alias   string       `json:"alias,omitempty"`  // of an output: the slot that it is
	Values  *card.Values `json:"values,omitempty"` // of an input, where the user chose to tell
	Align   int          `json:"align,omitempty"`  // what its address is a multiple of, bytes; 0: an element's size
}

// Target is what code is compiled for.
type Target struct {
	Name  string `json:"name"`
	Facts []Fact `json:"facts"`
}

// Fact is something that the target says of itself.
type Fact struct {
	Name       string `json:"name"`
	Value      any    `json:"value"`
	Expression bool   `json:"expression"` // its name may be used in expressions of the spec
}

// Node is a candidate that was judged, with its source.
type Node struct {
	Step
	Source   string             `json:"source"`
	Spec     *card.Spec         `json:"spec"`
	Variants []card.VariantCost `json:"variants"`
	// RoofShare is the part of the copy's speed that each variant reaches: roof_us / candidate_us.
	RoofShare map[string]float64 `json:"roof_share"`
	RateGBS   map[string]float64 `json:"rate_gbs"`           // at which each variant moves its bytes, 10^9 bytes a second
	Usage     []card.Usage       `json:"usage,omitempty"`    // on a device: registers, stack and shared memory of its kernels
	Fills     []Fill             `json:"fills,omitempty"`    // on a device: how its launches fill a multiprocessor, where that is known
	Measured  []string           `json:"measured,omitempty"` // all of it in words
	Counters  *card.Counters     `json:"counters,omitempty"` // of the parent, on a device: what its hardware counted, or why that is not known
	Counted   []string           `json:"counted,omitempty"`  // likewise, read as a diagnosis: what bounds it
}

// Step is a judged candidate in a line. Node 0 is eager; -1: an attempt that is no node.
type Step struct {
	Node   int            `json:"node"`
	Status card.Status    `json:"status"`
	Gate   string         `json:"gate,omitempty"`
	Cost   float64        `json:"cost"`
	Author string         `json:"author,omitempty"`
	Family string         `json:"family,omitempty"`
	Params map[string]int `json:"params,omitempty"`
	Change string         `json:"change,omitempty"` // the idea: what differs from its parent
	Why    string         `json:"why,omitempty"`    // it failed
}

const statusEager card.Status = "eager"

// Of makes the brief of what a proposer knows. why words a verdict that is no success; nil: its own detail, for people. An author outside this
// machine gets one that leaves out what must stay here.
func Of(from propose.Brief, why func(card.Verdict) string) Brief {
	if why == nil {
		why = func(v card.Verdict) string { return v.Detail }
	}
	b := Brief{Schema: Schema, Card: cardOf(from.Card), Target: targetOf(from.Card.Target, from.Facts), Launch: launchOf(from.Card, from.Facts),
		Checks: checks, Direction: from.Direction, Path: []Step{}, Siblings: []Step{}, Parent: eager()}
	for _, attempt := range from.Lineage {
		b.Path = append(b.Path, stepOf(attempt, why))
		b.Parent = nodeOf(from, attempt, why)
	}
	for _, attempt := range from.Children {
		b.Siblings = append(b.Siblings, stepOf(attempt, why))
	}
	if from.Repair != nil {
		repair := nodeOf(from, *from.Repair, why)
		repair.Node = -1
		b.Repair = &repair
	}
	return b
}

func eager() Node {
	return Node{Step: Step{Status: statusEager, Cost: 1}, Variants: []card.VariantCost{}, RoofShare: map[string]float64{}, RateGBS: map[string]float64{}}
}

func stepOf(a propose.Attempt, why func(card.Verdict) string) Step {
	step := Step{Node: a.Node, Status: a.Verdict.Status, Gate: a.Verdict.Gate, Cost: a.Verdict.Cost, Author: a.Candidate.Author,
		Family: a.Candidate.Family, Params: a.Candidate.Params, Change: a.Candidate.Change}
	if a.Verdict.Status != card.OK {
		step.Why = why(a.Verdict)
	}
	return step
}

func nodeOf(from propose.Brief, a propose.Attempt, why func(card.Verdict) string) Node {
	node := Node{Step: stepOf(a, why), Source: a.Candidate.Source, Spec: &a.Candidate.Spec, Variants: a.Verdict.Variants, RoofShare: map[string]float64{},
		RateGBS: map[string]float64{}, Usage: a.Verdict.Usage, Measured: Measured(from.Card, from.Facts, a.Candidate.Spec, a.Verdict),
		Counters: a.Counters, Counted: Counted(from.Card, a.Counters)}
	for _, use := range a.Verdict.Usage {
		node.Fills = append(node.Fills, fillsOf(from.Facts, a.Candidate.Spec, use)...)
	}
	if node.Variants == nil {
		node.Variants = []card.VariantCost{}
	}
	for _, cost := range node.Variants {
		for _, v := range from.Card.Variants {
			if v.ID == cost.ID && cost.CandidateUS > 0 {
				node.RoofShare[v.ID], node.RateGBS[v.ID] = v.RoofUS/cost.CandidateUS, RateGBS(v.Bytes, cost.CandidateUS)
			}
		}
	}
	return node
}

func cardOf(c *card.Card) Card {
	words := Operator(c.Overload)
	told := Card{ID: c.ID, Overload: c.Overload, Words: words.Words, Formula: words.Formula, Layout: c.Layout, Share: c.Share, Threads: c.Threads}
	for _, v := range c.Variants {
		variant := Variant{ID: v.ID, Calls: v.Calls, EagerUS: v.EagerUS, RoofUS: v.RoofUS, Bytes: v.Bytes}
		slots := Slots(v.Call)
		at := 0
		align := func(i int) int {
			if i < len(v.Align) {
				return v.Align[i]
			}
			return 0
		}
		values := func(i int) *card.Values {
			if i < len(v.Values) {
				return &v.Values[i]
			}
			return nil
		}
		for _, arg := range v.Call.Args {
			switch arg.Kind {
			case "tensor":
				variant.Arguments = append(variant.Arguments, Argument{Name: arg.Name, Kind: arg.Kind, Slot: slots[at], DType: arg.DType,
					Sizes: arg.Sizes, Strides: arg.Strides, Align: align(at), Values: values(at)})
				at++
			case "tensors":
				for _, item := range arg.Items {
					variant.Arguments = append(variant.Arguments, Argument{Name: arg.Name, Kind: "tensor", Slot: slots[at], DType: item.DType,
						Sizes: item.Sizes, Strides: item.Strides, Align: align(at), Values: values(at)})
					at++
				}
			default:
				variant.Arguments = append(variant.Arguments, Argument{Name: arg.Name, Kind: arg.Kind, DType: arg.DType, Value: valueOf(arg)})
			}
		}
		for i, out := range v.Call.Outputs {
			output := Argument{Name: outName(i), Kind: "tensor", Slot: outName(i), DType: out.DType, Sizes: out.Sizes, Strides: out.Strides}
			if out.Alias >= 0 && out.Alias < len(slots) {
				output.Alias = slots[out.Alias]
				told.InPlace = true
			}
			variant.Outputs = append(variant.Outputs, output)
		}
		told.Variants = append(told.Variants, variant)
	}
	return told
}

// valueOf words an argument that is no tensor. Its value is part of the card.
func valueOf(arg card.Arg) string {
	if arg.Kind == "wrapped" {
		return wrapped(arg)
	}
	var text string
	if json.Unmarshal(arg.Value, &text) == nil {
		return text
	}
	return strings.TrimSpace(string(arg.Value))
}
