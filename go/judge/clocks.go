package judge

import (
	"cmp"
	"fmt"
	"math"

	"github.com/kernelforge/kernelforge/go/worker"
)

// Which blocks count: a device's sensors are read before the first block and after each. Both sides of a block run under a power cap or under
// clocks that the user has set, but not under a clock that falls while it is measured.

const (
	mostClockMove = 0.02 // of the SM clock, within a block
	mostDropped   = 0.2  // of the blocks; beyond it the device was not fit to be measured on, which says nothing about a kernel
)

// disturbance says what between two readings makes the block there worth nothing, or "". A clock that is not known (0) does not move.
func disturbance(before, after worker.Telemetry) string {
	if reason := cmp.Or(before.Throttled(), after.Throttled()); reason != "" {
		return "`" + reason + "`"
	}
	from, to := float64(before.ClocksSMMHz), float64(after.ClocksSMMHz)
	if from > 0 && to > 0 && math.Abs(from-to) > mostClockMove*max(from, to) {
		return fmt.Sprintf("an SM clock that went from %.0f to %.0f MHz", from, to)
	}
	return ""
}

// tooManyDropped says that so much was dropped that what is left is no fair sample.
func tooManyDropped(dropped, kept int) bool {
	return float64(dropped) > mostDropped*float64(dropped+kept)
}
