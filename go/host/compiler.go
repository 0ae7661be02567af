package host

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// Prelude is kf_kernel.h, the only header that a candidate sees.
//
//go:embed prelude/kf_kernel.h
var Prelude string

// Flags are the compile options, ours and fixed: eager's arithmetic (no fast-math, no contraction of a*b+c), nothing linked that is not
// called, no start files, every symbol hidden but KF_ENTRY's. What distributions add by default (stack protector, fortified calls) is off,
// since it would call outside the allow-list.
var Flags = []string{
	"-x", "c++", "-std=c++20", "-O3", "-march=native", "-fno-fast-math", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
	"-fno-trapping-math", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fPIC", "-shared", "-nostartfiles", "-fvisibility=hidden",
	"-fdiagnostics-color=never", "-Wl,-z,noexecstack", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,--as-needed", "-I.", "-include", "kf_kernel.h",
}

// first stands before every source: from here on, even a token that macros paste together cannot be assembly. Line numbers start anew.
const first = "#pragma GCC poison asm __asm __asm__\n#line 1 \"candidate.cc\"\n"

// last stands behind the prelude: no source can ask whether a file is there, which no wall around files hides. In a system's header, since a compiler
// warns of poisoning its own words elsewhere.
const last = "\n#pragma GCC system_header\n#pragma GCC poison __has_include __has_include_next __has_embed\n"

// Compiler is a C++ compiler that answered.
type Compiler struct {
	Path    string
	Version string // its own words, first line
	Pin     string // the `toolchain` pin: "g++ 12.2.0"
	Tools   Toolchain
}

// FindCompiler takes the compiler of the configuration (KERNELFORGE_CXX), else the first of g++, clang++ and c++ on PATH.
func FindCompiler(ctx context.Context, configured string) (Compiler, error) {
	const hint = "install one (`apt-get install g++`), or set KERNELFORGE_CXX to the path of g++ or clang++"
	if configured != "" {
		path, err := exec.LookPath(configured)
		if err != nil {
			return Compiler{}, card.Fail(card.CodeJudge, hint, "find the C++ compiler `%s`: %w", configured, err)
		}
		return ask(ctx, path, hint)
	}
	for _, name := range []string{"g++", "clang++", "c++"} {
		if path, err := exec.LookPath(name); err == nil {
			return ask(ctx, path, hint)
		}
	}
	return Compiler{}, card.Fail(card.CodeJudge, hint, "find a C++ compiler for the host target: no g++, clang++ or c++ on PATH")
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

func ask(ctx context.Context, path, hint string) (Compiler, error) {
	path, err := filepath.Abs(path) // it is run in other folders
	if err != nil {
		return Compiler{}, fmt.Errorf("find the C++ compiler: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	command := exec.Command(path, "--version")
	command.Env = worker.Environment("/tmp")
	out, ending, err := worker.Output(ctx, command, 64<<10)
	if err != nil {
		return Compiler{}, card.Fail(card.CodeJudge, hint, "ask the C++ compiler `%s` for its version: %w", path, err)
	}
	line, _, _ := strings.Cut(worker.Clean(string(out), 4096), "\n")
	number := versionNumber.FindString(line)
	if number == "" {
		return Compiler{}, card.Fail(card.CodeJudge, hint, "ask the C++ compiler `%s` for its version: found %q (%s; expected a version number)", path, line, ending)
	}
	name := "g++"
	if strings.Contains(line, "clang") {
		name = "clang++"
	}
	return Compiler{Path: path, Version: line, Pin: name + " " + number, Tools: toolchain(ctx, path)}, nil
}
