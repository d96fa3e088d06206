package exposition

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

// floats are the spellings that servers use or that look like numbers, each with
// whether Prometheus's parsers take it for a value.
var floats = map[string]bool{
	"0": true, "1": true, "-1": true, "+1": true, "12.5": true, ".5": true, "5.": true, "-.5": true,
	"8.0": true, "811227.0": true, "6.384528e+06": true, "2.894350336e+010": true, // the Python client's
	"1e5": true, "1E5": true, "1e-300": true, "1e308": true, "4.9e-324": true,
	"1.7976931348623157e+308": true, "123456789012345678901234567890": true,
	strings.Repeat("9", 64): true, strings.Repeat("9", 250): true, "0." + strings.Repeat("0", 250): true,
	"1e" + strings.Repeat("0", 200) + "1": true, "-0": true, "1e+0010": true,
	"NaN": true, "nan": true, "+Inf": true, "-Inf": true, "Inf": true, "inf": true, "infinity": true, "-INFINITY": true,

	"": false, " ": false, "+": false, "-": false, ".": false, "e5": false, "1e": false, "1e+": false, "1..2": false,
	"1.2.3": false, "--1": false, "1_0": false, "0x1p1": false, "0x10": false, "1p3": false, "1 2": false, " 1": false,
	"1e999": false, "-1e309": false, "infinite": false, "nanx": false, "1,5": false, "١": false, "1\r": false, "1f": false,
	strings.Repeat("9", 256): false, "1e" + strings.Repeat("0", 254) + "1": false, strings.Repeat("9", 310): false,
	"{": false, `"1"`: false, "true": false,
}

func TestValueLen(t *testing.T) {
	for token, valid := range floats {
		want := -1
		if valid {
			want = len(token)
		}
		if got := ValueLen([]byte(token + "\nnext 1\n")); got != want {
			t.Errorf("ValueLen(%q) = %d, want %d", token, got, want)
		}
		if got := validFloat([]byte(token)); got != valid {
			t.Errorf("validFloat(%q) = %t", token, got)
		}
	}
	if got := ValueLen([]byte("1")); got != -1 {
		t.Errorf("ValueLen without a newline = %d", got)
	}
}

// FuzzValueLen compares with strconv, which is what Prometheus's parsers use.
func FuzzValueLen(f *testing.F) {
	for token := range floats {
		f.Add([]byte(token))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		line, _, _ := strings.Cut(string(token), "\n")
		want := -1
		if _, err := strconv.ParseFloat(line, 64); err == nil && len(line) <= maxValueLen && !strings.ContainsAny(line, "_pPxX") {
			want = len(line)
		}
		if got := ValueLen([]byte(line + "\n")); got != want {
			t.Errorf("ValueLen(%q) = %d, want %d", line, got, want)
		}
		if got := validFloat([]byte(line)); got != (want > 0) {
			t.Errorf("validFloat(%q) = %t", line, got)
		}
	})
}

func TestCanonicalFloat(t *testing.T) {
	tests := map[string]string{
		"1": "1.0", "1.0": "1.0", "01": "1.0", "1e0": "1.0", "100000": "100000.0", "1000000": "1e+06", "1e+06": "1e+06",
		"1e6": "1e+06", "0.5": "0.5", ".5": "0.5", "0.50": "0.5", "5e-1": "0.5", "0.0001": "0.0001", "0.00001": "1e-05",
		"0": "0.0", "-0": "0.0", "-1": "-1.0", "inf": "+Inf", "+Inf": "+Inf", "-inf": "-Inf", "nan": "NaN", "NaN": "NaN",
		"2.5": "2.5", "": "", "x": "x", "1 ": "1 ", "0.1234567": "0.1234567", "000000.5": "0.5", "7680.0": "7680.0",
		"0x1p1": "2.0", "1e999": "1e999",
	}
	for token, want := range tests {
		if got := string(appendCanonicalFloat(nil, []byte(token))); got != want {
			t.Errorf("canonical %q = %q, want %q", token, got, want)
		}
		if f, err := strconv.ParseFloat(token, 64); err == nil {
			if theirs := labels.FormatOpenMetricsFloat(f); theirs != want {
				t.Errorf("Prometheus spells %q %q, the table says %q", token, theirs, want)
			}
		}
		if isCanonicalFloat([]byte(token)) && token != want {
			t.Errorf("%q passes for canonical, which is %q", token, want)
		}
	}
}

func TestIsCanonicalFloatNeverLies(t *testing.T) {
	for _, whole := range []string{"", "0", "00", "1", "01", "10", "123456", "1234567"} {
		for _, fraction := range []string{"", "0", "00", "5", "50", "05", "0001", "00001", "000001", "123456", "1234567"} {
			token := whole + "." + fraction
			if !isCanonicalFloat([]byte(token)) {
				continue
			}
			if canonical := string(appendCanonicalFloat(nil, []byte(token))); canonical != token {
				t.Errorf("%q passes for canonical, which is %q", token, canonical)
			}
		}
	}
}

func TestSecondsFromMilliseconds(t *testing.T) {
	tests := map[string]string{
		"0": "0.000", "1": "0.001", "999": "0.999", "1000": "1.000", "1764444000123": "1764444000.123", "007": "0.007",
		"9223372036854775807": "9223372036854775.807",
	}
	for ms, want := range tests {
		got, ok := appendSeconds(nil, []byte(ms))
		if string(got) != want || !ok {
			t.Errorf("%q ms = %q s (%t), want %q", ms, got, ok, want)
		}
	}
	for _, ms := range []string{"", "-1", "+1", "1.5", "1e3", "9223372036854775808", "x", "1_0", " 1"} {
		if got, ok := appendSeconds([]byte("kept"), []byte(ms)); ok || string(got) != "kept" {
			t.Errorf("%q ms = %q (%t), want a refusal", ms, got, ok)
		}
	}
}

func TestMillisecondsFromSeconds(t *testing.T) {
	tests := map[string]string{
		"0": "0", "0.001": "1", "1.5": "1500", "1764444000.123": "1764444000123", "1e3": "1000000", "0.0004": "0",
		"0.0005": "1", "0.0015": "2", "-0": "0", "+1": "1000", "9223372036854": "9223372036854000",
	}
	for s, want := range tests {
		got, ok := appendMilliseconds(nil, []byte(s))
		if string(got) != want || !ok {
			t.Errorf("%q s = %q ms (%t), want %q", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "-1", "-0.001", "NaN", "Inf", "-Inf", "1e16", "1e300", "0x1p1", "x"} {
		if got, ok := appendMilliseconds([]byte("kept"), []byte(s)); ok || string(got) != "kept" {
			t.Errorf("%q s = %q (%t), want a refusal", s, got, ok)
		}
	}
}

// Every millisecond survives the way into OpenMetrics and back.
func TestTimestampRoundTrip(t *testing.T) {
	for _, base := range []int64{0, 1, 1764444000000, 1 << 42, math.MaxInt32} {
		for ms := base; ms < base+2000; ms += 7 {
			seconds, _ := appendSeconds(nil, strconv.AppendInt(nil, ms, 10))
			back, ok := appendMilliseconds(nil, seconds)
			if string(back) != fmt.Sprint(ms) || !ok {
				t.Fatalf("%d ms became %q s and then %q ms", ms, seconds, back)
			}
		}
	}
}
