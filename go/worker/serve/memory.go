package serve

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/kfr"
	"golang.org/x/sys/unix"
)

// maxWorkspace bounds one workspace of a candidate; the machine's memory is not its to take.
const maxWorkspace = 8 << 30

// workspace is scratch memory of one kernel between two unmapped pages. It lies at the mapping's end (rounded to 64 bytes), where a write past
// it faults, or at its start, where one in front of it does.
type workspace struct {
	mapping []byte
	first   int
}

func newWorkspace(bytes uint64) (workspace, error) {
	page := uint64(unix.Getpagesize())
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

func (w workspace) address(atStart bool) uintptr {
	if atStart {
		return uintptr(unsafe.Pointer(&w.mapping[unix.Getpagesize()]))
	}
	return uintptr(unsafe.Pointer(&w.mapping[w.first]))
}

func (w workspace) fill(value byte) error {
	whole := w.mapping[unix.Getpagesize() : len(w.mapping)-unix.Getpagesize()]
	for i := range whole {
		whole[i] = value
	}
	return nil
}

func (w workspace) free() { _ = unix.Munmap(w.mapping) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// address of a slot; 0 for none. Offsets are checked against the mapping, not against the tensor: its guard is the unmapped range.
func (l *Loop) address(slot *worker.Slot) (uintptr, error) {
	if slot == nil {
		return 0, nil
	}
	mapped, found := l.buffers[slot.Buffer]
	if !found {
		return 0, fmt.Errorf("no buffer %d", slot.Buffer)
	}
	if slot.Offset < 0 || uint64(slot.Offset) > mapped.bytes {
		return 0, fmt.Errorf("offset %d in buffer %d of %d bytes", slot.Offset, slot.Buffer, mapped.bytes)
	}
	return mapped.data + uintptr(slot.Offset), nil
}

// carry pulls or pushes each buffer of some slots once.
func (l *Loop) carry(slots []worker.Slot, way func(kfr.Memory) error) error {
	done := map[int]bool{}
	for _, slot := range slots {
		if done[slot.Buffer] {
			continue
		}
		done[slot.Buffer] = true
		if err := way(l.buffers[slot.Buffer].memory); err != nil {
			return err
		}
	}
	return nil
}

func readImage(fd int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("load: read the image: %w", err)
	}
	if stat.Size <= 0 || stat.Size > worker.MaxImage {
		return nil, fmt.Errorf("load: an image of %d bytes (expected 1 to %d)", stat.Size, worker.MaxImage)
	}
	image := make([]byte, stat.Size)
	for done := 0; done < len(image); {
		n, err := unix.Pread(fd, image[done:], int64(done))
		if err != nil || n == 0 {
			return nil, fmt.Errorf("load: read the image: %d of %d bytes: %w", done, len(image), errors.Join(err, io.ErrUnexpectedEOF))
		}
		done += n
	}
	return image, nil
}

// dirty leaves dirt where the kernel that runs next may look without having written.
func (l *Loop) dirty(r *worker.Run) error {
	if l.pool != 0 {
		l.library.Dirty(l.pool, r.Dirt.Byte())
		return nil
	}
	if r.Before == 0 {
		return nil
	}
	k, found := l.kernels[r.Before]
	if !found {
		return fmt.Errorf("run: no kernel %d to run before", r.Before)
	}
	if k.own == nil {
		for range k.info.Inputs + k.info.Outputs {
			w, err := l.newScratch(1)
			if err != nil {
				return err
			}
			k.workspaces, k.own = append(k.workspaces, w), append(k.own, w.address(false))
		}
	}
	return l.library.Launch(k.plan, k.own, l.parallel)
}

func (l *Loop) drop(k *kernel) {
	for _, w := range k.workspaces {
		w.free()
	}
	l.library.FreePlan(k.plan)
}
