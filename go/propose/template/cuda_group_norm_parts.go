package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Group norms of contiguous tensors whose blocks have a part of a group on the chip (cuda/parts.cuh): cudaGroupNormSplit is cuda/group_norm_split.cu,
// cudaGroupNormCluster cuda/group_norm_cluster.cu.
type (
	cudaGroupNormSplit   struct{}
	cudaGroupNormCluster struct{}
)

func (cudaGroupNormSplit) Name() string   { return "group_norm_split" }
func (cudaGroupNormCluster) Name() string { return "group_norm_cluster" }

// mostParts of a group: each lane of a warp joins 16 of them.
const mostParts = 512

// groupParts are the threads of a block, of which a plane has whole steps, and the vectors that each has of a part. Every pair of them cuts all groups of
// the card into whole parts.
func groupParts(c *card.Card) (threads, items Param) {
	vector := int64(accessBytes / itemSizes[inputType(c)])
	steps := func(n int) bool {
		return everyVariant(c, func(call card.Call) bool { return areaOf(call)%(int64(n)*vector) == 0 })
	}
	for most := 512; most >= 128 && len(items.Values) == 0; most /= 2 {
		threads, items = Param{Name: "THREADS"}, Param{Name: "ITEMS"}
		for n := 128; n <= most && steps(n); n *= 2 {
			threads.Values, threads.Default = append(threads.Values, n), min(n, 256)
		}
		if !steps(most) {
			continue
		}
		for n := 2; n <= 8; n *= 2 {
			if everyVariant(c, func(call card.Call) bool {
				length, least := normLength(call), 128*vector*int64(n)
				return length%(int64(most*n)*vector) == 0 && length/least <= mostParts
			}) {
				items.Values = append(items.Values, n)
				if n <= 4 || items.Default == 0 {
					items.Default = n
				}
			}
		}
	}
	return threads, items
}

// isGroupNormOfPlanes says whether the groups of a card are long rows.
func isGroupNormOfPlanes(c *card.Card) bool {
	return (groupNormPlanes{}).Applies(c) && isNormOfRows(c) && isContiguous(c) && everyVariant(c, func(call card.Call) bool { return normLength(call) >= 8192 })
}

// partPage has the constants of parts of so many vectors a thread. What is in registers of them takes half of a multiprocessor's.
func partPage(c *card.Card, p Point, threads, items int) (normPage, error) {
	k := keptNorm(c)
	n, err := normPageOf(c, k.whole(p))
	if err != nil {
		return n, err
	}
	n.s.divider("group", "group")
	n.channel = "  INDEX batch = row;\n  const int first = int(kf_divider<INDEX>{group, group_magic}.split(batch)) * int(channels);\n  const kf_divider<INDEX> area = {plane, plane_magic};\n"
	run, step := items, int64(threads*k.vector())
	for !everyVariant(c, func(call card.Call) bool { return areaOf(call)%(int64(run)*step) == 0 }) {
		run /= 2
	}
	blocks := min(2048, 8192/items) / threads
	if k.dtype == "float64" {
		blocks = max(1, blocks/2)
	}
	n.constants["ITEMS"], n.constants["RUN"], n.constants["BLOCKS"] = strconv.Itoa(items), strconv.Itoa(run), strconv.Itoa(blocks)
	return n, nil
}

func (cudaGroupNormSplit) Applies(c *card.Card) bool {
	if !isGroupNormOfPlanes(c) {
		return false
	}
	_, items := groupParts(c)
	return len(items.Values) > 0
}

func (cudaGroupNormSplit) Params(c *card.Card, _ propose.Facts) []Param {
	threads, items := groupParts(c)
	return []Param{threads, items, {"ONCE", []int{0, 1}, 1}}
}

func (cudaGroupNormSplit) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	n, err := partPage(c, p, p["THREADS"], p["ITEMS"])
	if err != nil {
		return card.Candidate{}, err
	}
	gather := signatureOf(c)
	gather.in("IN", "x", "input")
	gather.out("Moments", "parts", "ws0")
	n.s.in("Moments", "parts", "ws0")
	k := keptNorm(c)
	pieces := fmt.Sprintf("(%s / %d)", n.length, p["THREADS"]*p["ITEMS"]*k.vector())
	n.s.divider("pieces", pieces)
	blocks := n.rows + " * " + pieces
	return card.Candidate{
		Source: cudaPage("group_norm_split", map[string]string{"parameters": n.s.parameters(), "gather": gather.parameters(), "channel": n.channel}),
		Spec: deviceSpec(c, k.whole(p), n.constants, []card.Kernel{
			launch("kf_gather", blocks, p["THREADS"], gather), launch("kf_main", blocks, p["THREADS"], n.s),
		}, card.Workspace{Bytes: fmt.Sprintf("%s * %d", blocks, momentBytes(n.constants, 2, k.dtype))}),
	}, nil
}

// clusterItems are the vectors of a thread: 128 KB of 1,024 threads of a multiprocessor, so that its blocks hold more than its share of the 16.8 MB that 132 of
// an H200 do at once.
const clusterItems = 8

// groupClusters are the blocks that have a group, all groups being as long; the default is the most that every device has.
func groupClusters(c *card.Card) Param {
	p, length := Param{Name: "CLUSTER"}, normLength(c.Variants[0].Call)
	for n := 2; n <= 16; n *= 2 {
		threads := clusterThreads(c, n)
		step := threads * int64(accessBytes/itemSizes[inputType(c)])
		if slices.Contains([]int64{128, 256, 512, 1024}, threads) && everyVariant(c, func(call card.Call) bool {
			return normLength(call) == length && length == step*clusterItems*int64(n) && areaOf(call)%step == 0
		}) {
			p.Values = append(p.Values, n)
			if n <= 8 || p.Default == 0 {
				p.Default = n
			}
		}
	}
	return p
}

// clusterThreads are those of each of so many blocks of a group.
func clusterThreads(c *card.Card, blocks int) int64 {
	return normLength(c.Variants[0].Call) / (clusterItems * int64(blocks*accessBytes/itemSizes[inputType(c)]))
}

func (cudaGroupNormCluster) Applies(c *card.Card) bool {
	return isGroupNormOfPlanes(c) && len(groupClusters(c).Values) > 0
}

func (cudaGroupNormCluster) Runs(_ *card.Card, f propose.Facts) bool { return hasClusters(f) }

func (cudaGroupNormCluster) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{groupClusters(c), {"ONCE", []int{0, 1}, 1}}
}

func (cudaGroupNormCluster) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	threads := int(clusterThreads(c, p["CLUSTER"]))
	n, err := partPage(c, p, threads, clusterItems)
	if err != nil {
		return card.Candidate{}, err
	}
	n.constants["THREADS"] = strconv.Itoa(threads)
	kernel := launch("kf_main", fmt.Sprintf("%s * %d", n.rows, p["CLUSTER"]), threads, n.s)
	kernel.Smem = strconv.Itoa(threads * clusterItems * accessBytes)
	kernel.Cluster = []string{strconv.Itoa(p["CLUSTER"]), "1", "1"}
	return card.Candidate{
		Source: cudaPage("group_norm_cluster", map[string]string{"parameters": n.s.parameters(), "channel": n.channel}),
		Spec:   deviceSpec(c, keptNorm(c).whole(p), n.constants, []card.Kernel{kernel}),
	}, nil
}
