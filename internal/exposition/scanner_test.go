package exposition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// scan returns the lines of a page in a short form.
func scan(page string, f Format) ([]string, error) {
	names := []string{"blank", "comment", "help", "type", "unit", "eof", "sample"}
	var out []string
	s := NewScanner([]byte(page), f)
	for s.Next() {
		l := s.Line()
		out = append(out, fmt.Sprintf("%d %s %q %q", s.Number(), names[l.Kind], l.Name, l.Text))
	}
	return out, s.Err()
}

func TestScannerLines(t *testing.T) {
	tests := []struct {
		name, page string
		format     Format
		want       []string
	}{
		{"empty", "", Text, nil},
		{"blank lines", "\n \t\n", Text, []string{`1 blank "" ""`, `2 blank "" ""`}},
		{"sample", "a 1\n  b 2\n", Text, []string{`1 sample "" ""`, `2 sample "" ""`}},
		{"comments", "#\n#HELP a b\n# HELP\n# HELPER a\n# EOF\n# UNIT a b\n", Text, []string{
			`1 comment "" ""`, `2 comment "" ""`, `3 comment "" ""`, `4 comment "" ""`, `5 comment "" ""`, `6 comment "" ""`,
		}},
		{"metadata", "# HELP vllm:a b  c \n# TYPE vllm:a gauge\n# HELP a\n", Text, []string{
			`1 help "vllm:a" "b  c "`, `2 type "vllm:a" "gauge"`, `3 help "a" ""`,
		}},
		{"blanks around metadata", " #\t HELP \t a \t text\n", Text, []string{`1 help "a" "text"`}},
		{"quoted names", `# HELP "a.b\"c" text` + "\n", Text, []string{`1 help "a.b\"c" "text"`}},
		{"OpenMetrics", "# UNIT a_s s\na_s 1\n# EOF\n", OpenMetrics, []string{
			`1 unit "a_s" "s"`, `2 sample "" ""`, `3 eof "" ""`,
		}},
		{"EOF without newline", "a 1\n# EOF", OpenMetrics, []string{`1 sample "" ""`, `2 eof "" ""`}},
		{"non-ASCII help", "# HELP a é\n", Text, []string{`1 help "a" "é"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := scan(tt.page, tt.format)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestScannerErrors(t *testing.T) {
	tests := []struct {
		name, page string
		format     Format
		want       string
		truncated  bool
	}{
		{"cut off", "a 1\nb 2", Text, `line 2: last line has no newline: "b 2"`, true},
		{"OpenMetrics cut off", "a 1\nb 2", OpenMetrics, `line 2: last line has no newline: "b 2"`, true},
		{"no EOF", "a 1\n", OpenMetrics, "line 2: page ends without # EOF", true},
		{"empty OpenMetrics", "", OpenMetrics, "line 1: page ends without # EOF", true},
		{"text after EOF", "# EOF\na 1\n", OpenMetrics, `line 2: text after # EOF: "a 1\n"`, false},
		{"not UTF-8", "a 1\nb{c=\"\xff\"} 1\n", Text, `line 2: line is not UTF-8 text: "b{c=\"\xff\"} 1"`, false},
		{"NUL", "a 1\n\x00\n", Text, `line 2: line is not UTF-8 text: "\x00"`, false},
		{"no name", "# TYPE 1a gauge\n", Text, `line 1: metadata line without a valid metric name: "# TYPE 1a gauge"`, false},
		{"name goes on", "# TYPE a-b gauge\n", Text, `line 1: metadata line without a valid metric name: "# TYPE a-b gauge"`, false},
		{"quote open", "# HELP \"a b\n", Text, `line 1: metadata line without a valid metric name: "# HELP \"a b"`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scan(tt.page, tt.format)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("error %v, want %s", err, tt.want)
			}
			if _, ok := errors.AsType[*ParseError](err); !ok {
				t.Errorf("error is a %T", err)
			}
			if errors.Is(err, ErrTruncated) != tt.truncated {
				t.Errorf("truncated: %t", !tt.truncated)
			}
		})
	}
}

// Lines before the one in error are read, and the error stays.
func TestScannerStopsAtAnError(t *testing.T) {
	s := NewScanner([]byte("a 1\n# TYPE 1 x\nb 1\n"), Text)
	if !s.Next() || s.Next() || s.Next() || s.Err() == nil {
		t.Errorf("line %d, error %v", s.Number(), s.Err())
	}
}

// An error repeats a bounded part of what a peer sent.
func TestErrorsAreShort(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<10), "x" + strings.Repeat("語", 1<<10)} {
		_, err := scan("# TYPE 1"+long+"\n", Text)
		if err == nil || len(err.Error()) > 150 || strings.Contains(err.Error(), `\x`) {
			t.Errorf("error %.200v", err)
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("# HELP a b\n# TYPE a gauge\na 1\n"), true)
	f.Add([]byte("# UNIT a b\n# EOF"), false)
	f.Fuzz(func(t *testing.T, page []byte, text bool) {
		format := OpenMetrics
		if text {
			format = Text
		}
		s := NewScanner(page, format)
		var read []byte
		for s.Next() {
			read = append(read, s.Line().Raw...)
		}
		if s.Err() == nil && string(read) != string(page) {
			t.Errorf("read %q of %q", read, page)
		}
	})
}
