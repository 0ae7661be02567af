package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Rows that stay on the chip between their only read and their write (cuda/kept.cuh): in the registers and the shared memory of a block, or of the
// blocks of a cluster. cudaSoftmaxCluster is cuda/softmax_cluster.cu, cudaNormCluster cuda/norm_cluster.cu.
type (
	cudaSoftmaxCluster struct{}
	cudaNormCluster    struct{}
)

func (cudaSoftmaxCluster) Name() string { return "softmax_cluster" }
func (cudaNormCluster) Name() string    { return "norm_cluster" }

const (
	accessBytes = 16       // of a vector
	leastKept   = 32 << 10 // bytes of a row: shorter ones are for the families whose rows are registers
	foldBytes   = 2 << 10  // shared memory that such a page has beside its slots: for folds
)

// keptRows is what a page of kept rows needs to know of a card.
type keptRows struct {
	length func(card.Call) int64
	dtype  string
}

func (k keptRows) vector() int { return accessBytes / itemSizes[k.dtype] }

func (k keptRows) bytes(c *card.Card) int64 { return most(c, k.length) * int64(itemSizes[k.dtype]) }

// odd says whether rows of some variant are not whole vectors.
func (k keptRows) odd(c *card.Card) bool {
	return !everyVariant(c, func(call card.Call) bool { return k.length(call)%int64(k.vector()) == 0 })
}

// pieceBytes is the most that one of so many blocks keeps of a row: whole lines of 128 bytes.
func pieceBytes(row int64, blocks int) int64 {
	const line = 128
	return ((row+int64(blocks)-1)/int64(blocks) + line - 1) / line * line
}

// roomOf is the shared memory of a block that slots may take.
func roomOf(f propose.Facts) int64 {
	if f.SmemOptin == 0 {
		f.SmemOptin = 227 << 10
	}
	return f.SmemOptin - foldBytes
}

// hasClusters says whether a device has thread block clusters. Where nothing is known of it: yes.
func hasClusters(f propose.Facts) bool {
	number := strings.TrimFunc(f.Arch, func(r rune) bool { return r < '0' || r > '9' })
	version, err := strconv.Atoi(number)
	return err != nil || version >= 90
}

// clusters are the numbers of blocks that can keep a row, at every other parameter's value: the default is the least that leaves room for a
// second block, or the least at all.
func (k keptRows) clusters(c *card.Card, f propose.Facts) Param {
	p := Param{Name: "CLUSTER"}
	for _, blocks := range []int{1, 2, 4, 8, 16} {
		piece := pieceBytes(k.bytes(c), blocks)
		if piece > roomOf(f)+leastKept || (blocks > 1 && (!hasClusters(f) || piece < leastKept/4)) {
			continue
		}
		p.Values = append(p.Values, blocks)
		if p.Default == 0 && piece <= 160<<10 {
			p.Default = blocks
		}
	}
	if p.Default == 0 && len(p.Values) > 0 {
		p.Default = p.Values[0]
	}
	return p
}

// params of a page of kept rows. KEEP is the KiB of a block in registers: by default so many that shared memory gets no more than as much.
func (k keptRows) params(c *card.Card, f propose.Facts) []Param {
	cluster := k.clusters(c, f)
	keep := Param{"KEEP", []int{32, 64, 128}, 32}
	for _, kib := range keep.Values {
		if piece := pieceBytes(k.bytes(c), max(cluster.Default, 1)); int64(keep.Default)<<10 < piece/2 {
			keep.Default = kib
		}
	}
	return []Param{{"THREADS", []int{256, 512}, 512}, cluster, keep, {"UNROLL", []int{4, 8}, 8}, {"ONCE", []int{0, 1}, 0}}
}

// runs says whether a row fits any cluster of a device.
func (k keptRows) runs(c *card.Card, f propose.Facts) bool { return len(k.clusters(c, f).Values) > 0 }

// whole is a point with the vector's elements, which such a page does not choose.
func (k keptRows) whole(p Point) Point {
	q := maps.Clone(p)
	q["VEC"] = k.vector()
	return q
}

// inRegisters is the number of vectors that each thread keeps in registers.
func inRegisters(kib, threads int) int { return kib << 10 / accessBytes / threads }

// slotBytes is the shared memory of a block: for what of its piece is not in registers.
func (k keptRows) slotBytes(c *card.Card, p Point) int64 {
	each := int64(p["THREADS"] * accessBytes)
	return each * max(0, (pieceBytes(k.bytes(c), p["CLUSTER"])+each-1)/each-int64(inRegisters(p["KEEP"], p["THREADS"])))
}

