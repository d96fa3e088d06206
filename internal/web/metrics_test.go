package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

const engines = "# HELP vllm:x X.\n# TYPE vllm:x counter\nvllm:x_total{engine=\"0\"} 1\n# TYPE vllm:y gauge\nvllm:y{engine=\"1\"} 2.5e+010\n"

func unpack(t *testing.T, r reply) string {
	t.Helper()
	var body []byte
	var err error
	switch encoding := r.header.Get("Content-Encoding"); encoding {
	case "":
		return r.body
	case "gzip":
		var z *gzip.Reader
		if z, err = gzip.NewReader(strings.NewReader(r.body)); err == nil {
			body, err = io.ReadAll(z)
		}
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(nil); err == nil {
			body, err = z.DecodeAll([]byte(r.body), nil)
			z.Close()
		}
	default:
		t.Fatalf("Content-Encoding %q", encoding)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestEveryForm reads the page in every format and encoding: each has its headers,
// its length is told before it, and all hold the same.
func TestEveryForm(t *testing.T) {
	_, url := start(t, strings.Replace(flat(serve(t, answer(engines))), "min_scrape_interval: 0s", "min_scrape_interval: 1h", 1), options())
	get(t, url+"/metrics") // what counts from here on stands still
	pages := map[string]string{}
	for _, accept := range []string{"text/plain;version=0.0.4", "text/plain;version=1.0.0;escaping=allow-utf-8", "application/openmetrics-text;version=1.0.0", prometheus3} {
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			t.Run(accept+" "+encoding, func(t *testing.T) {
				header := http.Header{"Accept": {accept}, "Accept-Encoding": {encoding}}
				r := do(t, http.MethodGet, url+"/metrics", header)
				if r.status != http.StatusOK {
					t.Fatalf("status %d: %s", r.status, r.body)
				}
				sent := encoding
				if sent == "identity" {
					sent = ""
				}
				for name, want := range map[string]string{
					"Content-Encoding": sent, "Vary": "Accept, Accept-Encoding", "Content-Length": strconv.Itoa(len(r.body)),
					"X-Content-Type-Options": "nosniff", "Content-Type": negotiate(header).contentType(),
				} {
					if got := r.header.Get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				page := unpack(t, r)
				isOpenMetrics := strings.HasPrefix(r.header.Get("Content-Type"), "application/openmetrics-text")
				if strings.HasSuffix(page, "# EOF\n") != isOpenMetrics {
					t.Errorf("page of type %q ends in %q", r.header.Get("Content-Type"), page[max(0, len(page)-20):])
				}
				if got := value(page, `vllm:y{replica="1",stage="0"}`); got != "2.5e+010" {
					t.Errorf("vllm:y is %q, want it as it was spelled", got)
				}
				if first, ok := pages[accept]; ok && first != page {
					t.Errorf("another encoding holds another page:\n%s\nand\n%s", first, page)
				}
				pages[accept] = page

				empty := do(t, http.MethodHead, url+"/metrics", header)
				if empty.status != http.StatusOK || empty.body != "" {
					t.Errorf("HEAD: status %d with %d bytes", empty.status, len(empty.body))
				}
				for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Vary"} {
					if got, want := empty.header.Get(name), r.header.Get(name); got != want {
						t.Errorf("HEAD: %s is %q, want %q as for GET", name, got, want)
					}
				}
			})
		}
	}
}

func TestMethods(t *testing.T) {
	events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	})
	o := options()
	o.Events = events
	_, url := start(t, flat(serve(t, answer(engines))), o)
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/targets", "/api/v1/http_sd", "/api/v1/status"} {
		for method, want := range map[string]int{
			"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "PATCH": 405, "BREW": 405,
		} {
			r := do(t, method, url+path, nil)
			if r.status != want {
				t.Errorf("%s %s: status %d, want %d", method, path, r.status, want)
			}
			if allow := r.header.Get("Allow"); (allow == "GET, HEAD") != (want == 405) {
				t.Errorf("%s %s: Allow is %q", method, path, allow)
			}
			if method == "HEAD" && r.body != "" {
				t.Errorf("HEAD %s has a body", path)
			}
		}
	}
	for path, want := range map[string]int{"/api/v1/events": 202, "/metrics/": 404, "/nothing": 404, "/-/": 404, "/debug/pprof/": 404, "/-/quit": 403} {
		if r := do(t, http.MethodPost, url+path, nil); r.status != want {
			t.Errorf("POST %s: status %d, want %d", path, r.status, want)
		}
	}
}

func TestNoEventsNoPath(t *testing.T) {
	_, url := start(t, "", options())
	if r := do(t, http.MethodPost, url+"/api/v1/events", nil); r.status != http.StatusNotFound {
		t.Errorf("status %d, want 404", r.status)
	}
}

