package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inGroupOf are processes of a group that was started by this process, by their program's name.
func inGroupOf(leader, name string) (pid int) {
	groups := map[string]int{} // leaders of this process, by name
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for pass := range 2 {
		for _, file := range files {
			stat, _ := os.ReadFile(file)
			open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
			if open < 0 || end < 0 {
				continue
			}
			comm, fields := string(stat[open+1:end]), strings.Fields(string(stat[end+1:])) // state, parent, group
			number, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if pass == 0 && fields[1] == strconv.Itoa(os.Getpid()) && strings.HasPrefix(comm, leader) {
				groups[fields[2]] = number
			}
			if _, ours := groups[fields[2]]; pass == 1 && ours && comm == name {
				return number
			}
		}
	}
	return 0
}

// Somebody, or a kernel that is short of memory, ends a program of the compiler: the source is compiled again. Using up its CPU time is a source's own.
func TestACompilerThatIsEndedFromOutsideBlamesNoSource(t *testing.T) {
	p := pool(t, nil)
	if !strings.Contains(filepath.Base(p.compiler.Path), "g++") {
		t.Skipf("the compiler is `%s` (this test ends g++'s cc1plus)", p.compiler.Path)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	struck := make(chan int)
	go func() {
		pid := 0
		for pid == 0 {
			pid = inGroupOf(filepath.Base(self)[:min(15, len(filepath.Base(self)))], "cc1plus")
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		struck <- pid
	}()
	built, err := p.Compile(t.Context(), double, options(t, map[string]string{"FACTOR": "3.0f"}))
	if pid := <-struck; err != nil || len(built.Image) == 0 {
		t.Errorf("with cc1plus (%d) killed once: %q, %v", pid, built.Failure, err)
	}
	for text, want := range map[string]bool{
		"the compiler ended with signal: killed":                                                                             true,
		"the compiler ended with exit status 1\ng++: fatal error: Killed signal terminated program cc1plus":                  true,
		"the compiler ended with exit status 1\ng++: fatal error: Terminated signal terminated program cc1plus":              true,
		"the compiler ended with exit status 1\ng++: fatal error: CPU time limit exceeded signal terminated program cc1plus": false,
		"the compiler ended with signal: segmentation fault":                                                                 false,
		"the compiler ended with exit status 1\ncandidate.cc:1:1: error: expected":                                           false,
	} {
		if killed.MatchString(text) != want {
			t.Errorf("%q: found %t", text, !want)
		}
	}
}
