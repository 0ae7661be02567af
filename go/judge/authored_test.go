package judge

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// The kernels that a coding agent wrote for a device (bench/authored) come through policy, compiler and image check: what bench/author.py tells on a
// GPU fails there by what it computes, or not at all.
func TestAuthoredKernelsComeThroughTheGatesBeforeADevice(t *testing.T) {
	j := compilesAlone(t)
	paths, err := filepath.Glob("../../bench/authored/cuda/*/*.cu")
	if err != nil || len(paths) < 30 {
		t.Fatalf("found %d kernels, %v (expected 30 or more)", len(paths), err)
	}
	waiting := make(chan string)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for path := range waiting {
				if status, detail := beforeADevice(t, j, authored(t, path)); status != card.OK {
					t.Errorf("%s: %s, %q (expected an image)", path, status, detail)
				}
			}
		})
	}
	for _, path := range paths {
		waiting <- path
	}
	close(waiting)
	workers.Wait()
}

// authored reads a kernel and the launch spec beside it.
func authored(t *testing.T, path string) card.Candidate {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	spec, err := os.ReadFile(strings.TrimSuffix(path, ".cu") + ".json")
	if err != nil {
		t.Error(err)
	}
	candidate := card.Candidate{Source: string(source)}
	if err := card.Decode(spec, &candidate.Spec); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return candidate
}
