package search

import (
	"errors"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The paper's numbers: floor(100^0.5) = 10 early, floor(100^0.3) = 3 late, alpha half way down at 500.
func TestWidening(t *testing.T) {
	for _, test := range []struct{ visits, root, want int }{
		{100, 0, 10}, {100, 1000, 3}, {100, 5000, 3}, {1, 1, 1}, {1, 1000, 1}, {3, 0, 1}, {4, 0, 2}, {10000, 0, 100}, {0, 0, 1},
	} {
		if got := Default.MaxChildren(test.visits, test.root); got != test.want {
			t.Errorf("max_children(%d, R=%d) = %d (expected %d)", test.visits, test.root, got, test.want)
		}
	}
	for root, want := range map[int]float64{0: 0.5, 500: 0.4, 1000: 0.3, 2000: 0.3} {
		if got := Default.Alpha(root); math.Abs(got-want) > 1e-12 {
			t.Errorf("alpha(%d) = %v (expected %v)", root, got, want)
		}
	}
}

func TestScore(t *testing.T) {
	if got := Default.Bonus(400, 1); math.Abs(got-1.22387) > 5e-6 {
		t.Errorf("bonus(400, 1) = %.6f (expected 1.22387)", got)
	}
	if got := Default.Bonus(1, 1); got != 0 {
		t.Errorf("bonus(1, 1) = %v (expected 0)", got)
	}
}

// grow adds `count` results with `width` proposals side by side, from a judge that is a plain function.
func grow(t testing.TB, tree *Tree, count, width int, judge func(Selection) Result) {
	t.Helper()
	for added := 0; added < count; {
		for len(tree.waiting) < width {
			_, err := tree.Select(0)
			if errors.Is(err, ErrWait) || errors.Is(err, ErrExhausted) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(tree.waiting) == 0 {
			return
		}
		oldest := tree.waiting[0]
		if _, err := tree.Attach(oldest.Seq, judge(oldest)); err != nil {
			t.Fatal(err)
		}
		added++
	}
	for _, left := range tree.Waiting() {
		if err := tree.Drop(left.Seq, false); err != nil {
			t.Fatal(err)
		}
	}
}

// table is a judge whose costs are a fixed function of the proposal: a child is near its parent, and some fail.
func table(tree *Tree, failing float64) func(Selection) Result {
	return func(s Selection) Result {
		draw := float64(uint64(mix(99, s.Seq))%10000) / 10000
		if draw < failing {
			return Result{}
		}
		parent := tree.Node(s.Parent).Cost
		return Result{OK: true, Cost: parent * (0.7 + 0.8*float64(uint64(mix(7, s.Seq))%1000)/1000)}
	}
}

func shape(tree *Tree) []NodeID {
	parents := make([]NodeID, tree.Len())
	for i := range parents {
		parents[i] = tree.Node(NodeID(i)).Parent
	}
	return parents
}

// The seeds' trap was an exploration weight in one unit and times in another. Costs and C scaled together give the same tree.
func TestTreeDoesNotDependOnTheUnit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Int64Range(0, 1<<40).Draw(rt, "seed")
		failing := rapid.Float64Range(0, 0.6).Draw(rt, "failing")
		width := rapid.IntRange(1, 5).Draw(rt, "width")
		const scale = 1024 // a power of two: the arithmetic itself stays exact
		plain, scaled := New(Default, seed, 1), New(Config{Default.C * scale, 0.5, 0.3, 1000, 3}, seed, scale)
		grow(t, plain, 60, width, table(plain, failing))
		grow(t, scaled, 60, width, table(scaled, failing))
		if a, b := shape(plain), shape(scaled); len(a) != len(b) {
			rt.Fatalf("%d and %d nodes", len(a), len(b))
		} else {
			for i := range a {
				if a[i] != b[i] {
					rt.Fatalf("node %d has parent %d, scaled %d", i, a[i], b[i])
				}
			}
		}
	})
}

func TestTreeScaledByThousand(t *testing.T) {
	plain, scaled := New(Default, 1, 1), New(Config{500, 0.5, 0.3, 1000, 3}, 1, 1000)
	grow(t, plain, 200, 1, table(plain, 0.2))
	grow(t, scaled, 200, 1, table(scaled, 0.2))
	a, b := shape(plain), shape(scaled)
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("node %d has parent %d, with all costs and C x1000 %d", i, a[i], b[i])
		}
	}
}

