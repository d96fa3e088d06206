//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// hostile is a name that runs if it is not escaped.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// statusRig is an exporter with every kind of target.
type statusRig struct {
	url      string
	exporter *process
	broken   atomic.Bool // lets the first talker fail
}

func engineServer(t *testing.T, broken *atomic.Bool, page string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken != nil && broken.Load() {
			http.Error(w, hostile, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", acceptText)
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// enginePage is a page of engines, each with what it runs.
func enginePage(engines ...string) string {
	var b strings.Builder
	for i, family := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", family)
		for j, engine := range engines {
			fmt.Fprintf(&b, "%s{engine=%q,model_name=\"m\"} %v\n", family, engine, [][]float64{{7, 0, 0.93}, {2, 1, 0.31}, {0, 0, 0}}[j%3][i])
		}
	}
	return b.String()
}

func startStatusRig(t *testing.T) *statusRig {
	t.Helper()
	r := &statusRig{}
	refused := freeAddress(t)
	flat := engineServer(t, nil, enginePage("0", "1", "2", "17", hostile))
	talker := engineServer(t, &r.broken, enginePage("0"))
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", hostile)
	}))
	t.Cleanup(strange.Close)
	config := writeConfig(t, fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines:
  - name: qwen3-omni
    stages: [{name: thinker}, {name: talker, replicas: 2}, {name: code2wav, replicas: 2}]
    upstreams:
      - static_configs: [{targets: [%q]}]
  - name: %q
    stages: [{name: prefill, replicas: 2}, {name: %q}]
    upstreams:
      - {stage: "0", static_configs: [{targets: [%q, %q]}]}
      - {stage: "1", static_configs: [{targets: [%q]}], basic_auth: {username: u, password: s3cr3t}}
forward_pass_metrics:
  streams:
    - static_configs: [{targets: ["tcp://%s"], labels: {stage: "0", replica: "0", pipeline: qwen3-omni}}]
`, flat, "disaggregated "+hostile, hostile, talker, refused, strange.Listener.Addr(), refused))
	r.exporter, r.url = startExporter(t, "--config.file="+config)
	response, err := http.Post(r.url+"/api/v1/events", "application/x-ndjson", strings.NewReader(
		`{"type":"request_started","request_id":"r1","model_name":"m"}`+"\n"+`{"type":"nonsense"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return r
}

// TestStatusPageInBrowser looks at the status page with Chromium: wide and narrow, light and dark, with healthy, failing
// and hostile targets.
func TestStatusPageInBrowser(t *testing.T) {
	rig, b, axe := startStatusRig(t), startBrowser(t), axePath(t)
	await(t, "failing stream", requestTimeout, rig.exporter, func(ctx context.Context) error {
		text, err := fetch(ctx, rig.url+"/api/v1/status", "")
		if err == nil && !strings.Contains(text, `"reason":"dial"`) {
			err = fmt.Errorf("status %s", text)
		}
		return err
	})
	get(t, rig.url+"/metrics", "")
	for _, l := range []look{
		{1280, 900, "light", "no-preference"},
		{1280, 900, "dark", "no-preference"},
		{360, 740, "light", "reduce"},
		{360, 740, "dark", "reduce"},
	} {
		b.as(t, l)
		b.run(t, chromedp.Navigate(rig.url))
		b.screenshot(t, "status-"+l.String())
		if wide := eval[int64](t, b, "document.documentElement.scrollWidth"); wide > l.width {
			t.Errorf("%v: the page is %d wide", l, wide)
		}
		if eval[bool](t, b, "window.hacked !== undefined") {
			t.Errorf("%v: a target's name ran", l)
		}
		if checked := eval[bool](t, b, "document.querySelector('#refresh input').checked"); checked == (l.motion == "reduce") {
			t.Errorf("%v: refreshing is %v where %s is preferred", l, checked, l.motion)
		}
		b.demandQuiet(t)
		b.demandAccessible(t, axe)
		b.demandQuiet(t)
	}
	text := eval[string](t, b, "document.body.innerText")
	for _, want := range []string{hostile, "disaggregated " + hostile, "outside the map", "connection refused", "2 of 4 targets failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("page does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(eval[string](t, b, "document.documentElement.outerHTML"), "s3cr3t") {
		t.Error("page holds the password")
	}
}

// TestStatusPageRefreshesInPlace demands that what changes is shown without a new page, and that keyboard and scrolling
// are left alone by it.
func TestStatusPageRefreshesInPlace(t *testing.T) {
	rig, b := startStatusRig(t), startBrowser(t)
	get(t, rig.url+"/metrics", "")
	b.as(t, look{1280, 600, "light", "no-preference"})
	b.run(t, chromedp.Navigate(rig.url))

	b.run(t, chromedp.KeyEvent(kb.Tab))
	if text := eval[string](t, b, "document.activeElement.textContent"); text != "Skip to the status" {
		t.Errorf("the first stop of the keyboard is %q", text)
	}
	b.run(t, chromedp.Focus(chromedp.CSS("summary")), chromedp.KeyEvent(kb.Enter))
	if !eval[bool](t, b, "document.querySelector('details').open") {
		t.Error("the configuration does not open by keyboard")
	}
	b.run(t, chromedp.Evaluate[chromedp.Void]("window.mark = 1; scrollTo(0, 200)"))
	scrolled := eval[float64](t, b, "scrollY")

	const down = `document.querySelector("#targets-live").innerText.includes("HTTP status 503")`
	if eval[bool](t, b, down) {
		t.Fatal("the target fails from the start")
	}
	rig.broken.Store(true)
	get(t, rig.url+"/metrics", "")
	b.awaitTrue(t, "failing target", down)
	if !eval[bool](t, b, "window.mark === 1 && document.querySelector('details').open && document.activeElement.tagName === 'SUMMARY'") {
		t.Error("the page was loaded anew, or what was open or focused is not any more")
	}
	if now := eval[float64](t, b, "scrollY"); now != scrolled {
		t.Errorf("scrolled to %v, before the refresh %v", now, scrolled)
	}
	rig.broken.Store(false)
	get(t, rig.url+"/metrics", "")
	b.awaitTrue(t, "mended target", "!("+down+")")
	b.demandQuiet(t)

	rig.exporter.endsCleanly(t, syscall.SIGTERM)
	b.awaitTrue(t, "word of the exporter's end", `document.querySelector("#lost").textContent !== ""`)
}

// TestStatusPageWithoutScript demands that all is there where scripts do not run.
func TestStatusPageWithoutScript(t *testing.T) {
	rig, b := startStatusRig(t), startBrowser(t)
	get(t, rig.url+"/metrics", "")
	command(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.run(t, chromedp.Navigate(rig.url))
	text := result(t, b, chromedp.Text(chromedp.CSS("body")))
	for _, want := range []string{"thinker", "93 %", "2 of 4 targets failed", "connection refused", "unknown_type"} {
		if !strings.Contains(text, want) {
			t.Errorf("page does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Refresh every") {
		t.Error("page offers a refresh that needs the script")
	}
	b.demandQuiet(t)
}
