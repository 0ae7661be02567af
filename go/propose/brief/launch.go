package brief

// launch.go owns how a candidate has to look: what the compiler takes, the names of expressions, a worked example, and what the judge checks.

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// Launch is the form of a candidate.
type Launch struct {
	Source  []string `json:"source"`  // rules of the source, one sentence each
	Spec    []string `json:"spec"`    // rules of the launch spec
	Slots   []string `json:"slots"`   // of this card, in order; workspaces ws0, ws1, ... follow
	Names   []Name   `json:"names"`   // that expressions may use, with their values in the first variant
	Example Example  `json:"example"` // of another operator: a relu of contiguous float32
}

// Name is a name of expressions.
type Name struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Example is a candidate that the judge takes.
type Example struct {
	Words  string    `json:"words"`
	Source string    `json:"source"`
	Spec   card.Spec `json:"spec"`
}

func launchOf(c *card.Card, facts propose.Facts) Launch {
	launch := Launch{Source: hostSource, Spec: append(append([]string{}, specRules...), hostSpec...), Example: hostExample}
	if c.Target == "cuda" {
		launch.Source, launch.Spec, launch.Example = cudaSource, append(append([]string{}, specRules...), cudaSpec...), cudaExample
	}
	if len(c.Variants) > 0 {
		call := c.Variants[0].Call
		launch.Slots = Slots(call)
		for i := range call.Outputs {
			launch.Slots = append(launch.Slots, outName(i))
		}
		launch.Names = namesOf(call)
	}
	for _, fact := range targetOf(c.Target, facts).Facts {
		if value, ok := fact.Value.(int64); ok && fact.Expression {
			launch.Names = append(launch.Names, Name{fact.Name, value})
		}
	}
	return launch
}

func outName(i int) string { return "out" + strconv.Itoa(i) }

// Slots names the input slots of a call, in order.
func Slots(call card.Call) []string {
	slots := []string{}
	for _, arg := range call.Args {
		switch arg.Kind {
		case "tensor":
			slots = append(slots, arg.Name)
		case "tensors":
			for k := range arg.Items {
				slots = append(slots, fmt.Sprintf("%s_%d", arg.Name, k))
			}
		}
	}
	return slots
}

// namesOf lists the names of docs/formats.md, `spec`, with the values of this call.
func namesOf(call card.Call) []Name {
	names := []Name{}
	add := func(name string, value int64) { names = append(names, Name{name, value}) }
	tensor := func(prefix string, sizes, strides []int64) {
		numel := int64(1)
		for i, size := range sizes {
			numel *= size
			add(fmt.Sprintf("%s_size%d", prefix, i), size)
		}
		for i, stride := range strides {
			add(fmt.Sprintf("%s_stride%d", prefix, i), stride)
		}
		add(prefix+"_numel", numel)
		add(prefix+"_dim", int64(len(sizes)))
	}
	for _, arg := range call.Args {
		switch arg.Kind {
		case "tensor":
			tensor(arg.Name, arg.Sizes, arg.Strides)
		case "tensors":
			for k, item := range arg.Items {
				tensor(fmt.Sprintf("%s_%d", arg.Name, k), item.Sizes, item.Strides)
			}
			add(arg.Name+"_count", int64(len(arg.Items)))
		case "int":
			if value, err := strconv.ParseInt(valueOf(arg), 10, 64); err == nil {
				add(arg.Name, value)
			}
		case "ints":
			for i, value := range integers(arg) {
				add(fmt.Sprintf("%s_%d", arg.Name, i), value)
			}
		}
	}
	for i, out := range call.Outputs {
		tensor(outName(i), out.Sizes, out.Strides)
	}
	return names
}

// targetOf lists the facts of a target, without the machine's name.
func targetOf(target string, f propose.Facts) Target {
	if target == "cuda" {
		return Target{target, []Fact{{"device", f.DeviceName, false}, {"arch", f.Arch, false}, {"sm_count", int64(f.SMCount), true},
			{"l2_bytes", f.L2Bytes, true}, {"smem_optin", f.SmemOptin, true}}}
	}
	return Target{target, []Fact{{"isa", f.ISA, false}, {"threads", int64(f.Threads), true}, {"cache_line", f.CacheLine, true},
		{"l1_bytes", f.L1Bytes, false}, {"l2_bytes", f.L2Bytes, true}, {"llc_bytes", f.LLCBytes, false}}}
}

// wrapped words the value of a 0-dim tensor in place of a scalar, from its bits.
func wrapped(arg card.Arg) string {
	bits, err := strconv.ParseUint(arg.Bits, 16, 64)
	if err != nil {
		return "bits " + arg.Bits
	}
	switch arg.DType {
	case "float64":
		return strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
	case "float32":
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(bits))), 'g', -1, 32)
	case "int64":
		return strconv.FormatInt(int64(bits), 10)
	case "int32":
		return strconv.FormatInt(int64(int32(bits)), 10)
	case "bool":
		return strconv.FormatBool(bits != 0)
	}
	return "bits " + arg.Bits
}
