package main

// table.go owns a recorded cost table: its families stand in for the built-in ones, its rows for the judge.

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

// tables is a file of bench/cost_tables.py.
type tables struct {
	Target string  `json:"target"`
	Cards  []table `json:"cards"`
}

type table struct {
	Name     string          `json:"name"`
	Text     json.RawMessage `json:"card"`
	Facts    *propose.Facts  `json:"facts"` // null on the host
	Families []spaceOf       `json:"families"`
	Whole    bool            `json:"whole"`
	Rows     []row           `json:"rows"`

	card *card.Card
	rows map[string]row // by candidate
	all  []point        // in the order of the families' spaces
}

// spaceOf is a family as the recorder found it. It is a template.Family whose candidates say where they are, and how they are launched, for the prior: as far
// as the family still has such points.
type spaceOf struct {
	Title  string          `json:"name"`
	Ranges []recordedParam `json:"params"`
}

type recordedParam struct {
	Name    string `json:"name"`
	Values  []int  `json:"values"`
	Default int    `json:"default"`
}

type row struct {
	Family      string         `json:"family"`
	Params      map[string]int `json:"params"`
	Status      card.Status    `json:"status"`
	Cost        float64        `json:"cost"`
	CandidateUS []float64      `json:"candidate_us"` // by variant
	EagerUS     []float64      `json:"eager_us"`
	Usage       []card.Usage   `json:"usage"`
}

// point is a place of a space that has a row.
type point struct {
	family template.Family
	at     template.Point
}

func (s spaceOf) Name() string            { return s.Title }
func (s spaceOf) Applies(*card.Card) bool { return true }
func (s spaceOf) Params(*card.Card, propose.Facts) []template.Param {
	params := make([]template.Param, len(s.Ranges))
	for i, r := range s.Ranges {
		params[i] = template.Param{Name: r.Name, Values: r.Values, Default: r.Default}
	}
	return params
}

func (s spaceOf) Build(c *card.Card, f propose.Facts, p template.Point) (card.Candidate, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "// %s", s.Title)
	for _, r := range s.Ranges {
		fmt.Fprintf(&text, " %s=%d", r.Name, p[r.Name])
	}
	candidate := card.Candidate{Source: text.String()}
	if family := template.Lookup(c.Target, s.Title); family != nil && family.Applies(c) && s.sameNames(family.Params(c, f)) {
		if built, err := family.Build(c, f, p); err == nil {
			candidate.Spec = built.Spec
		}
	}
	return candidate, nil
}

// sameNames says whether a family still has the parameters of its record.
func (s spaceOf) sameNames(params []template.Param) bool {
	return len(params) == len(s.Ranges) && !slices.ContainsFunc(params, func(p template.Param) bool {
		return !slices.ContainsFunc(s.Ranges, func(r recordedParam) bool { return r.Name == p.Name })
	})
}

func read(path string) (*tables, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("read `%s`: %w", path, err)
	}
	var found tables
	if err := json.NewDecoder(text).Decode(&found); err != nil {
		return nil, fmt.Errorf("read `%s`: %w", path, err)
	}
	for i := range found.Cards {
		if err := found.Cards[i].index(); err != nil {
			return nil, fmt.Errorf("read `%s`: card `%s`: %w", path, found.Cards[i].Name, err)
		}
	}
	return &found, nil
}

// index finds the candidate of each row. A row whose point is not in the recorded space is an error: the file was put together of two.
func (t *table) index() (err error) {
	if t.card, err = card.ReadCard(t.Text); err != nil {
		return err
	}
	known := map[string]row{}
	for _, r := range t.Rows {
		known[where(r.Family, r.Params)] = r
	}
	t.rows = map[string]row{}
	for _, s := range t.Families {
		for _, at := range template.Points(s.Params(t.card, t.facts())) {
			r, ok := known[where(s.Title, at)]
			if !ok {
				continue // a sampled space, or one that was not finished
			}
			candidate, err := template.Make(s, t.card, t.facts(), at)
			if err != nil {
				return err
			}
			t.rows[candidate.ID] = r
			t.all = append(t.all, point{s, at})
		}
	}
	if len(t.rows) != len(t.Rows) {
		return fmt.Errorf("%d of its %d rows are points of its spaces", len(t.rows), len(t.Rows))
	}
	return nil
}

func (t *table) facts() propose.Facts {
	if t.Facts == nil {
		return propose.Facts{Target: t.card.Target}
	}
	return *t.Facts
}

func (t *table) families(*card.Card, propose.Facts) []template.Family {
	list := make([]template.Family, len(t.Families))
	for i, s := range t.Families {
		list[i] = s
	}
	return list
}

// judge says what the real judge found.
func (t *table) judge(candidate card.Candidate) card.Verdict {
	r := t.rows[candidate.ID]
	return card.Verdict{Status: r.Status, Cost: r.Cost, Usage: r.Usage}
}

// rawMS is a time in the unit that the search is not meant to see: milliseconds of all launches of a forward.
func (t *table) rawMS(us func(row) []float64, r row) float64 {
	sum := 0.0
	for i, v := range t.card.Variants {
		if list := us(r); i < len(list) {
			sum += float64(max(v.Calls, 1)) * list[i] / 1e3
		}
	}
	return sum
}

// eagerMS is eager's time as most rows saw it.
func (t *table) eagerMS() float64 {
	var all []float64
	for _, r := range t.Rows {
		if r.Status == card.OK {
			all = append(all, t.rawMS(func(r row) []float64 { return r.EagerUS }, r))
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func where(family string, params map[string]int) string {
	names := make([]string, 0, len(params))
	for name, value := range params {
		names = append(names, fmt.Sprintf("%s=%d", name, value))
	}
	slices.Sort(names)
	return family + " " + strings.Join(names, " ")
}
