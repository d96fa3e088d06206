package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// The answers are Prometheus's: 405 for other methods, 403 while the endpoints are
// off.
func TestLifecycle(t *testing.T) {
	_, base := start(t, "", options())
	for _, path := range []string{"/-/reload", "/-/quit"} {
		for method, want := range map[string]int{"GET": 405, "HEAD": 405, "DELETE": 405, "POST": 403, "PUT": 403} {
			if r := do(t, method, base+path, nil); r.status != want {
				t.Errorf("off: %s %s: status %d, want %d", method, path, r.status, want)
			}
		}
	}

	var reloads, quits int
	var fault error
	o := options()
	o.Lifecycle = Lifecycle{Reload: func() error { reloads++; return fault }, Quit: func() { quits++ }}
	_, base = start(t, "", o)
	for method, want := range map[string]int{"GET": 405, "POST": 200, "PUT": 200} {
		for _, path := range []string{"/-/reload", "/-/quit"} {
			if r := do(t, method, base+path, nil); r.status != want {
				t.Errorf("on: %s %s: status %d, want %d", method, path, r.status, want)
			}
		}
	}
	if reloads != 2 || quits != 2 {
		t.Errorf("%d reloads and %d quits, want 2 of each", reloads, quits)
	}
	other := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://elsewhere.example"}}
	if r := do(t, http.MethodPost, base+"/-/quit", other); r.status != http.StatusForbidden || quits != 2 {
		t.Errorf("from a page of another origin: status %d, %d quits", r.status, quits)
	}
	fault = errors.New("omni_exporter.yml:3: pipelines: no stages")
	if r := do(t, http.MethodPost, base+"/-/reload", nil); r.status != 500 || !strings.Contains(r.body, fault.Error()) {
		t.Errorf("a reload that fails: status %d: %s", r.status, r.body)
	}
}