// candidate is a kernel whose clusters keep a row each; its page has the constants and the signature.
func (k keptRows) candidate(c *card.Card, p Point, page, rows string, constants map[string]string, s signature, parts map[string]string) card.Candidate {
	blocks, items := p["CLUSTER"], inRegisters(p["KEEP"], p["THREADS"])
	constants["ITEMS"], constants["ODD"] = strconv.Itoa(items), boolean(k.odd(c))
	kernel := launch("kf_main", fmt.Sprintf("%s * %d", rows, blocks), p["THREADS"], s)
	kernel.Smem = strconv.FormatInt(k.slotBytes(c, p), 10)
	if blocks > 1 {
		kernel.Cluster = []string{strconv.Itoa(blocks), "1", "1"}
	}
	parts["parameters"] = s.parameters()
	return card.Candidate{Source: cudaPage(page, parts), Spec: deviceSpec(c, k.whole(p), constants, []card.Kernel{kernel})}
}

func softmaxLength(call card.Call) int64 {
	dim, _ := softmaxDim(call)
	return argument(call, "self").Sizes[dim]
}

func keptSoftmax(c *card.Card) keptRows { return keptRows{softmaxLength, selfType(c)} }
func keptNorm(c *card.Card) keptRows    { return keptRows{normLength, inputType(c)} }

func (cudaSoftmaxCluster) Applies(c *card.Card) bool {
	return softmaxApplies(c, true) && longest(c) < 1<<30 && keptSoftmax(c).bytes(c) >= leastKept
}

func (cudaSoftmaxCluster) Runs(c *card.Card, f propose.Facts) bool { return keptSoftmax(c).runs(c, f) }

// Params have, by default, two blocks on a multiprocessor where a call has more blocks than there are multiprocessors: one reads or writes while the other
// waits for its cluster.
func (cudaSoftmaxCluster) Params(c *card.Card, f propose.Facts) []Param {
	k := keptSoftmax(c)
	params := k.params(c, f)
	point := Points(params)[0]
	point["KEEP"], point["UNROLL"] = 32, min(8, pairedElements/k.vector())
	rows := most(c, func(call card.Call) int64 { return numel(argument(call, "self")) / softmaxLength(call) })
	for _, blocks := range params[slices.IndexFunc(params, named("CLUSTER"))].Values {
		point["CLUSTER"] = blocks
		if rows*int64(blocks) <= int64(f.SMCount) || !k.paired(c, f, point) {
			continue
		}
		for i, param := range params {
			params[i].Default = point[param.Name]
		}
		break
	}
	return params
}

func named(name string) func(Param) bool { return func(p Param) bool { return p.Name == name } }

// pairedElements are the elements that a thread of two blocks may have on their way to its slots: more and its 64 registers do not hold them.
const pairedElements = 32

// paired says whether two blocks fit a multiprocessor, by shared memory and by registers.
func (k keptRows) paired(c *card.Card, f propose.Facts, p Point) bool {
	return p["KEEP"] == 32 && p["UNROLL"]*k.vector() <= pairedElements && k.slotBytes(c, p) <= (roomOf(f)-foldBytes)/2
}

func (cudaSoftmaxCluster) Build(c *card.Card, f propose.Facts, p Point) (card.Candidate, error) {
	constants, s, dim, err := softmaxPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	k := keptSoftmax(c)
	constants["BLOCKS"] = "1"
	if k.paired(c, f, p) {
		constants["BLOCKS"] = "2"
	}
	return k.candidate(c, p, "softmax_cluster", "("+product("self", 0, dim)+")", constants, s, map[string]string{}), nil
}

func (cudaNormCluster) Applies(c *card.Card) bool {
	return isNormOfRows(c) && keptNorm(c).bytes(c) >= leastKept && isContiguous(c)
}

func (cudaNormCluster) Runs(c *card.Card, f propose.Facts) bool { return keptNorm(c).runs(c, f) }

func (cudaNormCluster) Params(c *card.Card, f propose.Facts) []Param { return keptNorm(c).params(c, f) }

func (cudaNormCluster) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	k := keptNorm(c)
	n, err := normPageOf(c, k.whole(p))
	if err != nil {
		return card.Candidate{}, err
	}
	return k.candidate(c, p, "norm_cluster", n.rows, n.constants, n.s, map[string]string{"channel": n.channel}), nil
}

// isContiguous says whether the data of a norm is, in every variant.
func isContiguous(c *card.Card) bool {
	return everyVariant(c, func(call card.Call) bool { return contiguous(argument(call, "input")) })
}
