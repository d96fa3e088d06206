package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout is what only a hang exceeds.
const timeout = 5 * time.Minute

// running is a demo that a test has started.
type running struct {
	url    string
	said   string // what it printed
	client *http.Client
	cancel context.CancelFunc
	ended  chan error
}

// start runs a demo on a free port and returns when it says where to look.
func start(t *testing.T, o Options) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	said, out := io.Pipe()
	o.Address, o.WarmUp, o.Out = "127.0.0.1:0", 2*time.Minute, out
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	r := &running{cancel: cancel, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	go func() {
		err := Run(ctx, o)
		out.CloseWithError(errors.Join(err, io.EOF))
		r.ended <- err
	}()
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		r.said += lines.Text() + "\n"
		if m := regexp.MustCompile(`^ +status page +(http://\S+)/$`).FindStringSubmatch(lines.Text()); m != nil {
			r.url = m[1]
		}
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if r.url == "" {
		cancel()
		t.Fatalf("the demo does not say where it is (%v):\n%s", <-r.ended, r.said)
	}
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop interrupts the demo, which must end well.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.client.CloseIdleConnections()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("demo ended with %v", err)
		}
		r.ended <- nil // for the next call
	case <-time.After(timeout):
		t.Fatal("the demo does not end")
	}
}

func (r *running) get(t *testing.T, path, accept string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

// series parses a page as Prometheus does and returns its values by series.
func series(t *testing.T, response *http.Response, body []byte) map[string]float64 {
	t.Helper()
	p, err := textparse.New(body, response.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("Prometheus refuses the page: %v", err)
		}
		if entry == textparse.EntrySeries {
			var l labels.Labels
			p.Labels(&l)
			_, _, value := p.Series()
			if _, twice := out[l.String()]; twice {
				t.Errorf("series %s stands twice", l)
			}
			out[l.String()] = value
		}
	}
}

// await scrapes until check returns nil.
func (r *running) await(t *testing.T, check func(map[string]float64) error) map[string]float64 {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); ; <-tick.C {
		response, body := r.get(t, "/metrics", "text/plain")
		page := series(t, response, body)
		err := check(page)
		if err == nil {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// find returns the values of the series of a family that have all these labels,
// each as `name="value"`.
func find(page map[string]float64, family string, want ...string) []float64 {
	var out []float64
	for s, value := range page {
		ok := strings.Contains(s, `__name__="`+family+`"`)
		for _, label := range want {
			ok = ok && (strings.Contains(s, "{"+label) || strings.Contains(s, " "+label))
		}
		if ok {
			out = append(out, value)
		}
	}
	return out
}

func TestDemo(t *testing.T) {
	r := start(t, Options{})
	for _, part := range []string{"honor_labels: true", `targets: ["` + strings.TrimPrefix(r.url, "http://") + `"]`, "omnitool fpm watch tcp://127.0.0.1:"} {
		if !strings.Contains(r.said, part) {
			t.Errorf("it does not say %q:\n%s", part, r.said)
		}
	}
	if response, body := r.get(t, "/-/ready", ""); response.StatusCode != http.StatusOK {
		t.Errorf("/-/ready: %s: %s", response.Status, body)
	}
	// The records of the first minutes are on their way still.
	page := r.await(t, func(page map[string]float64) error {
		for rank := range ranks {
			label := fmt.Sprintf("dp_rank=%q", fmt.Sprint(rank))
			for _, family := range []string{
				"dynamo_fpm_records_total", "dynamo_fpm_forward_pass_duration_seconds_count", "dynamo_fpm_decode_batch_size_count",
			} {
				if values := find(page, family, label, `pipeline="qwen3-omni"`, `stage="0"`); len(values) == 0 || values[0] == 0 {
					return fmt.Errorf("%s of rank %d: %v", family, rank, values)
				}
			}
		}
		return nil
	})
	for _, place := range [][2]string{{"0", "0"}, {"1", "0"}, {"1", "1"}, {"2", "0"}, {"2", "1"}} {
		at := []string{fmt.Sprintf("stage=%q", place[0]), fmt.Sprintf("replica=%q", place[1]), `pipeline="qwen3-omni"`}
		if values := find(page, "vllm:num_requests_running", at...); len(values) != 1 {
			t.Errorf("vllm:num_requests_running at %v: %v, want one", at, values)
		}
		total := 0.0
		for _, value := range find(page, "vllm:e2e_request_latency_seconds_count", at...) {
			total += value
		}
		if total == 0 {
			t.Errorf("vllm:e2e_request_latency_seconds at %v is empty", at)
		}
	}
	for s := range page {
		if strings.Contains(s, `"vllm:`) && strings.Contains(s, `engine="`) {
			t.Errorf("series with an engine: %s", s)
			break
		}
	}
	// The fifteen families of vLLM-Omni's metrics design.
	for _, family := range []string{
		"num_requests_running", "num_requests_waiting", "requests_success_total", "e2e_request_latency_s_count",
		"audio_ttfp_s_count", "audio_rtf_count", "audio_duration_s_count", "audio_frames_total",
		"audio_continuity_ok_total", "audio_underrun_s_count", "audio_skipped_requests_total",
		"transfer_size_bytes_count", "transfer_tx_s_count", "transfer_rx_s_count", "transfer_in_flight_s_count",
	} {
		if len(find(page, "vllm:omni_"+family)) == 0 {
			t.Errorf("no series of vllm:omni_%s", family)
		}
	}
	for _, lost := range []string{"dynamo_fpm_records_lost_total", "dynamo_fpm_records_rejected_total", "omni_exporter_events_rejected_total", "omni_exporter_merge_conflicts_total"} {
		for _, value := range find(page, lost) {
			if value != 0 {
				t.Errorf("%s is %v, want 0", lost, value)
			}
		}
	}
	response, body := r.get(t, "/metrics", "application/openmetrics-text;version=1.0.0")
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/openmetrics-text") {
		t.Errorf("asked for OpenMetrics, got %q", kind)
	}
	if n := len(series(t, response, body)); n < 1000 {
		t.Errorf("OpenMetrics page has %d series, want at least 1000", n)
	}
	r.stop(t)
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(r.url, "http://"), time.Second); err == nil {
		t.Error("something still listens")
	}
}

