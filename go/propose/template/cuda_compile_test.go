package template

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/cuda"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// The test program is its own compile server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "compile-cuda" {
		if err := cuda.Serve(os.Args); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// architectures are those that every family compiles for.
var architectures = []string{"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"}

// compiler is NVRTC for an architecture; `make test` names that of torch's environment.
func compiler(t *testing.T, arch string) *cuda.Pool {
	t.Helper()
	path := os.Getenv("KF_NVRTC")
	if path == "" {
		t.Skip("KF_NVRTC is not set (expected the path of libnvrtc.so; torch's CUDA wheels carry one)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := cuda.NewPool(t.Context(), cuda.Config{Program: self, NVRTC: path, Arch: arch, Scratch: t.TempDir(), Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// compiled is a candidate's image.
func compiled(t *testing.T, pool *cuda.Pool, candidate card.Candidate) []byte {
	var options []string
	for _, name := range slices.Sorted(maps.Keys(candidate.Spec.Constants)) {
		options = append(options, "-D"+name+"="+candidate.Spec.Constants[name])
	}
	built, err := pool.Compile(t.Context(), candidate.Source, options)
	if err != nil || built.Image == nil || built.Refused != "" {
		t.Errorf("%s %v: %v %s%s", candidate.Family, candidate.Params, err, built.Failure, built.Refused)
	}
	return built.Image
}

// spread are a family's default, and with `ends` all parameters at their least and at their most, and each one at the end that is farther.
func spread(t *testing.T, c *card.Card, family Family, device propose.Facts, ends bool) []card.Candidate {
	params := family.Params(c, device)
	points := Points(params)[:1]
	if ends {
		least, most := Point{}, Point{}
		for _, param := range params {
			last := len(param.Values) - 1
			least[param.Name], most[param.Name] = param.Values[0], param.Values[last]
			far := most[param.Name]
			if slices.Index(param.Values, param.Default) > last/2 {
				far = least[param.Name]
			}
			if far != param.Default && !inSpec[param.Name] {
				point := maps.Clone(points[0])
				point[param.Name] = far
				points = append(points, point)
			}
		}
		points = append(points, least, most)
	}
	var list []card.Candidate
	for _, point := range points {
		candidate, err := Make(family, c, device, point)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, candidate)
	}
	return list
}

func TestEveryFamilyCompilesForEveryArchitecture(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			pool := compiler(t, arch)
			var jobs []card.Candidate
			for _, c := range allCudaCards() {
				if len(jobs)%2 == 1 { // with and without code for odd addresses
					align(c, 16)
				}
				device := h200
				device.Arch = arch
				for _, family := range Runnable(c, device) {
					jobs = append(jobs, spread(t, c, family, device, arch == "sm_90a")...)
				}
			}
			queue := make(chan card.Candidate)
			var wait sync.WaitGroup
			for range 2 {
				wait.Go(func() {
					for candidate := range queue {
						compiled(t, pool, candidate)
					}
				})
			}
			for _, job := range jobs {
				queue <- job
			}
			close(queue)
			wait.Wait()
			t.Logf("%d candidates", len(jobs))
		})
	}
}

// No test has a tensor of 2^31 elements; the same pages with 64-bit indices are compiled in its place.
func TestFamiliesCompileWithWideIndices(t *testing.T) {
	pool := compiler(t, "sm_90a")
	count := 0
	for _, c := range allCudaCards() {
		for _, family := range Applicable(c) {
			candidate := spread(t, c, family, h200, false)[0]
			if candidate.Spec.Constants["INDEX"] != "int32_t" {
				continue // its indices are wide where they must be
			}
			candidate.Spec.Constants["INDEX"] = "int64_t"
			candidate.Source = strings.ReplaceAll(candidate.Source, "    int32_t ", "    int64_t ")
			compiled(t, pool, candidate)
			count++
		}
	}
	if count < 30 {
		t.Errorf("%d candidates (expected every family's)", count)
	}
}

// assembly is what cuobjdump (of the triton wheel, or of a toolkit) says of a candidate for an H200.
func assembly(t *testing.T, pool *cuda.Pool, candidate card.Candidate) string {
	tool := os.Getenv("KF_CUOBJDUMP")
	if tool == "" {
		t.Skip("KF_CUOBJDUMP is not set (expected the path of cuobjdump; the triton wheel carries one)")
	}
	image := compiled(t, pool, candidate)
	file := filepath.Join(t.TempDir(), "kernel.cubin")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(tool, "-sass", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%s -sass: %v: %s", tool, err, text)
	}
	return string(text)
}

var (
	loads  = regexp.MustCompile(`\bLDG\.E(\.EF)?\.128\b`)
	stores = regexp.MustCompile(`\bSTG\.E(\.EF)?\.128\b`)
	local  = regexp.MustCompile(`\b(LDL|STL)\b`)
)

// The fast path moves 16 bytes at a time, has every load of a tile in flight before its first store, and keeps everything in registers.
func TestContiguousElementsMoveAsVectors(t *testing.T) {
	pool := compiler(t, "sm_90a")
	for _, name := range []string{"add", "relu", "silu", "copy with a conversion", "add of a channel's bias", "cat of channels", "sum of everything"} {
		c := cudaCards[name].card
		for _, unroll := range []int{1, 4} {
			family := Applicable(c)[0]
			point := maps.Clone(Points(family.Params(c, h200))[0])
			point["UNROLL"] = unroll
			candidate, err := Make(family, c, h200, point)
			if err != nil {
				t.Fatal(err)
			}
			text := assembly(t, pool, candidate)
			if local.MatchString(text) {
				t.Errorf("%s, UNROLL %d: uses local memory", name, unroll)
			}
			flying, most := 0, 0
			for _, line := range strings.Split(text, "\n") {
				switch {
				case loads.MatchString(line):
					flying++
					most = max(most, flying)
				case stores.MatchString(line), strings.Contains(line, "EXIT"):
					flying = 0
				}
			}
			if most < unroll {
				t.Errorf("%s, UNROLL %d: %s", name, unroll, fmt.Sprintf("%d 16-byte loads before a store (expected %d or more)", most, unroll))
			}
		}
	}
}

// What every author is shown as a right candidate is one for every architecture.
func TestTheExampleOfABriefCompiles(t *testing.T) {
	shown := brief.Of(propose.Brief{Card: &card.Card{Target: "cuda"}, Facts: h200}, nil).Launch.Example
	for _, arch := range architectures {
		compiled(t, compiler(t, arch), card.Candidate{Family: "example for " + arch, Source: shown.Source, Spec: shown.Spec})
	}
}
