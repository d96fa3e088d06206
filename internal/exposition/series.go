package exposition

import "bytes"

// AppendSeries appends the series `name{labels} ` with a closing space, the
// labels in the order given, and reports whether a name had to be quoted.
func AppendSeries(dst, name []byte, labels []Label) (out []byte, quoted bool) {
	legacy := IsLegacyName(name, true)
	if legacy {
		dst = append(dst, name...)
		if len(labels) == 0 {
			return append(dst, ' '), false
		}
		dst = append(dst, '{')
	} else {
		quoted = true
		dst = appendQuotedName(append(dst, '{'), name)
	}
	for i := range labels {
		if i > 0 || !legacy {
			dst = append(dst, ',')
		}
		if !IsLegacyName(labels[i].Name, false) {
			quoted = true
		}
		dst = appendLabel(dst, &labels[i])
	}
	return append(dst, '}', ' '), quoted
}

func appendLabel(dst []byte, l *Label) []byte {
	if IsLegacyName(l.Name, false) {
		dst = append(dst, l.Name...)
	} else {
		dst = appendQuotedName(dst, l.Name)
	}
	dst = append(dst, '=', '"')
	dst = append(dst, l.Value...)
	return append(dst, '"')
}

// span is where one label stands in a series part as AppendSeries writes it.
type span struct {
	start, equals int // the name, with its quotes if it has any
	value, end    int // what stands between the quotes of the value
}

func (s span) is(series []byte, name string) bool { return string(series[s.start:s.equals]) == name }

// nextLabel returns the label behind position i, which is that of the '{' or of
// the ',' after the last label, and the position of the ',' or '}' behind it.
// Names and values in quotes may hold every character, so a label cannot be found
// by searching for its name.
func nextLabel(series []byte, i int) (s span, next int, ok bool) {
	for i < len(series) && series[i] != '}' {
		s.start = i + 1
		if s.start < len(series) && series[s.start] == '"' {
			i = quoteEnd(series, s.start)
		} else {
			i = len(series)
			if n := bytes.IndexByte(series[s.start:], '='); n >= 0 {
				i = s.start + n
			}
		}
		if i < len(series) && series[i] == '=' {
			s.equals, s.value = i, i+2
			next = quoteEnd(series, i+1)
			s.end = next - 1
			return s, next, next <= len(series)
		}
		// A name without a value is the metric's.
	}
	return span{}, i, false
}

// quoteEnd returns the position behind the closing quote of the string whose
// opening quote is at i.
func quoteEnd(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// firstLabel returns the position of the '{', from which nextLabel finds a series'
// first label, or the length of the series.
func firstLabel(series []byte) int {
	if i := bytes.IndexByte(series, '{'); i >= 0 {
		return i
	}
	return len(series)
}
