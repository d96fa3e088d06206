package doc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

var errClipped = errors.New("clipped")

// layout is how a document is spelled.
type layout struct {
	indent     string
	colon      string
	sorted     bool
	asciiOnly  bool
	fieldBreak string
}

var (
	compact = layout{colon: ": ", fieldBreak: ", "}
	pretty  = layout{colon: ": ", indent: "  "}
	// canonical is the form the producer hashes: Python's json.dumps with sorted keys, no blanks and only ASCII.
	canonical = layout{colon: ":", fieldBreak: ",", sorted: true, asciiOnly: true}
)

// Write writes a document with two blanks of indentation, members in order, numbers as they were spelled, and a last
// newline.
func Write(w io.Writer, v any) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if err := write(b, v, pretty); err != nil {
		return err
	}
	if err := b.WriteByte('\n'); err != nil {
		return err
	}
	return b.Flush()
}

// Canonical is the spelling the producer hashes: keys sorted, no blanks, everything beyond ASCII escaped.
func Canonical(v any) []byte {
	var b bytes.Buffer
	// A bytes.Buffer takes everything, and a parsed document holds only the types that write knows.
	_ = write(&b, v, canonical)
	return b.Bytes()
}

func write(w io.Writer, v any, l layout) error { return (&printer{w: w, layout: l}).value(v, 0) }

type printer struct {
	w io.Writer
	layout
}

func (p *printer) text(s string) error {
	_, err := io.WriteString(p.w, s)
	return err
}

func (p *printer) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		return p.text("null")
	case bool:
		if v {
			return p.text("true")
		}
		return p.text("false")
	case json.Number:
		return p.text(string(v))
	case string:
		return p.quoted(v)
	case []any:
		return p.list(len(v), '[', ']', depth, func(i int) error { return p.value(v[i], depth+1) })
	case *Object:
		members := v.members
		if p.sorted {
			members = slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.key, b.key) })
		}
		return p.list(len(members), '{', '}', depth, func(i int) error {
			if err := p.quoted(members[i].key); err != nil {
				return err
			}
			if err := p.text(p.colon); err != nil {
				return err
			}
			return p.value(members[i].value, depth+1)
		})
	default:
		return fmt.Errorf("a document cannot hold a %T", v)
	}
}

func (p *printer) list(n int, open, end byte, depth int, item func(int) error) error {
	if err := p.text(string(open)); err != nil {
		return err
	}
	for i := range n {
		sep := ""
		switch {
		case p.indent != "" && i > 0:
			sep = ",\n" + strings.Repeat(p.indent, depth+1)
		case p.indent != "":
			sep = "\n" + strings.Repeat(p.indent, depth+1)
		case i > 0:
			sep = p.fieldBreak
		}
		if err := p.text(sep); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if p.indent != "" && n > 0 {
		if err := p.text("\n" + strings.Repeat(p.indent, depth)); err != nil {
			return err
		}
	}
	return p.text(string(end))
}

func (p *printer) quoted(s string) error {
	if err := p.text(`"`); err != nil {
		return err
	}
	start := 0
	for i, r := range s {
		esc := p.escape(r)
		if esc == "" {
			continue
		}
		if err := p.text(s[start:i]); err != nil {
			return err
		}
		if err := p.text(esc); err != nil {
			return err
		}
		start = i + len(string(r))
	}
	if err := p.text(s[start:]); err != nil {
		return err
	}
	return p.text(`"`)
}

func (p *printer) escape(r rune) string {
	switch {
	case r == '"' || r == '\\':
		return `\` + string(r)
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r == '\b':
		return `\b`
	case r == '\f':
		return `\f`
	case r < 0x20:
		return fmt.Sprintf(`\u%04x`, r)
	case r < 0x7f || !p.asciiOnly:
		return ""
	case r > 0xffff:
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	default:
		return fmt.Sprintf(`\u%04x`, r)
	}
}
