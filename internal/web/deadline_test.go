package web

import (
	"net/http"
	"testing"
	"time"
)

func TestScrapeTimeout(t *testing.T) {
	const offset = 500 * time.Millisecond
	for _, test := range []struct {
		header string
		offset time.Duration
		want   time.Duration // 0: refused
	}{
		{"", offset, noDeadline},
		{"10", offset, 9500 * time.Millisecond},
		{"10.000000", offset, 9500 * time.Millisecond},
		{"1e1", offset, 9500 * time.Millisecond},
		{"1.2", offset, 700 * time.Millisecond},
		{"1", offset, 500 * time.Millisecond},
		{"0.6", offset, 300 * time.Millisecond}, // less than twice the offset: half of it
		{"0.1", offset, 50 * time.Millisecond},
		{"10", 0, 10 * time.Second},
		{"10", time.Minute, 5 * time.Second},
		{"86400", offset, noDeadline},
		{"1e300", offset, noDeadline},
		{"0", offset, 0},
		{"-1", offset, 0},
		{"NaN", offset, 0},
		{"+Inf", offset, 0},
		{"-Inf", offset, 0},
		{"10s", offset, 0},
		{"ten", offset, 0},
		{" ", offset, 0},
	} {
		h := http.Header{}
		if test.header != "" {
			h.Set(timeoutHeader, test.header)
		}
		got, err := scrapeTimeout(h, test.offset)
		if test.want == 0 {
			if err == nil {
				t.Errorf("header %q is taken for %v, want an error", test.header, got)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("header %q with offset %v: %v, %v; want %v", test.header, test.offset, got, err, test.want)
		}
	}
}
