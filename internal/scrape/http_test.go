package scrape

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// asked keeps the requests that an upstream got.
type asked struct {
	mu       sync.Mutex
	requests []*http.Request
}

func (a *asked) then(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.requests = append(a.requests, r)
		a.mu.Unlock()
		next(w, r)
	}
}

func (a *asked) all() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

const (
	user, password = "scraper", "correct-horse-battery"
	withBasicAuth  = `basic_auth: {username: "scraper", password: "correct-horse-battery"}`
)

// TestRedirects demands that redirects are followed within a host only: the client
// adds credentials to every request, and no answer may say where they go.
func TestRedirects(t *testing.T) {
	var elsewhere asked
	other := serve(t, elsewhere.then(answer(textType, badPage)))
	to := func(location string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" || r.URL.Path == "/loop" {
				w.Header().Set("Location", strings.ReplaceAll(location, "SELF", r.Host))
				w.WriteHeader(http.StatusTemporaryRedirect)
				return
			}
			answer(textType, goodPage)(w, r)
		}
	}
	tests := map[string]struct {
		location, options string
		followed          bool
		requests          int // that the target itself gets
	}{
		"to a slash":         {location: "/metrics/", followed: true, requests: 2},
		"the same host":      {location: "http://SELF/metrics/", followed: true, requests: 2},
		"another host":       {location: "http://" + other + "/metrics/", requests: 1},
		"another, no scheme": {location: "//" + other + "/metrics/", requests: 1},
		"another, as a user": {location: "http://SELF@" + other + "/metrics/", requests: 1},
		"another scheme":     {location: "https://SELF/metrics/", requests: 1},
		"a scheme of no web": {location: "file:///etc/passwd", requests: 1},
		"in a circle":        {location: "/loop", requests: 1 + maxRedirects},
		"when told to follow none": {
			location: "/metrics/", options: "follow_redirects: false, ", requests: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var here asked
			p, _ := start(t, flatConfig(serve(t, here.then(to(test.location)))+" "+test.options+withBasicAuth))
			_, states := look(t, p)
			if test.followed {
				demandGood(t, states[0])
			} else {
				demandFailure(t, states[0], ReasonStatus)
				if text := states[0].Outcome.Failure.Error(); !strings.Contains(text, "307") || !strings.Contains(text, "metrics_path") {
					t.Errorf("error %q names neither the status nor the remedy", text)
				}
			}
			got := here.all()
			if len(got) != test.requests {
				t.Errorf("%d requests, want %d", len(got), test.requests)
			}
			for _, r := range got {
				if u, p, _ := r.BasicAuth(); u != user || p != password {
					t.Errorf("request of %s came without credentials", r.URL)
				}
			}
		})
	}
	if got := elsewhere.all(); len(got) != 0 {
		t.Errorf("%d requests, with authorization %q, went where a redirect led", len(got), got[0].Header.Get("Authorization"))
	}
}

// A server that leaves the default port out of its own address is the same host.
func TestSameHost(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"http://a:80/metrics", "http://a/metrics/", true},
		{"http://A:8000/metrics", "http://a:8000/metrics/", true},
		{"https://a:443/metrics", "https://a/metrics/", true},
		{"http://a:8000/metrics", "http://a/metrics/", false},
		{"http://a:80/metrics", "https://a:80/metrics/", false},
		{"http://[::1]:80/metrics", "http://[::1]/metrics/", true},
		{"http://a:80/metrics", "http://a.:80/metrics/", false},
	} {
		from, err := url.Parse(test.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(test.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameHost(&http.Request{URL: to}, []*http.Request{{URL: from}}) == nil; got != test.want {
			t.Errorf("%s to %s: followed %t, want %t", test.from, test.to, got, test.want)
		}
	}
}

// TestRequest looks at what a target is sent.
func TestRequest(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options string
		path    string
		header  map[string]string
	}{
		"plain": {path: "/metrics", header: map[string]string{
			"Accept-Encoding": "identity", "Authorization": "", "Accept": accept, HopHeader: "test",
		}},
		"compressed":    {options: "enable_compression: true", path: "/metrics", header: map[string]string{"Accept-Encoding": "gzip"}},
		"basic auth":    {options: withBasicAuth, path: "/metrics", header: map[string]string{"Authorization": "Basic c2NyYXBlcjpjb3JyZWN0LWhvcnNlLWJhdHRlcnk="}},
		"bearer":        {options: `authorization: {credentials: "tok"}`, path: "/metrics", header: map[string]string{"Authorization": "Bearer tok"}},
		"bearer, filed": {options: fmt.Sprintf("authorization: {credentials_file: %q}", tokenFile), path: "/metrics", header: map[string]string{"Authorization": "Bearer filed"}},
		"path":          {options: `metrics_path: "/a b/metrics"`, path: "/a%20b/metrics"},
		"params":        {options: `params: {b: ["2", "3"], a: ["x&y"]}`, path: "/metrics?a=x%26y&b=2&b=3"},
		"more headers":  {options: `http_headers: {X-Scope-OrgID: {values: [team]}}`, path: "/metrics", header: map[string]string{"X-Scope-Orgid": "team"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got asked
			options := test.options
			if strings.HasPrefix(options, "metrics_path") && strings.Contains(options, "a b") {
				options = `metrics_path: "/metrics", relabel_configs: [{target_label: __metrics_path__, replacement: "/a b/metrics"}]`
			}
			p, _ := start(t, flatConfig(serve(t, got.then(answer(textType, goodPage)))+" "+options))
			_, states := look(t, p)
			demandGood(t, states[0])
			requests := got.all()
			if len(requests) != 1 || requests[0].Method != http.MethodGet || requests[0].RequestURI != test.path {
				t.Fatalf("requests %v, want one GET of %s", requests, test.path)
			}
			for name, want := range test.header {
				if value := requests[0].Header.Get(name); value != want {
					t.Errorf("%s is %q, want %q", name, value, want)
				}
			}
			if agent := requests[0].UserAgent(); !strings.HasPrefix(agent, "omni_exporter/") {
				t.Errorf("user agent %q", agent)
			}
		})
	}
}

