// Package host is the target that every machine has: C++ candidates, compiled by the machine's g++ or clang++.
//
// It owns the facts of this machine, the compile command, the pool of compile processes and the cache of their images. It refuses to run
// anything that was compiled: that is the worker's. A compile is a process of its own (`kernelforge-worker compile`) with limits on time, memory
// and output; it never happens in the user's process.
package host

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kernelforge/kernelforge/go/propose"
)

// Machine is what this machine is, as far as candidates may know it.
type Machine struct {
	CPU       string // the model's name
	ISA       string // "avx512", "avx2" or "sse2"
	flags     string // every feature of the CPU, for the cache's key: `-march=native` means all of them
	L1Bytes   int64
	L2Bytes   int64
	LLCBytes  int64
	CacheLine int64
}

// Device is the `device` pin: the CPU's model and its best instruction set.
func (m Machine) Device() string { return m.CPU + " " + m.ISA }

// Facts are what proposers and expressions see.
func (m Machine) Facts(threads int) propose.Facts {
	return propose.Facts{Target: "host", ISA: m.ISA, Threads: threads, L1Bytes: m.L1Bytes, L2Bytes: m.L2Bytes, LLCBytes: m.LLCBytes, CacheLine: m.CacheLine}
}

// ThisMachine reads /proc and /sys below root ("/" but in tests). What is not said there gets a common value.
func ThisMachine(root string) Machine {
	m := Machine{CPU: "x86-64", ISA: "sse2", L1Bytes: 32 << 10, L2Bytes: 512 << 10, CacheLine: 64}
	if file, err := os.Open(filepath.Join(root, "proc/cpuinfo")); err == nil {
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && lines.Text() != "" { // the first processor
			name, value, _ := strings.Cut(lines.Text(), ":")
			switch strings.TrimSpace(name) {
			case "model name":
				m.CPU = strings.TrimSpace(value)
			case "flags":
				m.flags = strings.TrimSpace(value)
			}
		}
	}
	m.ISA = instructionSet(m.flags)
	caches, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu0/cache/index*")) // the pattern is well formed
	for _, folder := range caches {
		size, level := cacheSize(text(folder, "size")), text(folder, "level")
		switch {
		case size == 0 || text(folder, "type") == "Instruction":
			continue
		case level == "1":
			m.L1Bytes = size
		case level == "2":
			m.L2Bytes = size
		}
		m.LLCBytes = max(m.LLCBytes, size)
		if line, err := strconv.ParseInt(text(folder, "coherency_line_size"), 10, 64); err == nil && line > 0 {
			m.CacheLine = line
		}
	}
	m.LLCBytes = max(m.LLCBytes, m.L2Bytes)
	return m
}

func instructionSet(flags string) string {
	has := map[string]bool{}
	for _, flag := range strings.Fields(flags) {
		has[flag] = true
	}
	switch {
	case has["avx512f"] && has["avx512bw"] && has["avx512dq"] && has["avx512vl"]:
		return "avx512"
	case has["avx2"] && has["fma"]:
		return "avx2"
	}
	return "sse2"
}

func text(folder, name string) string {
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// cacheSize reads "48K" or "32M"; 0 if it is neither.
func cacheSize(text string) int64 {
	shift := 0
	switch {
	case strings.HasSuffix(text, "K"):
		shift = 10
	case strings.HasSuffix(text, "M"):
		shift = 20
	}
	n, err := strconv.ParseInt(strings.TrimRight(text, "KM"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n << shift
}
