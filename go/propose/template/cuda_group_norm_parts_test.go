package template

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

func number64(t *testing.T, candidate card.Candidate, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(candidate.Spec.Constants[name], 10, 64)
	if err != nil {
		t.Fatalf("%s %v: constant %s: %v", candidate.Family, candidate.Params, name, err)
	}
	return n
}

// Every point of both families cuts each group into whole parts, and a channel into whole runs of steps, or a channel has whole parts: weight and bias are then
// two numbers of a run. Planes of part of a step are left to other families.
func TestPartsCutGroupsAndChannels(t *testing.T) {
	for _, test := range []struct {
		card            *card.Card
		threads, items  []int
		clusters        []int
		split, together bool
	}{
		{groups("bfloat16", 512, 128), []int{128, 256, 512}, []int{2, 4, 8}, []int{4, 8, 16}, true, true},
		{groups("float32", 512, 128), []int{128, 256, 512}, []int{2, 4, 8}, []int{8, 16}, true, true},
		{groups("bfloat16", 128, 1024), []int{128, 256, 512}, []int{8}, nil, true, false},
		{groups("float32", 128, 1024), nil, nil, nil, false, false},                     // 1,024 parts
		{groups("bfloat16", 320, 64), []int{128, 256, 512}, []int{2}, nil, true, false}, // groups of ten planes
		{groups("bfloat16", 96, 64), []int{128, 256}, []int{2}, nil, true, false},       // of three
		{groups("bfloat16", 512, 100), nil, nil, nil, false, false},                     // 10,000 elements of a plane
		{onCuda(groupsOf(64, 40)), nil, nil, nil, false, false},
	} {
		call := test.card.Variants[0].Call
		if split, together := (cudaGroupNormSplit{}).Applies(test.card), (cudaGroupNormCluster{}).Applies(test.card); split != test.split || together != test.together {
			t.Errorf("planes of %d: split applies: %v, cluster: %v (expected %v, %v)", areaOf(call), split, together, test.split, test.together)
			continue
		}
		threads, items := groupParts(test.card)
		if clusters := groupClusters(test.card); test.split && (!slices.Equal(threads.Values, test.threads) || !slices.Equal(items.Values, test.items) || !slices.Equal(clusters.Values, test.clusters)) {
			t.Errorf("planes of %d: threads %v, items %v, clusters %v (expected %v, %v, %v)", areaOf(call), threads.Values, items.Values, clusters.Values, test.threads, test.items, test.clusters)
		}
		for _, family := range []Family{cudaGroupNormSplit{}, cudaGroupNormCluster{}} {
			if !family.Applies(test.card) {
				continue
			}
			for _, point := range Points(family.Params(test.card, h200)) {
				candidate, err := Make(family, test.card, h200, point)
				if err != nil {
					t.Fatal(err)
				}
				step := number64(t, candidate, "THREADS") * number64(t, candidate, "VEC")
				run, part := step*number64(t, candidate, "RUN"), step*number64(t, candidate, "ITEMS")
				parts := normLength(call) / part
				if normLength(call)%part != 0 || areaOf(call)%run != 0 || parts > mostParts {
					t.Errorf("%s %v: parts of %d and runs of %d elements (groups of %d, planes of %d)", candidate.Family, point, part, run, normLength(call), areaOf(call))
				}
				if blocks := candidate.Spec.Kernels[0].Cluster; len(blocks) > 0 && blocks[0] != strconv.FormatInt(parts, 10) {
					t.Errorf("%v: a cluster of %s blocks for %d parts", point, blocks[0], parts)
				}
			}
		}
	}
}

// What a thread has of its part is on its way before anything waits, 16 bytes at a time, without spills. The default of the two kernels is the one that an author
// wrote by hand: 32 parts of 256 threads with four vectors each, in so few registers that all of them run at once.
func TestPartsAreAskedForAtOnce(t *testing.T) {
	pool := compiler(t, "sm_90a")
	c := groups("bfloat16", 512, 128)
	align(c, 16)
	ahead := regexp.MustCompile(`\bLDGSTS\.E\.BYPASS\.128\b`)
	for _, test := range []struct {
		family Family
		point  Point
		asks   *regexp.Regexp
	}{
		{cudaGroupNormSplit{}, Points((cudaGroupNormSplit{}).Params(c, h200))[0], loads},
		{cudaGroupNormSplit{}, Point{"THREADS": 256, "ITEMS": 8, "ONCE": 1}, loads},
		{cudaGroupNormCluster{}, Point{"CLUSTER": 8, "ONCE": 1}, ahead},
		{cudaGroupNormCluster{}, Point{"CLUSTER": 16, "ONCE": 1}, ahead},
	} {
		candidate, err := Make(test.family, c, h200, test.point)
		if err != nil {
			t.Fatal(err)
		}
		items := number64(t, candidate, "ITEMS")
		if test.point["ITEMS"] == 4 && number64(t, candidate, "THREADS")*items*8*32 != normLength(c.Variants[0].Call) {
			t.Errorf("%v: the default has not 32 parts", test.point)
		}
		text := assembly(t, pool, candidate)
		if local.MatchString(text) {
			t.Errorf("%s %v: uses local memory", candidate.Family, test.point)
		}
		for _, kernel := range strings.Split(text, "Function : ")[1:] {
			asked, _, _ := strings.Cut(kernel, "SHFL")
			if n := int64(len(test.asks.FindAllString(asked, -1))); n != items {
				t.Errorf("%s %v: %d loads of 16 bytes before the first shuffle (expected %d)\n%.40s", candidate.Family, test.point, n, items, kernel)
			}
			if n := int64(len(stores.FindAllString(kernel, -1))); strings.HasPrefix(kernel, "kf_main") && n != items {
				t.Errorf("%s %v: %d stores of 16 bytes (expected %d)", candidate.Family, test.point, n, items)
			}
		}
	}
}
