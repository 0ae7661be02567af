package card

// validate.go owns what a card, candidate or verdict must be. It refuses to judge expressions and code: those are csrc's and the judge's.

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// Schema is the version of every JSON form here.
const Schema = 1

var (
	cardPattern      = regexp.MustCompile(`^c-[0-9a-f]{8}$`)
	candidatePattern = regexp.MustCompile(`^k-[0-9a-f]{12}$`)
	variantPattern   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)
	constantName     = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	constantValue    = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	bitsPattern      = regexp.MustCompile(`^[0-9a-f]{16}$`)

	dtypes  = []string{"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
	layouts = []string{"contiguous", "channels_last", "strided"}
	targets = []string{"host", "cuda"}
)

// ReadCard decodes and validates one card.
func ReadCard(data []byte) (*Card, error) {
	var c Card
	if err := Decode(data, &c); err != nil {
		return nil, fmt.Errorf("read card: %w", err)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// ReadCandidate decodes and validates one candidate. Its id is computed where the writer left it empty, and compared where not.
func ReadCandidate(data []byte) (Candidate, error) {
	var c Candidate
	if err := Decode(data, &c); err != nil {
		return Candidate{}, fmt.Errorf("read candidate: %w", err)
	}
	if id := CandidateID(c.Source, c.Spec); c.ID == "" {
		c.ID = id
	} else if c.ID != id {
		return Candidate{}, fmt.Errorf("read candidate: its id is `%s` (its source and spec have `%s`)", c.ID, id)
	}
	if err := c.Validate(); err != nil {
		return Candidate{}, err
	}
	return c, nil
}

// ReadVerdict decodes and validates one verdict.
func ReadVerdict(data []byte) (Verdict, error) {
	var v Verdict
	if err := Decode(data, &v); err != nil {
		return Verdict{}, fmt.Errorf("read verdict: %w", err)
	}
	if err := v.Validate(); err != nil {
		return Verdict{}, fmt.Errorf("read verdict: %w", err)
	}
	return v, nil
}

// Validate says what is wrong with a card, naming the field.
func (c *Card) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("read card `%s`: %w", c.ID, fmt.Errorf(format, args...))
	}
	switch {
	case c.Schema != Schema:
		return fail("`schema` is %d (expected %d)", c.Schema, Schema)
	case !cardPattern.MatchString(c.ID):
		return fail("`id` is `%s` (expected `c-` and 8 hexadecimal digits)", c.ID)
	case !slices.Contains(targets, c.Target):
		return fail("`target` is `%s` (expected one of %v)", c.Target, targets)
	case c.Overload == "":
		return fail("`overload` is empty")
	case !slices.Contains(layouts, c.Layout):
		return fail("`layout` is `%s` (expected one of %v)", c.Layout, layouts)
	case c.Target == "host" && c.Threads < 1:
		return fail("`threads` is %d (expected 1 or more)", c.Threads)
	case c.Target == "cuda" && c.Threads != 0:
		return fail("`threads` is %d (expected none: a device has no pin of them)", c.Threads)
	case !(c.Share >= 0 && c.Share <= 1):
		return fail("`share` is %v (expected 0 to 1)", c.Share)
	case len(c.Variants) == 0:
		return fail("`variants` is empty")
	}
	ids, calls := map[string]bool{}, map[string]string{}
	group := Group(c.Variants[0].Call, c.Layout)
	for i := range c.Variants {
		v := &c.Variants[i]
		if err := v.validate(c.Overload); err != nil {
			return fail("`variants[%d]`: %w", i, err)
		}
		if ids[v.ID] {
			return fail("two variants are called `%s`", v.ID)
		}
		ids[v.ID] = true
		if twin, ok := calls[CallKey(v.Call)]; ok {
			return fail("variants `%s` and `%s` are the same call", twin, v.ID)
		}
		calls[CallKey(v.Call)] = v.ID
		if Group(v.Call, c.Layout) != group {
			return fail("variants `%s` and `%s` differ in more than sizes and strides", c.Variants[0].ID, v.ID)
		}
	}
	return nil
}

func (v *Variant) validate(overload string) error {
	switch {
	case !variantPattern.MatchString(v.ID):
		return fmt.Errorf("`id` is `%s` (expected letters, digits, `_`, `.` or `-`)", v.ID)
	case v.Calls < 1:
		return fmt.Errorf("`calls` is %d (expected 1 or more)", v.Calls)
	case !(v.EagerUS > 0) || math.IsInf(v.EagerUS, 0):
		return fmt.Errorf("`eager_us` is %v (expected a time above 0)", v.EagerUS)
	case v.Bytes < 0:
		return fmt.Errorf("`bytes` is %d (expected 0 or more)", v.Bytes)
	case !(v.RoofUS >= 0) || math.IsInf(v.RoofUS, 0):
		return fmt.Errorf("`roof_us` is %v (expected 0 or more)", v.RoofUS)
	case v.Call.Overload != overload:
		return fmt.Errorf("`call.overload` is `%s` (expected `%s`)", v.Call.Overload, overload)
	}
	if err := v.Call.Validate(); err != nil {
		return err
	}
	if slots := v.Call.inputs(); len(v.Align) != 0 && len(v.Align) != slots {
		return fmt.Errorf("`align` has %d numbers (expected one for each of %d input slots, or none)", len(v.Align), slots)
	}
	for _, bytes := range v.Align {
		if bytes < 1 || bytes&(bytes-1) != 0 {
			return fmt.Errorf("`align` has %d (expected powers of two)", bytes)
		}
	}
	return nil
}

