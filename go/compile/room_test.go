package compile

import (
	"regexp"
	"strings"
	"testing"
)

// /proc has no blocks at all; a test's own folder has room, or nothing here would run.
func TestFullAsksTheFileSystem(t *testing.T) {
	if !Full("/proc") || Full(t.TempDir()) || Full("/no/such/folder") {
		t.Errorf("full: /proc %v, a folder of the test %v, none %v", Full("/proc"), Full(t.TempDir()), Full("/no/such/folder"))
	}
}

// A failure stands inside an error's text: an empty last line would tear that apart from its hint.
func TestAFilteredLogEndsWithoutAnEmptyLine(t *testing.T) {
	log := Log{Ours: regexp.MustCompile(`^candidate`), Quoted: regexp.MustCompile(`^\s`), Whole: regexp.MustCompile(`limit`)}
	for _, text := range []string{"", "something else\n", "candidate: error\n  int x\n"} {
		if got := log.Filter("exit status 1", text); strings.TrimRight(got, "\n ") != got {
			t.Errorf("%q gave %q", text, got)
		}
	}
}
