package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	promfile "github.com/prometheus/prometheus/discovery/file"
	promhttp "github.com/prometheus/prometheus/discovery/http"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far beyond what anything awaited here takes.
const patience = time.Minute

// inventory is a server that lists targets.
type inventory struct {
	url   string
	asked atomic.Int64

	mu      sync.Mutex
	targets []string
	broken  bool
}

func newInventory(t *testing.T, targets ...string) *inventory {
	t.Helper()
	i := &inventory{targets: targets}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.broken {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `[{"targets": ["%s"]}]`, strings.Join(i.targets, `", "`))
	}))
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

func (i *inventory) set(broken bool, targets ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken, i.targets = broken, targets
}

// way returns a way of discovery by the server. Each call returns an equal one.
func (i *inventory) way(refresh time.Duration) promdiscovery.Config {
	c := promhttp.DefaultSDConfig
	c.URL, c.RefreshInterval = i.url, model.Duration(refresh)
	return &c
}

// start returns a manager and what tells of changes.
func start(t *testing.T) (*Manager, chan struct{}) {
	t.Helper()
	changes := make(chan struct{}, 1)
	m, err := NewManager(slog.New(slog.DiscardHandler), func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return m, changes
}

func addresses(m *Manager, c promdiscovery.Config) []string {
	var out []string
	for _, group := range m.Found(c) {
		for _, target := range group.Targets {
			out = append(out, string(target[model.AddressLabel]))
		}
	}
	return out
}

func demand(t *testing.T, m *Manager, c promdiscovery.Config, want ...string) {
	t.Helper()
	if got := addresses(m, c); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func await(t *testing.T, changes chan struct{}, m *Manager, c promdiscovery.Config, want ...string) {
	t.Helper()
	deadline := time.After(patience)
	for !slices.Equal(addresses(m, c), want) {
		select {
		case <-changes:
		case <-deadline:
			t.Fatalf("found %q, want %q", addresses(m, c), want)
		}
	}
}

// What Add has started has found something when it returns, what was there before is
// not asked anew, and what Keep ends is forgotten.
func TestAddAndKeep(t *testing.T) {
	a, b := newInventory(t, "a:1", "a:2"), newInventory(t, "b:1")
	m, changes := start(t)
	m.Add(t.Context(), []promdiscovery.Config{a.way(time.Hour), a.way(time.Hour)})
	demand(t, m, a.way(time.Hour), "a:1", "a:2")
	demand(t, m, b.way(time.Hour))

	m.Add(t.Context(), []promdiscovery.Config{a.way(time.Hour), b.way(time.Hour)})
	demand(t, m, a.way(time.Hour), "a:1", "a:2")
	demand(t, m, b.way(time.Hour), "b:1")
	if n := a.asked.Load(); n != 1 {
		t.Errorf("a way that went on was asked %d times, want once", n)
	}

	m.Keep([]promdiscovery.Config{b.way(time.Hour)})
	demand(t, m, a.way(time.Hour))
	demand(t, m, b.way(time.Hour), "b:1")

	// With another interval it is another way, which begins anew beside the first.
	b.set(false, "b:2")
	m.Add(t.Context(), []promdiscovery.Config{b.way(10 * time.Millisecond)})
	demand(t, m, b.way(time.Hour), "b:1")
	await(t, changes, m, b.way(10*time.Millisecond), "b:2")
	b.set(false, "b:3")
	await(t, changes, m, b.way(10*time.Millisecond), "b:3")
}

// What a way has found stays while it fails, and the failures are counted.
func TestFailures(t *testing.T) {
	a := newInventory(t, "a:1")
	m, _ := start(t)
	failures := m.Failures()
	const zero = `
# HELP omni_exporter_discovery_failures_total Attempts to discover targets that failed, by way of discovery. What was found before stays.
# TYPE omni_exporter_discovery_failures_total counter
omni_exporter_discovery_failures_total{mechanism="dns"} 0
omni_exporter_discovery_failures_total{mechanism="file"} 0
omni_exporter_discovery_failures_total{mechanism="http"} 0
omni_exporter_discovery_failures_total{mechanism="kubernetes"} 0
`
	if err := testutil.CollectAndCompare(failures, strings.NewReader(zero)); err != nil {
		t.Error(err)
	}
	m.Add(t.Context(), []promdiscovery.Config{a.way(10 * time.Millisecond)})
	a.set(true)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if err := testutil.CollectAndCompare(failures, strings.NewReader(zero)); err != nil && strings.Contains(err.Error(), `mechanism="http"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no failure is counted")
		}
	}
	demand(t, m, a.way(10*time.Millisecond), "a:1")
	if problems, err := testutil.CollectAndLint(failures); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", err, problems)
	}
}

// A way that finds nothing holds nobody up for longer than a while, or than the
// caller waits.
func TestAddDoesNotWaitForEver(t *testing.T) {
	m, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Add(ctx, []promdiscovery.Config{&promfile.SDConfig{Files: []string{t.TempDir() + "/*.json"}, RefreshInterval: model.Duration(time.Hour)}})
	m.Add(t.Context(), []promdiscovery.Config{&promfile.SDConfig{Files: []string{t.TempDir() + "/a.json"}, RefreshInterval: model.Duration(time.Hour)}})
}

func TestCheck(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	good := newInventory(t).way(time.Hour)
	bad := promhttp.DefaultSDConfig
	bad.URL, bad.HTTPClientConfig.TLSConfig.CAFile = "https://a/", "/nowhere/ca.pem"
	if err := Check([]promdiscovery.Config{good}, logger); err != nil {
		t.Error(err)
	}
	err := Check([]promdiscovery.Config{good, &bad}, logger)
	if err == nil || !strings.Contains(err.Error(), "http_sd_configs") || !strings.Contains(err.Error(), "/nowhere/ca.pem") {
		t.Errorf("got %v", err)
	}
}
