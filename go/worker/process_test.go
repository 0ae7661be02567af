package worker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func shell(script string) *exec.Cmd {
	command := exec.Command("/bin/sh", "-c", script)
	command.Env = Environment(os.TempDir())
	return command
}

func TestOutputGivesWhatACommandWroteAndHowItEnded(t *testing.T) {
	for _, c := range []struct{ script, out, ending string }{
		{"printf text", "text", "exit status 0"},
		{"printf text; exit 3", "text", "exit status 3"},
		{"printf 'a\\033[31mb' >&2; exit 1", "", "exit status 1: a [31mb"},
		{"kill -SEGV $$", "", "SIGSEGV"},
		{"sleep 1000 & printf text", "text", "exit status 0"}, // the group is killed, so its end of the pipe closes
	} {
		out, ending, err := Output(t.Context(), shell(c.script), 100)
		if err != nil || string(out) != c.out || ending != c.ending {
			t.Errorf("%s: %q, %q, %v (expected %q, %q)", c.script, out, ending, err, c.out, c.ending)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	_, _, err := Output(t.Context(), shell("while :; do printf 'more and more '; done"), 1000)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Fatalf("found %v", err)
	}
}

func TestOutputEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer stop()
	_, _, err := Output(ctx, shell("sleep 1000"), 1000)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("found %v", err)
	}
}

func TestStandardErrorIsKeptAtItsEnd(t *testing.T) {
	var kept tail
	for range 1000 {
		kept.Write([]byte("a line of twenty bytes"))
	}
	kept.Write([]byte("the last"))
	if text := kept.String(); len(text) > tailBytes || !strings.HasSuffix(text, "the last") {
		t.Errorf("%d bytes end in %q", len(text), text[len(text)-20:])
	}
}

func TestCleanLeavesPrintableText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ntext": "plain\ntext", "a\x1b[31mb\x00\x7f": "a [31mb  ", "a\xffb": "a?b", "a\u0085b\rc\td": "a b c d", strings.Repeat("ä", 40): strings.Repeat("ä", 10) + "...",
	} {
		if got := Clean(in, 20); got != want {
			t.Errorf("%q: %q (expected %q)", in, got, want)
		}
	}
}
