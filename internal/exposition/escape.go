package exposition

import "bytes"

// readQuoted reads a quoted string and returns its content with canonical
// escapes, and its length with the quotes.
func readQuoted(b []byte) (value []byte, n int, reason string) {
	if len(b) == 0 || b[0] != '"' {
		return nil, 0, "value is not quoted"
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 {
		return nil, 0, "quote is not closed"
	}
	if bytes.IndexByte(b[1:1+end], '\\') < 0 {
		return b[1 : 1+end], end + 2, ""
	}
	canonical := true
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			if canonical {
				return b[1:i], i + 1, ""
			}
			return canonicalEscapes(b[1:i]), i + 1, ""
		case '\\':
			i++
			if i < len(b) && b[i] != '\\' && b[i] != '"' && b[i] != 'n' {
				canonical = false
			}
		}
	}
	return nil, 0, "quote is not closed"
}

// canonicalEscapes doubles the backslash of an escape that the formats do not
// know, which Prometheus reads as a backslash too.
func canonicalEscapes(b []byte) []byte {
	out := make([]byte, 0, len(b)+4)
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		i++
		if b[i] != '\\' && b[i] != '"' && b[i] != 'n' {
			out = append(out, '\\')
		}
		out = append(out, '\\', b[i])
	}
	return out
}

// Unescape returns a Label.Value without its escapes.
func Unescape(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			i++
			if b[i] == 'n' {
				out = append(out, '\n')
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

// UnescapeHelp returns the text of a HELP line without its escapes. A backslash
// that starts none is text.
func UnescapeHelp(b []byte, f Format) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			switch {
			case b[i+1] == 'n':
				out = append(out, '\n')
				i++
				continue
			case b[i+1] == '\\', b[i+1] == '"' && f == OpenMetrics:
				i++
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

// appendEscaped appends b with `\`, newline and, if quotes is set, `"` escaped.
func appendEscaped(dst, b []byte, quotes bool) []byte {
	for _, c := range b {
		switch {
		case c == '\\':
			dst = append(dst, '\\', '\\')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '"' && quotes:
			dst = append(dst, '\\', '"')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendQuotedName(dst, name []byte) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, name, true)
	return append(dst, '"')
}

// AppendLabelValue appends a value that is not escaped yet in the form of
// Label.Value.
func AppendLabelValue(dst []byte, value string) []byte {
	return appendEscaped(dst, []byte(value), true)
}
