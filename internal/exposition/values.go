package exposition

import "bytes"

// Values calls f with each series of a family, as it leaves in the text format, and
// with its value token. Both are good until f returns. It looks at every line of the
// family: for people who look at a page, not for every scrape.
func (p *Page) Values(family string, f func(series, value []byte)) {
	for i := range p.layout.Families {
		if p.layout.Families[i].Key != family {
			continue
		}
		p.familyLines(uint32(i), func(line uint32, text []byte) {
			n := p.layout.prefix[line]
			value, _, _ := bytes.Cut(text[n:len(text)-1], []byte{' '})
			f(text[:n-1], value)
		})
	}
}

// LabelValue returns the value of a label of a series that Values gives, without
// its escapes, and false if the series has no such label.
func LabelValue(series []byte, name string) (string, bool) {
	for i := firstLabel(series); ; {
		s, next, ok := nextLabel(series, i)
		if !ok {
			return "", false
		}
		if s.is(series, name) {
			return string(Unescape(series[s.value:s.end])), true
		}
		i = next
	}
}
