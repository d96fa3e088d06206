package exposition

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrTruncated says that a page ended before it was complete: the last line has
// no newline, or an OpenMetrics page has no `# EOF`.
var ErrTruncated = errors.New("page is cut off")

// ErrSampleLimit and ErrLabelLimit say that a page holds more than the
// configuration allows; the wrapping error says how much.
var (
	ErrSampleLimit = errors.New("sample limit exceeded")
	ErrLabelLimit  = errors.New("label limit exceeded")
)

// maxQuoted is how many bytes of a foreign token an error repeats.
const maxQuoted = 64

// ParseError is a line that is not of the page's format.
type ParseError struct {
	Line   int    // counted from 1
	Token  string // the offending part, shortened
	Reason string
	Err    error // ErrTruncated, ErrLabelLimit, ErrSampleLimit or nil
}

// Error names the line, the reason and the token, quoted.
func (e *ParseError) Error() string {
	if e.Token == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("line %d: %s: %q", e.Line, e.Reason, e.Token)
}

// Unwrap returns the kind of the error, if it has one.
func (e *ParseError) Unwrap() error { return e.Err }

// shorten returns at most maxQuoted bytes of b as a string that shares no memory
// with it, cut between characters.
func shorten(b []byte) string {
	if len(b) <= maxQuoted {
		return string(b)
	}
	b = b[:maxQuoted]
	for len(b) > 0 && !utf8.Valid(b[len(b)-1:]) && !utf8.RuneStart(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return strings.ToValidUTF8(string(b), "") + "..."
}

func parseError(line int, reason string, token []byte) *ParseError {
	return &ParseError{Line: line, Reason: reason, Token: shorten(token)}
}
