package search

// select.go owns the walk down to a place to grow, and the record of its terms.

import "fmt"

// Selection is a place to grow, with everything that led there, so that a log of it explains the tree.
type Selection struct {
	Seq       int    `json:"seq"`              // number of the proposal, from 1
	Source    int    `json:"source,omitempty"` // who proposes
	Parent    NodeID `json:"parent"`
	Seed      int64  `json:"seed"` // chance for this proposal
	RootVisit int    `json:"root_visits"`
	Lifted    bool   `json:"lifted"` // no node was below its limit, so limits did not count
	Forced    bool   `json:"forced"` // the parent was named from outside
	Path      []Step `json:"path"`   // the choices on the way down, one for each node passed
}

// Step is one choice on the way down: from Node to the child with the least score.
type Step struct {
	Node    NodeID   `json:"node"`
	Visits  int      `json:"visits"`
	Limit   int      `json:"limit"` // children allowed
	Chosen  NodeID   `json:"chosen"`
	Choices []Choice `json:"choices"`
}

// Choice holds the terms of one child's score = Cost - Bonus.
type Choice struct {
	Node   NodeID  `json:"node"`
	Visits int     `json:"visits"`
	Cost   float64 `json:"cost"` // least in its subtree
	Bonus  float64 `json:"bonus"`
	Score  float64 `json:"score"`
}

// Select walks down to a node that a source may add to and puts a virtual visit on the path. It returns ErrWait or ErrExhausted when there is
// none.
func (t *Tree) Select(source int) (Selection, error) {
	for _, lifted := range []bool{false, true} {
		open := t.open(source, lifted)
		if open[Root] {
			return t.descend(source, open, lifted), nil
		}
	}
	if len(t.waiting) > 0 {
		return Selection{}, ErrWait
	}
	return Selection{}, ErrExhausted
}

// SelectAt selects a named parent: a candidate that a person submitted, or a selection read back from a log.
func (t *Tree) SelectAt(source int, parent NodeID) (Selection, error) {
	if parent < 0 || int(parent) >= len(t.nodes) {
		return Selection{}, fmt.Errorf("select node %d: no such node (the tree has %d)", parent, len(t.nodes))
	}
	if !t.nodes[parent].OK {
		return Selection{}, fmt.Errorf("select node %d: it failed, so it has no children", parent)
	}
	return t.take(Selection{Source: source, Parent: parent, Forced: true, Path: []Step{}}), nil
}

// descend goes from the root to the first node that may grow, at each step to the open child with the least score (the older of equals).
func (t *Tree) descend(source int, open []bool, lifted bool) Selection {
	selection := Selection{Source: source, Lifted: lifted, Path: []Step{}}
	at := Root
	for !t.grows(source, at, lifted) {
		step := Step{Node: at, Visits: t.visits(at), Limit: t.limit(at), Chosen: NoNode}
		var least float64
		for _, child := range t.nodes[at].Children {
			if !open[child] {
				continue
			}
			choice := Choice{Node: child, Visits: t.visits(child), Cost: t.nodes[child].Best}
			choice.Bonus = t.config.Bonus(step.Visits, choice.Visits)
			choice.Score = choice.Cost - choice.Bonus
			step.Choices = append(step.Choices, choice)
			if step.Chosen == NoNode || choice.Score < least {
				step.Chosen, least = child, choice.Score
			}
		}
		selection.Path = append(selection.Path, step)
		at = step.Chosen
	}
	selection.Parent = at
	return t.take(selection)
}

func (t *Tree) take(selection Selection) Selection {
	selection.Seq = t.next
	selection.Seed = mix(t.seed, t.next)
	selection.RootVisit = t.visits(Root)
	t.next++
	t.waiting = append(t.waiting, selection)
	t.nodes[selection.Parent].pending++
	t.mark(selection.Parent, 1)
	return selection
}

// open says for each node whether a source may add to the tree at or below it. Children have higher numbers than their parents.
func (t *Tree) open(source int, lifted bool) []bool {
	open := make([]bool, len(t.nodes))
	for id := NodeID(len(t.nodes) - 1); id >= 0; id-- {
		if t.nodes[id].OK && t.grows(source, id, lifted) {
			open[id] = true
		}
		if open[id] && id != Root {
			open[t.nodes[id].Parent] = true
		}
	}
	return open
}

// grows says whether a source may add a child to this node.
func (t *Tree) grows(source int, id NodeID, lifted bool) bool {
	node := &t.nodes[id]
	if node.Closed(source) {
		return false
	}
	if lifted {
		return true
	}
	limit := t.limit(id)
	return len(node.Children)-node.failed+node.pending < limit && node.failed < t.config.Fails*limit
}

func (t *Tree) limit(id NodeID) int { return t.config.MaxChildren(t.visits(id), t.visits(Root)) }

func (t *Tree) visits(id NodeID) int { return t.nodes[id].Visits + t.nodes[id].Virtual }

// mix makes the seed of a proposal (splitmix64): neighbouring numbers give unrelated seeds, and the same pair the same seed.
func mix(seed int64, seq int) int64 {
	z := uint64(seed) + uint64(seq)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return int64((z ^ z>>31) >> 1) // not negative: readers in other languages take it as it is
}
