package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Disinherit closes every descriptor from `first` on at the next program start: what the user's process left inheritable (an open file of data, a
// socket) would reach the compiler, or the start of this program in which candidates run.
func Disinherit(first int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // the confinement, which looks at /proc too, says so
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}
