package judge

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
)

// deviceFile is a file of the corpus for devices, as far as the gates before a device matter.
type deviceFile struct {
	name, kind, gate string
	dies             []string
	candidate        card.Candidate
}

func deviceCorpus(t *testing.T) []deviceFile {
	t.Helper()
	paths, err := filepath.Glob("redteam/cuda/*/*.cu")
	if err != nil || len(paths) < 150 {
		t.Fatalf("found %d files, %v (expected the corpus)", len(paths), err)
	}
	var files []deviceFile
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := deviceFile{name: strings.TrimPrefix(path, "redteam/cuda/")}
		header, source := map[string]string{}, string(text)
		for header["spec"] == "" {
			line, rest, found := strings.Cut(source, "\n")
			name, value, field := strings.Cut(strings.TrimPrefix(line, "// "), ": ")
			if !found || !field {
				t.Fatalf("%s: found the line %q (expected a header that ends with its spec)", path, line)
			}
			header[name], source = value, rest
		}
		f.kind = header["kind"]
		f.gate, _, _ = strings.Cut(header["gate"], " ")
		f.dies = strings.Split(header["dies"], ", ")
		f.candidate = card.Candidate{Source: source}
		if err := card.Decode([]byte(header["spec"]), &f.candidate.Spec); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		files = append(files, f)
	}
	return files
}

// before are the gates before a device. Files that are meant for later ones only have to come through here: one in `sampled` of these is tried, and
// all of them with KF_REDTEAM=all, since NVRTC takes a quarter of a second for each.
var before = []string{"policy", "compile", "image"}

const sampled = 4

// atLoad are kinds that the image check finds where an image is loaded (csrc), which is after the gates of this test.
var atLoad = []string{"wrong_entry", "extra_entry", "state_in_constants", "huge_local_array"}

// compilesAlone is a judge that has compilers for an H100 and no device: the gates before one are all that it can ask. It is over with the test.
func compilesAlone(t *testing.T) *Judge {
	t.Helper()
	nvrtc := os.Getenv("KF_NVRTC")
	if nvrtc == "" {
		t.Skip("KF_NVRTC is not set (expected the path of libnvrtc.so; torch's CUDA wheels carry one)")
	}
	program, err := builtWorker()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := cuda.NewPool(t.Context(), cuda.Config{Program: program, NVRTC: nvrtc, Arch: "sm_90a", Scratch: t.TempDir(), Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &Judge{target: &onDevice{Pool: pool}}
}

// What policy, compiler and image check are meant to kill dies there, and of nothing but what its file says; everything else comes through.
func TestTheCorpusForDevicesMeetsTheGatesBeforeADevice(t *testing.T) {
	j := compilesAlone(t)

	files := make(chan deviceFile)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for f := range files {
				status, detail := beforeADevice(t, j, f.candidate)
				if why := f.unlike(status, detail); why != "" {
					t.Errorf("%s: %s, %q (expected %s)", f.name, status, detail, why)
				}
			}
		})
	}
	all := os.Getenv("KF_REDTEAM") == "all"
	for i, f := range deviceCorpus(t) {
		switch {
		case f.kind == "macro_bomb": // its end is the pool's wall limit, a minute away; go/cuda tests that
		case all || i%sampled == 0 || slices.Contains(before, f.gate):
			files <- f
		}
	}
	close(files)
	workers.Wait()
}

// beforeADevice is how the first gates end a candidate; OK where they let it through.
func beforeADevice(t *testing.T, j *Judge, candidate card.Candidate) (card.Status, string) {
	_, err := j.build(t.Context(), candidate)
	var failed *failure
	switch {
	case errors.As(err, &failed):
		return failed.status, failed.detail
	case err != nil:
		t.Error(err)
	}
	return card.OK, ""
}

// unlike says what the file wants instead of this end, or nothing.
func (f deviceFile) unlike(status card.Status, detail string) string {
	listed := slices.Contains(f.dies, string(status))
	switch {
	case f.gate == "policy" && (status != card.Rejected || !strings.HasPrefix(detail, "policy: ")):
		return "a refusal of the policy"
	case f.gate == "compile" && !listed:
		return "an end before the device"
	case f.gate == "image" && status == card.OK && !slices.Contains(atLoad, f.kind), f.gate == "image" && status != card.OK && !listed:
		return "a refusal of the image"
	case !slices.Contains(before, f.gate) && status != card.OK && !listed:
		return "an image"
	}
	return ""
}
