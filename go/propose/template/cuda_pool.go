package template

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Pools for cuda. Max pool, with indices or without: cudaMaxPoolRows is cuda/max_pool_rows.cu, cudaMaxPoolChannels cuda/max_pool_channels.cu; averages,
// adaptive too: cudaAvgPoolRows is cuda/avg_pool_rows.cu, cudaAvgPoolTeams cuda/avg_pool_teams.cu, cudaAvgPoolChannels
// cuda/avg_pool_channels.cu.
type (
	cudaMaxPoolRows     struct{}
	cudaMaxPoolChannels struct{}
	cudaAvgPoolRows     struct{}
	cudaAvgPoolTeams    struct{}
	cudaAvgPoolChannels struct{}
)

func (cudaMaxPoolRows) Name() string     { return "max_pool_rows" }
func (cudaMaxPoolChannels) Name() string { return "max_pool_channels" }
func (cudaAvgPoolRows) Name() string     { return "avg_pool_rows" }
func (cudaAvgPoolTeams) Name() string    { return "avg_pool_teams" }
func (cudaAvgPoolChannels) Name() string { return "avg_pool_channels" }

// channelsLast says what torch does of strides whose order could be either: whether eager takes its kernel for contiguous channels, which
// gives other indices where nothing is above -infinity. Source: is_channels_last_strides_2d of c10/core/MemoryFormat.h.
func channelsLast(sizes, strides []int64) bool {
	if len(sizes) != 4 || strides[1] == 0 {
		return false
	}
	least := int64(0)
	for _, d := range []int{1, 3, 2, 0} {
		if sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
			return false
		}
		least = strides[d] * max(1, sizes[d])
	}
	return true
}

func selfIsChannelsLast(call card.Call) bool {
	self := argument(call, "self")
	return channelsLast(self.Sizes, self.Strides)
}

func (cudaMaxPoolRows) Applies(c *card.Card) bool {
	return maxPoolApplies(c, rowsInside) && everyVariant(c, func(call card.Call) bool { return !selfIsChannelsLast(call) })
}

func (cudaMaxPoolChannels) Applies(c *card.Card) bool {
	return maxPoolApplies(c, channelsInside) && everyVariant(c, selfIsChannelsLast)
}

// fewElements bounds the elements that a thread of cuda/avg_pool_rows.cu keeps in registers, and the windows that it is for.
const fewElements, smallWindow = 64, 32

func (cudaAvgPoolRows) Applies(c *card.Card) bool {
	a, ok := averageOf(c)
	return ok && !a.adaptive && a.window.kernel[0]*a.window.kernel[1] <= smallWindow && avgPoolApplies(c, rowsInside)
}

func (cudaAvgPoolTeams) Applies(c *card.Card) bool {
	return avgPoolApplies(c, rowsInside) && !(cudaAvgPoolRows{}).Applies(c)
}

func (cudaAvgPoolChannels) Applies(c *card.Card) bool { return avgPoolApplies(c, channelsInside) }

var poolThreads = Param{"THREADS", []int{128, 256, 512}, 256}

func (cudaMaxPoolRows) Params(c *card.Card, _ propose.Facts) []Param {
	rows := Param{"ROWS", []int{1, 2, 4, 8}, 2}
	if w, ok := windowOf(c.Variants[0].Call); !ok || w.kernel[0]*w.kernel[1] > 64 {
		rows = Param{"ROWS", []int{1}, 1}
	}
	return []Param{poolThreads, rows}
}

// channelAccesses offers up to 16 bytes of channels, which divide them and every stride, and half of it, since an index is 8 bytes.
func channelAccesses(c *card.Card) Param {
	p := accesses(c, itemSizes[selfType(c)], 16, func(call card.Call) []int64 {
		self := argument(call, "self")
		numbers := []int64{sizes4(self.Sizes)[1]}
		for d, stride := range self.Strides {
			if d != len(self.Sizes)-3 && self.Sizes[d] > 1 {
				numbers = append(numbers, stride)
			}
		}
		return numbers
	})
	if low := p.Values[0] / 2; low > 0 {
		p.Values = append([]int{low}, p.Values...)
	}
	return p
}

func (cudaMaxPoolChannels) Params(c *card.Card, _ propose.Facts) []Param {
	vector := channelAccesses(c)
	if withIndices(c.Variants[0].Call) {
		vector.Default = max(vector.Values[0], min(vector.Default, 4))
	}
	return []Param{poolThreads, vector}
}

// widestWindow is the number of elements of the largest window.
func widestWindow(c *card.Card) int64 {
	a, _ := averageOf(c)
	if !a.adaptive {
		return a.window.kernel[0] * a.window.kernel[1]
	}
	return most(c, func(call card.Call) int64 {
		in, out := sizes4(argument(call, "self").Sizes), sizes4(call.Outputs[0].Sizes)
		return ((in[2] + out[2] - 1) / out[2]) * ((in[3] + out[3] - 1) / out[3])
	})
}

// windowTeams are the threads that may share a window: by default such that each adds up `enough` elements.
func windowTeams(c *card.Card, enough int64) Param {
	window := widestWindow(c)
	p := Param{"TEAM", []int{1}, 1}
	for team := 2; team <= 32 && int64(team) <= window; team *= 2 {
		p.Values = append(p.Values, team)
		if window > int64(team/2)*enough {
			p.Default = team
		}
	}
	return p
}

func (cudaAvgPoolRows) Params(c *card.Card, _ propose.Facts) []Param {
	a, _ := averageOf(c)
	rows := Param{"ROWS", []int{1}, 1}
	for r := 2; r <= 8; r *= 2 {
		if (int64(r-1)*a.window.stride[0]+a.window.kernel[0])*a.window.kernel[1] <= fewElements {
			rows.Values = append(rows.Values, r)
		}
	}
	rows.Default = min(4, rows.Values[len(rows.Values)-1])
	return []Param{poolThreads, rows}
}

