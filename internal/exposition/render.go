package exposition

import (
	"bufio"
	"bytes"
	"io"
	"slices"
)

// endOfFile ends every OpenMetrics page.
const endOfFile = "# EOF\n"

// writeBuffer gathers the parts of a page, most of them about a kilobyte, into
// writes of a size that is worth a system call.
const writeBuffer = 64 << 10

// View is a Merged page in one format and naming scheme.
type View struct {
	merged *Merged
	format Format
	utf8   bool
}

// View returns the page in the given format. With utf8, names that need quotes
// are written so; without, they are escaped by underscores, for readers that did
// not ask for `escaping=allow-utf-8`.
func (m *Merged) View(f Format, utf8 bool) View { return View{merged: m, format: f, utf8: utf8} }

// Size returns the view's length in bytes.
func (v View) Size() int {
	n := 0
	v.parts(func(b []byte) bool { n += len(b); return true })
	return n
}

// WriteTo writes the page. The error is the writer's own.
func (v View) WriteTo(w io.Writer) (int64, error) {
	var n int64
	var err error
	buffered := bufio.NewWriterSize(w, writeBuffer)
	v.parts(func(b []byte) bool {
		var written int
		written, err = buffered.Write(b)
		n += int64(written)
		return err == nil
	})
	if err == nil {
		err = buffered.Flush()
	}
	return n, err
}

// parts yields the page's bytes in order, until yield returns false.
func (v View) parts(yield func([]byte) bool) {
	for i := range v.merged.plan.families {
		f := &v.merged.plan.families[i]
		h := &f.headings[v.format]
		escape := f.quoted && !v.utf8
		if escape {
			h = &f.escaped[v.format]
		}
		if h.absent {
			continue
		}
		if !yield(h.text) {
			return
		}
		if escape {
			if !yield(v.escapedLines(f)) {
				return
			}
			continue
		}
		if !v.members(f, yield) {
			return
		}
	}
	if v.format == OpenMetrics {
		yield([]byte(endOfFile))
	}
}

func (v View) members(f *plannedFamily, yield func([]byte) bool) bool {
	for i := range f.members {
		m := &f.members[i]
		p := v.merged.pages[m.source]
		if len(m.losers) == m.lines {
			continue
		}
		if len(m.losers) > 0 {
			if !yield(v.withoutLosers(p, m)) {
				return false
			}
			continue
		}
		if v.format == OpenMetrics {
			if text, ok := p.variantText(m.family); ok {
				if !yield(text) {
					return false
				}
				continue
			}
		}
		for _, s := range p.layout.Families[m.family].segments {
			if !yield(p.segmentText(s)) {
				return false
			}
		}
	}
	return true
}

// withoutLosers returns a member's lines but those that an earlier source has.
func (v View) withoutLosers(p *Page, m *member) []byte {
	var va *variant
	if v.format == OpenMetrics {
		va = p.layout.openMetricsVariants(p)[m.family]
	}
	lines := map[uint32][]byte{}
	order := []uint32{}
	p.familyLines(m.family, func(line uint32, text []byte) {
		lines[line] = text
		order = append(order, line)
	})
	if va != nil && va.order != nil {
		order = va.order
	}
	var out []byte
	for _, line := range order {
		if _, lost := slices.BinarySearch(m.losers, line); lost {
			continue
		}
		if va != nil {
			out = p.appendOpenMetrics(out, line, lines[line], va)
			continue
		}
		out = append(out, lines[line]...)
	}
	return out
}

// escapedLines returns a family's lines with its names escaped by underscores. Of
// series that become equal, the first one stays.
func (v View) escapedLines(f *plannedFamily) []byte {
	var out []byte
	seen := map[string]bool{}
	var s Sample
	v.members(f, func(text []byte) bool {
		for len(text) > 0 {
			n := bytes.IndexByte(text, '\n') + 1
			line := text[:n]
			text = text[n:]
			if err := ParseSample(line, 0, v.format, &s); err != nil {
				continue // cannot be: the line was written by AppendSeries
			}
			escapeLabels(s.Labels)
			series, _ := AppendSeries(nil, []byte(escapeName(string(s.Name))), s.Labels)
			if seen[string(series)] {
				continue
			}
			seen[string(series)] = true
			out = append(append(out, series...), line[s.Prefix:]...)
		}
		return true
	})
	return out
}

// escapeLabels escapes the names of labels in place and sorts them. Where another
// label has the escaped name, the whole name is encoded.
func escapeLabels(labels []Label) {
	taken := make(map[string]bool, len(labels))
	for _, l := range labels {
		taken[string(l.Name)] = true
	}
	for i := range labels {
		name := escapeLabel(string(labels[i].Name))
		if name == string(labels[i].Name) {
			continue
		}
		if taken[name] {
			name = encodeLabel(string(labels[i].Name))
		}
		for taken[name] {
			name = "exported_" + name
		}
		taken[name] = true
		labels[i].Name = []byte(name)
	}
	slices.SortFunc(labels, func(a, b Label) int { return bytes.Compare(a.Name, b.Name) })
}
