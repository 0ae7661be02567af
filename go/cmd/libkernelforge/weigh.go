package main

// weigh.go owns `judge.weigh`: the decision rule on given samples, for benches and tests of the rule.

import (
	"github.com/kernelforge/kernelforge/go/judge"
)

type weighRequest struct {
	Blocks judge.Confirmed `json:"blocks"`
	Target string          `json:"target"`
	Tries  int             `json:"tries,omitempty"`
}

// weighed is what a confirmation would say of these blocks at a look.
type weighed struct {
	Decision    judge.Decision `json:"decision"`
	Done        bool           `json:"done"` // it would stop here
	Ratio       float64        `json:"ratio"`
	Low         float64        `json:"low"`
	High        float64        `json:"high"`
	Margin      float64        `json:"margin"`
	Samples     int            `json:"samples"`
	Dropped     int            `json:"dropped"`
	AAHalfWidth float64        `json:"aa_half_width"`
	WarmRatio   float64        `json:"warm_ratio"`
	Detail      string         `json:"detail"`
	Looks       []int          `json:"looks"` // numbers of blocks at which it looks
}

func weigh(r weighRequest) (any, error) {
	c, done, err := judge.Weigh(r.Blocks, r.Target, max(r.Tries, 1))
	if err != nil {
		return nil, err
	}
	return weighed{c.Decision, done, c.Ratio, c.Low, c.High, c.Margin, c.Samples, c.Dropped, c.AAHalfWidth, c.WarmRatio, c.Detail, judge.Looks()}, nil
}
