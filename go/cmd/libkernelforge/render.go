package main

// render.go owns showing what templates make of a card.

import (
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

type renderRequest struct {
	Card   json.RawMessage `json:"card"`
	Facts  *factsRequest   `json:"facts"`  // none: this machine's
	Family *string         `json:"family"` // none: every family that applies
	Params *map[string]int `json:"params"` // of that family; what is not named has its default
}

type factsRequest struct {
	Target    string `json:"target"`
	ISA       string `json:"isa"`
	Threads   int    `json:"threads"`
	L1Bytes   int64  `json:"l1_bytes"`
	L2Bytes   int64  `json:"l2_bytes"`
	LLCBytes  int64  `json:"llc_bytes"`
	CacheLine int64  `json:"cache_line"`
}

type renderedFamily struct {
	Name   string          `json:"name"`
	Params []renderedParam `json:"params"`
}

type renderedParam struct {
	Name    string `json:"name"`
	Values  []int  `json:"values"`
	Default int    `json:"default"`
}

// renderTemplates shows what the built-in families make of a card, without a study: for tests, and for who writes a family.
func renderTemplates(request renderRequest) (any, error) {
	c, err := card.ReadCard(request.Card)
	if err != nil {
		return nil, card.Fail(card.CodeRequest, "", "render: %w", err)
	}
	facts := host.ThisMachine("/").Facts(c.Threads)
	if f := request.Facts; f != nil {
		facts = propose.Facts{Target: f.Target, ISA: f.ISA, Threads: f.Threads, L1Bytes: f.L1Bytes, L2Bytes: f.L2Bytes, LLCBytes: f.LLCBytes, CacheLine: f.CacheLine}
	}
	families, candidates := []renderedFamily{}, []card.Candidate{}
	for _, family := range template.Applicable(c) {
		if request.Family != nil && *request.Family != family.Name() {
			continue
		}
		params := family.Params(c, facts)
		shown := renderedFamily{Name: family.Name(), Params: []renderedParam{}}
		point := template.Points(params)[0]
		for _, param := range params {
			shown.Params = append(shown.Params, renderedParam{param.Name, param.Values, param.Default})
			if request.Params != nil {
				if value, ok := (*request.Params)[param.Name]; ok {
					point[param.Name] = value
				}
			}
		}
		candidate, err := template.Make(family, c, facts, point)
		if err != nil {
			return nil, card.Fail(card.CodePropose, "", "render: %w", err)
		}
		families, candidates = append(families, shown), append(candidates, candidate)
	}
	if request.Family != nil && len(families) == 0 {
		return nil, card.Fail(card.CodeNotFound, "", "render: no family `%s` applies to card `%s` (`%s`)", *request.Family, c.ID, c.Overload)
	}
	return map[string]any{"families": families, "candidates": candidates}, nil
}
