package exposition

import (
	"bytes"
	"unicode/utf8"
)

// maxExemplarRunes bounds an exemplar's label names and values together
// (OpenMetrics 1.0, section Exemplars).
const maxExemplarRunes = 128

// validExemplar reports whether b is `{labels} value [timestamp]`.
func validExemplar(b []byte) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	var s Sample
	end, reason := s.readLabels(b, 1)
	if reason != "" || s.Name != nil {
		return false
	}
	runes := 0
	for i, l := range s.Labels {
		runes += utf8.RuneCount(l.Name) + utf8.RuneCount(l.Value)
		if runes > maxExemplarRunes || hasLabel(s.Labels[:i], l.Name) {
			return false
		}
	}
	i := skipBlank(b, end)
	end = tokenEnd(b, i)
	if !validFloat(b[i:end]) {
		return false
	}
	i = skipBlank(b, end)
	if i == len(b) {
		return true
	}
	end = tokenEnd(b, i)
	return skipBlank(b, end) == len(b) && validTimestamp(b[i:end], OpenMetrics)
}

// appendExemplar appends a valid exemplar with canonical escapes and with the
// spacing that OpenMetrics demands, whatever it was read with.
func appendExemplar(dst, exemplar []byte) []byte {
	var s Sample
	end, _ := s.readLabels(exemplar, 1)
	dst = append(dst, '{')
	for i := range s.Labels {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLabel(dst, &s.Labels[i])
	}
	dst = append(dst, '}')
	for token := range bytes.FieldsSeq(exemplar[end:]) {
		dst = append(dst, ' ')
		dst = append(dst, token...)
	}
	return dst
}
