package template

import (
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// callOf is the first variant's call of a card whose overload is one of a list; all variants share its kinds, types and ranks.
func callOf(c *card.Card, overloads map[string]bool) (card.Call, bool) {
	if len(c.Variants) == 0 || !overloads[c.Overload] {
		return card.Call{}, false
	}
	return c.Variants[0].Call, true
}

// overloads names operators by their short names: "add.Tensor" is aten::add.Tensor.
func overloads(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set["aten::"+name] = true
	}
	return set
}

// everyVariant says whether a condition holds for the call of each variant.
func everyVariant(c *card.Card, holds func(card.Call) bool) bool {
	for _, variant := range c.Variants {
		if !holds(variant.Call) {
			return false
		}
	}
	return true
}

// largestBytes is what the largest variant moves.
func largestBytes(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		most = max(most, variant.Bytes)
	}
	return most
}
