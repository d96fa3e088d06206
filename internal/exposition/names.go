package exposition

// readName reads a metric name, bare or quoted, and returns it unquoted.
func readName(b []byte) (name []byte, n int, quoted, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		return readQuotedName(b)
	}
	name, n = readLegacyName(b, true)
	return name, n, false, n > 0
}

func readLabelName(b []byte) (name []byte, n int, quoted, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		return readQuotedName(b)
	}
	name, n = readLegacyName(b, false)
	return name, n, false, n > 0
}

// readLegacyName returns the longest name of letters, digits, '_' and, in metric
// names, ':' at the start of b.
func readLegacyName(b []byte, colons bool) ([]byte, int) {
	i := 0
	for i < len(b) {
		c := b[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':' && colons || c-'0' <= 9 && i > 0 {
			i++
			continue
		}
		break
	}
	return b[:i], i
}

// IsLegacyName reports whether a name needs no quotes: it is of the characters
// that Prometheus knew before UTF-8 names.
func IsLegacyName(name []byte, colons bool) bool {
	_, n := readLegacyName(name, colons)
	return n > 0 && n == len(name)
}

func readQuotedName(b []byte) (name []byte, n int, quoted, ok bool) {
	value, n, reason := readQuoted(b)
	if reason != "" || len(value) == 0 {
		return nil, 0, true, false
	}
	return Unescape(value), n, true, true
}
