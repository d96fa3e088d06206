package web

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// timeoutHeader is how Prometheus says how long it waits, in seconds.
const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// noDeadline stands for a caller that did not say how long it waits: then the
// targets' own timeouts are what bounds the answer.
const noDeadline = 24 * time.Hour

// scrapeTimeout returns how long the answer to a request may take: what the caller
// waits, less the offset that the way back takes. A caller that waits less than
// twice the offset gets half of its time.
func scrapeTimeout(h http.Header, offset time.Duration) (time.Duration, error) {
	value := h.Get(timeoutHeader)
	if value == "" {
		return noDeadline, nil
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 || math.IsInf(seconds, 0) {
		return 0, fmt.Errorf("header %s is %q: it must be a positive number of seconds", timeoutHeader, value)
	}
	if seconds >= noDeadline.Seconds() {
		return noDeadline, nil
	}
	timeout := time.Duration(seconds * float64(time.Second))
	return max(timeout-offset, timeout/2), nil
}
