package events

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestBadLines(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	for _, c := range []struct{ line, reason, words string }{
		{`not json`, "malformed", "not a JSON object"},
		{`{"type":"request_failed","request_id":"r1"`, "malformed", "unexpected end"},
		{`{"type":"request_failed"} {}`, "malformed", "after top-level value"},
		{`[{"type":"request_failed"}]`, "malformed", "a line is one JSON object, not array"},
		{`"text"`, "malformed", "not string"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":NaN}`, "malformed", "invalid character 'N'"},
		{"{\"type\":\"\xff\"}", "malformed", "UTF-8"},
		{`{"type":"request_started","request_id":"r1","model_name":"m\u0000"}`, "invalid_value", "model_name: holds a NUL byte"},
		{`{}`, "missing_field", "type"},
		{`null`, "missing_field", "type"},
		{`{"type":"request_paused"}`, "unknown_type", `"request_paused"`},
		{`{"type":"request_started","request_id":"r1"}`, "missing_field", "model_name"},
		{`{"type":"request_started","model_name":"m"}`, "missing_field", "request_id"},
		{`{"type":"request_scheduled","request_id":"nobody"}`, "unknown_request", "model_name"},
		{`{"type":"request_failed","request_id":"nobody"}`, "unknown_request", "model_name"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m"}`, "missing_field", "e2e_s"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":null}`, "missing_field", "e2e_s"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":-1}`, "invalid_value", "e2e_s: -1"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":1e9}`, "invalid_value", "e2e_s"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":1e999}`, "invalid_value", "e2e_s: number 1e999"},
		{`{"type":"request_finished","request_id":"r1","model_name":"m","e2e_s":"1"}`, "invalid_value", "a number in range belongs"},
		{`{"type":"request_started","request_id":7,"model_name":"m"}`, "invalid_value", "request_id: number where a string belongs"},
		{`{"type":"request_started","request_id":"` + strings.Repeat("x", 513) + `","model_name":"m"}`, "invalid_value", "513 bytes"},
		{`{"type":"request_started","request_id":"r1","model_name":"` + strings.Repeat("x", 1025) + `"}`, "invalid_value", "1025 bytes"},
		{audio("audio_first_packet", "a1", "0", `"ttfp_s":-1`), "invalid_value", "ttfp_s"},
		{audio("audio_first_packet", "a1", "0", `"x":1`), "missing_field", "ttfp_s"},
		{`{"type":"audio_first_packet","request_id":"a1","model_name":"m","replica":"0","ttfp_s":1}`, "missing_field", "stage"},
		{`{"type":"audio_first_packet","request_id":"a1","stage":"2","replica":"0","ttfp_s":1}`, "unknown_request", "model_name"},
		{audio("audio_finished", "a1", "0", `"x":1`), "missing_field", "audio_frames"},
		{audio("audio_finished", "a1", "0", `"audio_frames":-1`), "invalid_value", "audio_frames"},
		{audio("audio_finished", "a1", "0", `"audio_frames":1.5`), "invalid_value", "1.5 is not a whole number"},
		{audio("audio_finished", "a1", "0", `"audio_frames":1e300`), "invalid_value", "audio_frames"},
		{audio("audio_finished", "a1", "0", `"audio_frames":1,"sample_rate":1e12`), "invalid_value", "sample_rate"},
		{audio("audio_finished", "a1", "0", `"audio_frames":1,"stage_gen_time_s":-1`), "invalid_value", "stage_gen_time_s"},
		{audio("audio_stream_finished", "a1", "0", `"chunk_bytes":[1]`), "missing_field", "arrivals_s"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1],"chunk_bytes":null`), "missing_field", "chunk_bytes"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1,2],"chunk_bytes":[1]`), "invalid_value", "1 chunks but 2 arrivals_s"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1,null],"chunk_bytes":[1,1]`), "invalid_value", "lists of numbers"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":["1"],"chunk_bytes":[1]`), "invalid_value", "lists of numbers"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":{},"chunk_bytes":[1]`), "invalid_value", "lists of numbers"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1,[2]],"chunk_bytes":[1,1]`), "invalid_value", "lists of numbers"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1e999],"chunk_bytes":[1]`), "invalid_value", "lists of numbers"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[-5],"chunk_bytes":[1]`), "invalid_value", "arrivals_s"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1],"chunk_bytes":[-1]`), "invalid_value", "chunk_bytes"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1],"chunk_bytes":[0.5]`), "invalid_value", "chunk_bytes"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1],"chunk_bytes":[1],"channels":0`), "invalid_value", "channels"},
		{audio("audio_stream_finished", "a1", "0", `"arrivals_s":[1],"chunk_bytes":[1],"bytes_per_sample":1.5`), "invalid_value", "bytes_per_sample"},
		{hop("transfer_tx", `"tx_ms":1`), "missing_field", "size_bytes"},
		{hop("transfer_tx", `"size_bytes":1`), "missing_field", "tx_ms"},
		{hop("transfer_tx", `"size_bytes":-1,"tx_ms":1`), "invalid_value", "size_bytes"},
		{hop("transfer_rx", `"in_flight_ms":1`), "missing_field", "rx_ms"},
		{hop("transfer_rx", `"rx_ms":-0.001`), "invalid_value", "rx_ms"},
		{hop("transfer_rx", `"rx_ms":1,"in_flight_ms":-5000`), "invalid_value", "in_flight_ms"},
		{`{"type":"transfer_rx","from_stage":"0","to_stage":"1","rx_ms":1}`, "missing_field", "model_name"},
		{`{"type":"transfer_rx","model_name":"m","to_stage":"1","rx_ms":1}`, "missing_field", "from_stage"},
		{`{"type":"transfer_rx","model_name":"m","from_stage":"1","rx_ms":1}`, "missing_field", "to_stage"},
	} {
		e.bad(c.line, c.reason, c.words)
	}
	e.wantNothingOf("vllm:omni_")
}

func TestGoodLinesCountBesideBadOnes(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	a := e.post("", started, "garbage", "   ", `{"type":"nope"}`, finished+"\r", `{"type":"request_started"}`)
	if a.status != http.StatusBadRequest || a.header.Get(rejectedLinesHeader) != "3" {
		t.Fatalf("status %d, header %v", a.status, a.header)
	}
	var got []string
	for _, r := range a.rejections {
		got = append(got, fmt.Sprint(r.Line, r.Reason))
	}
	if want := "[3malformed 5unknown_type 7missing_field]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	e.want(
		`vllm:omni_requests_success_total{finished_reason="length",model_name="m"} 1`,
		rejectedLine("malformed", 1), rejectedLine("unknown_type", 1), rejectedLine("missing_field", 1),
		receivedLine("request_started", 1), receivedLine("request_finished", 1))
}

func TestCountersStartAtZero(t *testing.T) {
	e := newEndpoint(t, endpointOptions{maxSeries: 7})
	for _, v := range Types() {
		e.want(receivedLine(v, 0))
	}
	for _, v := range reasons() {
		e.want(rejectedLine(v, 0))
	}
	for _, v := range ignoreReasons() {
		e.want(ignoredLine(v, 0))
	}
	e.want("omni_exporter_events_expired_requests_total 0", "omni_exporter_events_series 0", "omni_exporter_events_series_limit 7")
}

func TestEmptyBodies(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	e.good()
	e.good("", "\r", " ")
	if a := e.send(http.NoBody); a.status != http.StatusAccepted {
		t.Errorf("status %d", a.status)
	}
}

func TestMethods(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
		w := httptest.NewRecorder()
		e.handler.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/events", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: status %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	a := e.send(strings.NewReader(started), "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain")
	if a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
	e.wantNothingOf("vllm:omni_")
}

func TestContentTypes(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	for contentType, want := range map[string]int{
		"": 202, "application/x-ndjson": 202, "application/x-ndjson; charset=utf-8": 202, "application/json": 202,
		"application/x-www-form-urlencoded": 202, "text/plain": 202, "application/octet-stream": 202,
		"multipart/form-data; boundary=x": 415, "application/x-protobuf": 415, "text/html": 415, ";": 415,
	} {
		if a := e.send(strings.NewReader(started), "Content-Type", contentType); a.status != want {
			t.Errorf("%q: status %d, want %d", contentType, a.status, want)
		}
	}
	e.want(rejectedLine("content_type", 4))
}

func TestGzip(t *testing.T) {
	e := newEndpoint(t, endpointOptions{maxBody: 4096})
	whole := zipped(t, started+"\n"+finished+"\n").Bytes()
	bomb := zipped(t, strings.Repeat(" \n", 1<<20)).Bytes()
	for _, c := range []struct {
		name, encoding string
		body           []byte
		status         int
	}{
		{"whole", "gzip", whole, 202},
		{"identity", "identity", []byte(started), 202},
		{"not gzip", "gzip", []byte(started), 400},
		{"cut off", "gzip", whole[:len(whole)-9], 400},
		{"garbage behind", "gzip", append(bytes.Clone(whole), "garbage"...), 400},
		{"bomb", "gzip", bomb, 413},
		{"unknown", "br", whole, 415},
		{"two", "gzip, gzip", whole, 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := e.send(bytes.NewReader(c.body), "Content-Encoding", c.encoding); a.status != c.status {
				t.Errorf("status %d, want %d: %s", a.status, c.status, a.body)
			}
		})
	}
	if len(bomb) > 4096 {
		t.Fatal("the bomb is caught by its compressed size")
	}
	e.want(
		receivedLine("request_started", 2), rejectedLine("body_read", 3),
		rejectedLine("body_size", 1), rejectedLine("content_encoding", 2))
}

func TestBodySizeLimit(t *testing.T) {
	e := newEndpoint(t, endpointOptions{maxBody: 100})
	if a := e.send(strings.NewReader(started + strings.Repeat(" ", 100-len(started)))); a.status != 202 {
		t.Errorf("status %d at the limit", a.status)
	}
	long := `{"type":"request_started","request_id":"r2","model_name":"m"}` + strings.Repeat(" ", 100)
	if a := e.send(strings.NewReader(long)); a.status != 413 || !strings.Contains(a.body, "events.max_body_size") {
		t.Errorf("status %d, %s", a.status, a.body)
	}
	// Without a Content-Length to see it from.
	if a := e.send(io.MultiReader(strings.NewReader(long))); a.status != 413 {
		t.Errorf("status %d in chunks", a.status)
	}
	e.want(rejectedLine("body_size", 2), receivedLine("request_started", 1))
	e.handler.SetMaxBodySize(1000)
	if a := e.send(strings.NewReader(long)); a.status != 202 {
		t.Errorf("status %d after the limit was raised", a.status)
	}
}

func TestBodyCutOffCountsNothing(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	broken := io.MultiReader(strings.NewReader(started+"\n"), brokenReader{})
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", broken))
	if w.Code != http.StatusBadRequest {
		t.Errorf("status %d", w.Code)
	}
	e.want(rejectedLine("body_read", 1), receivedLine("request_started", 0))
}

// A client that stops sending holds its place for a bounded time only.
func TestBodyThatStalls(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	e.handler.readTimeout = 20 * time.Millisecond
	connection, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"+started+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection) // until the server closes
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("%v: %q", err, answer)
	}
	e.want(rejectedLine("body_read", 1), receivedLine("request_started", 0))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestLongLine(t *testing.T) {
	e := newEndpoint(t, endpointOptions{maxBody: 4 << 20})
	e.bad(`{"type":"`+strings.Repeat("x", maxLineLength)+`"}`, "line_too_long", "bytes")
	// Long foreign text is cut in the answer.
	e.bad(`{"type":"`+strings.Repeat("x", 1000)+`"}`, "unknown_type", `xxx"...`)
	a := e.post(`{"type":"request_finished","e2e_s":` + strings.Repeat("9", 10000) + `}`)
	if a.status != 400 || len(a.body) > 1000 {
		t.Errorf("status %d, %d bytes of answer", a.status, len(a.body))
	}
}

