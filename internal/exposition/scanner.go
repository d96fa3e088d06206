package exposition

import (
	"bytes"
	"unicode/utf8"
)

// Kind says what a line of a page is.
type Kind uint8

// The kinds of lines.
const (
	KindBlank Kind = iota
	KindComment
	KindHelp
	KindType
	KindUnit
	KindEOF
	KindSample
)

// Line is one line of a page. Its slices point into the page.
type Line struct {
	Kind Kind
	Raw  []byte // with its newline
	Name []byte // of HELP, TYPE and UNIT: the family's name, unquoted
	Text []byte // of HELP, TYPE and UNIT: what stands after the name, as sent
}

// Scanner cuts a page into lines. It checks the page's frame: that lines are
// ended, that the text is UTF-8, and that OpenMetrics ends with `# EOF`.
type Scanner struct {
	rest   []byte
	format Format
	number int
	line   Line
	err    error
	ended  bool // an `# EOF` line was read
	ascii  bool // the page is known to be valid UTF-8 without NUL
}

// NewScanner returns a scanner over a whole page.
func NewScanner(page []byte, f Format) Scanner {
	return Scanner{rest: page, format: f, ascii: utf8.Valid(page) && bytes.IndexByte(page, 0) < 0}
}

// Next moves to the next line. It returns false at the end and on an error.
func (s *Scanner) Next() bool {
	if s.err != nil {
		return false
	}
	if len(s.rest) == 0 {
		if s.format == OpenMetrics && !s.ended {
			s.err = &ParseError{Line: s.number + 1, Reason: "page ends without # EOF", Err: ErrTruncated}
		}
		return false
	}
	s.number++
	if s.ended {
		s.err = parseError(s.number, "text after # EOF", s.rest)
		return false
	}
	end := bytes.IndexByte(s.rest, '\n')
	if end < 0 {
		if s.format == OpenMetrics && string(s.rest) == "# EOF" {
			s.line, s.rest, s.ended = Line{Kind: KindEOF, Raw: s.rest}, nil, true
			return true
		}
		err := parseError(s.number, "last line has no newline", s.rest)
		err.Err = ErrTruncated
		s.err = err
		return false
	}
	raw := s.rest[:end+1]
	s.rest = s.rest[end+1:]
	if !s.ascii && (!utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0) {
		s.err = parseError(s.number, "line is not UTF-8 text", raw[:end])
		return false
	}
	s.classify(raw)
	return s.err == nil
}

// Line returns the current line.
func (s *Scanner) Line() *Line { return &s.line }

// Number returns the current line's number, counted from 1.
func (s *Scanner) Number() int { return s.number }

// Err returns the error that ended the scan, or nil.
func (s *Scanner) Err() error { return s.err }

func (s *Scanner) classify(raw []byte) {
	s.line = Line{Kind: KindSample, Raw: raw}
	body := trimLeft(raw[:len(raw)-1])
	if len(body) == 0 {
		s.line.Kind = KindBlank
		return
	}
	if body[0] != '#' {
		return
	}
	s.line.Kind = KindComment
	if s.format == OpenMetrics && string(body) == "# EOF" {
		s.line.Kind, s.ended = KindEOF, true
		return
	}
	after := trimLeft(body[1:])
	if len(after) == len(body)-1 {
		return // no blank after '#': an ordinary comment
	}
	var kind Kind
	switch {
	case hasWord(after, "HELP"):
		kind = KindHelp
	case hasWord(after, "TYPE"):
		kind = KindType
	case s.format == OpenMetrics && hasWord(after, "UNIT"):
		kind = KindUnit
	default:
		return
	}
	rest := trimLeft(after[4:])
	name, n, _, ok := readName(rest)
	if !ok || (n < len(rest) && !isBlank(rest[n])) {
		s.err = parseError(s.number, "metadata line without a valid metric name", body)
		return
	}
	s.line.Kind, s.line.Name = kind, name
	s.line.Text = trimLeft(rest[n:])
}

func hasWord(b []byte, word string) bool {
	return len(b) > len(word) && string(b[:len(word)]) == word && isBlank(b[len(word)])
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func trimLeft(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	return b
}
