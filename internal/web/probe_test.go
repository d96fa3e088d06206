package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// twoPipelines has one target of its own in each pipeline, and one in both.
func twoPipelines(a, b, both string) string {
	return fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines:
- {name: p, stages: [{}, {replicas: 2}], upstreams: [{static_configs: [{targets: [%q, %q]}]}]}
- {name: "q&r", stages: [{}], upstreams: [{stage: "0", static_configs: [{targets: [%q, %q]}]}]}
`, a, both, b, both)
}

func TestProbe(t *testing.T) {
	var asked atomic.Int64
	count := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			h(w, r)
		}
	}
	a, b, both := serve(t, count(answer(engines))), serve(t, answer("vllm:b{engine=\"0\"} 2\n")), serve(t, answer("vllm:both{engine=\"1\"} 3\n"))
	_, base := start(t, twoPipelines(a, b, both), options())
	probe := func(target string, more ...string) reply {
		return get(t, base+"/probe?target="+url.QueryEscape(target)+strings.Join(more, ""))
	}

	r := probe(a)
	if r.status != http.StatusOK || asked.Load() != 1 {
		t.Fatalf("status %d after %d scrapes: %s", r.status, asked.Load(), r.body)
	}
	if up := value(r.body, fmt.Sprintf(`omni_exporter_target_up{pipeline="p",target=%q}`, a)); up != "1" {
		t.Errorf("target_up is %q:\n%s", up, r.body)
	}
	for line := range strings.Lines(r.body) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "vllm:") && !strings.Contains(line, fmt.Sprintf("target=%q", a)) {
			t.Errorf("the page of one target says %q", line)
		}
	}
	if got := value(probe(b).body, `vllm:b{pipeline="q&r",replica="0",stage="0"}`); got != "2" {
		t.Errorf("the target of the other pipeline: %q", got)
	}
	for _, test := range []struct {
		target, pipeline string
		status           int
		has              string
	}{
		{both, "", 400, "add the parameter pipeline"},
		{both, "&pipeline=p", 200, `vllm:both{pipeline="p",replica="0",stage="1"} 3`},
		{both, "&pipeline=q%26r", 200, `stage="0"} 3`},
		{a, "&pipeline=q%26r", 404, "no target"},
		{a, "&pipeline=", 404, "no target"},
		{"", "", 400, "parameter target is missing"},
		{"127.0.0.1:1", "", 404, "no target"},
		{"http://" + a, "", 404, "no target"},
		{a + "/metrics", "", 404, "no target"},
		{a + "#", "", 404, "no target"},
		{a + "@127.0.0.1:1", "", 404, "no target"},
		{"<script>", "", 404, "no target"},
	} {
		r := probe(test.target, test.pipeline)
		if r.status != test.status || !strings.Contains(r.body, test.has) {
			t.Errorf("%q %q: status %d, want %d with %q: %s", test.target, test.pipeline, r.status, test.status, test.has, r.body)
		}
		if strings.Contains(r.body, "<") {
			t.Errorf("%q: the answer repeats what was asked: %s", test.target, r.body)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d scrapes of a target that was probed once", n)
	}
}

// A target that fails is a page, too: Prometheus is to read why.
func TestProbeOfATargetThatIsDown(t *testing.T) {
	_, base := start(t, flat("127.0.0.1:1"), options())
	for range 2 { // the second is made with what the first has taught
		r := get(t, base+"/probe?target=127.0.0.1:1")
		if up := value(r.body, `omni_exporter_target_up{target="127.0.0.1:1"}`); r.status != 200 || up != "0" {
			t.Errorf("status %d, target_up %q:\n%s", r.status, up, r.body)
		}
	}
}

// Probes and scrapes of all share the one scrape under way.
func TestProbeSharesTheScrape(t *testing.T) {
	const callers = 10
	var asked atomic.Int64
	held := make(chan struct{})
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-held
		answer(engines)(w, r)
	})
	s, base := start(t, flat(a), options())
	var done sync.WaitGroup
	for i := range callers {
		path := "/metrics"
		if i%2 == 0 {
			path = "/probe?target=" + a
		}
		done.Go(func() {
			if r := get(t, base+path); !strings.Contains(r.body, "vllm:") {
				t.Errorf("%s: %s", path, r.body)
			}
		})
	}
	awaitCount(t, func() int { return s.waiting() }, callers)
	close(held)
	done.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("%d scrapes for %d callers, want 1", n, callers)
	}
}

// waiting returns how many requests wait for targets.
func (s *Server) waiting() int {
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	n := len(s.slots)
	for _, probes := range s.probes.n {
		n += probes
	}
	return n
}

// Who waits for one target that hangs costs those nothing who ask for another.
func TestProbesAreBoundedByTarget(t *testing.T) {
	held := make(chan struct{})
	hung := serve(t, func(http.ResponseWriter, *http.Request) { <-held })
	good := serve(t, answer(engines))
	o := options()
	o.MaxRequests = 2
	s, base := start(t, flat(hung, good), o)
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { get(t, base+"/probe?target="+hung) })
	}
	awaitCount(t, s.waiting, 2)
	if r := get(t, base+"/probe?target="+hung); r.status != http.StatusServiceUnavailable {
		t.Errorf("one probe too many: status %d", r.status)
	}
	if r := get(t, base+"/probe?target="+good); r.status != http.StatusOK {
		t.Errorf("probe of another target: status %d", r.status)
	}
	close(held)
	waiting.Wait()
	if n := s.waiting(); n != 0 {
		t.Errorf("%d requests are still counted", n)
	}
}

// Where the targets are probed, the rest of the page is asked for alone.
func TestMetricsWithoutTargets(t *testing.T) {
	var asked atomic.Int64
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer("vllm:x{engine=\"0\"} 1\n")(w, r)
	})
	_, base := start(t, flat(a), options())
	page := get(t, base+"/metrics?targets=none").body
	if asked.Load() != 0 || strings.Contains(page, "omni_exporter_target_") || strings.Contains(page, "vllm:") {
		t.Errorf("%d scrapes for a page without targets:\n%s", asked.Load(), page)
	}
	if seen := value(page, `omni_exporter_engines_seen{stage="0"}`); seen != "0" {
		t.Errorf("engines_seen before a probe: %q", seen)
	}
	get(t, base+"/probe?target="+a)
	page = get(t, base+"/metrics?targets=none").body
	if seen := value(page, `omni_exporter_engines_seen{stage="0"}`); seen != "1" {
		t.Errorf("engines_seen after a probe: %q", seen)
	}
	if expected := value(page, `omni_exporter_engines_expected{stage="0"}`); expected != "2" {
		t.Errorf("engines_expected: %q", expected)
	}
}

func TestHTTPSD(t *testing.T) {
	_, base := start(t, twoPipelines("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"), options())
	r := do(t, http.MethodGet, base+"/api/v1/http_sd", nil)
	if r.header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q: Prometheus takes none but application/json", r.header.Get("Content-Type"))
	}
	var groups []*targetgroup.Group
	if err := json.Unmarshal([]byte(r.body), &groups); err != nil { // by Prometheus's own type
		t.Fatal(err)
	}
	here := strings.TrimPrefix(base, "http://")
	var got []string
	for _, g := range groups {
		if len(g.Targets) != 1 || string(g.Targets[0]["__address__"]) != here {
			t.Errorf("targets %v, want the exporter's own address, %s", g.Targets, here)
		}
		got = append(got, g.Labels.String())
	}
	want := []string{
		`{__metrics_path__="/metrics", __param_targets="none", __scheme__="http"}`,
		`{__metrics_path__="/probe", __param_pipeline="p", __param_target="10.0.0.1:8000", __scheme__="http", instance="10.0.0.1:8000", pipeline="p"}`,
		`{__metrics_path__="/probe", __param_pipeline="p", __param_target="10.0.0.3:8000", __scheme__="http", instance="10.0.0.3:8000", pipeline="p"}`,
		`{__meta_omni_replica="0", __metrics_path__="/probe", __param_pipeline="q&r", __param_target="10.0.0.2:8000", __scheme__="http", instance="10.0.0.2:8000", pipeline="q&r", stage="0"}`,
		`{__meta_omni_replica="1", __metrics_path__="/probe", __param_pipeline="q&r", __param_target="10.0.0.3:8000", __scheme__="http", instance="10.0.0.3:8000", pipeline="q&r", stage="0"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTargetsJSON(t *testing.T) {
	a := serve(t, answer(`vllm:x{engine="9"} 1`+"\n"))
	_, base := start(t, flat(a, "127.0.0.1:1"), options())
	list := func() []map[string]any {
		var out struct {
			Targets  []map[string]any `json:"targets"`
			Rejected []map[string]any `json:"rejected"`
		}
		if err := json.Unmarshal([]byte(get(t, base+"/api/v1/targets").body), &out); err != nil {
			t.Fatal(err)
		}
		if out.Rejected == nil {
			t.Error("rejected is no list")
		}
		return out.Targets
	}
	for _, target := range list() {
		if target["state"] != "unknown" {
			t.Errorf("before the first scrape: %v", target)
		}
	}
	get(t, base+"/metrics")
	got := list()
	if up := got[0]; up["target"] != a || up["state"] != "up" || up["samples"] != 1.0 || fmt.Sprint(up["unmapped_engines"]) != "[9]" || up["last_scrape"] == nil {
		t.Errorf("a target that is up: %v", up)
	}
	if down := got[1]; down["state"] != "down" || down["reason"] != "connect" || down["error"] == "" {
		t.Errorf("a target that is down: %v", down)
	}
}
