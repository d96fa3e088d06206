package relabel

import (
	"bytes"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// bucket is the last line with an `le` label that was taken apart. Most lines of a
// vLLM page are buckets that differ from the one before in that label's value and
// in their value alone, so what became of one says what becomes of the next: `le`
// neither places a series nor moves another label.
type bucket struct {
	known      bool
	head, tail []byte // of the line as it came, before and behind the bound; tail ends before the value

	outHead, outTail []byte // the same of the line as it left
	family           *family
	entry            entry
	note             note
}

// learn makes the line that was written last the bucket that others are compared
// with, if it is one.
func (b *bucket) learn(raw, series []byte, f *family, e entry, n note) {
	b.known = false
	if e.flags&^flagQuoted != 0 {
		return
	}
	start, end, ok := findBound(raw[:e.in])
	outStart, outEnd, outOK := findBound(series)
	if !ok || !outOK || !bytes.Equal(raw[start:end], series[outStart:outEnd]) {
		return
	}
	b.head, b.tail = raw[:start], raw[end:e.in]
	b.outHead = append(b.outHead[:0], series[:outStart]...)
	b.outTail = append(b.outTail[:0], series[outEnd:]...)
	b.family, b.entry, b.note, b.known = f, e, n, true
}

// findBound returns where the value of the label `le` stands in a series. It walks
// from label to label, since `,le="` may also be the end of another label's value,
// and gives up on what is not written `name="value",...`.
func findBound(series []byte) (start, end int, ok bool) {
	i := bytes.IndexByte(series, '{')
	for i >= 0 && i+1 < len(series) {
		i++
		n := bytes.IndexByte(series[i:], '=')
		if n < 0 || i+n+1 >= len(series) || series[i+n+1] != '"' || !exposition.IsLegacyName(series[i:i+n], false) {
			return 0, 0, false
		}
		name := series[i : i+n]
		start = i + n + 2
		end = start
		for end < len(series) && series[end] != '"' {
			if series[end] == '\\' {
				end++
			}
			end++
		}
		if string(name) == "le" {
			return start, end, end < len(series) && plainString(series[start:]) == end-start
		}
		if i = end + 1; i >= len(series) || series[i] != ',' {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// plainString returns the length of the string that starts b and is ended by a
// quote, or -1 if it has escapes or no end.
func plainString(b []byte) int {
	for i, c := range b {
		switch c {
		case '"':
			return i
		case '\\':
			return -1
		}
	}
	return -1
}

// spliced writes a line that differs from the last bucket in its bound and value,
// and returns false for any other.
func (w *rewriting) spliced(raw []byte) (bool, error) {
	b := &w.bucket
	if !b.known || len(raw) <= len(b.head) || string(raw[:len(b.head)]) != string(b.head) {
		return false, nil
	}
	rest := raw[len(b.head):]
	n := plainString(rest)
	if n < 0 || len(rest) <= n+len(b.tail) || string(rest[n:n+len(b.tail)]) != string(b.tail) {
		return false, nil
	}
	if most := w.rules.options.Limits.LabelValue; most > 0 && n > most {
		return false, nil
	}
	value := rest[n+len(b.tail):]
	length := exposition.ValueLen(value)
	if length < 0 {
		return false, nil
	}
	bound := rest[:n]
	w.summary.add(&b.note)
	w.builder.Spliced(b.family.index, b.outHead, bound, b.outTail, value[:length], b.entry.flags&flagQuoted != 0)
	w.next.cut(w.builder.Segments())
	e := b.entry
	e.in, e.out = uint32(len(b.head)+n+len(b.tail)), uint32(len(b.outHead)+n+len(b.outTail))
	w.next.add(e, value[:length], b.note)
	return true, w.count()
}