// Whatever goes wrong, what is logged and shown of it holds no secret.
func TestFailuresHoldNoSecret(t *testing.T) {
	const secret = "s3cr3t"
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	unauthorized := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no: "+r.Header.Get("Authorization")+r.URL.RawQuery, http.StatusUnauthorized)
	})
	reflected := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://u:"+secret+"@other.invalid/?"+r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
	})
	options := fmt.Sprintf(" params: {token: [%s]}, basic_auth: {username: u, password: %s}", secret, secret)
	proxied := fmt.Sprintf(", proxy_url: 'http://u:%s@%s'", secret, refused(t))
	tokenFile := fmt.Sprintf(" params: {token: [%s]}, authorization: {credentials_file: /nowhere/token}", secret)
	p, err := NewPool(parseConfig(t, flatConfig(
		unauthorized+options, reflected+options, refused(t)+options, "127.0.0.1:1"+options+proxied,
		"127.0.0.2:1"+tokenFile, refused(t)+options+", scheme: https", serve(t, answer(textType, goodPage))+options+", scheme: https",
	)), PoolOptions{Totals: &Totals{}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, states := look(t, p)
	for i, s := range states {
		if s.Outcome == nil || s.Outcome.Failure == nil {
			t.Fatalf("target %d: outcome %+v, want a failure", i, s.Outcome)
		}
		if text := s.Outcome.Failure.Error(); strings.Contains(text, secret) {
			t.Errorf("target %d: error %q holds a secret", i, text)
		}
	}
	if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "scrape failed") {
		t.Errorf("log holds a secret, or nothing: %s", text)
	}
}

// What a server sent is quoted where it is repeated.
func TestForeignTextIsQuoted(t *testing.T) {
	const evil = "\x1b[31m\tred"
	p, _ := start(t, flatConfig(
		serve(t, answer(textType, "vllm:x "+evil+"\n")),
		serve(t, answer("\tx/\u202ey", "vllm:x 1\n")),
		raw(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, head(evil, "")) }),
		raw(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, evil+"\r\n") }),
	))
	_, states := look(t, p)
	for i, reason := range []Reason{ReasonParse, ReasonContentType, ReasonConnect, ReasonConnect} {
		demandFailure(t, states[i], reason)
		text := states[i].Outcome.Failure.Error()
		if i := strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("error %q repeats characters that do not print", text)
		}
	}
}

// countConnections starts an upstream and counts the connections that it accepted.
func countConnections(t *testing.T, h http.HandlerFunc) (address string, n *atomic.Int64) {
	t.Helper()
	n = &atomic.Int64{}
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), n
}

// A connection is kept from scrape to scrape, after an error page too; one whose
// rest is too long to be read is given up.
func TestConnectionsAreKept(t *testing.T) {
	const scrapes = 5
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    int64
	}{
		"good page": {answer(textType, goodPage), 1},
		"error page": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("sorry ", 100), http.StatusInternalServerError)
		}, 1},
		"error page of unknown length": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("sorry ", 1000), http.StatusInternalServerError)
		}, scrapes},
		"long error page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(8<<20))
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("sorry ", 8<<20/6))
		}, scrapes},
	} {
		t.Run(name, func(t *testing.T) {
			address, n := countConnections(t, test.handler)
			p, _ := start(t, flatConfig(address))
			for range scrapes {
				look(t, p)
			}
			if got := n.Load(); got != test.want {
				t.Errorf("%d scrapes took %d connections, want %d", scrapes, got, test.want)
			}
		})
	}
}

// TestBadTargetsLeakNothing scrapes what hangs, resets, floods and lies a hundred
// times: descriptors and goroutines stay where they were.
func TestBadTargetsLeakNothing(t *testing.T) {
	const scrapes, slack = 100, 10
	flood := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", textType)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("vllm:x 1\n", 1000)); err != nil {
				return
			}
		}
	})
	p, _ := start(t, flatConfig(
		raw(t, func(c *net.TCPConn) { untilHangup(c) })+" scrape_timeout: 5ms",
		raw(t, func(c *net.TCPConn) { _ = c.SetLinger(0) }),
		flood+" body_size_limit: 64KB",
		serve(t, answer("text/html", strings.Repeat("x", 1<<20))),
		refused(t),
		serve(t, answer(textType, goodPage)),
	))
	held := func() (descriptors, goroutines int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs /proc:", err)
		}
		return len(entries), runtime.NumGoroutine()
	}
	for range scrapes / 10 {
		look(t, p)
	}
	descriptors, goroutines := held()
	for range scrapes {
		look(t, p)
	}
	// Both sides' connections take a moment to end.
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		d, g := held()
		if d <= descriptors+slack && g <= goroutines+slack {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("descriptors %d -> %d, goroutines %d -> %d", descriptors, d, goroutines, g)
		}
	}
}
