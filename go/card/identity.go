package card

// identity.go owns the names that are hashes: of cards, candidates and calls. It refuses anything that moves from run to run: times, shares.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// CandidateID is `k-` and 12 hexadecimal digits of the SHA-256 of source and spec: two candidates with one id are the same kernel.
func CandidateID(source string, spec Spec) string {
	text, err := json.Marshal(spec) // map keys are sorted
	if err != nil {
		panic(err) // a Spec holds strings, booleans and integers only
	}
	hash := sha256.New()
	hash.Write([]byte(source))
	hash.Write([]byte{0})
	hash.Write(text)
	return "k-" + hex.EncodeToString(hash.Sum(nil))[:12]
}

// ID is the identity of the card that a call belongs to: `c-` and 8 hexadecimal digits of the SHA-256 of Group.
func ID(call Call, layout string) string {
	sum := sha256.Sum256([]byte(Group(call, layout)))
	return "c-" + hex.EncodeToString(sum[:])[:8]
}

// Group is what all variants of a card share, as text: one line for the overload, the layout and each argument and output. Sizes and
// strides are left out; ranks, kinds, dtypes and every scalar are in.
func Group(call Call, layout string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", call.Overload, layout)
	for _, arg := range call.Args {
		fmt.Fprintf(&text, "%s %s\n", arg.Name, groupArg(arg))
	}
	for i, output := range call.Outputs {
		fmt.Fprintf(&text, "out%d tensor %s %d %d\n", i, output.DType, len(output.Sizes), output.Alias)
	}
	return text.String()
}

func groupArg(arg Arg) string {
	switch arg.Kind {
	case "tensor":
		return fmt.Sprintf("tensor %s %d", arg.DType, len(arg.Sizes))
	case "tensors":
		items := make([]string, len(arg.Items))
		for i, item := range arg.Items {
			items[i] = groupArg(item)
		}
		return fmt.Sprintf("tensors [%s]", strings.Join(items, ", "))
	case "wrapped":
		return fmt.Sprintf("wrapped %s %t %s", arg.DType, arg.WrappedNumber != nil && *arg.WrappedNumber, arg.Bits)
	case "float":
		return "float " + arg.Bits // bits decide: -0.0 is not 0.0, and a NaN is equal to itself
	case "scalar":
		if arg.Type == "float" {
			return "scalar float " + arg.Bits
		}
		return fmt.Sprintf("scalar %s %s", arg.Type, compact(arg.Value))
	case "undefined", "none":
		return arg.Kind
	default:
		return fmt.Sprintf("%s %s", arg.Kind, compact(arg.Value))
	}
}

// CallKey identifies a variant: two calls with one key are the same call, word for word.
func CallKey(call Call) string {
	var text strings.Builder
	text.WriteString(Group(call, ""))
	for _, arg := range call.Args {
		for _, tensor := range append([]Arg{arg}, arg.Items...) {
			fmt.Fprintf(&text, "%v %v\n", tensor.Sizes, tensor.Strides)
		}
	}
	for _, output := range call.Outputs {
		fmt.Fprintf(&text, "%v %v\n", output.Sizes, output.Strides)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])[:16]
}

// compact drops the white space of a JSON value, so that two writers of one value agree.
func compact(value json.RawMessage) string {
	var text bytes.Buffer
	if json.Compact(&text, value) != nil {
		return string(value)
	}
	return text.String()
}
