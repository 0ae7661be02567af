package main

// render.go owns showing what templates make of a card.

import (
	"encoding/json"
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/host"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

type renderRequest struct {
	Card   json.RawMessage `json:"card"`
	Facts  json.RawMessage `json:"facts,omitempty"` // none: this machine's, on the host
	Family *string         `json:"family"`          // none: every family that applies
	Params *map[string]int `json:"params"`          // of that family; what is not named has its default
}

type hostFacts struct {
	Target    string `json:"target"`
	ISA       string `json:"isa"`
	Threads   int    `json:"threads"`
	L1Bytes   int64  `json:"l1_bytes"`
	L2Bytes   int64  `json:"l2_bytes"`
	LLCBytes  int64  `json:"llc_bytes"`
	CacheLine int64  `json:"cache_line"`
}

type cudaFacts struct {
	Target    string `json:"target"`
	Arch      string `json:"arch"`
	SMCount   int    `json:"sm_count"`
	L2Bytes   int64  `json:"l2_bytes"`
	SmemOptin int64  `json:"smem_optin"`
}

// factsOf reads the facts of the card's target, or takes this machine's.
func factsOf(c *card.Card, text json.RawMessage) (propose.Facts, error) {
	given := len(text) > 0 && string(text) != "null"
	switch {
	case given && c.Target == "cuda":
		var f cudaFacts
		err := card.Decode(text, &f)
		return propose.Facts{Target: f.Target, Arch: f.Arch, SMCount: f.SMCount, L2Bytes: f.L2Bytes, SmemOptin: f.SmemOptin}, err
	case given:
		var f hostFacts
		err := card.Decode(text, &f)
		return propose.Facts{Target: f.Target, ISA: f.ISA, Threads: f.Threads, L1Bytes: f.L1Bytes, L2Bytes: f.L2Bytes, LLCBytes: f.LLCBytes, CacheLine: f.CacheLine}, err
	case c.Target == "cuda":
		return propose.Facts{}, card.Fail(card.CodeRequest, "give them: {target, arch, sm_count, l2_bytes, smem_optin}", "`facts` of a device are missing: the core opens none here")
	}
	return host.ThisMachine("/").Facts(c.Threads), nil
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
	facts, err := factsOf(c, request.Facts)
	if err == nil && facts.Target != c.Target {
		err = fmt.Errorf("`facts.target` is `%s` (expected `%s`, the card's)", facts.Target, c.Target)
	}
	if err != nil {
		return nil, card.Fail(card.CodeRequest, card.AsError(err).Hint, "render: %w", err)
	}
	families, candidates := []renderedFamily{}, []card.Candidate{}
	for _, family := range template.Runnable(c, facts) {
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