func TestListOfRejectionsIsBounded(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	const n = maxListedRejections + 500
	a := e.send(strings.NewReader(strings.Repeat("garbage\n", n)))
	if a.status != 400 || len(a.rejections) != maxListedRejections || a.header.Get(rejectedLinesHeader) != fmt.Sprint(n) {
		t.Errorf("status %d, %d listed, header %q", a.status, len(a.rejections), a.header.Get(rejectedLinesHeader))
	}
	e.want(rejectedLine("malformed", n))
}

func TestTooManyBodiesAtATime(t *testing.T) {
	e := newEndpoint(t, endpointOptions{})
	for range maxConcurrentBodies {
		e.handler.slots <- struct{}{}
	}
	if a := e.post(started); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("status %d, header %v", a.status, a.header)
	}
	<-e.handler.slots
	e.good(started)
	e.want(rejectedLine("busy", 1))
}

func TestDisabledCollectors(t *testing.T) {
	lines := map[string]string{
		"pipeline": started,
		"audio":    audio("audio_finished", "r1", "0", `"audio_frames":1`),
		"transfer": hop("transfer_rx", `"rx_ms":1`),
	}
	family := map[string]string{"pipeline": "omni_num_requests", "audio": "omni_audio_", "transfer": "omni_transfer_"}
	for off, line := range lines {
		e := newEndpoint(t, endpointOptions{off: []string{off}})
		e.bad(line, "collector_disabled", "--no-collector."+off)
		e.wantNothingOf(family[off])
		for on, line := range lines {
			if on != off {
				e.good(line)
			}
		}
	}
	e := newEndpoint(t, endpointOptions{off: []string{"pipeline", "audio", "transfer"}})
	if a := e.post(lines["pipeline"], lines["audio"], lines["transfer"]); a.status != 400 || len(a.rejections) != 3 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	e.want(rejectedLine("collector_disabled", 3))
	e.wantNothingOf("vllm:omni_")
}

