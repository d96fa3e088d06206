package exposition

import "bytes"

// Label is one label of a series. Value keeps the escapes of the page, made
// canonical: only `\\`, `\"` and `\n` occur.
type Label struct {
	Name  []byte
	Value []byte
}

// Sample is one sample line, taken apart. Its slices point into the line,
// except where an escape had to be rewritten.
type Sample struct {
	Name      []byte
	Labels    []Label // in the order sent
	Prefix    int     // where the value token starts in the line
	Value     []byte
	Timestamp []byte // as sent: milliseconds in text, seconds in OpenMetrics; nil without one
	Exemplar  []byte // as sent, from '{' to the end; nil without one
}

// ParseSample takes a sample line of the given number apart, reusing s.Labels.
// The line ends with a newline.
func ParseSample(line []byte, number int, f Format, s *Sample) error {
	body := line[:len(line)-1]
	i := skipBlank(body, 0)
	s.Name, s.Labels, s.Timestamp, s.Exemplar = nil, s.Labels[:0], nil, nil
	if i < len(body) && body[i] != '{' {
		name, n := readLegacyName(body[i:], true)
		if n == 0 {
			return parseError(number, "line does not start with a metric name", body)
		}
		s.Name = name
		i = skipBlank(body, i+n)
	}
	if i < len(body) && body[i] == '{' {
		end, reason := s.readLabels(body, i+1)
		if reason != "" {
			return parseError(number, reason, body)
		}
		i = skipBlank(body, end)
	}
	if s.Name == nil {
		return parseError(number, "series without a metric name", body)
	}
	s.Prefix = i
	return s.readTail(body, number, f)
}

// Plain reports whether nothing follows the value on the line that the sample was
// parsed from: then the line is its series, its value and a newline.
func (s *Sample) Plain(line []byte) bool {
	return s.Prefix+len(s.Value)+1 == len(line)
}

// readLabels reads from behind '{' to behind '}' and returns that position, or a
// reason. A quoted name that stands first without a value is the metric's.
func (s *Sample) readLabels(b []byte, i int) (int, string) {
	for {
		i = skipBlank(b, i)
		if i >= len(b) {
			return 0, "label set is not closed"
		}
		if b[i] == '}' {
			return i + 1, ""
		}
		name, n, quoted, ok := readLabelName(b[i:])
		if !ok {
			return 0, "invalid label name"
		}
		i = skipBlank(b, i+n)
		if i >= len(b) {
			return 0, "label set is not closed"
		}
		if quoted && b[i] != '=' {
			if s.Name != nil || len(s.Labels) > 0 {
				return 0, "quoted metric name must stand first and once"
			}
			s.Name = name
		} else {
			if b[i] != '=' {
				return 0, "label without '='"
			}
			i = skipBlank(b, i+1)
			value, n, reason := readQuoted(b[i:])
			if reason != "" {
				return 0, reason
			}
			i = skipBlank(b, i+n)
			if string(name) == "__name__" {
				return 0, "label __name__ in a label set"
			}
			s.Labels = append(s.Labels, Label{Name: name, Value: value})
		}
		if i >= len(b) {
			return 0, "label set is not closed"
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i + 1, ""
		default:
			return 0, "labels not separated by ','"
		}
	}
}

// readTail reads the value, timestamp and exemplar that follow the series.
func (s *Sample) readTail(body []byte, number int, f Format) error {
	i := s.Prefix
	end := tokenEnd(body, i)
	s.Value = body[i:end]
	if !validFloat(s.Value) {
		return parseError(number, "value is no number", s.Value)
	}
	i = skipBlank(body, end)
	if i < len(body) && body[i] != '#' {
		end = tokenEnd(body, i)
		s.Timestamp = body[i:end]
		if !validTimestamp(s.Timestamp, f) {
			return parseError(number, "invalid timestamp", s.Timestamp)
		}
		i = skipBlank(body, end)
	}
	if i == len(body) {
		return nil
	}
	if f == Text || body[i] != '#' {
		return parseError(number, "text after the sample", body[i:])
	}
	i = skipBlank(body, i+1)
	s.Exemplar = body[i:]
	if !validExemplar(s.Exemplar) {
		return parseError(number, "invalid exemplar", s.Exemplar)
	}
	return nil
}

func validTimestamp(token []byte, f Format) bool {
	if f == OpenMetrics {
		_, ok := appendMilliseconds(nil, token)
		return ok
	}
	_, ok := appendSeconds(nil, token)
	return ok
}

func hasLabel(labels []Label, name []byte) bool {
	for _, l := range labels {
		if bytes.Equal(l.Name, name) {
			return true
		}
	}
	return false
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return i
}

func tokenEnd(b []byte, i int) int {
	for i < len(b) && !isBlank(b[i]) {
		i++
	}
	return i
}