func TestFailingChildrenAreVisitsButNotChildren(t *testing.T) {
	tree := New(Default, 1, 1)
	fail := func(Selection) Result { return Result{} }
	grow(t, tree, 9, 1, fail)
	root := tree.Node(Root)
	if root.Visits != 10 || len(root.Children) != 9 || root.failed != 9 {
		t.Fatalf("after 9 failures the root is %+v", root)
	}
	// 10 visits allow 3 children, so 9 failures are the most; the next selection still works, with the limits lifted
	selection, err := tree.Select(0)
	if err != nil || !selection.Lifted || selection.Parent != Root {
		t.Errorf("found %+v, %v (expected the root, lifted)", selection, err)
	}
}

func TestFailingNodeIsALeaf(t *testing.T) {
	tree := New(Default, 1, 1)
	grow(t, tree, 40, 1, table(tree, 0.5))
	for id := NodeID(1); int(id) < tree.Len(); id++ {
		node := tree.Node(id)
		if !node.OK && (len(node.Children) > 0 || !math.IsInf(node.Best, 1) || node.Visits != 1) {
			t.Errorf("node %d failed and is %+v", id, node)
		}
	}
}

func TestBestOfSubtreeGoesUp(t *testing.T) {
	tree := New(Default, 1, 1)
	add := func(parent NodeID, cost float64) NodeID {
		selection, err := tree.SelectAt(0, parent)
		if err != nil {
			t.Fatal(err)
		}
		id, err := tree.Attach(selection.Seq, Result{OK: true, Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	slow := add(Root, 1.5)
	mid := add(slow, 0.9)
	fast := add(mid, 0.3)
	worse := add(mid, 0.8)
	for id, want := range map[NodeID]float64{Root: 0.3, slow: 0.3, mid: 0.3, fast: 0.3, worse: 0.8} {
		if got := tree.Node(id).Best; got != want {
			t.Errorf("best below node %d is %v (expected %v)", id, got, want)
		}
	}
	if cost, node := tree.Best(); cost != 0.3 || node != fast {
		t.Errorf("best is %v at %d", cost, node)
	}
	if lineage := tree.Lineage(fast); len(lineage) != 3 || lineage[0] != slow || lineage[2] != fast {
		t.Errorf("lineage of node %d is %v", fast, lineage)
	}
	if got := tree.Node(slow).Cost; got != 1.5 {
		t.Errorf("a slower node lost its own cost: %v", got)
	}
}

func TestResultsEnterInTheOrderOfTheProposals(t *testing.T) {
	tree := New(Default, 1, 1)
	first, _ := tree.Select(0)
	second, _ := tree.Select(0)
	if _, err := tree.Attach(second.Seq, Result{}); err == nil || !strings.Contains(err.Error(), "has not entered yet") {
		t.Fatalf("the second result entered first: %v", err)
	}
	for _, s := range []Selection{first, second} {
		if _, err := tree.Attach(s.Seq, Result{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVirtualVisitsSpreadProposals(t *testing.T) {
	tree := New(Default, 1, 1)
	var children []NodeID
	for _, cost := range []float64{0.6, 0.62} {
		selection, err := tree.SelectAt(0, Root)
		if err != nil {
			t.Fatal(err)
		}
		id, err := tree.Attach(selection.Seq, Result{OK: true, Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, id)
	}
	first, _ := tree.Select(0)
	second, _ := tree.Select(0)
	if first.Parent != children[0] || second.Parent != children[1] {
		t.Errorf("two proposals side by side went to %d and %d (expected %v)", first.Parent, second.Parent, children)
	}
}

func TestClosedTreeIsExhausted(t *testing.T) {
	tree := New(Default, 1, 1)
	selection, err := tree.Select(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Attach(selection.Seq, Result{OK: true, Cost: 0.5}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the child, then the root, have nothing more
		selection, err := tree.Select(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Select(0); err != nil && !errors.Is(err, ErrWait) {
			t.Fatal(err)
		}
		for _, waiting := range tree.Waiting() {
			if err := tree.Drop(waiting.Seq, waiting.Seq == selection.Seq); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := tree.Select(0); !errors.Is(err, ErrExhausted) {
		t.Errorf("found %v (expected ErrExhausted)", err)
	}
}

// Whatever is done to a tree, its counts and costs agree with each other.
func TestTreeInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := New(Default, rapid.Int64().Draw(rt, "seed"), 1)
		attached := 0
		rt.Repeat(map[string]func(*rapid.T){
			"select": func(rt *rapid.T) {
				if len(tree.waiting) > 6 {
					rt.Skip()
				}
				selection, err := tree.Select(0)
				if errors.Is(err, ErrExhausted) || errors.Is(err, ErrWait) {
					return
				}
				if err != nil || !tree.nodes[selection.Parent].OK || tree.nodes[selection.Parent].Closed(0) {
					rt.Fatalf("selected %+v, %v", selection, err)
				}
			},
			"attach": func(rt *rapid.T) {
				if len(tree.waiting) == 0 {
					rt.Skip()
				}
				result := Result{OK: rapid.Bool().Draw(rt, "ok")}
				if result.OK {
					result.Cost = rapid.Float64Range(0.01, 3).Draw(rt, "cost")
				}
				if _, err := tree.Attach(tree.waiting[0].Seq, result); err != nil {
					rt.Fatal(err)
				}
				attached++
			},
			"drop": func(rt *rapid.T) {
				if len(tree.waiting) == 0 {
					rt.Skip()
				}
				if err := tree.Drop(tree.waiting[0].Seq, rapid.Bool().Draw(rt, "closed")); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) { checkTree(rt, tree, attached) },
		})
	})
}

func checkTree(t *rapid.T, tree *Tree, attached int) {
	if tree.nodes[Root].Visits != attached+1 || tree.Len() != attached+1 || tree.nodes[Root].Virtual != len(tree.waiting) {
		t.Fatalf("%d results, %d waiting, root %+v", attached, len(tree.waiting), tree.nodes[Root])
	}
	for id, node := range tree.nodes {
		visits, best, failed := 1, math.Inf(1), 0
		if node.OK {
			best = node.Cost
		}
		for _, child := range node.Children {
			visits += tree.nodes[child].Visits
			best = min(best, tree.nodes[child].Best)
			if !tree.nodes[child].OK {
				failed++
			}
			if tree.nodes[child].Parent != NodeID(id) {
				t.Fatalf("child %d of node %d has parent %d", child, id, tree.nodes[child].Parent)
			}
		}
		if node.Visits != visits || node.Best != best || node.failed != failed || node.Virtual < node.pending {
			t.Fatalf("node %d is %+v (expected %d visits, best %v, %d failed)", id, node, visits, best, failed)
		}
		if !math.IsInf(best, 1) && tree.nodes[node.BestNode].Cost != best {
			t.Fatalf("the best node of %d is %d with cost %v (expected %v)", id, node.BestNode, tree.nodes[node.BestNode].Cost, best)
		}
	}
}

func TestStopRules(t *testing.T) {
	at := Progress{Candidates: 10, Seconds: 50, NextSeconds: 2, Best: 0.5}
	for name, test := range map[string]struct {
		rule Rule
		want bool
	}{
		"candidates left":          {Candidates(11), false},
		"candidates spent":         {Candidates(10), true},
		"seconds left":             {Seconds(52), false},
		"next goes over":           {Seconds(51.9), true},
		"no seconds at all":        {Seconds(0), true},
		"floor unknown":            {NearFloor(0), false},
		"floor near":               {NearFloor(0.4808), true},
		"floor far":                {NearFloor(0.4807), false},
		"a tenth of the model":     {LittleToGain{Share: 0.1, Floor: 0.41, Least: 0.01}, true},
		"more than a tenth":        {LittleToGain{Share: 0.1, Floor: 0.39, Least: 0.01}, false},
		"a share of nearly all":    {LittleToGain{Share: 0.9, Floor: 0.45, Least: 0.01}, false},
		"at the floor, least is 0": {LittleToGain{Share: 0.9, Floor: 0.5, Least: 0}, false},
	} {
		if why := First([]Rule{test.rule}, at); (why != "") != test.want {
			t.Errorf("%s: stopped because %q", name, why)
		}
	}
}

// A run that begins after the study's seconds were spent has no numbers worth telling: 0.0 of 0.0.
func TestStopSaysThatNoSecondsWereLeft(t *testing.T) {
	if why, want := Seconds(0).Stop(Progress{}), "budget: no seconds were left"; why != want {
		t.Errorf("stopped because %q (expected %q)", why, want)
	}
}

// Pure: a run can be replayed from its log because nothing here can ask the world anything.
func TestSearchImportsNothingOfTheWorld(t *testing.T) {
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	pure := []string{"errors", "fmt", "math", "slices", "sort", "cmp"}
	for _, imported := range list("-f", `{{join .Imports "\n"}}`, ".") {
		if !slices.Contains(pure, imported) && !strings.HasPrefix(imported, "gonum.org/") {
			t.Errorf("search imports %s (expected %v and gonum)", imported, pure)
		}
	}
	for _, dep := range list("-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".") {
		if !strings.HasSuffix(dep, "/go/search") && !strings.HasPrefix(dep, "gonum.org/") {
			t.Errorf("search depends on %s", dep)
		}
	}
}
