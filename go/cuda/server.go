package cuda

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
	"github.com/kernelforge/kernelforge/go/worker/sandbox"
	"golang.org/x/sys/unix"
)

// The compile server: one process that holds NVRTC and answers one job after another, since opening it costs more than a compile. The first frame
// is a greeting, every other a job. It has no cancel call: whoever waits too long kills the process.

// greeting says where NVRTC may be and what every job is compiled with.
type greeting struct {
	Places  []string `json:"places"` // paths, or names on the loader path; the first that fits is taken
	Driver  int      `json:"driver"` // the driver's CUDA major version; 0: any NVRTC fits
	Prelude string   `json:"prelude"`
	Options []string `json:"options"` // of a compile to begin with
}

// greeted is the answer; Path is "" when no place had one that fits.
type greeted struct {
	Path  string   `json:"path"`
	Major int      `json:"major"`
	Minor int      `json:"minor"`
	Archs []int    `json:"archs"`
	Tried []string `json:"tried"` // one line for each place, up to the one taken

	Sandbox sandbox.Report `json:"sandbox"`
}

type job struct {
	Source  string   `json:"source"`
	Options []string `json:"options"`
}

type outcome struct {
	Ending  string  `json:"ending"` // "" when the compiler was content, else how it ended
	Log     string  `json:"log"`
	Refused string  `json:"refused"`         // it compiles, but may not run: why; the image is there for tests alone
	Image   []byte  `json:"image,omitempty"` // base64 in JSON
	Seconds float64 `json:"seconds"`         // of the compiler alone
}

// Limits of a server. NVRTC and its reservations take 2 GiB of addresses before the first job.
const (
	memoryBytes = 8 << 30
	maxLog      = 1 << 20
	maxImage    = 8 << 20 // fits a frame, as base64
)

var serverLimits = map[int]uint64{
	unix.RLIMIT_CORE: 0, unix.RLIMIT_AS: memoryBytes, unix.RLIMIT_FSIZE: maxImage, unix.RLIMIT_NOFILE: 256, unix.RLIMIT_MSGQUEUE: 0,
}

// Serve is the mode `compile-cuda` of kernelforge-worker: frames on standard input, which is a socket, until it ends.
func Serve(args []string) error {
	room, err := sandbox.Confine(args, serverLimits)
	if err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/comm", []byte("kf-compile-cuda"), 0) // so that who looks at memory can tell it from a worker
	if err := sandbox.Hide(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	conn, err := worker.NewConn(os.Stdin)
	if err != nil {
		return err
	}
	return serve(conn, func() (sandbox.Report, error) {
		if err := sandbox.Seal(room); err != nil {
			return sandbox.Report{}, err
		}
		return sandbox.Try(room), nil
	})
}

// serve answers jobs. seal is called when NVRTC is open and before any source is here.
func serve(conn *worker.Conn, seal func() (sandbox.Report, error)) error {
	var hello greeting
	if err := receive(conn, &hello); err != nil {
		return err
	}
	library, answer := open(hello)
	var err error
	if answer.Sandbox, err = seal(); err != nil {
		return err
	}
	if err := conn.Send(answer, nil); err != nil {
		return err
	}
	if library != nil { // the first compile of a process costs twice a later one: it is made while nobody waits
		_, _ = job{Source: empty, Options: hello.Options}.run(library, hello.Prelude) // if it fails, the first job says so
	}
	for library != nil {
		var next job
		if err := receive(conn, &next); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		result, err := next.run(library, hello.Prelude)
		if err != nil {
			return err
		}
		if err := conn.Send(result, nil); err != nil {
			return err
		}
	}
	return nil
}

func receive(conn *worker.Conn, into any) error {
	body, err := conn.Receive()
	if err != nil {
		return err
	}
	if err := card.Decode(body, into); err != nil {
		return fmt.Errorf("compile: read a frame: %w", err)
	}
	return nil
}

// open takes the first NVRTC that is there and that the driver can run code of.
func open(hello greeting) (*nvrtc, greeted) {
	answer := greeted{Tried: []string{}, Archs: []int{}}
	for _, place := range hello.Places {
		library, err := openNVRTC(place)
		switch {
		case err != nil:
			answer.Tried = append(answer.Tried, fmt.Sprintf("`%s`: %s", place, strings.Join(strings.Fields(err.Error()), " ")))
		case hello.Driver != 0 && library.major > hello.Driver:
			answer.Tried = append(answer.Tried, fmt.Sprintf("`%s`: NVRTC %d.%d (expected at most %d, the driver's)", place, library.major, library.minor, hello.Driver))
		default:
			answer.Path, answer.Major, answer.Minor, answer.Archs = place, library.major, library.minor, library.archs
			return library, answer
		}
	}
	return nil, answer
}

// empty is a source of nothing.
const empty = "extern \"C\" __global__ void kf_main() {}\n"

// sourceName is how the log calls a candidate.
const sourceName = "candidate.cu"

// first stands before every source. Behind the prelude, assembly is a word that does not compile, whatever macros make of it.
const first = "#include \"" + PreludeName + "\"\n#define asm kf_no_assembly\n#define __asm kf_no_assembly\n#define __asm__ kf_no_assembly\n#line 1 \"" + sourceName + "\"\n"

func (j job) run(library *nvrtc, prelude string) (outcome, error) {
	began := time.Now()
	b, err := library.build(first+j.Source, sourceName, map[string]string{PreludeName: prelude}, j.Options)
	if err != nil {
		return outcome{}, fmt.Errorf("compile: %w", err)
	}
	result := outcome{Ending: b.ending, Log: log.Keep(b.log), Image: b.image, Seconds: time.Since(began).Seconds()}
	switch {
	case b.ending != "":
	case len(b.image) > maxImage:
		result.Image, result.Ending = nil, fmt.Sprintf("a cubin of %d bytes (expected at most %d)", len(b.image), maxImage)
	case b.ptx == "": // what cannot be looked at is not taken
		result.Image, result.Refused = nil, "the compiler gave no assembly of it to look at"
	default:
		if wrong := inspect(b.ptx); wrong != nil {
			result.Refused = wrong.Error()
		}
	}
	return result, nil
}
