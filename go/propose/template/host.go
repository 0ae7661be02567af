package template

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

//go:embed host
var hostPages embed.FS

var pageLine = regexp.MustCompile(`(?m)^// @(include )?(\S+)$`)

// hostPage is a family's page, host/<name>.cc, as the compiler gets it: a line `// @include <file>` is replaced by that file, a line
// `// @<part>` by the part of that name.
func hostPage(name string, parts map[string]string) string {
	return pageLine.ReplaceAllStringFunc(hostFile(name+".cc"), func(line string) string {
		if file, ok := strings.CutPrefix(line, "// @include "); ok {
			return strings.TrimSuffix(hostFile(file), "\n")
		}
		part, ok := parts[strings.TrimPrefix(line, "// @")]
		if !ok {
			panic(fmt.Sprintf("page host/%s.cc: nothing given for `%s`", name, line))
		}
		return strings.TrimSuffix(part, "\n")
	})
}

func hostFile(name string) string {
	text, err := hostPages.ReadFile("host/" + name)
	if err != nil {
		panic(err) // the files are in the binary; the tests build every page
	}
	return string(text)
}

// hostCall is the first variant's call of a card for the host whose overload is one of a list; all variants share its kinds, types and ranks.
func hostCall(c *card.Card, overloads map[string]bool) (card.Call, bool) {
	if c.Target != "host" || len(c.Variants) == 0 || !overloads[c.Overload] {
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

// lanes are the vector widths worth trying, in floats.
func lanes(f propose.Facts) Param {
	switch f.ISA {
	case "avx512":
		return Param{"KF_LANES", []int{8, 16}, 16}
	case "avx2":
		return Param{"KF_LANES", []int{8}, 8}
	}
	return Param{"KF_LANES", []int{4}, 4}
}

// largestBytes is what the largest variant moves.
func largestBytes(c *card.Card) int64 {
	var most int64
	for _, variant := range c.Variants {
		most = max(most, variant.Bytes)
	}
	return most
}
