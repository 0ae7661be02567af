package search

// stop.go owns the reasons to end a run, as small objects over numbers. It refuses to read a clock.

import "fmt"

// Progress is what a stop rule may look at. Times and costs are measured elsewhere and arrive as numbers.
type Progress struct {
	Candidates  int     // judged so far
	Seconds     float64 // spent so far
	NextSeconds float64 // what the next candidate is expected to take
	Best        float64 // least cost so far; 1 before the first
}

// Rule says in words why a run should stop before its next spend, or "" to go on.
type Rule interface {
	Stop(Progress) string
}

// Candidates is a budget in candidates.
type Candidates int

// Stop holds once that many candidates were judged.
func (n Candidates) Stop(p Progress) string {
	if p.Candidates >= int(n) {
		return fmt.Sprintf("budget: %d of %d candidates", p.Candidates, int(n))
	}
	return ""
}

// Seconds is a budget in seconds.
type Seconds float64

// Stop holds when the next candidate would go over the budget.
func (s Seconds) Stop(p Progress) string {
	if s <= 0 {
		return "budget: no seconds were left"
	}
	if p.Seconds+p.NextSeconds > float64(s) || p.Seconds >= float64(s) {
		return fmt.Sprintf("budget: %.1f of %.1f seconds, the next candidate takes about %.1f", p.Seconds, float64(s), p.NextSeconds)
	}
	return ""
}

// NearFloor is the least cost that memory traffic allows (roof time / eager time); 0 if it is not known.
type NearFloor float64

// nearEnough is how close to the floor a candidate must come to end a run.
const nearEnough = 1.04

// Stop holds when the best candidate is within 4 % of the floor.
func (f NearFloor) Stop(p Progress) string {
	if f > 0 && p.Best <= nearEnough*float64(f) {
		return fmt.Sprintf("the best cost %.4f is within %.2f x of the floor %.4f", p.Best, nearEnough, float64(f))
	}
	return ""
}

// LittleToGain ends a run whose card cannot make the model faster by Least any more: Share is its part of the model's time.
type LittleToGain struct {
	Share, Floor, Least float64
}

// Stop holds when even a candidate at the floor would gain less than Least of the model over the best so far.
func (g LittleToGain) Stop(p Progress) string {
	if left := g.Share * (p.Best - g.Floor); left < g.Least {
		return fmt.Sprintf("no candidate can gain more than %.2f %% of the model (expected %.2f %%)", 100*max(0, left), 100*g.Least)
	}
	return ""
}

// First gives the reason of the first rule that holds, or "".
func First(rules []Rule, p Progress) string {
	for _, rule := range rules {
		if why := rule.Stop(p); why != "" {
			return why
		}
	}
	return ""
}
