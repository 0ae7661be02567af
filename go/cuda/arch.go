package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
)

// Oldest compute capability that candidates are compiled for.
const oldestMajor, oldestMinor = 7, 5

// Arch is what code for a device is compiled for: with the instructions of that very chip where NVRTC has a name for them.
func Arch(major, minor int) (string, error) {
	switch {
	case major < oldestMajor || major == oldestMajor && minor < oldestMinor:
		return "", card.Fail(card.CodeJudge, "use the target `host`, or a newer GPU", "compile for compute capability %d.%d (expected %d.%d or newer)",
			major, minor, oldestMajor, oldestMinor)
	case major == 9 && minor == 0, major == 10 && minor == 0:
		return fmt.Sprintf("sm_%d%da", major, minor), nil
	}
	return fmt.Sprintf("sm_%d%d", major, minor), nil
}

// number is an architecture as NVRTC lists it: "sm_90a" is 90.
func number(arch string) int {
	n, _ := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af")) // Arch made it
	return n
}
