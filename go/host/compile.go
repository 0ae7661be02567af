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
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// Job is what a compile process reads from its standard input; its working directory is its scratch.
type Job struct {
	Compiler string   `json:"compiler"`
	Options  []string `json:"options"`
	Prelude  string   `json:"prelude"`
	Source   string   `json:"source"`
	System   string   `json:"system,omitempty"`  // folder with the system's headers, compiled
	Headers  bool     `json:"headers,omitempty"` // the source is these headers
	Seconds  uint64   `json:"cpu_seconds"`
	Try      bool     `json:"try,omitempty"` // nothing is compiled: the process tries its own walls
}

// outcome is the frame that it writes; an image of Bytes follows when the compiler was content.
type outcome struct {
	Ending string `json:"ending"` // "" when the compiler was content, else how it ended
	Log    string `json:"log"`
	Bytes  int    `json:"bytes"`

	Sandbox *sandbox.Report `json:"sandbox,omitempty"` // of a job that tries
}

// Limits of one compile. A compiler has no cancel call, and bodies that take it minutes are real; CPU and wall limit are the parent's.
const (
	memoryBytes  = 4 << 30
	maxJob       = 4 << 20
	maxLog       = 1 << 20
	graceSeconds = 2  // from the signal that says so, and tells it from a kill, to the kill
	mostStarted  = 32 // processes of one compile: a compiler's are five
)

var limits = map[int]uint64{
	unix.RLIMIT_CORE: 0, unix.RLIMIT_AS: memoryBytes, unix.RLIMIT_FSIZE: worker.MaxImage, unix.RLIMIT_NOFILE: 256, unix.RLIMIT_MSGQUEUE: 0,
}

// Compile is the mode `compile` of kernelforge-worker: one source to one image, in the working directory. All of it happens in the room of the
// arguments and on this thread, from which the compiler descends.
func Compile(args []string, in io.Reader, out io.Writer) error {
	room, err := sandbox.Confine(args, limits)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJob+1))
	if err != nil || len(text) > maxJob {
		return fmt.Errorf("compile: read the job: %d bytes (expected at most %d): %w", len(text), maxJob, err)
	}
	var job Job
	if err := card.Decode(text, &job); err != nil {
		return fmt.Errorf("compile: read the job: %w", err)
	}
	if err := sandbox.Inherit(map[int]uint64{unix.RLIMIT_CPU: job.Seconds + graceSeconds}); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: job.Seconds, Max: job.Seconds + graceSeconds}); err != nil {
		return fmt.Errorf("confine: set the limit of CPU time to %d s: %w", job.Seconds, err)
	}
	if err := sandbox.Hide(); err != nil {
		return err
	}
	if err := sandbox.EndTogether(); err != nil {
		return err
	}
	if err := sandbox.Seal(room); err != nil {
		return err
	}
	if room.Tier >= sandbox.Walls {
		runtime.GOMAXPROCS(2)  // sandbox.Bound: one for this thread, one for who counts
		debug.SetGCPercent(-1) // and nothing that waits for both
		if err := sandbox.Bound(room.Processes); err != nil {
			return err
		}
	}
	if job.Try {
		report := try(room)
		return reply(out, outcome{Sandbox: &report}, nil)
	}
	result, image, err := job.run()
	if err != nil {
		return err
	}
	return reply(out, result, image)
}

// try makes the self-test's attempts, and those that need a compiler's rights: programs beside the toolchain, more processes than a compile has.
func try(room sandbox.Room) sandbox.Report {
	report := sandbox.Try(room)
	if room.Secret == "" {
		return report
	}
	err := exec.Command("/bin/sh", "-c", "exit 0").Run()
	ran := sandbox.Attempt{What: "run a shell", Tier: sandbox.Walls, Stopped: err != nil, Found: "possible"}
	if err != nil {
		ran.Found = "EACCES"
		if !errors.Is(err, unix.EACCES) {
			ran.Found = err.Error()
		}
	}
	report.Attempts = append(report.Attempts, ran, sandbox.TryProcesses(room))
	for report.Tier > sandbox.Limits && len(report.Lacks(report.Tier)) > 0 {
		report.Tier--
	}
	return report
}

func reply(out io.Writer, result outcome, image []byte) error {
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	_, err = out.Write(append(append(frame, body...), image...))
	return err
}

// given is what the compiler finds in the working directory, and its arguments.
func (job *Job) given() (files map[string]string, arguments []string) {
	if job.Headers {
		return map[string]string{headersText: job.Source}, slices.Concat(headersFlags, []string{"-o", "candidate.so", headersText})
	}
	if job.System != "" { // in front of all else: g++ takes compiled headers before the first line of code alone
		arguments = []string{"-include", filepath.Join(job.System, headersText)}
	}
	return map[string]string{"kf_kernel.h": job.Prelude + last, "candidate.cc": first + job.Source},
		slices.Concat(arguments, Flags, job.Options, []string{"-o", "candidate.so", "candidate.cc"})
}

func (job *Job) run() (outcome, []byte, error) {
	files, arguments := job.given()
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return outcome{}, nil, fmt.Errorf("compile: %w", err)
		}
	}
	command := exec.Command(job.Compiler, arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &head{}
	command.Stdout, command.Stderr = said, said
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return outcome{Ending: exit.Error(), Log: job.log(said)}, nil, nil
	}
	if err != nil {
		return outcome{}, nil, fmt.Errorf("compile: run `%s`: %w", job.Compiler, err)
	}
	image, err := readOwn("candidate.so")
	if err != nil {
		return outcome{}, nil, fmt.Errorf("compile: the compiler was content, but left no image: %w", err)
	}
	return outcome{Bytes: len(image)}, image, nil
}

// log is what leaves this process of what the compiler said.
func (job *Job) log(said *head) string { return log(job.Seconds).Keep(said.kept.String()) }

// readOwn reads a file that the compiler wrote, not larger than RLIMIT_FSIZE: not another one that it linked to its place.
func readOwn(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("`%s` is not a file (%w)", name, err)
	}
	return io.ReadAll(io.LimitReader(file, worker.MaxImage))
}

// head keeps the first bytes written to it; errors come first in a compiler's log.
type head struct{ kept bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.kept.Write(p[:min(len(p), maxLog-h.kept.Len())])
	return len(p), nil
}
