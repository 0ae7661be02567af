// Package worker speaks with the untrusted process that runs candidates.
//
// It owns the frames (docs/formats.md, `worker frames`), the start, supervision and end of a worker process, and what its end means. The
// child's half is worker/serve. It refuses to trust the child: every length, number and list that arrives is checked before it is used, a
// request that is not answered in time ends in a kill of the process group, and no file descriptor is taken from it.
package worker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a frame. MaxFDs is below the kernel's own limit for one message (SCM_MAX_FD, 253).
const (
	MaxFrame = 16 << 20
	MaxFDs   = 128
)

// Conn carries frames over a Unix stream socket: a 4-byte little-endian length, then that many bytes of JSON. File descriptors travel
// with the length of the frame that names them. Not safe for concurrent use of one direction.
type Conn struct {
	socket *net.UnixConn
}

// NewConn takes over one end of a socketpair.
func NewConn(file *os.File) (*Conn, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("open the frame socket: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("open the frame socket: found a %T (expected a Unix socket)", conn)
	}
	return &Conn{socket}, nil
}

// Pair makes two connected ends, both closed on exec.
func Pair() (parent, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "kernelforge-parent"), os.NewFile(uintptr(fds[1]), "kernelforge-child"), nil
}

// Close ends both directions; the other side reads EOF.
func (c *Conn) Close() error { return c.socket.Close() }

// SetDeadline bounds every later read and write; the zero time removes the bound.
func (c *Conn) SetDeadline(at time.Time) error { return c.socket.SetDeadline(at) }

// Send writes one value as a frame. The descriptors are borrowed: the other side gets its own.
func (c *Conn) Send(value any, fds []int) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	if len(body) > MaxFrame {
		return fmt.Errorf("write a frame: %d bytes (expected at most %d)", len(body), MaxFrame)
	}
	if len(fds) > MaxFDs {
		return fmt.Errorf("write a frame: %d file descriptors (expected at most %d)", len(fds), MaxFDs)
	}
	var head [4]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(body)))
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.socket.WriteMsgUnix(head[:], rights, nil)
	if err == nil && n < len(head) {
		_, err = c.socket.Write(head[n:])
	}
	if err == nil {
		_, err = c.socket.Write(body)
	}
	if err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	return nil
}

// Receive reads one frame that may carry no descriptors; any that were sent are dropped by the kernel.
func (c *Conn) Receive() ([]byte, error) { return ReadFrame(c.socket) }

// ReadFrame reads one frame from a stream. io.EOF means that the stream ended between frames.
func ReadFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, fmt.Errorf("read a frame's length: %w", err)
	}
	return readBody(from, head)
}

func readBody(from io.Reader, head [4]byte) ([]byte, error) {
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > MaxFrame {
		return nil, fmt.Errorf("read a frame: length %d (expected 1 to %d)", size, MaxFrame)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, fmt.Errorf("read a frame of %d bytes: %w", size, err)
	}
	return body, nil
}

// ReceiveFDs reads one frame and the descriptors that came with it; the caller closes them. On an error none is left open.
func (c *Conn) ReceiveFDs() (body []byte, fds []int, err error) {
	var head [4]byte
	space := make([]byte, unix.CmsgSpace(MaxFDs*4))
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(head[:], space)
	if err != nil {
		return nil, nil, fmt.Errorf("read a frame's length: %w", err)
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	fds, err = rights(space[:oobn])
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("read a frame: more than %d file descriptors", MaxFDs)
	}
	if err == nil && n < len(head) {
		_, err = io.ReadFull(c.socket, head[n:])
	}
	if err == nil {
		body, err = readBody(c.socket, head)
	}
	if err != nil {
		CloseAll(fds)
		return nil, nil, err
	}
	return body, fds, nil
}

func rights(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("read a frame's descriptors: %w", err)
	}
	for _, message := range messages {
		some, err := unix.ParseUnixRights(&message)
		if err != nil {
			CloseAll(fds)
			return nil, fmt.Errorf("read a frame's descriptors: %w", err)
		}
		fds = append(fds, some...)
	}
	return fds, nil
}

// CloseAll closes descriptors that came with a frame.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}
