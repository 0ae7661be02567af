package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// Requests to an untrusted process and their answers, one at a time, each with a time limit.

// peer is an untrusted process and the socket to it.
type peer struct {
	process *process
	conn    *Conn
}

// startPeer starts a command; attach gives it its end of the socket.
func startPeer(command *exec.Cmd, attach func(end *os.File)) (peer, error) {
	parent, child, err := Pair()
	if err != nil {
		return peer{}, err
	}
	defer child.Close()
	attach(child)
	p, err := start(command)
	if err != nil {
		parent.Close()
		return peer{}, err
	}
	conn, err := NewConn(parent)
	if err != nil {
		p.kill()
		return peer{}, err
	}
	return peer{p, conn}, nil
}

// Kill ends the process group at once and waits for it. Safe to call again and from any goroutine.
func (p *peer) Kill() {
	p.process.kill()
	p.conn.Close()
}

// PID is the number of the process and of its group.
func (p *peer) PID() int { return p.process.pid }

// exchange sends a request and reads the frame that answers it. An error is the context's or a *Lost; the process is dead then.
func (p *peer) exchange(ctx context.Context, limit Limit, op string, request any, fds []int) ([]byte, error) {
	if err := p.conn.SetDeadline(time.Now().Add(limit.Wall)); err != nil {
		return nil, p.lost(op)
	}
	stop := context.AfterFunc(ctx, p.process.kill)
	watch := p.process.watch(limit.CPU, func() { _ = p.conn.SetDeadline(time.Now()) })
	err := p.conn.Send(request, fds)
	var body []byte
	if err == nil {
		body, err = p.conn.Receive()
	}
	found := watch.end()
	switch {
	case !stop():
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, p.late(op, limit, found)
	case err != nil:
		return nil, p.lost(op)
	}
	return body, nil
}

// late ends a process that has used up its time, and says which.
func (p *peer) late(op string, limit Limit, found string) *Lost {
	stopped := found == halted || p.process.letter() == "T"
	p.process.kill()
	switch {
	case stopped:
		return &Lost{Op: op, Buffer: -1, Signal: "SIGSTOP", Detail: fmt.Sprintf("`%s` was not answered: the worker was killed, since somebody had stopped it", op)}
	case found == spent:
		return &Lost{Op: op, Buffer: -1, Signal: "SIGKILL", Timeout: true,
			Detail: fmt.Sprintf("`%s` took more than %s of CPU time: the worker was killed", op, limit.CPU.Round(time.Millisecond))}
	}
	return &Lost{Op: op, Buffer: -1, Signal: "SIGKILL", Timeout: true,
		Detail: fmt.Sprintf("`%s` was not answered within %s: the worker was killed", op, limit.Wall.Round(time.Millisecond))}
}

// How long a process whose stream has ended may take to end itself: one that may live on, and one that is ending and waits to be reaped by us. One
// that does live on has no time: a search waits for it.
const (
	endLimit  = time.Second
	reapLimit = 10 * time.Second
)

// lost ends the process, if it has not ended itself, and says why it is gone.
func (p *peer) lost(op string) *Lost {
	l := &Lost{Op: op, Buffer: -1, Signal: "closed stream"}
	ended := func(limit time.Duration) bool {
		select {
		case <-p.process.done:
			l.Signal = p.process.ending()
			return true
		case <-time.After(limit):
			return false
		}
	}
	leaving, known := p.process.leaving()
	if !known && !ended(endLimit) {
		leaving, _ = p.process.leaving()
	}
	if !leaving || !ended(reapLimit) {
		p.process.kill()
		if how := p.process.ending(); how != unix.SignalName(unix.SIGKILL) {
			l.Signal = how // it was on its way out, on a machine that is busy
		}
	}
	l.Detail = fmt.Sprintf("the worker ended in `%s`: %s", op, l.Signal)
	return l
}

const brokenFrame = "broken frame"

// Broken says whether a process was ended for what it sent, and did not end by itself.
func (l *Lost) Broken() bool { return l.Signal == brokenFrame }

// breach ends a process that broke the protocol: its memory is no longer its own.
func (p *peer) breach(op, format string, args ...any) *Lost {
	p.process.kill()
	return &Lost{Op: op, Signal: brokenFrame, Buffer: -1,
		Detail: fmt.Sprintf("the worker broke the protocol in `%s`: %s", op, Clean(fmt.Sprintf(format, args...), 256))}
}

// Killed says whether somebody else ended or stopped the process: code that faults does not raise these signals, and what we kill we know of.
func (l *Lost) Killed() bool {
	return !l.Timeout && slices.ContainsFunc(sandbox.FromOutside, func(s unix.Signal) bool { return unix.SignalName(s) == l.Signal })
}

// Early says the same of a process that has not met a candidate yet. Until its first lines have run, Go's own handlers are there, and a SIGQUIT makes
// it exit with 2.
func (l *Lost) Early() bool { return l.Killed() || !l.Timeout && l.Signal == "exit status 2" }

// Server is an untrusted process that answers one request after another on its standard input, which is a socket. Not safe for concurrent use,
// but Kill may be called from anywhere.
type Server struct{ peer }

// StartServer starts a command as a server. Its environment and folder are the caller's choice.
func StartServer(command *exec.Cmd) (*Server, error) {
	p, err := startPeer(command, func(end *os.File) { command.Stdin = end })
	if err != nil {
		return nil, err
	}
	return &Server{p}, nil
}

// Ask sends a request and reads its answer strictly. An error is the context's or a *Lost: the server is dead, and another must be started.
func (s *Server) Ask(ctx context.Context, limit Limit, op string, request, answer any) error {
	body, err := s.exchange(ctx, limit, op, request, nil)
	if err != nil {
		return err
	}
	if err := card.Decode(body, answer); err != nil {
		return s.breach(op, "%v", err)
	}
	return nil
}

// Said is the end of what the server wrote on its standard error, fit to be shown.
func (s *Server) Said() string { return Clean(s.process.stderr.String(), 512) }
