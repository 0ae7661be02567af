package search

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden trees (make golden)")

// Whole trees, so that a change of any rule shows as a diff that a reviewer can read. Costs come from a written function of the proposal.
func TestGoldenTrees(t *testing.T) {
	for name, build := range map[string]func(*testing.T) *Tree{
		"one_at_a_time": func(t *testing.T) *Tree {
			tree := New(Default, 1, 1)
			grow(t, tree, 40, 1, table(tree, 0))
			return tree
		},
		"a_third_fails": func(t *testing.T) *Tree {
			tree := New(Default, 2, 1)
			grow(t, tree, 40, 1, table(tree, 0.33))
			return tree
		},
		"four_side_by_side": func(t *testing.T) *Tree {
			tree := New(Default, 3, 1)
			grow(t, tree, 40, 4, table(tree, 0.2))
			return tree
		},
		"narrow_proposer": func(t *testing.T) *Tree { // every node has two children and no more
			tree := New(Default, 4, 1)
			judge := table(tree, 0.1)
			for tree.Len() < 41 {
				selection, err := tree.Select(0)
				if err != nil {
					t.Fatal(err)
				}
				if len(tree.Node(selection.Parent).Children) == 2 {
					err = tree.Drop(selection.Seq, true)
				} else {
					_, err = tree.Attach(selection.Seq, judge(selection))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return tree
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := render(build(t))
			path := filepath.Join("testdata", name+".tree")
			if len(found) > 10_000 {
				t.Fatalf("the tree is %d bytes (expected at most 10,000: a reviewer must be able to read it)", len(found))
			}
			if *update {
				if err := os.WriteFile(path, []byte(found), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				t.Fatalf("no golden tree %s: run `make golden`", path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), found); diff != "" {
				t.Errorf("the tree changed (-golden +found); `make golden` rewrites it:\n%s", diff)
			}
		})
	}
}

// render draws a tree: number, cost or what became of it, best below, visits.
func render(tree *Tree) string {
	var text strings.Builder
	var draw func(NodeID, int)
	draw = func(id NodeID, depth int) {
		node := tree.Node(id)
		cost := "failed"
		if node.OK {
			cost = fmt.Sprintf("%.4f best %.4f", node.Cost, node.Best)
		}
		closed := ""
		if node.Closed(0) {
			closed = " closed"
		}
		fmt.Fprintf(&text, "%s%d: %s visits %d%s\n", strings.Repeat("  ", depth), id, cost, node.Visits, closed)
		for _, child := range node.Children {
			draw(child, depth+1)
		}
	}
	draw(Root, 0)
	return text.String()
}

// The tree finds a hidden good region: costs fall along one line of descent only.
func TestSearchFollowsTheLineThatPays(t *testing.T) {
	tree := New(Default, 5, 1)
	good := map[NodeID]bool{Root: true}
	for tree.Len() < 80 {
		selection, err := tree.Select(0)
		if err != nil {
			t.Fatal(err)
		}
		parent := tree.Node(selection.Parent)
		pays := good[selection.Parent] && len(parent.Children) == 0 // the first child of a good node is better, every other one worse
		cost := parent.Cost * 1.05
		if pays {
			cost = max(0.2, parent.Cost*0.9)
		}
		id, err := tree.Attach(selection.Seq, Result{OK: true, Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		good[id] = pays
	}
	if best, _ := tree.Best(); best > 0.36 { // ten steps down; a breadth-first walk of 80 nodes gets six or seven
		t.Errorf("best cost after 80 candidates is %.3f (expected at most 0.36)", best)
	}
}
