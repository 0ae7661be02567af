package judge

import (
	"fmt"
	"strings"
)

// A token of C++ as the policy scan needs it: comments are gone, lines are spliced.
type token struct {
	kind  tokenKind
	text  string
	line  int  // of the source, from 1
	first bool // the first on its line
}

type tokenKind int

const (
	punctuation tokenKind = iota
	identifier
	number
	literal // a string, a character, or the <name> of an include
)

// refuse begins with the line of the source.
func (t token) refuse(format string, args ...any) error {
	return fmt.Errorf("%d: %s", t.line, fmt.Sprintf(format, args...))
}

// lexer reads characters after line splicing.
type lexer struct {
	text  []byte
	lines []int // of each character
	at    int
	out   []token
	fresh bool // nothing but white space so far on this line
}

// splice drops each backslash that ends a line together with the line's end. White space between the two, control characters, lone carriage
// returns and trigraphs are refused, since compilers differ on them: what g++ takes for the end of a comment or of a macro is a line of its own to
// NVRTC, and a line of its own may be a directive.
func splice(source string) (*lexer, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	l := &lexer{text: make([]byte, 0, len(source)), lines: make([]int, 0, len(source)), fresh: true}
	line := 1
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case c == '\\':
			rest := strings.TrimLeft(source[i+1:], " \t")
			if strings.HasPrefix(rest, "\n") {
				if source[i+1] != '\n' {
					return nil, fmt.Errorf("%d: white space between a backslash and the end of its line", line)
				}
				i = len(source) - len(rest)
				line++
				continue
			}
		case c == '?' && i+2 < len(source) && source[i+1] == '?' && strings.IndexByte("=/'()!<>-", source[i+2]) >= 0:
			return nil, fmt.Errorf("%d: the trigraph `%s`", line, source[i:i+3])
		case c < ' ' && c != '\n' && c != '\t' || c == 0x7f:
			return nil, fmt.Errorf("%d: the control character %#02x", line, c)
		}
		l.text, l.lines = append(l.text, c), append(l.lines, line)
		if c == '\n' {
			line++
		}
	}
	return l, nil
}

func tokenize(source string) ([]token, error) {
	l, err := splice(source)
	if err != nil {
		return nil, err
	}
	for l.at < len(l.text) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l.out, nil
}

func (l *lexer) here() token { return token{line: l.lines[min(l.at, len(l.lines)-1)], first: l.fresh} }

func (l *lexer) peek(offset int) byte {
	if l.at+offset < len(l.text) {
		return l.text[l.at+offset]
	}
	return 0
}

func (l *lexer) add(t token, kind tokenKind, length int) {
	t.kind, t.text = kind, string(l.text[l.at:l.at+length])
	l.out = append(l.out, t)
	l.at += length
	l.fresh = false
}

func (l *lexer) next() error {
	c, t := l.text[l.at], l.here()
	switch {
	case c == '\n':
		l.fresh = true
		l.at++
	case c == ' ' || c == '\t':
		l.at++
	case c == '/' && l.peek(1) == '/':
		for l.at < len(l.text) && l.text[l.at] != '\n' {
			l.at++
		}
	case c == '/' && l.peek(1) == '*':
		end := strings.Index(string(l.text[l.at+2:]), "*/")
		if end < 0 {
			return t.refuse("a comment that does not end")
		}
		l.at += 2 + end + 2 // a comment is white space, also across lines: a directive after it is still first on its line
	case letter(c):
		length := 1
		for letter(l.peek(length)) || digit(l.peek(length)) {
			length++
		}
		if next := l.peek(length); (next == '"' || next == '\'') && strings.HasSuffix(string(l.text[l.at:l.at+length]), "R") {
			return t.refuse("a raw string")
		}
		l.add(t, identifier, length)
	case digit(c) || c == '.' && digit(l.peek(1)):
		length := 1
		for n := l.peek(length); letter(n) || digit(n) || n == '.' || n == '\'' || (n == '+' || n == '-') && exponent(l.peek(length-1)); n = l.peek(length) {
			length++
		}
		l.add(t, number, length)
	case c == '"' || c == '\'':
		return l.quoted(t, c, c)
	case c == '<' && len(l.out) > 1 && l.out[len(l.out)-1].text == "include" && l.out[len(l.out)-2].text == "#":
		return l.quoted(t, c, '>')
	case c == '#' && l.peek(1) == '#', c == '%' && l.peek(1) == ':':
		l.add(t, punctuation, 2)
	case c == '<' && l.peek(1) == ':', c == ':' && l.peek(1) == '>', c == '<' && l.peek(1) == '%', c == '%' && l.peek(1) == '>':
		return t.refuse("the digraph `%s`", l.text[l.at:l.at+2])
	case c >= 0x80 || c == '\\' || c == '@' || c == '`' || c == '$':
		return t.refuse("the character %q outside comments and strings", rune(c))
	default:
		l.add(t, punctuation, 1)
	}
	return nil
}

func (l *lexer) quoted(t token, open, end byte) error {
	for length := 1; l.at+length < len(l.text) && l.text[l.at+length] != '\n'; length++ {
		if open != '<' && l.text[l.at+length] == '\\' {
			length++
			continue
		}
		if l.text[l.at+length] == end {
			l.add(t, literal, length+1)
			return nil
		}
	}
	return t.refuse("a literal that does not end on its line")
}

func letter(c byte) bool   { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool    { return c >= '0' && c <= '9' }
func exponent(c byte) bool { return strings.IndexByte("eEpP", c) >= 0 }
