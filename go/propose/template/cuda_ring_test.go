package template

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// As many rows as a point says are in a block's shared memory, and the default has three where they fit: 8.4 MB among 132 multiprocessors of an H200, not 16.8.
// Of smaller rows there are several teams, which leave no multiprocessor without work.
func TestRingsHoldTheirRows(t *testing.T) {
	small := h200
	small.SMCount, small.SmemOptin = 40, 99<<10
	for _, test := range []struct {
		card                *card.Card
		device              propose.Facts
		depths, teams       []int
		depth, most, blocks int
	}{
		{groups("bfloat16", 128, 1024), h200, []int{2, 3}, []int{1}, 3, 1, 132},
		{groups("bfloat16", 256, 512), h200, []int{2, 3}, []int{1, 2, 3}, 3, 2, 66},
		{groups("float32", 128, 1024), h200, nil, nil, 0, 0, 0}, // 127 KB of a row each
		{groups("float32", 64, 1024), h200, []int{2, 3}, []int{1}, 3, 1, 132},
		{groups("bfloat16", 192, 1024), h200, []int{2}, []int{1}, 2, 1, 132},
		{groups("bfloat16", 128, 1024), small, nil, nil, 0, 0, 0},
	} {
		family, bytes := cudaNormRing{}, keptNorm(test.card).bytes(test.card)
		if family.Runs(test.card, test.device) != (test.depths != nil) {
			t.Errorf("rows of %d bytes: runs is %v", bytes, test.depths == nil)
			continue
		}
		if test.depths == nil {
			continue
		}
		params := family.Params(test.card, test.device)
		depth, teams := params[2], params[3]
		if !slices.Equal(depth.Values, test.depths) || depth.Default != test.depth || !slices.Equal(teams.Values, test.teams) || teams.Default != test.most {
			t.Errorf("rows of %d bytes: depths %v, %d, teams %v, %d (expected %v, %d, %v, %d)", bytes, depth.Values, depth.Default, teams.Values, teams.Default, test.depths, test.depth, test.teams, test.most)
		}
		for _, point := range Points(params) {
			candidate, err := Make(family, test.card, test.device, point)
			if err != nil {
				t.Fatal(err)
			}
			kernel := candidate.Spec.Kernels[0]
			if !kernel.Cooperative || !candidate.Spec.Workspaces[0].Zeroed || len(kernel.Grid[0]) > 1024 {
				t.Errorf("%v: cooperative %v, words zeroed %v, a grid of %d bytes", point, kernel.Cooperative, candidate.Spec.Workspaces[0].Zeroed, len(kernel.Grid[0]))
			}
			held := ringBytes(test.device, point["THREADS"], point["DEPTH"])
			if all := held * int64(point["DEPTH"]); all > test.device.SmemOptin-foldBytes {
				t.Errorf("%v: slots of %d bytes", point, all)
			}
		}
		if piece, held := pieceBytes(bytes, test.blocks), ringBytes(test.device, mostWorkers, test.depth); piece > held {
			t.Errorf("rows of %d bytes: a piece has %d bytes, a block keeps %d", bytes, piece, held)
		}
	}
}

// What comes in goes past the registers, 16 bytes at a time, and nothing that was kept is spilled; what a block tells is one word, without a fence.
func TestRingsCopyAhead(t *testing.T) {
	pool := compiler(t, "sm_90a")
	c := groups("bfloat16", 128, 1024)
	align(c, 16)
	for _, candidate := range spread(t, c, cudaNormRing{}, h200, true) {
		text := assembly(t, pool, candidate)
		if local.MatchString(text) || !strings.Contains(text, "LDGSTS.E.BYPASS.128") || loads.MatchString(text) || !stores.MatchString(text) || !strings.Contains(text, "LDS.128") {
			t.Errorf("%v: expected copies to shared memory, loads from there and stores of 16 bytes, and no local memory", candidate.Params)
		}
		if found := regexp.MustCompile(`MEMBAR|CCTL`).FindString(text); found != "" {
			t.Errorf("%v: has %s", candidate.Params, found)
		}
	}
}
