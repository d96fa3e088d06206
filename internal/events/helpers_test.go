package events

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Handler behind a real server, and the registry of what it feeds.
type endpoint struct {
	t        testing.TB
	handler  *Handler
	requests *collector.RequestTable
	registry *prometheus.Registry
	url      string
}

type endpointOptions struct {
	maxSeries    int
	maxBody      int64
	thresholdsMS []int
	table        collector.RequestTableOptions
	off          []string
}

func newEndpoint(t testing.TB, o endpointOptions) *endpoint {
	t.Helper()
	e := &endpoint{t: t, registry: prometheus.NewRegistry()}
	e.requests = collector.NewRequestTable(o.table)
	shared := collector.OmniOptions{
		Budget: collector.NewSeriesBudget(o.maxSeries), Requests: e.requests, ContinuityThresholdsMS: o.thresholdsMS,
	}
	options := Options{Budget: shared.Budget, MaxBodySize: o.maxBody}
	var err error
	if !slices.Contains(o.off, "pipeline") {
		if options.Pipeline, err = collector.NewPipelineCollector(shared); err != nil {
			t.Fatal(err)
		}
		e.registry.MustRegister(options.Pipeline)
	}
	if !slices.Contains(o.off, "audio") {
		if options.Audio, err = collector.NewAudioCollector(shared); err != nil {
			t.Fatal(err)
		}
		e.registry.MustRegister(options.Audio)
	}
	if !slices.Contains(o.off, "transfer") {
		if options.Transfer, err = collector.NewTransferCollector(shared); err != nil {
			t.Fatal(err)
		}
		e.registry.MustRegister(options.Transfer)
	}
	e.handler = NewHandler(options)
	e.registry.MustRegister(e.handler, e.requests)
	server := httptest.NewServer(e.handler)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	e.url = server.URL
	return e
}

// page is what a scrape shows.
func (e *endpoint) page() string {
	e.t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			e.t.Fatal(err)
		}
	}
	return b.String()
}

// answer is a response, read.
type answer struct {
	status     int
	header     http.Header
	body       string
	rejections []Rejection
}

func (e *endpoint) send(body io.Reader, header ...string) answer {
	e.t.Helper()
	request, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url, body)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		e.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, body: string(text)}
	if response.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(text, &a.rejections); err != nil {
			e.t.Fatalf("%v: %s", err, text)
		}
	}
	return a
}

func (e *endpoint) post(lines ...string) answer {
	e.t.Helper()
	return e.send(strings.NewReader(strings.Join(lines, "\n")+"\n"), "Content-Type", "application/x-ndjson")
}

// good posts lines that must all be accepted.
func (e *endpoint) good(lines ...string) {
	e.t.Helper()
	if a := e.post(lines...); a.status != http.StatusAccepted {
		e.t.Fatalf("status %d: %s", a.status, a.body)
	}
}

// bad posts one line that must be refused for the reason, with words in the
// message.
func (e *endpoint) bad(line, reason, words string) {
	e.t.Helper()
	a := e.post(line)
	if a.status != http.StatusBadRequest || len(a.rejections) != 1 {
		e.t.Errorf("%.200s: status %d, %s", line, a.status, a.body)
		return
	}
	if r := a.rejections[0]; r.Line != 1 || r.Reason != reason || !strings.Contains(r.Message, words) {
		e.t.Errorf("%.200s: got %+v, want reason %s and %q", line, r, reason, words)
	}
}

func (e *endpoint) want(lines ...string) {
	e.t.Helper()
	page := e.page()
	have := strings.Split(page, "\n")
	for _, l := range lines {
		if !slices.Contains(have, l) {
			e.t.Errorf("page lacks %s\n%s", l, page)
		}
	}
}

func (e *endpoint) wantNothingOf(texts ...string) {
	e.t.Helper()
	page := e.page()
	for _, text := range texts {
		if strings.Contains(page, text) {
			e.t.Errorf("page has %q\n%s", text, page)
		}
	}
}

func rejectedLine(reason string, n int) string {
	return fmt.Sprintf(`omni_exporter_events_rejected_total{reason=%q} %d`, reason, n)
}

func receivedLine(eventType string, n int) string {
	return fmt.Sprintf(`omni_exporter_events_received_total{type=%q} %d`, eventType, n)
}

func ignoredLine(reason string, n int) string {
	return fmt.Sprintf(`omni_exporter_events_ignored_total{reason=%q} %d`, reason, n)
}

func zipped(t testing.TB, text string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