// Validate says what is wrong with a call, naming the argument.
func (c *Call) Validate() error {
	for i, arg := range c.Args {
		if arg.Name == "" {
			return fmt.Errorf("`args[%d].name`: the field is missing", i)
		}
		if err := arg.validate(); err != nil {
			return fmt.Errorf("argument `%s`: %w", arg.Name, err)
		}
	}
	for i, output := range c.Outputs {
		if err := tensor(output.DType, output.Sizes, output.Strides); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		if output.Alias < -1 {
			return fmt.Errorf("output %d: `alias` is %d (expected a slot or -1)", i, output.Alias)
		}
	}
	return nil
}

// inputs counts the tensors among the arguments: the input slots.
func (c *Call) inputs() int {
	count := 0
	for _, arg := range c.Args {
		switch arg.Kind {
		case "tensor":
			count++
		case "tensors":
			count += len(arg.Items)
		}
	}
	return count
}

func (a *Arg) validate() error {
	value := func(into any) error {
		if json.Unmarshal(a.Value, into) != nil {
			return fmt.Errorf("`value` of kind `%s` is `%s`", a.Kind, a.Value)
		}
		return nil
	}
	bits := func() error {
		if !bitsPattern.MatchString(a.Bits) {
			return fmt.Errorf("`bits` is `%s` (expected 16 hexadecimal digits)", a.Bits)
		}
		return nil
	}
	switch a.Kind {
	case "tensor":
		return tensor(a.DType, a.Sizes, a.Strides)
	case "tensors":
		for i := range a.Items {
			if a.Items[i].Kind != "tensor" {
				return fmt.Errorf("`items[%d]` is of kind `%s` (expected `tensor`)", i, a.Items[i].Kind)
			}
			if err := a.Items[i].validate(); err != nil {
				return fmt.Errorf("`items[%d]`: %w", i, err)
			}
		}
		return nil
	case "undefined", "none":
		return nil
	case "wrapped":
		if a.WrappedNumber == nil {
			return fmt.Errorf("`wrapped_number` is missing")
		}
		if !slices.Contains(dtypes, a.DType) {
			return fmt.Errorf("`dtype` is `%s` (expected one of %v)", a.DType, dtypes)
		}
		return bits()
	case "bool":
		return value(new(bool))
	case "int":
		return value(new(int64))
	case "string", "dtype":
		return value(new(string))
	case "ints":
		return value(new([]int64))
	case "bools":
		return value(new([]bool))
	case "float":
		return bits()
	case "scalar":
		switch a.Type {
		case "bool":
			return value(new(bool))
		case "int":
			return value(new(int64))
		case "float":
			return bits()
		}
		return fmt.Errorf("`type` is `%s` (expected bool, int or float)", a.Type)
	}
	return fmt.Errorf("`kind` is `%s` (see docs/formats.md, `call`)", a.Kind)
}

func tensor(dtype string, sizes, strides []int64) error {
	if !slices.Contains(dtypes, dtype) {
		return fmt.Errorf("`dtype` is `%s` (expected one of %v)", dtype, dtypes)
	}
	if len(sizes) != len(strides) {
		return fmt.Errorf("%d sizes and %d strides (expected as many)", len(sizes), len(strides))
	}
	for _, size := range sizes {
		if size < 0 {
			return fmt.Errorf("a size is %d (expected 0 or more)", size)
		}
	}
	return nil
}

// Validate says what is wrong with a candidate. What expressions mean is csrc's to judge; here only the form.
func (c *Candidate) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("read candidate `%s`: %w", c.ID, fmt.Errorf(format, args...))
	}
	switch {
	case !candidatePattern.MatchString(c.ID):
		return fail("`id` is `%s` (expected `k-` and 12 hexadecimal digits)", c.ID)
	case c.Author == "":
		return fail("`author` is empty")
	case c.Source == "":
		return fail("`source` is empty")
	case c.Spec.Schema != Schema:
		return fail("`spec.schema` is %d (expected %d)", c.Spec.Schema, Schema)
	case len(c.Spec.Kernels) == 0:
		return fail("`spec.kernels` is empty")
	}
	for key, value := range c.Spec.Constants {
		if !constantName.MatchString(key) || !constantValue.MatchString(value) {
			return fail("constant `%s` is `%s` (expected a name in capitals and a plain number or word)", key, value)
		}
	}
	for i, kernel := range c.Spec.Kernels {
		if kernel.Entry == "" {
			return fail("`spec.kernels[%d].entry` is empty", i)
		}
		for j, arg := range kernel.Args {
			set := 0
			for _, text := range []string{arg.Slot, arg.Int, arg.Float} {
				if text != "" {
					set++
				}
			}
			if set != 1 {
				return fail("`spec.kernels[%d].args[%d]` has %s of slot, int, float (expected exactly one)", i, j, strconv.Itoa(set))
			}
		}
	}
	return nil
}

// Statuses are all of them, in the order of the gates.
var Statuses = []Status{OK, Rejected, CompileError, LaunchError, Crash, Timeout, WrongShape, WrongValue, TooFast}

// Validate holds the rule that only OK has a cost.
func (v *Verdict) Validate() error {
	switch {
	case !slices.Contains(Statuses, v.Status):
		return fmt.Errorf("`status` is `%s` (expected one of %v)", v.Status, Statuses)
	case v.Status == OK && (!(v.Cost > 0) || math.IsInf(v.Cost, 0)):
		return fmt.Errorf("`cost` of an ok verdict is %v (expected a number above 0)", v.Cost)
	case v.Status != OK && v.Cost != 0:
		return fmt.Errorf("`cost` of a verdict `%s` is %v (expected 0: only ok has a cost)", v.Status, v.Cost)
	}
	return nil
}
