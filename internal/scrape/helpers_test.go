package scrape

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

const (
	textType        = "text/plain; version=0.0.4; charset=utf-8"
	openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// patience is far beyond what any answer of these tests takes.
const patience = time.Minute

// serve starts an upstream and returns its host:port.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// answer answers every request with a page.
func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}
}

// raw starts an upstream below HTTP: it reads one request of each connection, calls
// talk, and closes the connection.
func raw(t *testing.T, talk func(*net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					talk(conn.(*net.TCPConn))
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	return listener.Addr().String()
}

// untilHangup waits until the other side has closed the connection.
func untilHangup(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
}

// refused returns an address where nobody listens.
func refused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func parseConfig(t *testing.T, yaml string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start returns the pool of a configuration, and the totals that it counts in.
func start(t *testing.T, yaml string) (*Pool, *Totals) {
	t.Helper()
	totals := &Totals{}
	p, err := NewPool(parseConfig(t, yaml), PoolOptions{Totals: totals})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, totals
}

// flatConfig is a pipeline of one stage of four replicas with one upstream for each
// target, scraped for every request. Each target is its address, and more keys of
// its upstream.
func flatConfig(targets ...string) string {
	var b strings.Builder
	b.WriteString("global: {min_scrape_interval: 0s, scrape_timeout: 1m}\npipelines:\n  - stages: [{replicas: 4}]\n    upstreams:\n")
	for _, target := range targets {
		address, more, _ := strings.Cut(target, " ")
		fmt.Fprintf(&b, "      - {static_configs: [{targets: [%q]}]", address)
		if more != "" {
			b.WriteString(", " + more)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// look scrapes the pool and returns the page as text, and the targets' states.
func look(t *testing.T, p *Pool) (string, []State) {
	t.Helper()
	page, err := p.Scrape(t.Context(), time.Now().Add(patience), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Release()
	return render(t, page, exposition.Text), page.States
}

func render(t *testing.T, page *Page, f exposition.Format) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := page.Merged.View(f, false).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// samples returns a page's sample lines.
func samples(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// demandFailure demands that a target's last scrape failed for a reason, once so far.
func demandFailure(t *testing.T, s State, want Reason) {
	t.Helper()
	if s.Outcome == nil || s.Outcome.Failure == nil {
		t.Fatalf("outcome %+v, want a failure of reason %s", s.Outcome, want)
	}
	if got := s.Outcome.Failure; got.Reason != want || got.Error() == "" {
		t.Errorf("failed as %s: %v; want %s", got.Reason, got.Err, want)
	}
	for _, reason := range Reasons() {
		expected := int64(0)
		if reason == want {
			expected = 1
		}
		if got := s.Counts.Failures[reason]; got != expected {
			t.Errorf("%d failures counted as %s, want %d", got, reason, expected)
		}
	}
	if s.Counts.Scrapes != 1 || !s.Counts.LastSuccess.IsZero() {
		t.Errorf("counts %+v, want one scrape and no success", s.Counts)
	}
}

// demandGood demands that a target's last scrape brought a page.
func demandGood(t *testing.T, s State) {
	t.Helper()
	if s.Outcome == nil {
		t.Fatal("no outcome, want a page")
	}
	if f := s.Outcome.Failure; f != nil {
		t.Fatalf("failed as %s: %v; want a page", f.Reason, f.Err)
	}
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// offline returns a pool whose targets are answered by transports, in order.
func offline(t *testing.T, yaml string, by ...transport) *Pool {
	t.Helper()
	p, err := NewPool(parseConfig(t, yaml), PoolOptions{Totals: &Totals{}})
	if err != nil {
		t.Fatal(err)
	}
	for i, target := range p.Targets() {
		target.options.Client = &http.Client{Transport: by[i]}
	}
	return p
}

// reply is an answer of a transport.
func reply(body string) *http.Response {
	r := httptest.NewRecorder()
	r.Header().Set("Content-Type", textType)
	_, _ = r.WriteString(body)
	return r.Result()
}

// after answers with a page when a time has passed, unless the request ends before.
func after(d time.Duration, body string) transport {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return reply(body), nil
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}
