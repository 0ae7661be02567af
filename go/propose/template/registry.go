package template

import (
	"slices"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

// families by target, best guess first where several apply to a card. A family sees only cards of its own target.
var families = map[string][]Family{
	"host": slices.Concat([]Family{
		transpose{},
		pointwise{},
		element{},
		cat{},
		reduceRows{},
		reduceColumns{},
		cumsumRows{},
		cumsumColumns{},
		topk{},
		upsampleNearest{},
		upsampleBilinear{},
	}, pools, norms),
	"cuda": slices.Concat(cudaMoves, cudaPools, cudaNorms),
}

// All are the families of a target in the order in which the root tries them.
func All(target string) []Family { return slices.Clone(families[target]) }

// Lookup finds a family of a target by its name; nil if there is none.
func Lookup(target, name string) Family {
	for _, family := range families[target] {
		if family.Name() == name {
			return family
		}
	}
	return nil
}

// Applicable are the families that can compute a card.
func Applicable(c *card.Card) []Family {
	var list []Family
	for _, family := range families[c.Target] {
		if len(c.Variants) > 0 && family.Applies(c) {
			list = append(list, family)
		}
	}
	return list
}

// bounded is a family that not every device runs: its kernels need clusters, or all multiprocessors at once.
type bounded interface {
	Runs(c *card.Card, f propose.Facts) bool
}

// Runnable are the families that can compute a card on a device.
func Runnable(c *card.Card, f propose.Facts) []Family {
	return slices.DeleteFunc(Applicable(c), func(family Family) bool {
		b, ok := family.(bounded)
		return ok && !b.Runs(c, f)
	})
}

// Points is the space of some parameters, the default first. Without parameters it is one empty point.
func Points(params []Param) []Point {
	points := []Point{{}}
	for _, param := range params {
		values := []int{param.Default}
		for _, value := range param.Values {
			if value != param.Default {
				values = append(values, value)
			}
		}
		var next []Point
		for _, value := range values {
			for _, point := range points {
				with := Point{param.Name: value}
				for name, v := range point {
					with[name] = v
				}
				next = append(next, with)
			}
		}
		points = next
	}
	return points
}
