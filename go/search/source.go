package search

// source.go owns who proposes next where several sources compete for one card. It refuses to read a clock or to count money: both arrive as numbers.

import "math"

// Sources knows what each source's candidates brought and took:
//
//	rate(s)  = (G + g_1 d^(n-1) + ... + g_n) / (T + t_1 d^(n-1) + ... + t_n)    g: ln(best before / best after), 0 or more; t: seconds and price
//	score(s) = rate(s) * (1 + C*sqrt(ln(1+N) / (1+n)))                           highest proposes; the first of equals
//
// n counts the candidates of s that were judged or are on their way, N those of all. What lies back fades by d with each candidate, since a source
// that brought much and brings nothing now has nothing more to bring. t is what the search spent on it, not how long a call took: the seconds in
// which it judged the candidate or waited for it alone, and its price at PerUSD.
type Sources struct {
	rates   RateConfig
	tallies []tally
}

// RateConfig holds the constants of the choice. Use DefaultRates.
type RateConfig struct {
	C      float64 // weight of the bonus for a source that was asked seldom
	Gain   float64 // G: what the first candidate is expected to gain
	Takes  float64 // T: what it is expected to take, seconds
	Fade   float64 // d
	PerUSD float64 // seconds that a dollar is worth
}

// DefaultRates: a first candidate that gains 10 % in two seconds; a dollar is worth 1,000 s of a device that is rented for 3.60 USD an hour.
var DefaultRates = RateConfig{C: 0.5, Gain: 0.1, Takes: 2, Fade: 0.8, PerUSD: 1000}

type tally struct {
	gain, takes float64 // faded
	judged, out int     // candidates
}

// NewSources makes the choice.
func NewSources(config RateConfig) *Sources { return &Sources{rates: config} }

// Add makes room for one more source, and gives its number.
func (s *Sources) Add() int {
	s.tallies = append(s.tallies, tally{})
	return len(s.tallies) - 1
}

// Begin notes that a source was asked.
func (s *Sources) Begin(source int) { s.tallies[source].out++ }

// Drop notes that nothing came of it.
func (s *Sources) Drop(source int) { s.tallies[source].out-- }

// Spend adds what was spent on a source.
func (s *Sources) Spend(source int, seconds, usd float64) {
	s.tallies[source].takes += seconds + usd*s.rates.PerUSD
}

// Judged notes a verdict: the best cost of the card before it and after it.
func (s *Sources) Judged(source int, before, after float64) {
	t := &s.tallies[source]
	t.out--
	t.judged++
	t.takes *= s.rates.Fade // its own seconds are spent after this
	t.gain = t.gain*s.rates.Fade + math.Max(0, math.Log(before/after))
}

// Score is what a source promises.
func (s *Sources) Score(source int) float64 {
	all := 0
	for _, t := range s.tallies {
		all += t.judged + t.out
	}
	t := s.tallies[source]
	rate := (s.rates.Gain + t.gain) / (s.rates.Takes + t.takes)
	return rate * (1 + s.rates.C*math.Sqrt(math.Log(1+float64(all))/float64(1+t.judged+t.out)))
}

// Best is the source with the highest score among those that may propose; -1 if none may.
func (s *Sources) Best(may func(source int) bool) int {
	best := -1
	for source := range s.tallies {
		if may(source) && (best < 0 || s.Score(source) > s.Score(best)) {
			best = source
		}
	}
	return best
}