func (cudaAvgPoolTeams) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{poolThreads, windowTeams(c, 16)}
}

func (cudaAvgPoolChannels) Params(c *card.Card, _ propose.Facts) []Param {
	return []Param{poolThreads, windowTeams(c, 32), channelAccesses(c)}
}

// planeSizes are the sizes of a pool over rows, with the strides of its input.
func planeSizes(s *signature, dim int) (outputs string, out [4]string) {
	in, strides := planes("self", dim)
	out, _ = planes("out0", dim)
	s.size("height", in[2])
	s.size("width", in[3])
	s.size("sample_stride", strides[0])
	s.size("channel_stride", strides[1])
	s.size("row_stride", strides[2])
	s.size("column_stride", strides[3])
	return fmt.Sprintf("%s * %s", out[0], out[1]), out
}

func (cudaMaxPoolRows) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := maxPoolPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	count := stripSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes), p["ROWS"])
	return pool(c, "max_pool_rows", p, s, constants, count, p["THREADS"]), nil
}

// stripSizes are the sizes of a pool whose threads have some rows of outputs; it returns the number of such strips.
func stripSizes(s *signature, dim, rows int) string {
	outputs, out := planeSizes(s, dim)
	blocks := fmt.Sprintf("ceildiv(%s, %d)", out[2], rows)
	count := fmt.Sprintf("(%s * %s * %s)", outputs, blocks, out[3])
	s.divider("width_out", out[3])
	s.size("height_out", out[2])
	s.divider("blocks", blocks)
	s.divider("channels", out[1])
	s.size("count", count)
	return count
}

func maxPoolPage(c *card.Card) (signature, map[string]string, error) {
	call := c.Variants[0].Call
	w, ok := windowOf(call)
	if !ok {
		return signature{}, nil, fmt.Errorf("overload `%s`: its window is not constant", c.Overload)
	}
	s := signatureOf(c)
	constants := map[string]string{"IN": ctypes[argument(call, "self").DType], "INDEX": s.index(), "INDICES": boolean(withIndices(call))}
	w.constants(constants)
	s.in("IN", "x", "self")
	s.out("IN", "out", "out0")
	if withIndices(call) {
		s.out("int64_t", "index", "out1")
	} else {
		s.null("int64_t", "index")
	}
	return s, constants, nil
}

// pool is the candidate of one kernel in which a block does `each` of `count` items.
func pool(c *card.Card, name string, p Point, s signature, constants map[string]string, count string, each int) card.Candidate {
	return card.Candidate{
		Source: cudaPage(name, map[string]string{"parameters": s.parameters()}),
		Spec:   deviceSpec(c, p, constants, []card.Kernel{launch("kf_main", fmt.Sprintf("ceildiv(%s, %d)", count, each), p["THREADS"], s)}),
	}
}

func (cudaMaxPoolChannels) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := maxPoolPage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	count := channelSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes), p["VEC"])
	return pool(c, "max_pool_channels", p, s, constants, count, p["THREADS"]), nil
}

// channelSizes are the sizes of a pool over channels; it returns the number of vectors of outputs.
func channelSizes(s *signature, dim, vector int) string {
	outputs, out := planeSizes(s, dim)
	s.divider("width_out", out[3])
	s.divider("height_out", out[2])
	s.divider("blocks", fmt.Sprintf("(%s / %d)", out[1], vector))
	count := fmt.Sprintf("(%s / %d * %s * %s)", outputs, vector, out[2], out[3])
	s.size("count", count)
	return count
}

// windowsFit says whether 31 bits hold what the borders of adaptive windows are found by: an output's number times the input's size.
func windowsFit(call card.Call) bool {
	in, out := sizes4(argument(call, "self").Sizes), sizes4(call.Outputs[0].Sizes)
	return in[2]*(out[2]+1)+out[2] < 1<<31 && in[3]*(out[3]+1)+out[3] < 1<<31
}

func averagePage(c *card.Card) (signature, map[string]string, error) {
	call, a, err := averageCall(c)
	if err != nil {
		return signature{}, nil, err
	}
	s, constants := signatureOf(c), a.constants(call)
	s.wide = s.wide || (a.adaptive && !everyVariant(c, windowsFit))
	constants["INDEX"] = s.index()
	s.in("IN", "x", "self")
	s.out("IN", "out", "out0")
	return s, constants, nil
}

func (cudaAvgPoolRows) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := averagePage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	count := stripSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes), p["ROWS"])
	return pool(c, "avg_pool_rows", p, s, constants, count, p["THREADS"]), nil
}

func (cudaAvgPoolTeams) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := averagePage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	outputs, out := planeSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes))
	count := fmt.Sprintf("(%s * %s * %s)", outputs, out[2], out[3])
	s.divider("width_out", out[3])
	s.divider("height_out", out[2])
	s.divider("channels", out[1])
	s.size("count", count)
	return pool(c, "avg_pool_teams", p, s, constants, count, p["THREADS"]/p["TEAM"]), nil
}

func (cudaAvgPoolChannels) Build(c *card.Card, _ propose.Facts, p Point) (card.Candidate, error) {
	s, constants, err := averagePage(c)
	if err != nil {
		return card.Candidate{}, err
	}
	count := channelSizes(&s, len(argument(c.Variants[0].Call, "self").Sizes), p["VEC"])
	return pool(c, "avg_pool_channels", p, s, constants, count, p["THREADS"]/p["TEAM"]), nil
}
