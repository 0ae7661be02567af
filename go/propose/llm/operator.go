package llm

// operator.go owns a card in lines of text: the call as ATen writes it, tensors, names. What an operator means is told by the brief.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// signature is the call of a card: types and scalars as they are; sizes are in the table of variants.
func signature(call card.Call) string {
	var args, outs []string
	for _, arg := range brief.Of(propose.Brief{Card: &card.Card{Overload: call.Overload, Variants: []card.Variant{{Call: call}}}}, nil).Card.Variants[0].Arguments {
		switch {
		case arg.Slot != "":
			args = append(args, arg.Slot+": "+arg.DType)
		case arg.Kind == "wrapped":
			args = append(args, fmt.Sprintf("%s=%s (%s; no slot: write it into the code)", arg.Name, arg.Value, arg.DType))
		default:
			args = append(args, arg.Name+"="+clean(or(arg.Value, "None"), 200))
		}
	}
	if len(args) > tellSlots {
		args = append(args[:tellSlots-4], append([]string{"..."}, args[len(args)-3:]...)...)
	}
	for k, out := range call.Outputs {
		outs = append(outs, fmt.Sprintf("out%d: %s", k, out.DType))
	}
	return fmt.Sprintf("%s(%s) -> %s", call.Overload, strings.Join(args, ", "), strings.Join(outs, ", "))
}

// shapes are a variant's tensors: sizes, strides where they are not those of a dense tensor, and alignment.
func shapes(v brief.Variant) string {
	var list []string
	for _, arg := range append(slices.Clone(v.Arguments), v.Outputs...) {
		if arg.Slot == "" {
			continue
		}
		text := fmt.Sprintf("%s %v", arg.Slot, arg.Sizes)
		if !dense(arg.Sizes, arg.Strides) {
			text += fmt.Sprintf(" strides %v", arg.Strides)
		}
		if arg.Align > 0 {
			text += fmt.Sprintf(" at multiples of %d bytes", arg.Align)
		}
		if arg.Alias != "" {
			text += " (is " + arg.Alias + ")"
		}
		list = append(list, text)
	}
	if len(list) > tellSlots {
		list = append(list[:tellSlots-4], append([]string{fmt.Sprintf("... (%d tensors)", len(list))}, list[len(list)-3:]...)...)
	}
	return strings.Join(list, "; ")
}

func dense(sizes, strides []int64) bool {
	want := int64(1)
	for i := len(sizes) - 1; i >= 0; i-- {
		if sizes[i] != 1 && strides[i] != want {
			return false
		}
		want *= sizes[i]
	}
	return true
}

func few(list []string, most int) string {
	list = slices.Clone(list)
	for i, name := range list {
		list[i] = "`" + name + "`"
	}
	if len(list) > most {
		list = append(list[:most-4], append([]string{"..."}, list[len(list)-3:]...)...)
	}
	return strings.Join(list, ", ")
}

// names are those of expressions. Of a long list of tensors the middle is left out: its names go on as they begin.
func names(list []brief.Name) string {
	text := make([]string, len(list))
	for i, name := range list {
		text[i] = fmt.Sprintf("`%s` %d", name.Name, name.Value)
	}
	if len(text) > tellNames {
		text = append(text[:tellNames-21], append([]string{"..."}, text[len(text)-20:]...)...)
	}
	return strings.Join(text, ", ")
}
