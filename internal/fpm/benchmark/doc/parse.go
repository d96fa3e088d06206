package doc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits bound what Parse takes. A zero field takes its default.
type Limits struct {
	Bytes  int64 // size of the document; default 64 MiB
	Depth  int   // nesting of arrays and objects; default 64 (an artifact needs about 12)
	Values int   // scalars, arrays and objects together; default 4 million
}

// Defaults of Limits. A value costs about 80 bytes of memory on top of its text, so these bound a parse at some 450 MB.
const (
	DefaultBytes  = 64 << 20
	DefaultDepth  = 64
	DefaultValues = 4_000_000
	// maxDuplicates is how many duplicate keys are named; a document with more is broken beyond listing them.
	maxDuplicates = 20
)

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	if l.Values == 0 {
		l.Values = DefaultValues
	}
	return l
}

// Limit errors, wrapped in a *SyntaxError where a place is known.
var (
	ErrTooLarge      = errors.New("document too large")
	ErrTooDeep       = errors.New("nesting too deep")
	ErrTooManyValues = errors.New("too many values")
	ErrNotFinite     = errors.New("number is not finite")
)

// SyntaxError says where a document stops being one.
type SyntaxError struct {
	Line, Column int    // 1-based
	Path         string // JSONPath of the value that was being read
	Err          error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d (%s): %v", e.Line, e.Column, e.Path, e.Err)
}

// Unwrap gives the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Parse reads one JSON document. Keys that occur twice in one object are reported by their path, and the last one counts,
// as it does for the producer's own reader. The error is a *SyntaxError, or wraps ErrTooLarge or the reader's error.
func Parse(r io.Reader, limits Limits) (v any, duplicates []Node, err error) {
	limits = limits.withDefaults()
	data, err := io.ReadAll(io.LimitReader(r, limits.Bytes+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limits.Bytes {
		return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limits.Bytes)
	}
	p := &parser{limits: limits, data: data, dec: json.NewDecoder(bytes.NewReader(data)), names: map[string]string{}}
	p.dec.UseNumber()
	v, err = p.next(Root(nil), 0)
	if err == nil {
		if _, more := p.dec.Token(); !errors.Is(more, io.EOF) {
			err = p.fail(Root(nil), errors.New("there is more after the end of the document"))
		}
	}
	return v, p.duplicates, err
}

type parser struct {
	limits     Limits
	data       []byte
	dec        *json.Decoder
	values     int
	names      map[string]string // one copy of each key and short string
	duplicates []Node
}

func (p *parser) fail(at Node, err error) error {
	if _, ok := errors.AsType[*SyntaxError](err); ok {
		return err
	}
	offset := p.nextValue()
	if word := notFinite(p.data[offset:]); word != "" {
		err = fmt.Errorf("%w: %s is no JSON; the run measured or computed no value here", ErrNotFinite, word)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset = len(p.data)
		err = fmt.Errorf("the document ends in the middle, it was cut off: %w", io.ErrUnexpectedEOF)
	}
	before := p.data[:offset]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := offset - bytes.LastIndexByte(before, '\n')
	return &SyntaxError{Line: line, Column: column, Path: at.Path(), Err: err}
}

// nextValue is where the value after the last good token starts. The decoder's own offsets for errors are counted from
// different places, so they are not used.
func (p *parser) nextValue() int {
	start := min(int(p.dec.InputOffset()), len(p.data))
	rest := bytes.TrimLeft(p.data[start:], " \t\r\n,:")
	return len(p.data) - len(rest)
}

// notFinite recognises what Python's json writes for floats that JSON has no spelling for.
func notFinite(rest []byte) string {
	s := strings.TrimPrefix(string(rest[:min(len(rest), 16)]), "-")
	for _, word := range []string{"NaN", "Infinity"} {
		if strings.HasPrefix(s, word) {
			return word
		}
	}
	return ""
}

func (p *parser) next(at Node, depth int) (any, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, p.fail(at, err)
	}
	if p.values++; p.values > p.limits.Values {
		return nil, p.fail(at, fmt.Errorf("%w: more than %d", ErrTooManyValues, p.limits.Values))
	}
	switch tok := tok.(type) {
	case json.Delim:
		if depth >= p.limits.Depth {
			return nil, p.fail(at, fmt.Errorf("%w: more than %d levels", ErrTooDeep, p.limits.Depth))
		}
		if tok == '[' {
			return p.array(at, depth)
		}
		return p.object(at, depth)
	case string:
		return p.intern(tok), nil
	default:
		return tok, nil
	}
}

func (p *parser) array(at Node, depth int) (any, error) {
	items := []any{}
	for p.dec.More() {
		v, err := p.next(at.At(len(items)), depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, p.end(at)
}

func (p *parser) object(at Node, depth int) (any, error) {
	o := &Object{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, p.fail(at, err)
		}
		key := p.intern(tok.(string)) // the decoder takes nothing but a string for a key
		child := at.Key(key)
		v, err := p.next(child, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := o.Get(key); twice && len(p.duplicates) < maxDuplicates {
			p.duplicates = append(p.duplicates, child)
		}
		o.Set(key, v)
	}
	return o, p.end(at)
}

func (p *parser) end(at Node) error {
	if _, err := p.dec.Token(); err != nil {
		return p.fail(at, err)
	}
	return nil
}

const maxInterned = 1 << 16

func (p *parser) intern(s string) string {
	if len(s) > 64 {
		return s
	}
	if known, ok := p.names[s]; ok {
		return known
	}
	if len(p.names) < maxInterned {
		p.names[s] = s
	}
	return s
}
