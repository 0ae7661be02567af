// Package search grows one tree of candidates for one card.
//
// It owns selection, widening, backup and stopping. It refuses clocks, files, networks and devices: costs arrive as numbers, chance as a
// seed, so a run can be replayed from its log.
//
//	score(c)    = L_c - C*sqrt(ln N_p / N_c)              lower wins; L is the least cost (candidate time / eager time) in c's subtree
//	children(x) <= max(1, floor(N_x^alpha(R)))            alpha falls 0.5 -> 0.3 over the first 1,000 visits R of the root
//
//	        root: eager, cost 1                           select   walk down by score to a node that may grow
//	       /     |      \                                 attach   add the child, whatever became of it
//	    0.70   0.90    failed (a leaf)                    backup   add a visit, and carry the least cost up
//	    /  \
//	 0.55  0.95
//
// A child that failed counts as a visit and not towards the limit, of which there are at most three times the limit. A proposal that has
// no result yet counts as a visit on its path (a virtual visit), so that proposals made side by side spread out; results enter in the order
// of the proposals, so timing cannot change the tree. Limits choose where to grow while there is a choice; they never end a run.
//
// No prior is in these scores: a node has a cost before it has children. What is expected of candidates orders those that a source proposes below one
// node (go/propose/template/prior.go), so a log explains its tree without it.
//
// Several sources may propose in one tree. Source 0 answers at once, and its results enter in order; the others may take minutes, and theirs
// enter when they come, so that nothing waits for them. The order of a log is then the order of the tree.
//
// Source: Kernel Forge, arXiv 2607.24762. The numbers in TestScore and TestWidening are the paper's.
package search

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Config holds the constants of the search. The zero value is not valid; use Default.
type Config struct {
	C      float64 // weight of exploration, in the unit of the cost
	AlphaA float64 // widening exponent at the first visit of the root
	AlphaZ float64 // widening exponent from visit Anneal on
	Anneal int     // visits of the root over which it falls
	Fails  int     // failing children allowed for each allowed child
}

// Default has the constants of the paper.
var Default = Config{C: 0.5, AlphaA: 0.5, AlphaZ: 0.3, Anneal: 1000, Fails: 3}

// Alpha is the widening exponent after `root` visits of the root.
func (c Config) Alpha(root int) float64 {
	progress := math.Min(float64(root), float64(c.Anneal)) / float64(c.Anneal)
	return c.AlphaA + (c.AlphaZ-c.AlphaA)*progress
}

// MaxChildren is the number of children that a node with `visits` may have after `root` visits of the root.
func (c Config) MaxChildren(visits, root int) int {
	power := math.Pow(float64(visits), c.Alpha(root))
	return max(1, int(math.Floor(power+1e-9))) // 1e-9: a whole power that arithmetic put just below itself
}

// Bonus is the part of the score that a rarely visited child gets: C*sqrt(ln N_p / N_c).
func (c Config) Bonus(parent, child int) float64 {
	return c.C * math.Sqrt(math.Log(float64(parent))/float64(child))
}

// NodeID is a node's number: 0 is the root, the others are numbered as they entered.
type NodeID int

// Root is eager; NoNode is the parent of the root.
const (
	Root   NodeID = 0
	NoNode NodeID = -1
)

// Node is one candidate in the tree.
type Node struct {
	Parent   NodeID
	Children []NodeID
	OK       bool    // has a cost and may have children
	Cost     float64 // its own; 0 unless OK
	Best     float64 // least cost in its subtree; +Inf if it failed
	BestNode NodeID  // the node with that cost
	Visits   int     // results that entered at or below it
	Virtual  int     // proposals without a result that passed it
	closed   uint64  // bit s: source s has nothing more to add below it
	pending  int     // proposals without a result whose parent it is
	failed   int     // children that failed
}

// Closed says whether a source has nothing more to add below the node.
func (n Node) Closed(source int) bool { return n.closed>>source&1 != 0 }

// MaxSources is how many sources may propose in one tree.
const MaxSources = 64

// Tree is one search. It is not safe for use by several goroutines at once.
type Tree struct {
	config  Config
	seed    int64
	nodes   []Node
	waiting []Selection // proposals without a result, oldest first
	next    int
}