// A flood of labels stops at the limit; what is known goes on.
func TestSeriesLimit(t *testing.T) {
	const limit, flood = 50, 1000
	e := newEndpoint(t, endpointOptions{maxSeries: limit})
	e.good(started) // takes two
	var lines []string
	for i := range flood {
		lines = append(lines, fmt.Sprintf(`{"type":"request_finished","request_id":"f%d","model_name":"m","finished_reason":"x%d","e2e_s":1}`, i, i))
	}
	a := e.post(lines...)
	const room = limit - 3 // and e2e takes one
	if a.status != 400 || a.rejections[0].Line != room+1 || a.rejections[0].Reason != "max_series" ||
		!strings.Contains(a.rejections[0].Message, "events.max_series") {
		t.Fatalf("status %d: %.200s", a.status, a.body)
	}
	e.good(`{"type":"request_finished","request_id":"r1","finished_reason":"x0","e2e_s":2}`,
		`{"type":"request_started","request_id":"r2","model_name":"m"}`)
	e.want(
		rejectedLine("max_series", flood-room),
		fmt.Sprintf("omni_exporter_events_series %d", limit),
		`vllm:omni_requests_success_total{finished_reason="x0",model_name="m"} 2`,
		fmt.Sprintf(`vllm:omni_e2e_request_latency_s_count{model_name="m"} %d`, room+1),
		`vllm:omni_num_requests_waiting{model_name="m"} 1`)
}
