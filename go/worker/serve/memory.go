package serve

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxWorkspace bounds one workspace of a candidate; the machine's memory is not its to take.
const maxWorkspace = 8 << 30

// workspace is scratch memory of one kernel between two unmapped pages. Its end is the mapping's end (rounded to 64 bytes), so that a
// write past it faults.
type workspace struct {
	mapping []byte
	first   int
}

func newWorkspace(bytes uint64) (workspace, error) {
	page := uint64(unix.Getpagesize())
	if bytes > maxWorkspace {
		return workspace{}, fmt.Errorf("load: a workspace of %d bytes (expected at most %d)", bytes, uint64(maxWorkspace))
	}
	used := (bytes + 63) / 64 * 64
	middle := max((used+page-1)/page, 1) * page
	mapping, err := unix.Mmap(-1, 0, int(middle+2*page), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Mprotect(mapping[page:page+middle], unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		return workspace{}, fmt.Errorf("load: a workspace of %d bytes: %w", bytes, err)
	}
	return workspace{mapping, int(page + middle - used)}, nil
}

func (w workspace) address() uintptr { return uintptr(unsafe.Pointer(&w.mapping[w.first])) }

func (w workspace) free() { _ = unix.Munmap(w.mapping) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