// ErrWait means that nothing can be selected before a waiting proposal has its result.
var ErrWait = errors.New("search: every place to grow waits for a result")

// ErrExhausted means that the source has nothing more to add anywhere.
var ErrExhausted = errors.New("search: nothing left to propose")

// New makes a tree that holds the root: eager, cost `eager` (1 in any real search), visited once.
func New(config Config, seed int64, eager float64) *Tree {
	root := Node{Parent: NoNode, OK: true, Cost: eager, Best: eager, BestNode: Root, Visits: 1}
	return &Tree{config: config, seed: seed, nodes: []Node{root}, next: 1}
}

// Len is the number of nodes, the root included.
func (t *Tree) Len() int { return len(t.nodes) }

// Node gives a copy of a node.
func (t *Tree) Node(id NodeID) Node { return t.nodes[id] }

// Best is the least cost found and its node; the root's if eager stays ahead.
func (t *Tree) Best() (float64, NodeID) { return t.nodes[Root].Best, t.nodes[Root].BestNode }

// Waiting gives the proposals without a result, oldest first.
func (t *Tree) Waiting() []Selection { return append([]Selection(nil), t.waiting...) }

// Lineage gives the path from the root's child down to the node; empty for the root.
func (t *Tree) Lineage(id NodeID) []NodeID {
	if id == Root {
		return nil
	}
	return append(t.Lineage(t.nodes[id].Parent), id)
}

// Result is what the judge found. Only an OK result has a cost.
type Result struct {
	OK   bool
	Cost float64
}

// Attach adds the child that a selection asked for. Proposals of source 0 enter in their order, those of the others in any.
func (t *Tree) Attach(seq int, result Result) (NodeID, error) {
	selection, err := t.settle(seq)
	if err != nil {
		return NoNode, err
	}
	if result.OK && !(result.Cost > 0 && !math.IsInf(result.Cost, 0)) {
		return NoNode, fmt.Errorf("attach the child of proposal %d: its cost is %v (expected a number above 0)", seq, result.Cost)
	}
	id := NodeID(len(t.nodes))
	node := Node{Parent: selection.Parent, OK: result.OK, Best: math.Inf(1), BestNode: id}
	if result.OK {
		node.Cost, node.Best = result.Cost, result.Cost
	}
	t.nodes = append(t.nodes, node)
	parent := &t.nodes[selection.Parent]
	parent.Children = append(parent.Children, id)
	if !result.OK {
		parent.failed++
	}
	t.backup(id)
	return id, nil
}

// Drop ends a selection without a child. With `closed` its source has nothing more to add below that parent.
func (t *Tree) Drop(seq int, closed bool) error {
	selection, err := t.settle(seq)
	if err != nil {
		return err
	}
	if closed {
		t.nodes[selection.Parent].closed |= 1 << selection.Source
	}
	return nil
}

// settle takes a waiting selection back, with its virtual visits.
func (t *Tree) settle(seq int) (Selection, error) {
	at := slices.IndexFunc(t.waiting, func(s Selection) bool { return s.Seq == seq })
	if at < 0 {
		return Selection{}, fmt.Errorf("settle proposal %d: it does not wait for a result", seq)
	}
	selection := t.waiting[at]
	for _, before := range t.waiting[:at] {
		if before.Source == 0 && selection.Source == 0 {
			return Selection{}, fmt.Errorf("settle proposal %d: proposal %d has not entered yet (results enter in the order of the proposals)", seq, before.Seq)
		}
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	t.nodes[selection.Parent].pending--
	t.mark(selection.Parent, -1)
	return selection, nil
}

// backup adds one visit to the new node and all above it, and carries its cost up as far as it is the least.
func (t *Tree) backup(leaf NodeID) {
	for id := leaf; id != NoNode; id = t.nodes[id].Parent {
		node := &t.nodes[id]
		node.Visits++
		if t.nodes[leaf].Best < node.Best {
			node.Best, node.BestNode = t.nodes[leaf].Best, leaf
		}
	}
}

// mark adds virtual visits from a node up to the root.
func (t *Tree) mark(from NodeID, visits int) {
	for id := from; id != NoNode; id = t.nodes[id].Parent {
		t.nodes[id].Virtual += visits
	}
}
