package web

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

const textType = "text/plain; version=0.0.4; charset=utf-8"

// serve starts an upstream and returns its host:port.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", textType)
		_, _ = io.WriteString(w, body)
	}
}

// options are those of tests, with no metrics but those of targets.
func options() Options {
	return Options{
		Logger: slog.New(slog.DiscardHandler), Gatherer: prometheus.NewRegistry(),
		TelemetryPath: "/metrics", TimeoutOffset: 500 * time.Millisecond, MaxRequests: 40,
	}
}

func parseConfig(t *testing.T, yaml string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start returns a server by a configuration, and its base URL.
func start(t *testing.T, yaml string, o Options) (*Server, string) {
	t.Helper()
	s, err := New(parseConfig(t, yaml), o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s, h.URL
}

// flat is a pipeline of one stage of two replicas with these targets.
func flat(addresses ...string) string {
	return fmt.Sprintf("global: {min_scrape_interval: 0s}\npipelines: [{stages: [{replicas: 2}], upstreams: [{static_configs: [{targets: [%s]}]}]}]\n",
		`"`+strings.Join(addresses, `", "`)+`"`)
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request as it is: nothing is decompressed.
func do(t *testing.T, method, url string, header http.Header) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

func get(t *testing.T, url string) reply {
	t.Helper()
	return do(t, http.MethodGet, url, nil)
}

// value returns the value of a sample line by its series, "" if there is none.
func value(page, series string) string {
	for line := range strings.Lines(page) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSuffix(v, "\n")
		}
	}
	return ""
}

// awaitCount waits until count returns what is wanted.
func awaitCount(t *testing.T, count func() int, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got := count()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d, want %d", got, want)
		}
	}
}
