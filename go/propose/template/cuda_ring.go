package template

import (
	"fmt"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// cudaNormRing is cuda/norm_ring.cu: rows of which a team of multiprocessors has several in shared memory, one being written while others come in.
type cudaNormRing struct{}

func (cudaNormRing) Name() string { return "norm_ring" }

func (cudaNormRing) Applies(c *card.Card) bool {
	return (cudaNormTeam{}).Applies(c) && accumulator(inputType(c)) == "float"
}

// Runs says whether two rows fit.
func (r cudaNormRing) Runs(c *card.Card, f propose.Facts) bool { return len(r.params(c, f)) > 0 }

// ringItems are the vectors of a row that a thread has where so many rows are on the chip; ringBytes are a block's of them.
func ringItems(f propose.Facts, threads, depth int) int {
	return int(roomOf(f)) / accessBytes / threads / depth
}

func ringBytes(f propose.Facts, threads, depth int) int64 {
	return int64(ringItems(f, threads, depth) * threads * accessBytes)
}

const (
	leastDepth  = 2
	mostDepth   = 3
	mostWorkers = 512
)

// params are none where two rows do not fit. Three rows are better than two, of which one has nowhere to come in while the other waits to be written; with as
// many rows on the chip the teams are best that leave the fewest multiprocessors without work, and the largest pieces, which make the fewest turns.
func (cudaNormRing) params(c *card.Card, f propose.Facts) []Param {
	if f.SMCount == 0 {
		f.SMCount = 132
	}
	depth, teams := Param{Name: "DEPTH"}, Param{Name: "TEAMS"}
	rows, row := most(c, normsOf), keptNorm(c).bytes(c)
	for d := mostDepth; d >= leastDepth; d-- {
		best := 0.0
		for n := int64(1); n <= min(rows, 8, int64(f.SMCount)); n++ {
			blocks := int64(f.SMCount) / n
			if pieceBytes(row, int(blocks)) > ringBytes(f, mostWorkers, d) {
				break
			}
			if cost := float64((rows+n-1)/n) / float64(blocks); depth.Default == 0 || (depth.Default == d && cost <= best) {
				depth.Default, teams.Default, best = d, int(n), cost
			}
			if int(n) > len(teams.Values) {
				teams.Values = append(teams.Values, int(n))
			}
		}
	}
	if depth.Default == 0 {
		return nil
	}
	for d := leastDepth; d <= max(depth.Default, leastDepth); d++ {
		depth.Values = append(depth.Values, d)
	}
	return []Param{{"THREADS", []int{256, mostWorkers}, mostWorkers}, {"UNROLL", []int{1, 2, 4}, 4}, depth, teams, {"ONCE", []int{0, 1}, 0}}
}

func (r cudaNormRing) Params(c *card.Card, f propose.Facts) []Param { return r.params(c, f) }

// Build has a spec whose launch is refused, not one that hangs, where rows do not fit a device, as norm_team's.
func (cudaNormRing) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	k := keptNorm(c)
	n, err := normPageOf(c, k.whole(p))
	if err != nil {
		return card.Candidate{}, err
	}
	bytes := ringBytes(f, p["THREADS"], p["DEPTH"])
	least := fmt.Sprintf("ceildiv(%s, %d)", n.length, bytes/int64(itemSizes[k.dtype]))
	teams := fmt.Sprintf("max(1, min(min(%d, %s), sm_count / %s))", p["TEAMS"], n.rows, least)
	pieces := fmt.Sprintf("max(%s, sm_count / %s)", least, teams)
	n.s.size("rows", n.rows)
	n.s.size("pieces", pieces)
	n.s.out("uint64_t", "words", "ws0")
	group := groupNorms[c.Variants[0].Call.Overload]
	n.constants["CHANNELS"] = "1"
	if group {
		n.constants["CHANNELS"] = "channels"
	}
	n.constants["TWO"] = boolean(group && everyVariant(c, func(call card.Call) bool {
		area := areaOf(call)
		return area%int64(k.vector()) == 0 && area >= bytes/int64(itemSizes[k.dtype])
	}))
	n.constants["ITEMS"], n.constants["ODD"] = strconv.Itoa(ringItems(f, p["THREADS"], p["DEPTH"])), "0"
	kernel := launch("kf_main", teams+" * "+pieces, p["THREADS"]+32, n.s)
	kernel.Cooperative = true
	kernel.Smem = strconv.FormatInt(bytes*int64(p["DEPTH"]), 10)
	return card.Candidate{
		Source: cudaPage("norm_ring", map[string]string{"parameters": n.s.parameters(), "channel": n.channel}),
		Spec:   deviceSpec(c, k.whole(p), n.constants, []card.Kernel{kernel}, card.Workspace{Bytes: fmt.Sprintf("%s * %s * 8", n.rows, pieces), Zeroed: true}),
	}, nil
}
