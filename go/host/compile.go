package host

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
	"golang.org/x/sys/unix"
)

// Job is what a compile process reads from its standard input; its working directory is its scratch.
type Job struct {
	Compiler string   `json:"compiler"`
	Options  []string `json:"options"`
	Prelude  string   `json:"prelude"`
	Source   string   `json:"source"`
	Seconds  uint64   `json:"cpu_seconds"`
}

// outcome is the frame that it writes; an image of Bytes follows when the compiler was content.
type outcome struct {
	Ending string `json:"ending"` // "" when the compiler was content, else how it ended
	Log    string `json:"log"`
	Bytes  int    `json:"bytes"`
}

// Limits of one compile. A compiler has no cancel call, and bodies that take it minutes are real; CPU and wall limit are the parent's.
const (
	memoryBytes = 4 << 30
	maxJob      = 4 << 20
	maxLog      = 1 << 20
)

// Compile is the mode `compile` of kernelforge-worker: one source to one image, in the working directory, behind limits that the compiler
// inherits.
func Compile(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(in, maxJob+1))
	if err != nil || len(text) > maxJob {
		return fmt.Errorf("compile: read the job: %d bytes (expected at most %d): %w", len(text), maxJob, err)
	}
	var job Job
	if err := card.Decode(text, &job); err != nil {
		return fmt.Errorf("compile: read the job: %w", err)
	}
	runtime.LockOSThread() // no-new-privileges belongs to this thread, and the compiler is started from it
	err = worker.Inherit(map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_CPU: job.Seconds, unix.RLIMIT_AS: memoryBytes, unix.RLIMIT_FSIZE: worker.MaxImage, unix.RLIMIT_NOFILE: 256,
	})
	if err != nil {
		return err
	}
	result, image, err := job.run()
	if err != nil {
		return err
	}
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	_, err = out.Write(append(append(frame, body...), image...))
	return err
}

func (job *Job) run() (outcome, []byte, error) {
	for name, content := range map[string]string{"kf_kernel.h": job.Prelude, "candidate.cc": first + job.Source} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return outcome{}, nil, fmt.Errorf("compile: %w", err)
		}
	}
	command := exec.Command(job.Compiler, append(append([]string{}, Flags...), append(job.Options, "-o", "candidate.so", "candidate.cc")...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &head{}
	command.Stdout, command.Stderr = log, log
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return outcome{Ending: exit.Error(), Log: log.kept.String()}, nil, nil
	}
	if err != nil {
		return outcome{}, nil, fmt.Errorf("compile: run `%s`: %w", job.Compiler, err)
	}
	image, err := os.ReadFile("candidate.so") // not larger than RLIMIT_FSIZE
	if err != nil {
		return outcome{}, nil, fmt.Errorf("compile: the compiler was content, but left no image: %w", err)
	}
	return outcome{Log: log.kept.String(), Bytes: len(image)}, image, nil
}

// head keeps the first bytes written to it; errors come first in a compiler's log.
type head struct{ kept bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.kept.Write(p[:min(len(p), maxLog-h.kept.Len())])
	return len(p), nil
}
