package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaNormTeam is cuda/norm_team.cu: rows that a team of multiprocessors keeps on the chip.
type cudaNormTeam struct{}

func (cudaNormTeam) Name() string { return "norm_team" }

// leastTeam is bytes of a row: what a cluster keeps needs no workspace, and is best left to it below this.
const leastTeam = 256 << 10

func (cudaNormTeam) Applies(c *card.Card) bool {
	k := keptNorm(c)
	return isNormOfRows(c) && isContiguous(c) && !k.odd(c) && k.bytes(c) >= leastTeam
}

// Runs says whether one team of all multiprocessors keeps the longest row.
func (t cudaNormTeam) Runs(c *card.Card, f propose.Facts) bool { return len(t.teams(c, f).Values) > 0 }

// teamKeep is the KiB of a block in registers: as much again is on its way to them while a team waits.
const teamKeep = 64

// teamSlots are the bytes of shared memory of a block that keep vectors.
func teamSlots(f propose.Facts, threads, unroll int) int64 {
	each := int64(threads * unroll * accessBytes)
	return roomOf(f) / each * each
}

// leastBytes is what a block keeps at the least of all points.
func leastBytes(f propose.Facts) int64 { return teamSlots(f, 512, 8) + teamKeep<<10 }

// teams are the most teams that a launch may have: one row each, and another when it is done. The default wastes least: a turn of all teams takes as
// long as one block's piece, and the last turn may have few rows.
func (cudaNormTeam) teams(c *card.Card, f propose.Facts) Param {
	if f.SMCount == 0 {
		f.SMCount = 132
	}
	p, best := Param{Name: "TEAMS"}, 0.0
	rows, row := most(c, normsOf), keptNorm(c).bytes(c)
	for n := int64(1); n <= min(rows, int64(f.SMCount)); n++ {
		blocks := int64(f.SMCount) / n
		if pieceBytes(row, int(blocks)) > leastBytes(f) {
			break
		}
		turns := (rows + n - 1) / n
		if n > 8 && turns == (rows+n-2)/(n-1) && n != rows {
			continue // as many turns as with fewer teams
		}
		p.Values = append(p.Values, int(n))
		if cost := float64(turns) / float64(blocks); p.Default == 0 || cost <= best {
			p.Default, best = int(n), cost
		}
	}
	return p
}

func (t cudaNormTeam) Params(c *card.Card, f propose.Facts) []Param {
	return []Param{{"THREADS", []int{256, 512}, 512}, {"UNROLL", []int{4, 8}, 4}, t.teams(c, f), {"ONCE", []int{0, 1}, 0}}
}

// Build has a spec whose launch is refused, not one that hangs, where the row does not fit a device: its grid is then larger than what a cooperative
// launch takes.
func (cudaNormTeam) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	k := keptNorm(c)
	n, err := normPageOf(c, k.whole(p))
	if err != nil {
		return card.Candidate{}, err
	}
	slots := teamSlots(f, p["THREADS"], p["UNROLL"])
	least := fmt.Sprintf("ceildiv(%s, %d)", n.length, (slots+teamKeep<<10)/int64(itemSizes[k.dtype]))
	teams := fmt.Sprintf("max(1, min(min(%d, %s), sm_count / %s))", p["TEAMS"], n.rows, least)
	pieces := fmt.Sprintf("max(%s, sm_count / %s)", least, teams)
	words := fmt.Sprintf("%s * %s", n.rows, pieces)
	n.s.size("rows", n.rows)
	n.s.size("pieces", pieces)
	n.s.out("Moments", "parts", "ws0")
	n.s.out("uint32_t", "words", "ws1")
	n.constants["ITEMS"], n.constants["ODD"] = strconv.Itoa(inRegisters(teamKeep, p["THREADS"])), "0"
	kernel := launch("kf_main", teams+" * "+pieces, p["THREADS"], n.s)
	kernel.Cooperative = true
	kernel.Smem = strconv.FormatInt(slots, 10)
	return card.Candidate{
		Source: cudaPage("norm_team", map[string]string{"parameters": n.s.parameters(), "channel": n.channel}),
		Spec: deviceSpec(c, k.whole(p), n.constants, []card.Kernel{kernel},
			card.Workspace{Bytes: fmt.Sprintf("%s * %d", words, momentBytes(n.constants, 3, k.dtype))}, card.Workspace{Bytes: words + " * 4", Zeroed: true}),
	}, nil
}