func TestHealth(t *testing.T) {
	// Health is the exporter's: that a target is down is no reason to restart it.
	_, url := start(t, flat("127.0.0.1:1"), options())
	for _, path := range []string{"/-/healthy", "/-/ready"} {
		if r := get(t, url+path); r.status != http.StatusOK || !strings.HasSuffix(r.body, ".\n") {
			t.Errorf("%s: status %d, %q", path, r.status, r.body)
		}
	}
}

func TestPprofOnlyWhenAskedFor(t *testing.T) {
	for _, on := range []bool{false, true} {
		o := options()
		o.Pprof = on
		_, url := start(t, "", o)
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=1"} {
			want := http.StatusNotFound
			if on {
				want = http.StatusOK
			}
			if r := get(t, url+path); r.status != want {
				t.Errorf("pprof %t: %s has status %d, want %d", on, path, r.status, want)
			}
		}
	}
}

func TestTelemetryPath(t *testing.T) {
	o := options()
	o.TelemetryPath = "/a/b"
	_, url := start(t, "", o)
	if r := get(t, url+"/a/b"); r.status != http.StatusOK {
		t.Errorf("status %d", r.status)
	}
	if r := get(t, url+"/metrics"); r.status != http.StatusNotFound {
		t.Errorf("/metrics: status %d, want 404", r.status)
	}
	for path, want := range map[string]bool{
		"/metrics": true, "/a/b": true, "/apix": true, "/-x": true,
		"": false, "/": false, "metrics": false, "//": false, "/a//b": false, "/a/": false, "/../a": false,
		"/{x}": false, "/a b": false, "/a?b": false, "/a#b": false, "/%2e": false,
		"/-": false, "/-/healthy": false, "/-/x": false, "/api": false, "/debug/pprof/cmdline": false, "/api/v1/events": false,
	} {
		if got := ValidTelemetryPath(path); got != want {
			t.Errorf("%q valid: %t, want %t", path, got, want)
		}
		if want { // ServeMux panics at what it cannot serve
			o.TelemetryPath = path
			start(t, "", o)
		}
	}
}

// TestDownTargetsAreAnAnswer demands that a page is served whatever the targets do.
func TestDownTargetsAreAnAnswer(t *testing.T) {
	_, url := start(t, flat("127.0.0.1:1", serve(t, answer(engines))), options())
	page := get(t, url+"/metrics").body
	for series, want := range map[string]string{
		`omni_exporter_target_up{target="127.0.0.1:1"}`:                                     "0",
		`omni_exporter_target_scrape_failures_total{reason="connect",target="127.0.0.1:1"}`: "1",
		`omni_exporter_target_scrape_failures_total{reason="timeout",target="127.0.0.1:1"}`: "0",
		`omni_exporter_target_last_success_timestamp_seconds{target="127.0.0.1:1"}`:         "",
		`omni_exporter_target_scrape_samples_scraped{target="127.0.0.1:1"}`:                 "0",
		`vllm:x_total{replica="0",stage="0"}`:                                               "1",
		`omni_exporter_engines_expected{stage="0"}`:                                         "2",
		`omni_exporter_engines_seen{stage="0"}`:                                             "2",
		`omni_exporter_stage_info{name="0",stage="0"}`:                                      "1",
		`omni_exporter_merge_dropped_samples_total{reason="duplicate"}`:                     "0",
	} {
		if got := value(page, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

func TestBadTimeoutHeader(t *testing.T) {
	upstream := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") })
	_, url := start(t, flat(upstream), options())
	r := do(t, http.MethodGet, url+"/metrics", http.Header{timeoutHeader: {"<b>soon"}})
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, timeoutHeader) {
		t.Errorf("status %d, %q; want 400 and the name of the header", r.status, r.body)
	}
	if kind := r.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("an error that repeats foreign text is %q", kind)
	}
}

// TestTimeoutHeader demands that a page comes before the caller has gone, with what
// is there.
func TestTimeoutHeader(t *testing.T) {
	var stalled atomic.Bool
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if stalled.Load() {
			<-r.Context().Done()
			return
		}
		answer("# nothing yet\n")(w, r)
	})
	good := serve(t, answer(engines))
	_, url := start(t, fmt.Sprintf(`
pipelines:
- stages: [{replicas: 2}]
  upstreams:
  - {min_scrape_interval: 0s, scrape_timeout: 1h, static_configs: [{targets: [%q]}]}
  - {min_scrape_interval: 1h, static_configs: [{targets: [%q]}]}
`, slow, good), options())
	get(t, url+"/metrics") // from here on the good target's page is there at once
	stalled.Store(true)
	r := do(t, http.MethodGet, url+"/metrics", http.Header{timeoutHeader: {"0.2"}})
	for series, want := range map[string]string{
		fmt.Sprintf("omni_exporter_target_up{target=%q}", slow): "0",
		fmt.Sprintf("omni_exporter_target_up{target=%q}", good): "1",
		`vllm:x_total{replica="0",stage="0"}`:                   "1",
	} {
		if got := value(r.body, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

// TestTooManyRequests fills every slot with requests that wait for an upstream.
func TestTooManyRequests(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		answer(engines)(w, r)
	})
	o := options()
	o.MaxRequests = 1
	_, url := start(t, flat(upstream), o)
	first := make(chan reply)
	go func() { first <- get(t, url+"/metrics") }()
	<-asked
	if r := get(t, url+"/metrics"); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "--web.max-requests") {
		t.Errorf("status %d, %q; want 503 and the flag", r.status, r.body)
	}
	if r := get(t, url+"/-/ready"); r.status != http.StatusOK {
		t.Errorf("ready: status %d, want 200 however many scrape", r.status)
	}
	close(release)
	if r := <-first; r.status != http.StatusOK {
		t.Errorf("the first: status %d", r.status)
	}
	if r := get(t, url+"/metrics"); r.status != http.StatusOK {
		t.Errorf("after it: status %d, want its slot free", r.status)
	}
}

