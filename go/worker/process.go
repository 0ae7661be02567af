package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Processes that are not trusted: their environment, group, end, and the little of their output that is kept.

// tailBytes of what a process wrote on its standard error are kept, for errors of the harness. Candidates cannot write there by rule.
const tailBytes = 8 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mutex sync.Mutex
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(bytes.TrimSpace(t.kept))
}

// process is an untrusted process in a group of its own. Once `done` is closed, `state` says how it ended.
type process struct {
	pid    int
	stderr tail
	done   chan struct{}
	state  *os.ProcessState
	mutex  sync.Mutex // held while the group is killed or its leader reaped, so that a number in use by others is never killed
	reaped bool
}

// start runs command as the leader of a new process group. The thread that starts it lives until it has ended: the kernel sends the
// parent-death signal when that thread ends, not when the parent does, and a caller's thread (Python's) may end at any time.
func start(command *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	command.Stderr = &p.stderr
	command.WaitDelay = time.Second // a grandchild that holds stderr open does not hold us up
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		if err == nil {
			p.pid = command.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.end(command)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// end waits for the leader, kills what it left in its group while its number is still ours, and reaps it.
func (p *process) end(command *exec.Cmd) {
	for unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mutex.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	_ = command.Wait() // how it ended is in ProcessState
	p.reaped = true
	p.mutex.Unlock()
	p.state = command.ProcessState
	close(p.done)
}

// kill ends the whole group at once and waits until its leader is reaped. Safe to call again.
func (p *process) kill() {
	p.mutex.Lock()
	if !p.reaped {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
	p.mutex.Unlock()
	<-p.done
}

// ending says in words how the process ended, from its exit status alone.
func (p *process) ending() string {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return unix.SignalName(status.Signal())
	case ok && status.Exited():
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	}
	return p.state.String()
}

// Output runs an untrusted command to its end and gives what it wrote, at most `most` bytes. The group is killed when ctx ends or the
// output is too long.
func Output(ctx context.Context, command *exec.Cmd, most int) (out []byte, ending string, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", fmt.Errorf("run `%s`: %w", command.Path, err)
	}
	defer read.Close()
	command.Stdout = write
	p, err := start(command)
	write.Close()
	if err != nil {
		return nil, "", fmt.Errorf("run `%s`: %w", command.Path, err)
	}
	stop := context.AfterFunc(ctx, func() {
		p.kill()
		_ = read.SetReadDeadline(time.Now()) // even if a process outside the group holds the other end
	})
	defer stop()
	defer p.watch(0, func() { go p.kill() }).end() // it would be waited for in vain; that it was killed from outside is true then
	out, err = readMost(read, most)
	if err != nil {
		p.kill()
	}
	<-p.done
	if ctx.Err() != nil {
		return nil, p.ending(), ctx.Err()
	}
	if err != nil {
		return nil, p.ending(), fmt.Errorf("run `%s`: %w", command.Path, err)
	}
	if text := p.stderr.String(); text != "" {
		return out, p.ending() + ": " + Clean(text, 512), nil
	}
	return out, p.ending(), nil
}

func readMost(from io.Reader, most int) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err == nil && len(all) > most {
		err = fmt.Errorf("more than %d bytes of output", most)
	}
	return all, err
}

// Clean makes text of an untrusted process fit for a verdict: printable, one space for each control character, at most `most` bytes.
func Clean(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return ' '
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
