// Command compare runs ways to search on recorded cost tables and writes what each had found after each candidate. bench/ablation.py reads it.
//
//	compare [-seeds 40] [-budget 60] tables.json.gz > curves.json
//
// A curve is the least cost so far, eager's 1 included, after 1, 2, ... candidates. Nothing is measured here: the tables hold what the real judge found.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"

	"github.com/kernelforge/kernelforge/go/card"
)

// curves are of one card.
type curves struct {
	Card   string                 `json:"card"`
	Points int                    `json:"points"`
	Whole  bool                   `json:"whole"`
	Least  float64                `json:"least"` // of the table
	Curves map[string][][]float64 `json:"curves"`
}

func main() {
	seeds := flag.Int("seeds", 40, "runs of each policy on each card")
	budget := flag.Int("budget", 60, "candidates of a run")
	flag.Parse()
	if err := compare(flag.Args(), *seeds, *budget); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(paths []string, seeds, budget int) error {
	if len(paths) != 1 {
		return fmt.Errorf("compare: %d files (expected one file of tables)", len(paths))
	}
	found, err := read(paths[0])
	if err != nil {
		return err
	}
	all := []curves{}
	for i := range found.Cards {
		one, err := run(&found.Cards[i], seeds, budget)
		if err != nil {
			return err
		}
		all = append(all, *one)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

func run(t *table, seeds, budget int) (*curves, error) {
	out := &curves{Card: t.Name, Points: len(t.Rows), Whole: t.Whole, Least: 1, Curves: map[string][][]float64{}}
	for _, r := range t.Rows {
		out.Least = min(out.Least, costOf(t.judgeRow(r)))
	}
	for name, search := range policies {
		for seed := range seeds {
			costs, err := search(t, budget, int64(seed))
			if err != nil {
				return nil, fmt.Errorf("card `%s`, %s, seed %d: %w", t.Name, name, seed, err)
			}
			out.Curves[name] = append(out.Curves[name], soFar(costs, budget))
		}
	}
	return out, nil
}

// soFar is the least cost after each candidate, eager's 1 included. A space that ends before the budget stays where it is.
func soFar(costs []float64, budget int) []float64 {
	curve, best := make([]float64, budget), 1.0
	for i := range curve {
		if i < len(costs) {
			best = min(best, costs[i])
		}
		curve[i] = best
	}
	return curve
}

func (t *table) judgeRow(r row) card.Verdict { return card.Verdict{Status: r.Status, Cost: r.Cost} }

func costOf(v card.Verdict) float64 {
	if v.Status != card.OK {
		return math.Inf(1)
	}
	return v.Cost
}