func TestNoLimitOfRequests(t *testing.T) {
	o := options()
	o.MaxRequests = 0
	_, url := start(t, flat(serve(t, answer(engines))), o)
	if r := get(t, url+"/metrics"); r.status != http.StatusOK {
		t.Errorf("status %d", r.status)
	}
}

// TestSelfScrape makes an exporter its own target: the inner scrape is refused and
// counted, and the outer one is answered.
func TestSelfScrape(t *testing.T) {
	var h http.Handler
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	defer own.Close()
	address := own.Listener.Addr().String()
	s, err := New(parseConfig(t, flat(address, serve(t, answer(engines)))), options())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h = s
	page := get(t, own.URL+"/metrics").body
	for series, want := range map[string]string{
		fmt.Sprintf("omni_exporter_target_scrape_failures_total{reason=\"status\",target=%q}", address): "1",
		`vllm:x_total{replica="0",stage="0"}`: "1",
	} {
		if got := value(page, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

// TestExporterOfExporter chains two exporters: the second changes nothing.
func TestExporterOfExporter(t *testing.T) {
	_, inner := start(t, flat(serve(t, answer(engines))), options())
	_, outer := start(t, flat(strings.TrimPrefix(inner, "http://")), options())
	page := get(t, outer+"/metrics").body
	for series, want := range map[string]string{
		`vllm:x_total{replica="0",stage="0"}`: "1",
		`vllm:y{replica="1",stage="0"}`:       "2.5e+010",
	} {
		if got := value(page, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

func TestHops(t *testing.T) {
	s, url := start(t, "", options())
	for _, test := range []struct {
		hops []string
		want int
	}{
		{nil, 200},
		{[]string{"other"}, 200},
		{[]string{s.id}, 508},
		{[]string{"a, " + s.id + " ,b"}, 508},
		{[]string{"a", s.id}, 508},
		{[]string{"1,2,3,4,5,6,7"}, 200},
		{[]string{"1,2,3,4,5,6,7,8"}, 508},
		{[]string{strings.Repeat(",", 1000)}, 508},
	} {
		r := do(t, http.MethodGet, url+"/metrics", http.Header{scrape.HopHeader: test.hops})
		if r.status != test.want {
			t.Errorf("hops %.40q: status %d, want %d", test.hops, r.status, test.want)
		}
	}
	r := &http.Request{Header: http.Header{scrape.HopHeader: {" a ", "b"}}}
	if got, _ := s.hops(r); got != "a,b,"+s.id {
		t.Errorf("hops go on as %q", got)
	}
}

// TestCallerWhoLeaves demands that a caller who hangs up frees its slot, while the
// scrape goes on for the others.
func TestCallerWhoLeaves(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		answer(engines)(w, r)
	})
	o := options()
	o.MaxRequests = 1
	_, url := start(t, flat(upstream), o)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	left := make(chan error, 1)
	go func() {
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		left <- err
	}()
	<-asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who left got %v", err)
	}
	// The server notices in a moment.
	for deadline := time.Now().Add(time.Minute); ; {
		r := do(t, http.MethodGet, url+"/metrics", http.Header{timeoutHeader: {"0.02"}})
		if r.status == http.StatusOK {
			break
		}
		if r.status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("status %d, want the slot free", r.status)
		}
	}
	close(release)
	if page := get(t, url+"/metrics").body; value(page, `vllm:x_total{replica="0",stage="0"}`) != "1" {
		t.Errorf("page is\n%s", page)
	}
}
