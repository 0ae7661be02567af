package template

// price_bytes.go owns how many bytes a kernel moves, as far as its arguments say.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// tensor finds what a slot holds: sizes, strides and the size of an element. false: it is a workspace, or not of this call.
func (c *pricing) tensor(slot string) (sizes, strides []int64, item int, ok bool) {
	if number, found := strings.CutPrefix(slot, "out"); found {
		if k, err := strconv.Atoi(number); err == nil && k < len(c.call.Outputs) {
			out := c.call.Outputs[k]
			return out.Sizes, out.Strides, itemSizes[out.DType], true
		}
	}
	for _, arg := range c.call.Args {
		if arg.Kind == "tensor" && arg.Name == slot {
			return arg.Sizes, arg.Strides, itemSizes[arg.DType], true
		}
		for k, one := range arg.Items {
			if slot == fmt.Sprintf("%s_%d", arg.Name, k) {
				return one.Sizes, one.Strides, itemSizes[one.DType], true
			}
		}
	}
	return nil, nil, 0, false
}

// item is the size of an element of the first tensor: what vectors are of.
func (c *pricing) item() int {
	for _, arg := range c.call.Args {
		if arg.Kind == "tensor" {
			return itemSizes[arg.DType]
		}
		if len(arg.Items) > 0 {
			return itemSizes[arg.Items[0].DType]
		}
	}
	return 4
}

// most is the number of elements of the largest tensor that a kernel names.
func (c *pricing) most(kernel card.Kernel) float64 {
	most := int64(0)
	for _, arg := range kernel.Args {
		if sizes, _, _, ok := c.tensor(arg.Slot); ok {
			most = max(most, numelOf(sizes))
		}
	}
	return float64(most)
}

// held are the elements of a tensor that exist: a dim of stride 0 repeats them.
func held(sizes, strides []int64) int64 {
	n := int64(1)
	for d, size := range sizes {
		if strides[d] != 0 {
			n *= size
		}
	}
	return n
}

// bytes is what a kernel moves that does a part of the call, in bytes of memory: those from the L2 count as fewer. readers has the entry that named each
// slot first, and is added to.
func (c *pricing) bytes(at priced, l launched, part float64, readers map[string]string) (float64, bool) {
	total, strided := 0.0, c.strided(at)
	for _, arg := range l.kernel.Args {
		if arg.Slot == "" {
			continue
		}
		var bytes float64
		if sizes, strides, item, ok := c.tensor(arg.Slot); ok {
			bytes = float64(held(sizes, strides)*int64(item)) * part
			bytes *= waste(at, item, strided[arg.Slot])
		} else if number, found := strings.CutPrefix(arg.Slot, "ws"); found {
			k, err := strconv.Atoi(number)
			if err != nil || k >= len(at.spec.Workspaces) {
				return 0, false
			}
			n, ok := c.value(at.spec.Workspaces[k].Bytes)
			if !ok {
				return 0, false
			}
			bytes = float64(n) * part
		} else {
			return 0, false
		}
		again := 1.0
		if c.stays(bytes) {
			again = 1 / cacheRate
		}
		if first, seen := readers[arg.Slot]; !seen {
			readers[arg.Slot] = l.kernel.Entry
		} else if first != l.kernel.Entry {
			bytes *= again
		}
		if at.spec.Constants["HOLD"] == "0" && !strings.HasPrefix(arg.Slot, "out") {
			bytes *= 1 + 2*again // nobody keeps the rows: a page reads for the maximum, for the sum and for the result
		}
		total += bytes
	}
	return total, true
}

// stays says whether so many bytes are in the L2 when the next kernel asks for them.
func (c *pricing) stays(bytes float64) bool { return bytes <= cachePart*float64(c.facts.L2Bytes) }

// waste is what comes over what is wanted: of columns that a block reads side by side too few of, or of single elements that lie apart.
func waste(at priced, item int, strided bool) float64 {
	if strided {
		return sector / float64(item)
	}
	run := 0
	for _, name := range []string{"ACROSS", "COLS"} {
		run = max(run, at.point[name]*max(1, at.point["VEC"])*item)
	}
	if run == 0 {
		return 1
	}
	return max(1, line/float64(run))
}

// strided are the inputs of an elementwise page whose neighbours in the output's order do not lie side by side.
func (c *pricing) strided(at priced) map[string]bool {
	list := map[string]bool{}
	units, err := strconv.Atoi(at.spec.Constants["UNIT"])
	if err != nil {
		return list
	}
	k := 0
	for _, arg := range at.spec.Kernels[0].Args {
		if arg.Slot == "" {
			continue
		}
		sizes, strides, _, ok := c.tensor(arg.Slot)
		list[arg.Slot] = ok && units>>k&1 == 0 && held(sizes, strides) == numelOf(sizes) && len(sizes) > 0 && numelOf(sizes) == c.numel()
		k++
	}
	return list
}

// numel is the number of elements of the first output.
func (c *pricing) numel() int64 { return numelOf(c.call.Outputs[0].Sizes) }
