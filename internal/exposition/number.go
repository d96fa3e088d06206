package exposition

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// maxValueLen bounds a value token, in bytes. Nothing that formats a float64
// writes more than 25; the bound lets the line cache keep lengths in a byte.
const maxValueLen = 255

// maxPlainDigits and maxPlainExponent bound the tokens that are known to be
// finite floats without parsing them: fewer digits and a shorter exponent cannot
// overflow.
const (
	maxPlainDigits   = 64
	maxPlainExponent = 2
)

// ValueLen returns the length of the value token that starts b and is ended by a
// newline, or -1 if the line goes on after the token or the token is no float
// that a Prometheus parser accepts. b must contain a newline. This is the check
// that every relayed value passes, on the first scrape and on each later one; no
// float is parsed for the spellings that servers use.
//
// Most values are digits with a dot among them, and those are looked at eight
// bytes at a time.
func ValueLen(b []byte) int {
	dots := 0
	for i := 0; i+8 <= len(b) && i < maxPlainDigits; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		dot := zeroBytes(w ^ eachByte*'.')
		other := ^(dot | digitBytes(w)) & highBits
		if other == 0 {
			dots += bits.OnesCount64(dot)
			continue
		}
		n := bits.TrailingZeros64(other) / 8
		dots += bits.OnesCount64(dot & (1<<(8*n) - 1))
		if n += i; b[n] == '\n' && dots <= 1 && n > dots {
			return n
		}
		break
	}
	return anyValueLen(b)
}

// anyValueLen is ValueLen for every spelling.
func anyValueLen(b []byte) int {
	i := plainFloat(b)
	if i > 0 && i <= maxValueLen && i < len(b) && b[i] == '\n' {
		return i
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 || !validFloat(b[:end]) {
		return -1
	}
	return end
}

// Words of eight equal bytes, and the high bit of each byte.
const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
	lowBits  = 0x7f * eachByte
)

// zeroBytes returns a word with the high bit of every byte set that is zero in w.
func zeroBytes(w uint64) uint64 { return ^(w&lowBits + lowBits | w) & highBits }

// digitBytes returns a word with the high bit of every byte set that is an ASCII
// digit in w: those that differ from '0' by less than ten.
func digitBytes(w uint64) uint64 {
	w ^= eachByte * '0'
	return ^(w&lowBits + eachByte*(0x80-10) | w) & highBits
}

// plainFloat returns the length of the longest prefix of b that is a decimal
// float which cannot overflow, or 0.
func plainFloat(b []byte) int {
	i := 0
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	digits := i - start
	if i < len(b) && b[i] == '.' {
		i++
		fraction := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		digits += i - fraction
	}
	if digits == 0 || digits > maxPlainDigits {
		return 0
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		// The Python client writes three digits with a leading zero from 1e10 on.
		for i+1 < len(b) && b[i] == '0' && b[i+1]-'0' <= 9 {
			i++
		}
		exponent := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		if n := i - exponent; n == 0 || n > maxPlainExponent {
			return 0
		}
	}
	return i
}

// validFloat reports whether a Prometheus parser accepts the token as a value:
// what strconv accepts, without the hexadecimal and underscored spellings.
func validFloat(b []byte) bool {
	if len(b) == 0 || len(b) > maxValueLen {
		return false
	}
	if plainFloat(b) == len(b) {
		return true
	}
	if bytes.ContainsAny(b, "_pPxX") {
		return false
	}
	_, err := strconv.ParseFloat(string(b), 64)
	return err == nil
}

// appendCanonicalFloat appends the spelling that OpenMetrics demands of `le` and
// `quantile` values: that of Go, with ".0" for integers and without the sign of
// a zero. A token that is no number is appended as it is.
func appendCanonicalFloat(dst, token []byte) []byte {
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return append(dst, token...)
	}
	switch {
	case math.IsInf(f, 1):
		return append(dst, "+Inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-Inf"...)
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case f == 0:
		return append(dst, "0.0"...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// isCanonicalFloat reports whether the token certainly has the spelling of
// appendCanonicalFloat. It knows the usual ones: "+Inf", "0.25", "120.0".
func isCanonicalFloat(token []byte) bool {
	if string(token) == "+Inf" {
		return true
	}
	whole, fraction, ok := bytes.Cut(token, []byte("."))
	if !ok || len(whole) == 0 || len(whole) > 6 || len(fraction) == 0 || len(fraction) > 6 {
		return false
	}
	for _, c := range whole {
		if c-'0' > 9 {
			return false
		}
	}
	for _, c := range fraction {
		if c-'0' > 9 {
			return false
		}
	}
	switch {
	case whole[0] == '0' && (len(whole) > 1 || bytes.HasPrefix(fraction, []byte("000"))):
		return false // leading zero, or so small that an exponent is due
	case len(fraction) > 1 && fraction[len(fraction)-1] == '0':
		return false
	}
	return true
}

// appendSeconds appends a text-format timestamp (milliseconds) as OpenMetrics
// seconds. It is of digits alone: Prometheus refuses a whole text page for a sign.
func appendSeconds(dst, milliseconds []byte) ([]byte, bool) {
	ms, err := strconv.ParseInt(string(milliseconds), 10, 64)
	if err != nil || milliseconds[0]-'0' > 9 {
		return dst, false
	}
	dst = strconv.AppendInt(dst, ms/1000, 10)
	dst = append(dst, '.')
	rest := ms % 1000
	return append(dst, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10)), true
}

// appendMilliseconds appends an OpenMetrics timestamp (seconds) as text-format
// milliseconds, to the nearest. Times before 1970, which the text format's
// readers refuse, are none.
func appendMilliseconds(dst, seconds []byte) ([]byte, bool) {
	if !validFloat(seconds) {
		return dst, false
	}
	s, err := strconv.ParseFloat(string(seconds), 64)
	if err != nil || math.IsNaN(s) || s < 0 || s*1000 >= math.MaxInt64 {
		return dst, false
	}
	return strconv.AppendInt(dst, int64(math.Round(s*1000)), 10), true
}
