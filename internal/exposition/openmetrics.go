package exposition

import "bytes"

// variant says how a family's lines differ in OpenMetrics from their text form.
// Most families have none and are sent as the same bytes in both formats.
type variant struct {
	order  []uint32          // all lines of the family, regrouped; nil: as in text
	series map[uint32]string // by line: the series part, where `le` or `quantile` is spelled otherwise
}

// openMetricsVariants returns the variants of the layout's families. It walks the
// lines of a page once per layout, and only when someone asks for OpenMetrics.
func (l *Layout) openMetricsVariants(p *Page) map[uint32]*variant {
	l.regroupOnce.Do(func() {
		l.variants = map[uint32]*variant{}
		for i := range l.Families {
			if v := l.familyVariant(p, uint32(i)); v != nil {
				l.variants[uint32(i)] = v
			}
		}
		for _, s := range l.segments {
			if l.variants[s.family] == nil && l.hasTail(s) {
				l.variants[s.family] = &variant{}
			}
		}
	})
	return l.variants
}

func (l *Layout) hasTail(s segment) bool {
	if len(l.tails) == 0 {
		return false
	}
	for line := s.first; line < s.end; line++ {
		if _, ok := l.tails[line]; ok {
			return true
		}
	}
	return false
}

// familyVariant compares a family's lines with what OpenMetrics demands:
// canonical bounds, and all lines of one metric together ("MUST NOT be
// interleaved"). Multi-process Python servers interleave the children of a
// histogram.
func (l *Layout) familyVariant(p *Page, family uint32) *variant {
	bound := boundLabel(l.Families[family].Type)
	if bound == "" {
		return nil
	}
	v := &variant{series: map[uint32]string{}}
	groups := map[string]int{} // metric -> its number in order of appearance
	members := [][]uint32{}
	last, grouped := -1, true
	var key []byte
	p.familyLines(family, func(line uint32, text []byte) {
		series := text[:l.prefix[line]]
		if canonical, changed := canonicalBound(series, bound); changed {
			v.series[line] = string(canonical)
		}
		key = appendMetricKey(key[:0], series, bound)
		g, known := groups[string(key)]
		if !known {
			g = len(members)
			groups[string(key)] = g
			members = append(members, nil)
		}
		grouped = grouped && (!known || g == last)
		last = g
		members[g] = append(members[g], line)
	})
	if !grouped {
		for _, m := range members {
			v.order = append(v.order, m...)
		}
	}
	if v.order == nil && len(v.series) == 0 {
		return nil
	}
	return v
}

// boundLabel returns the label that tells the lines of one metric of type t
// apart, or "".
func boundLabel(t Type) string {
	switch t {
	case Histogram, GaugeHistogram:
		return "le"
	case Summary:
		return "quantile"
	}
	return ""
}

// canonicalBound returns the series with its bound in OpenMetrics's spelling, and
// whether that differs.
func canonicalBound(series []byte, label string) ([]byte, bool) {
	i := firstLabel(series)
	for {
		l, next, ok := nextLabel(series, i)
		if !ok {
			return series, false
		}
		if i = next; !l.is(series, label) {
			continue
		}
		token := series[l.value:l.end]
		if isCanonicalFloat(token) {
			return series, false
		}
		canonical := appendCanonicalFloat(make([]byte, 0, 32), token)
		if bytes.Equal(canonical, token) {
			return series, false
		}
		out := make([]byte, 0, len(series)+len(canonical))
		out = append(out, series[:l.value]...)
		out = append(out, canonical...)
		return append(out, series[l.end:]...), true
	}
}

// appendMetricKey appends what the lines of one metric have in common: the labels
// without the bound.
func appendMetricKey(dst, series []byte, bound string) []byte {
	for i := firstLabel(series); ; {
		l, next, ok := nextLabel(series, i)
		if !ok {
			return dst
		}
		if i = next; !l.is(series, bound) {
			dst = append(append(dst, series[l.start:next]...), ',')
		}
	}
}

// variantText returns the OpenMetrics bytes of a family that has a variant, and
// false for one that is sent as in text. The bytes are made once per page.
func (p *Page) variantText(family uint32) ([]byte, bool) {
	p.openMetricsOnce.Do(func() {
		variants := p.layout.openMetricsVariants(p)
		p.openMetrics = make(map[uint32][]byte, len(variants))
		for f, v := range variants {
			p.openMetrics[f] = p.renderVariant(f, v)
		}
	})
	text, ok := p.openMetrics[family]
	return text, ok
}

func (p *Page) renderVariant(family uint32, v *variant) []byte {
	var out []byte
	if v.order == nil {
		p.familyLines(family, func(line uint32, text []byte) { out = p.appendOpenMetrics(out, line, text, v) })
		return out
	}
	lines := make(map[uint32][]byte, len(v.order))
	p.familyLines(family, func(line uint32, text []byte) { lines[line] = text })
	for _, line := range v.order {
		out = p.appendOpenMetrics(out, line, lines[line], v)
	}
	return out
}

// appendOpenMetrics appends one line in its OpenMetrics form.
func (p *Page) appendOpenMetrics(dst []byte, line uint32, text []byte, v *variant) []byte {
	n := p.layout.prefix[line]
	if series, ok := v.series[line]; ok {
		dst = append(dst, series...)
	} else {
		dst = append(dst, text[:n]...)
	}
	if tail, ok := p.layout.tails[line]; ok {
		dst = append(dst, tail...)
		return append(dst, '\n')
	}
	return append(dst, text[n:]...)
}
