package events

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/collector"
)

// fullSize tells whether the tests of this file run at full size, which takes
// minutes: OMNI_EXPORTER_TEST_FULL=1.
func fullSize() bool { return os.Getenv("OMNI_EXPORTER_TEST_FULL") != "" }

// serve posts a body to the handler without a network in between.
func serve(h *Handler, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/events", bytes.NewReader(body)))
	return w
}

// TestGarbageAmongMany: one event in a hundred is garbage of some kind; every
// line is counted where it belongs and the families show the good ones exactly.
func TestGarbageAmongMany(t *testing.T) {
	total := 100_000
	if fullSize() {
		total = 1_000_000
	}
	garbage := []struct{ line, reason string }{
		{`{"type":"request_started","request_id":"x"`, reasonMalformed},
		{"\x00\xff\xfe", reasonMalformed},
		{`{"type":"request_exploded"}`, reasonUnknownType},
		{`{"type":"request_started","model_name":"m"}`, reasonMissingField},
		{`{"type":"transfer_rx","model_name":"m","from_stage":"0","from_replica":"0","to_stage":"1","to_replica":"0","rx_ms":-4}`, reasonInvalidValue},
		{`{"type":"request_failed","request_id":"never heard of"}`, reasonUnknownRequest},
	}
	e := newEndpoint(t, endpointOptions{table: collector.RequestTableOptions{MaxRequests: 1000}})
	rejected := map[string]int{}
	received := map[string]int{}
	var body bytes.Buffer
	badInBody := 0
	flush := func() {
		a := e.send(bytes.NewReader(body.Bytes()), "Content-Type", "application/x-ndjson")
		if len(a.rejections) != badInBody {
			t.Fatalf("status %d: %d lines rejected, want %d", a.status, len(a.rejections), badInBody)
		}
		body.Reset()
		badInBody = 0
	}
	line := func(format string, args ...any) { fmt.Fprintf(&body, format+"\n", args...) }
	requests := 0
	for i := range total {
		switch id := i / 4; {
		case i%100 == 99:
			g := garbage[i/100%len(garbage)]
			line("%s", g.line)
			rejected[g.reason]++
			badInBody++
		case i%4 == 0:
			line(`{"type":"request_started","request_id":"r%d","model_name":"m"}`, id)
			received[typeRequestStarted]++
			requests++
		case i%4 == 1:
			line(`{"type":"request_scheduled","request_id":"r%d"}`, id)
			received[typeRequestScheduled]++
		case i%4 == 2:
			line(`{"type":"transfer_tx","model_name":"m","from_stage":"0","from_replica":"0","to_stage":"1","to_replica":"%d","size_bytes":1024,"tx_ms":2}`, id%2)
			received[typeTransferTx]++
		default:
			line(`{"type":"request_finished","request_id":"r%d","e2e_s":0.5}`, id)
			received[typeRequestFinished]++
		}
		if body.Len() > 900_000 {
			flush()
		}
	}
	flush()
	for reason, n := range rejected {
		e.want(rejectedLine(reason, n))
	}
	for eventType, n := range received {
		e.want(receivedLine(eventType, n))
	}
	finished := received[typeRequestFinished]
	hops := received[typeTransferTx]
	e.want(
		fmt.Sprintf(`vllm:omni_requests_success_total{finished_reason="stop",model_name="m"} %s`, sample(finished)),
		fmt.Sprintf(`vllm:omni_e2e_request_latency_s_count{model_name="m"} %d`, finished),
		fmt.Sprintf(`vllm:omni_transfer_size_bytes_count{from_replica="0",from_stage="0",model_name="m",to_replica="0",to_stage="1"} %d`, (hops+1)/2),
		ignoredLine("duplicate", 0))
	// Each garbage line stands where a request_finished would: those requests
	// stay open, up to the bound of the table, and the rest is given up.
	open := requests - finished
	expired := max(0, open-1000)
	page := e.page()
	if !strings.Contains(page, fmt.Sprintf("omni_exporter_events_expired_requests_total %d\n", expired)) ||
		!strings.Contains(page, fmt.Sprintf(`vllm:omni_num_requests_running{model_name="m"} %d`, open-expired)) {
		t.Errorf("want %d open and %d expired\n%s", open-expired, expired, page)
	}
}

// sample is how a page spells a whole number that is a float.
func sample(n int) string { return strconv.FormatFloat(float64(n), 'g', -1, 64) }

// TestMemoryIsFlat posts events of a bounded set of requests over and over. The
// clock advances past the memory of requests with each round, so that every
// round counts anew. Then it posts requests that are all new.
func TestMemoryIsFlat(t *testing.T) {
	total := 100_000
	if fullSize() {
		total = 10_000_000
	}
	const requestsPerBody, bodies = 200, 10
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }

	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	check := func(t *testing.T, h *Handler, next func(i int) []byte) {
		t.Helper()
		sent, warm := 0, int64(0)
		for i := 0; sent < total; i++ {
			body := next(i)
			sent += bytes.Count(body, []byte("\n"))
			if w := serve(h, body); w.Code != http.StatusAccepted {
				t.Fatalf("status %d: %.300s", w.Code, w.Body)
			}
			if warm == 0 && sent >= total/5 {
				warm = heap()
			}
		}
		grown := heap() - warm
		t.Logf("%d events, heap %d bytes, grown %d since %d events", sent, warm+grown, grown, total/5)
		if grown > 2<<20 {
			t.Errorf("heap grew by %d bytes", grown)
		}
	}

	t.Run("bounded set of requests", func(t *testing.T) {
		h, requests := newTestHandler(t, collector.DefaultMaxSeries, collector.RequestTableOptions{Clock: clock})
		var set [bodies][]byte
		for i := range set {
			set[i], _ = requestBody(i*requestsPerBody, requestsPerBody)
		}
		check(t, h, func(i int) []byte {
			if i%bodies == 0 {
				now = now.Add(2 * collector.DefaultRequestTimeout)
			}
			return set[i%bodies]
		})
		if n := requests.Len(); n > requestsPerBody*bodies {
			t.Errorf("%d requests remembered", n)
		}
	})
	t.Run("requests without end", func(t *testing.T) {
		h, requests := newTestHandler(t, collector.DefaultMaxSeries, collector.RequestTableOptions{Clock: clock, MaxRequests: 2000})
		check(t, h, func(i int) []byte {
			body, _ := requestBody(i*requestsPerBody, requestsPerBody)
			return body
		})
		if n := requests.Len(); n != 2000 {
			t.Errorf("%d requests remembered", n)
		}
	})
}
