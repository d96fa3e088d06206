package web

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLandingPage demands that the page shows how targets are, without scraping them.
func TestLandingPage(t *testing.T) {
	var asked atomic.Int64
	good := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(engines)(w, r)
	})
	o := options()
	o.TelemetryPath = "/all"
	_, url := start(t, flat(good, "127.0.0.1:1"), o)

	page := get(t, url+"/")
	if kind := page.header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		t.Errorf("Content-Type %q", kind)
	}
	if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("Content-Security-Policy %q", policy)
	}
	if n := strings.Count(page.body, "not scraped yet"); n != 2 || asked.Load() != 0 {
		t.Errorf("%d targets not scraped yet, %d scrapes by looking; want 2 and 0:\n%s", n, asked.Load(), page.body)
	}
	if !strings.Contains(page.body, `href="/all"`) || strings.Contains(page.body, "/api/v1/events") {
		t.Errorf("links are not those that there are:\n%s", page.body)
	}

	get(t, url+"/all")
	page = get(t, url+"/")
	for _, want := range []string{good, "127.0.0.1:1", "<td>up</td>", "down (connect)", "connection refused"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("page does not hold %q:\n%s", want, page.body)
		}
	}
}

func TestLandingPageOfNothing(t *testing.T) {
	o := options()
	o.Events = http.NotFoundHandler()
	_, url := start(t, "", o)
	if page := get(t, url+"/").body; !strings.Contains(page, "None are configured") || !strings.Contains(page, "/api/v1/events") {
		t.Errorf("page is\n%s", page)
	}
}

// TestLandingPageEscapes shows what hostile targets sent.
func TestLandingPageEscapes(t *testing.T) {
	const script = "<script>alert(1)</script>"
	line := serve(t, answer("vllm:x "+script+"\n"))
	contentType := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", script)
		_, _ = io.WriteString(w, script)
	})
	encoding := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", `"'><img src=x onerror=alert(1)>`)
		answer(engines)(w, r)
	})
	_, url := start(t, strings.Replace(flat(line, contentType, encoding), "stages:", "name: '<i>p</i>', stages:", 1), options())
	get(t, url+"/metrics")
	page := get(t, url+"/").body
	for _, foreign := range []string{"<script", "<img", "<i>"} {
		if strings.Contains(page, foreign) {
			t.Errorf("page holds %q unescaped:\n%s", foreign, page)
		}
	}
	for _, want := range []string{"&lt;script&gt;", "&lt;img", "&lt;i&gt;p&lt;/i&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not hold %q:\n%s", want, page)
		}
	}
}

// TestLandingPageHoldsNoSecret shows a target that answers with what it was sent.
func TestLandingPageHoldsNoSecret(t *testing.T) {
	reflecting := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization")+r.URL.RawQuery, http.StatusForbidden)
	})
	_, url := start(t, `
pipelines:
- stages: [{}]
  upstreams:
  - static_configs: [{targets: ["`+reflecting+`"]}]
    params: {token: [s3cr3t]}
    authorization: {credentials: s3cr3t}
`, options())
	for _, path := range []string{"/metrics", "/"} {
		page := get(t, url+path).body
		if strings.Contains(page, "s3cr3t") || !strings.Contains(page, reflecting) {
			t.Errorf("%s holds the secret, or not the target:\n%s", path, page)
		}
	}
}
