package llm

// scrub.go owns what quoted text loses before it leaves the machine: paths, names of user and machine, and what would end a quotation. Logs,
// ideas and sources are others' words: they are data for the model, and never more.

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"
	"unicode/utf8"
)

type scrubber struct{ names *regexp.Regexp }

// common names tell nothing of anybody, and occur in code.
var common = map[string]bool{"root": true, "user": true, "admin": true, "ubuntu": true, "runner": true, "docker": true, "nobody": true, "localhost": true, "main": true, "build": true}

func newScrubber() scrubber {
	var names []string
	add := func(name string) {
		if len(name) >= 3 && !common[strings.ToLower(name)] {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	if host, err := os.Hostname(); err == nil {
		add(host)
		short, _, _ := strings.Cut(host, ".")
		add(short)
	}
	if u, err := user.Current(); err == nil {
		add(u.Username)
		for _, part := range strings.Fields(u.Name) {
			add(part)
		}
	}
	return newScrubberOf(names)
}

func newScrubberOf(names []string) scrubber {
	if len(names) == 0 {
		return scrubber{}
	}
	return scrubber{regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)\b`)}
}

var (
	// A path that tells of a machine. Code has divisions, so only the folders in which people keep things count; and addresses of the web's kind.
	path    = regexp.MustCompile(`(?:[A-Za-z]:\\|~/|/(?:home|Users|root|tmp|var|mnt|media|opt|usr|etc|srv|data|work|workspace|private|scratch|nfs|proc|sys|dev)/)[^\s"'()<>,;:` + "`" + `]*`)
	address = regexp.MustCompile(`(?:https?|ssh|git|file|s3)://[^\s"'()<>,;` + "`" + `]*`)
	mail    = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)
	fences  = regexp.MustCompile("`{3,}|~{3,}")
	marks   = regexp.MustCompile(`<\|?/?(?:im_start|im_end|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|end_of_turn|start_of_turn|think)\|?>|\[/?INST\]|<</?SYS>>|<\||\|>`)
)

// text makes somebody's words fit to be sent: no path, no name, no mark that a model's template knows, no fence, at most `most` bytes.
func (s scrubber) text(words string, most int) string {
	whole := len(words)
	words = strings.ToValidUTF8(words[:min(whole, 2*most+1024)], "?") // what is cut off below need not be read
	words = address.ReplaceAllString(words, "(address)")
	words = path.ReplaceAllString(words, "(path)")
	words = mail.ReplaceAllString(words, "(mail)")
	if s.names != nil {
		words = s.names.ReplaceAllString(words, "(name)")
	}
	words = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
			return r
		case r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xe0000: // invisible: an order may hide in them
			return -1
		}
		return r
	}, words)
	words = marks.ReplaceAllString(words, "(mark)")
	words = fences.ReplaceAllString(words, "'''")
	if len(words) > most {
		cut := words[:most]
		for !utf8.ValidString(cut) {
			cut = cut[:len(cut)-1]
		}
		words = fmt.Sprintf("%s\n... (about %d bytes more)", cut, max(whole, len(words))-len(cut))
	}
	return words
}

// line is text in one line, within backticks that it cannot end.
func (s scrubber) line(words string, most int) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(s.text(words, most)), " "), "`", "'") + "`"
}

// quote is text in a block that it cannot end.
func (s scrubber) quote(kind, words string, most int) string {
	return "```" + kind + "\n" + strings.TrimRight(s.text(words, most), "\n") + "\n```"
}

// clean makes words fit for an error or a log: one line without control characters, at most `most` bytes.
func clean(words string, most int) string {
	words = strings.ToValidUTF8(words, "?")
	words = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, words)
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most], "") + "..."
	}
	return words
}
