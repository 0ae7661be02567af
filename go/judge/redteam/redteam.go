// Package redteam tests the judge: kernels that are known to be wrong, each of which must be killed, and kernels that are known to be right, each
// of which must pass.
//
// It owns the corpus (one candidate a file, in the library itself, so that any installation can run it), how a file says what must become of it,
// and the order of a run. It refuses to judge: every file takes the way of a search's candidate, through the same gates.
//
//	host|cuda / bad|good / NAME.cc|.cu
//
//	// kind: partial_write          of bad files: the fault, in the catalogue's words; of good files: the algorithm
//	// call: add_fp32_odd           a call of bindings/python/kernelforge/redteam/calls.py
//	// dies: wrong_value, crash     the statuses that are right for it; bad files only
//	// gate: poison only            the gate that is meant to kill it; `only`: no other gate may; bad files only
//	// why: what is wrong with it, in a sentence
//	// spec: {...}                  the launch spec, on one line
//
// The catalogue is that of published cheats and faults of generated kernels; docs/security.md has its kinds.
package redteam

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
)

//go:embed host cuda
var corpus embed.FS

// File is one kernel of the corpus.
type File struct {
	Name string        `json:"name"` // "host/bad/partial_write.cc"
	Good bool          `json:"good"`
	Kind string        `json:"kind"`
	Call string        `json:"call"`
	Dies []card.Status `json:"dies,omitempty"`
	Gate judge.Gate    `json:"gate,omitempty"`
	Only bool          `json:"only,omitempty"`
	Why  string        `json:"why"`

	Candidate card.Candidate `json:"-"`
}

var (
	kindPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	callPattern = kindPattern
	extensions  = map[string]string{"host": ".cc", "cuda": ".cu"}
)

// Files gives the corpus of a target, the bad ones first, by name.
func Files(target string) ([]File, error) {
	if extensions[target] == "" {
		return nil, card.Fail(card.CodeRequest, "use the target `host` or `cuda`", "read the corpus: there is no target `%s`", target)
	}
	return readAll(corpus, target)
}

func readAll(files fs.FS, target string) ([]File, error) {
	var all []File
	err := fs.WalkDir(files, target, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		file, err := Read(name, string(text))
		all = append(all, file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the corpus: %w", err)
	}
	return all, nil
}

// Read reads one file. name: its place in the corpus, which says the target, and whether it is good.
func Read(name, text string) (File, error) {
	fail := func(format string, args ...any) (File, error) {
		return File{}, fmt.Errorf("corpus file `%s`: %w", name, fmt.Errorf(format, args...))
	}
	parts := strings.Split(name, "/")
	if len(parts) != 3 || (parts[1] != "bad" && parts[1] != "good") || path.Ext(name) != extensions[parts[0]] {
		return fail("it lies in no folder of the corpus (expected host/bad/NAME.cc, cuda/good/NAME.cu and so on)")
	}
	fields, source, err := split(text)
	if err != nil {
		return fail("%w", err)
	}
	file := File{Name: name, Good: parts[1] == "good", Kind: fields["kind"], Call: fields["call"], Why: fields["why"]}
	needed := []string{"kind", "call", "why", "spec"}
	if !file.Good {
		needed = append(needed, "dies", "gate")
	}
	for _, field := range needed {
		if fields[field] == "" {
			return fail("it has no `// %s: ...`", field)
		}
	}
	if len(fields) != len(needed) {
		return fail("a good file neither dies nor has a gate")
	}
	if !callPattern.MatchString(file.Call) {
		return fail("call `%s` (expected words with underscores)", file.Call)
	}
	var spec card.Spec
	if err := card.Decode([]byte(fields["spec"]), &spec); err != nil {
		return fail("its spec: %w", err)
	}
	if !file.Good {
		if !kindPattern.MatchString(file.Kind) {
			return fail("kind `%s` (expected words with underscores)", file.Kind)
		}
		if err := file.end(fields["dies"], fields["gate"]); err != nil {
			return fail("%w", err)
		}
	}
	file.Candidate = card.Candidate{ID: card.CandidateID(source, spec), Author: "person", Family: "redteam", Params: map[string]int{}, Change: file.Kind,
		Source: source, Spec: spec}
	return file, nil
}

// end reads how a bad file must end.
func (f *File) end(dies, gate string) error {
	name, rest, _ := strings.Cut(gate, " ")
	f.Gate, f.Only = judge.Gate(name), rest == "only"
	if rest != "" && !f.Only {
		return fmt.Errorf("gate `%s` (expected a gate, and perhaps `only`)", gate)
	}
	if err := f.Gate.Check(); err != nil {
		return err
	}
	for _, word := range strings.Split(dies, ",") {
		status := card.Status(strings.TrimSpace(word))
		if !slices.Contains(card.Statuses, status) {
			return fmt.Errorf("it dies of `%s` (expected some of %v)", status, card.Statuses)
		}
		if status == card.OK && f.Gate != judge.GateTiming {
			return fmt.Errorf("it dies of `ok`, which only the gate `%s` may say", judge.GateTiming)
		}
		f.Dies = append(f.Dies, status)
	}
	return nil
}

// split takes the header off a file. What is left is the source that is judged: it says nothing of what is expected of it.
func split(text string) (map[string]string, string, error) {
	fields := map[string]string{}
	for {
		line, rest, found := strings.Cut(text, "\n")
		name, value, header := strings.Cut(strings.TrimPrefix(line, "// "), ": ")
		if !found || !header || !strings.HasPrefix(line, "// ") || !slices.Contains(names, name) {
			return fields, text, nil
		}
		if fields[name] != "" {
			return nil, "", fmt.Errorf("`// %s: ...` stands there twice", name)
		}
		fields[name] = strings.TrimSpace(value)
		text = rest
	}
}

var names = []string{"kind", "call", "dies", "gate", "why", "spec"}
