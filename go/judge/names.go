package judge

import (
	"fmt"

	"github.com/kernelforge/kernelforge/go/card"
)

// How a verdict calls a worker's buffers: by the tensors of the call.

// bufferNames tells what each buffer holds, by the first case or timing set that uses it: the tensor's name in the call, or its output's.
func bufferNames(c *card.Card, p *Prepared) map[int]string {
	names := map[int]string{}
	slots := map[string][]string{}
	for _, v := range c.Variants {
		slots[v.ID] = slotNames(v.Call)
	}
	note := func(variant string, i, buffer int) {
		if list := slots[variant]; i < len(list) && names[buffer] == "" {
			names[buffer] = "`" + list[i] + "`"
		}
	}
	for _, k := range p.Cases {
		for i, s := range k.Slots {
			note(k.Variant, i, s.Buffer)
		}
	}
	for variant, sets := range p.Timing {
		for _, set := range sets {
			for i, s := range set {
				if s != nil {
					note(variant, i, s.Buffer)
				}
			}
		}
	}
	return names
}

// slotNames are the names that a launch spec uses, in the order of the slots.
func slotNames(call card.Call) []string {
	var names []string
	for _, arg := range call.Args {
		switch arg.Kind {
		case "tensor":
			names = append(names, arg.Name)
		case "tensors":
			for k, item := range arg.Items {
				if item.Kind == "tensor" {
					names = append(names, fmt.Sprintf("%s_%d", arg.Name, k))
				}
			}
		}
	}
	for k := range call.Outputs {
		names = append(names, fmt.Sprintf("out%d", k))
	}
	return names
}
