package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/worker"
)

// Toolchain is the files of a compiler: what a compile may read and execute, beside its own folder.
type Toolchain struct {
	read []string // folders
	run  []string // files
}

// parts are the programs that a compiler starts.
var parts = []string{"cc1plus", "collect2", "lto-wrapper", "as", "ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"}

// toolchain asks a compiler where its parts are. One that does not say is asked for nothing more: a compile in a room without its parts fails, and
// the probe says so.
func toolchain(ctx context.Context, path string) Toolchain {
	tools := Toolchain{run: []string{path}}
	say := func(args ...string) string {
		command := exec.CommandContext(ctx, path, args...)
		command.Env = worker.Environment("/tmp")
		out, _ := command.CombinedOutput() // what it says in an error names no folders
		return string(out)
	}
	programs := []string{filepath.Dir(path)}
	for line := range strings.Lines(say("-print-search-dirs")) {
		kind, list, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, folder := range filepath.SplitList(strings.TrimPrefix(list, "=")) {
			switch kind {
			case "install", "libraries":
				tools.read = append(tools.read, folder)
			case "programs":
				programs = append(programs, folder)
			}
		}
	}
	_, headers, _ := strings.Cut(say("-v", "-E", "-x", "c++", os.DevNull), "#include <...>")
	headers, _, _ = strings.Cut(headers, "\nEnd of search list")
	for line := range strings.Lines(headers) {
		if folder := strings.TrimSpace(line); filepath.IsAbs(folder) {
			tools.read = append(tools.read, folder)
		}
	}
	for _, folder := range append(programs, filepath.SplitList("/usr/local/bin:/usr/bin:/bin")...) {
		for _, part := range parts {
			if program := filepath.Join(folder, part); executable(program) {
				tools.run = append(tools.run, program)
			}
		}
	}
	tools.read = tidy(tools.read)
	tools.run = tidy(tools.run)
	return tools
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// tidy resolves links and leaves each path once. What is not there is left out, and so is the whole file system.
func tidy(paths []string) []string {
	var list []string
	for _, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil && filepath.IsAbs(real) && real != "/" {
			list = append(list, real)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