func TestFaults(t *testing.T) {
	r := start(t, Options{Faults: []simulator.Fault{simulator.KillReplica, simulator.LoseFPM}})
	if !strings.Contains(r.said, "fault since now: kill-replica") {
		t.Errorf("it does not name the fault:\n%s", r.said)
	}
	r.await(t, func(page map[string]float64) error {
		seen := find(page, "omni_exporter_engines_seen", `stage="1"`)
		lost := find(page, "dynamo_fpm_records_lost_total", `dp_rank="1"`)
		if len(seen) != 1 || seen[0] != 1 || len(lost) != 1 || lost[0] == 0 {
			return fmt.Errorf("talkers seen %v, records lost %v: want one talker and some losses", seen, lost)
		}
		return nil
	})
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Run(t.Context(), Options{Address: l.Addr().String(), Out: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "--web.listen-address") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v, want an error that names the address and the flag", err)
	}
}

// TestInterruptedWarmUp: an interrupt before the demo is ready ends it just as well.
func TestInterruptedWarmUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := Run(ctx, Options{Address: "127.0.0.1:0", WarmUp: DefaultWarmUp, Out: &out, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if out.Len() > 0 {
		t.Errorf("it says where to look, though nothing is there:\n%s", out.String())
	}
}

func TestNotReadyBeforeWarm(t *testing.T) {
	w := httptest.NewRecorder()
	(&demo{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/-/ready", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
}

func TestReachable(t *testing.T) {
	for _, test := range []struct {
		ip   string
		want string
	}{{"0.0.0.0", "127.0.0.1:80"}, {"::", "127.0.0.1:80"}, {"10.0.0.1", "10.0.0.1:80"}, {"::1", "[::1]:80"}} {
		if got := reachable(&net.TCPAddr{IP: net.ParseIP(test.ip), Port: 80}); got != test.want {
			t.Errorf("%s: got %s, want %s", test.ip, got, test.want)
		}
	}
}

// TestEventPoster: many events go in several requests, none is lost on the way, and
// a refusal is logged in quotes.
func TestEventPoster(t *testing.T) {
	var mu sync.Mutex
	lines, bodies, refuse := 0, 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		lines += strings.Count(string(body), "\n")
		bodies++
		if refuse {
			http.Error(w, "no\x1b[2J", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	var log strings.Builder
	p := newEventPoster(t.Context(), server.URL, slog.New(slog.NewTextHandler(&log, nil)))
	defer p.close()
	events := make([]simulator.Event, 10_000)
	for i := range events {
		events[i] = simulator.Event{Type: simulator.RequestStarted, RequestID: fmt.Sprint(i), ModelName: "m"}
	}
	p.post(events)
	if lines != len(events) || bodies < 2 || log.Len() > 0 {
		t.Errorf("%d lines in %d bodies, want %d in several; log: %s", lines, bodies, len(events), log.String())
	}
	mu.Lock()
	refuse = true
	mu.Unlock()
	p.post(events[:1])
	if got := log.String(); !strings.Contains(got, "400") || !strings.Contains(got, "no") || strings.Contains(got, "\x1b") {
		t.Errorf("log of a refusal: %q", got)
	}
}
