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

// The classes of bytes in names.
const (
	nameLetter = 1 << iota // letters and '_', which may stand anywhere in a name
	nameDigit              // not at the start
	nameColon              // in metric names
)

// nameBytes are the classes of all bytes: a look-up is what makes reading names
// quick.
var nameBytes = func() (t [256]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = nameLetter, nameLetter
	}
	for c := '0'; c <= '9'; c++ {
		t[c] = nameDigit
	}
	t['_'], t[':'] = nameLetter, nameColon
	return t
}()

// readLegacyName returns the longest name of letters, digits, '_' and, in metric
// names, ':' at the start of b.
func readLegacyName(b []byte, colons bool) ([]byte, int) {
	first := uint8(nameLetter)
	if colons {
		first |= nameColon
	}
	if len(b) == 0 || nameBytes[b[0]]&first == 0 {
		return b[:0], 0
	}
	i := 1
	for rest := first | nameDigit; i < len(b) && nameBytes[b[i]]&rest != 0; {
		i++
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
