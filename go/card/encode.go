package card

// encode.go owns how empty lists are written: as [], never null, for readers in C++ and Python are strict. It refuses any other difference between a value and its JSON.

import "encoding/json"

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func someMap[T any](values map[string]T) map[string]T {
	if values == nil {
		return map[string]T{}
	}
	return values
}

// MarshalJSON writes empty lists as [].
func (c Call) MarshalJSON() ([]byte, error) {
	type plain Call
	c.Args, c.Outputs = some(c.Args), some(c.Outputs)
	return json.Marshal(plain(c))
}

// MarshalJSON writes empty lists as [].
func (o Output) MarshalJSON() ([]byte, error) {
	type plain Output
	o.Sizes, o.Strides = some(o.Sizes), some(o.Strides)
	return json.Marshal(plain(o))
}

// MarshalJSON writes empty lists as [], and sizes and strides exactly where the kind has them.
func (a Arg) MarshalJSON() ([]byte, error) {
	type plain Arg
	switch a.Kind {
	case "tensor":
		a.Sizes, a.Strides = some(a.Sizes), some(a.Strides)
	case "tensors":
		a.Items = some(a.Items)
	}
	return json.Marshal(plain(a))
}

// MarshalJSON writes empty lists as [].
func (c Card) MarshalJSON() ([]byte, error) {
	type plain Card
	c.Children, c.Variants = some(c.Children), some(c.Variants)
	return json.Marshal(plain(c))
}

// MarshalJSON writes empty lists as [] and no constants as {}.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	s.Constants, s.Workspaces, s.Kernels = someMap(s.Constants), some(s.Workspaces), some(s.Kernels)
	return json.Marshal(plain(s))
}

// MarshalJSON writes empty lists as [].
func (k Kernel) MarshalJSON() ([]byte, error) {
	type plain Kernel
	k.Args = some(k.Args)
	return json.Marshal(plain(k))
}

// MarshalJSON writes no parameters as {}.
func (c Candidate) MarshalJSON() ([]byte, error) {
	type plain Candidate
	c.Params = someMap(c.Params)
	return json.Marshal(plain(c))
}

// MarshalJSON writes empty lists as [].
func (v Verdict) MarshalJSON() ([]byte, error) {
	type plain Verdict
	v.Variants = some(v.Variants)
	return json.Marshal(plain(v))
}
