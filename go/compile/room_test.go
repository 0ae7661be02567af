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

// What a compile process sends is filtered there already; what arrives is filtered again, since that process is not trusted.
func TestAFilteredLogIsFilteredOnceAndForAll(t *testing.T) {
	log := Log{Ours: regexp.MustCompile(`^candidate`), Quoted: regexp.MustCompile(`^ +[0-9]+ \|`), Whole: regexp.MustCompile(`^ld: `)}
	said := "/home/ada/secret.h:1: root:x:0\n    1 | root:x:0\ncandidate.cc:3: /home/ada/x.h is no file\n    3 | int x\nelsewhere\n    4 | int y\nld: out of memory\n"
	once := log.Keep(said)
	if want := "candidate.cc:3: x.h is no file\n    3 | int x\nld: out of memory\n"; once != want || log.Keep(once) != once {
		t.Errorf("found %q, then %q (expected %q)", once, log.Keep(once), want)
	}
	if log.Filter("exit status 1", once) != log.Filter("exit status 1", said) {
		t.Errorf("found %q and %q", log.Filter("exit status 1", once), log.Filter("exit status 1", said))
	}
	if long := log.Keep(strings.Repeat("candidate.cc:1: again\n", 10000)); len(long) > maxFailure+len("...") {
		t.Errorf("%d bytes are left", len(long))
	}
}
