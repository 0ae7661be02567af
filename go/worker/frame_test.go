package worker

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFramesCarryDescriptors(t *testing.T) {
	a, b := connected(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("through a descriptor"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, MaxFDs} {
		if err := a.Send(map[string]int{"fds": n}, slices.Repeat([]int{int(file.Fd())}, n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, MaxFDs} {
		body, fds, err := b.ReceiveFDs()
		if err != nil || len(fds) != n || string(body) != fmt.Sprintf(`{"fds":%d}`, n) {
			t.Fatalf("%d descriptors: found %d beside %s, %v", n, len(fds), body, err)
		}
		for _, fd := range fds {
			text := make([]byte, 7)
			if _, err := unix.Pread(fd, text, 0); err != nil || string(text) != "through" {
				t.Fatalf("descriptor %d: %q, %v", fd, text, err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Fatalf("descriptor %d would be inherited", fd)
			}
		}
		CloseAll(fds)
	}
	if err := a.Send(1, make([]int, MaxFDs+1)); err == nil {
		t.Fatal("too many descriptors were sent")
	}
}

func connected(t *testing.T) (a, b *Conn) {
	t.Helper()
	left, right, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = NewConn(left); err != nil {
		t.Fatal(err)
	}
	if b, err = NewConn(right); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestALengthIsCheckedBeforeAnythingIsAllocated(t *testing.T) {
	for _, size := range []uint32{0, MaxFrame + 1, 0xffffffff} {
		stream := &counting{head: binary.LittleEndian.AppendUint32(nil, size)}
		if _, err := ReadFrame(stream); err == nil || stream.asked > 4 {
			t.Errorf("length %d: error %v after asking for %d bytes (expected an error after 4)", size, err, stream.asked)
		}
	}
}

// counting gives the head and counts the bytes that it is asked for: the size of the buffers behind the reads.
type counting struct {
	head  []byte
	asked int
}

func (c *counting) Read(p []byte) (int, error) {
	c.asked += len(p)
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}
