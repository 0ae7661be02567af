package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Gate names one thing that every candidate has to pass. Rejections begin with it, corpus files name the gate that is meant to kill them, and a
// test can switch one off to see which files only it kills.
type Gate string

// The gates, in the order in which a candidate meets them. Those from `poison` to `cap` are the referee's, at least in part: it finds them in the
// field `off` of its tasks.
const (
	GatePolicy      Gate = "policy"      // what the source says
	GateCompile     Gate = "compile"     // the compiler, and its limits
	GateImage       Gate = "image"       // what the compiled image holds: state, calls, entries, resources
	GateLaunch      Gate = "launch"      // loading and launching without an error
	GatePoison      Gate = "poison"      // every element of an output is written
	GateGuardPages  Gate = "guard_pages" // nothing outside a tensor is touched
	GateInputs      Gate = "inputs"      // nothing that may only be read is changed
	GateValues      Gate = "values"      // T1 to T3
	GateSpecial     Gate = "special"     // nan, inf, denormals, extremes
	GateExact       Gate = "exact"       // T6
	GateExhaustive  Gate = "exhaustive"  // T2x
	GateMetamorphic Gate = "metamorphic" // T7
	GateCap         Gate = "cap"         // T4
	GateRepeats     Gate = "repeats"     // the same input gives the same bits
	GateDirty       Gate = "dirty"       // whatever registers, shared memory, stack and workspaces held before
	GateFresh       Gate = "fresh"       // in a process of its own, at other addresses, with other contents at the same ones
	GateSanitizer   Gate = "sanitizer"   // compute-sanitizer's tools
	GateFloor       Gate = "floor"       // not faster than memory and a launch are
	GateTiming      Gate = "timing"      // surely faster than eager
	GateDeadline    Gate = "deadline"    // an answer in time
)

// always are gates that cannot be switched off: without them there is nothing to judge, or no end to it.
var always = []Gate{GateCompile, GateLaunch, GateDeadline}

var gates = []Gate{GatePolicy, GateCompile, GateImage, GateLaunch, GatePoison, GateGuardPages, GateInputs, GateValues, GateSpecial, GateExact,
	GateExhaustive, GateMetamorphic, GateCap, GateRepeats, GateDirty, GateFresh, GateSanitizer, GateFloor, GateTiming, GateDeadline}

// Gates is a set of gates, in JSON a list of names.
type Gates []Gate

// Check refuses a name that is no gate's.
func (g Gate) Check() error {
	if slices.Contains(gates, g) {
		return nil
	}
	names := make([]string, len(gates))
	for i, known := range gates {
		names[i] = string(known)
	}
	return fmt.Errorf("there is no gate `%s` (expected some of %s)", g, strings.Join(names, ", "))
}

// Has tells whether a gate is in the set.
func (g Gates) Has(gate Gate) bool { return slices.Contains(g, gate) }

// CheckOff refuses names that are no gates, and gates that cannot be switched off.
func (g Gates) CheckOff() error {
	for _, gate := range g {
		if err := gate.Check(); err != nil {
			return fmt.Errorf("switch off a gate: %w", err)
		}
		if slices.Contains(always, gate) {
			return fmt.Errorf("switch off the gate `%s`: it cannot be, since without it nothing would be judged, or end", gate)
		}
	}
	return nil
}

// illegalAccess is how the driver calls an access to memory that is not mapped.
const illegalAccess = "illegal memory access"

// crashGate is the gate behind a crash: memory that guards a tensor or may only be read, or none of the kernel's own. A device does not tell the
// address of an illegal access: most are beyond what it has mapped, the pages around the tensors, and a write to an input is told so too.
func crashGate(lost *worker.Lost) Gate {
	switch {
	case lost.Buffer < 0 && strings.Contains(lost.Detail, illegalAccess):
		return GateGuardPages
	case lost.Buffer < 0:
		return GateLaunch
	case lost.ReadOnly:
		return GateInputs
	}
	return GateGuardPages
}

// exactly refuses what is right but not eager's bits, where these were asked for.
func (j *Judge) exactly(exact bool) error {
	if j.config.Exact && !exact {
		return fail(GateExact, card.WrongValue, "right by the rule, but not bitwise equal to eager on every input (exact was asked for)")
	}
	return nil
}
