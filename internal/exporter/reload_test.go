package exporter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// patience is far beyond what anything awaited here takes.
const patience = time.Minute

// running is an exporter that serves.
type running struct {
	*Exporter
	url string
}

func run(t *testing.T, yaml string, o Options) *running {
	t.Helper()
	e, err := New(parseConfig(t, yaml), o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		s.Close()
		e.Close()
	})
	return &running{e, s.URL}
}

// engine is an upstream with one engine, whose page never changes but for a value.
func engine(t *testing.T, family string) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, "# TYPE vllm:%s counter\nvllm:%s{engine=\"0\"} %d\n", family, family, n.Add(1))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// metric returns the value of a series that has these labels, among others.
func metric(families map[string]*dto.MetricFamily, name string, labels ...string) (value float64, ok bool) {
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		match := true
		for i := 0; i < len(labels); i += 2 {
			match = match && have[labels[i]] == labels[i+1]
		}
		if match {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue(), true
		}
	}
	return 0, false
}

// await reads the page until check says nothing.
func (r *running) await(t *testing.T, what string, check func(map[string]*dto.MetricFamily) string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		fault := check(families(t, r.url))
		if fault == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %s", what, fault)
		}
	}
}

// Twenty scrapes a second go on while the configuration is loaded again fifty times.
// None of them fails or misses a target, no event, forward pass or scrape goes
// uncounted, and what did not change is not learnt again.
func TestReloadUnderLoad(t *testing.T) {
	const reloads = 50
	steady, changing, coming := engine(t, "steady"), engine(t, "changing"), engine(t, "coming")
	publisher := newTestPublisher(t)
	variant := func(i int) string {
		more := ""
		if i%2 == 1 {
			more = fmt.Sprintf("  - {static_configs: [{targets: [%q]}]}\n", coming)
		}
		return fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines:
- stages: [{}, {}, {}]
  upstreams:
  - {stage: "0", static_configs: [{targets: [%q]}]}
  - {stage: "1", static_configs: [{targets: [%q]}], sample_limit: %d}
%s
events: {max_series: %d}
forward_pass_metrics:
  streams: [{static_configs: [{targets: [%q]}]}]
  stale_after: %ds
`, steady, changing, 10+i, more, 1000+i, publisher.address(), 10+i)
	}
	r := run(t, variant(0), options())
	<-publisher.subscribed

	var scrapes, events atomic.Int64
	var records int
	scraped := make(chan struct{})
	done := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		last := map[string]float64{}
		for {
			page := families(t, r.url)
			scrapes.Add(1)
			for family, target := range map[string]string{"vllm:steady": steady, "vllm:changing": changing} {
				if _, ok := metric(page, family); !ok {
					t.Errorf("scrape %d lacks %s", scrapes.Load(), family)
				}
				if up, _ := metric(page, "omni_exporter_target_up", "target", target); up != 1 {
					t.Errorf("scrape %d: target_up of %s is %v", scrapes.Load(), family, up)
				}
				n, _ := metric(page, "omni_exporter_target_scrapes_total", "target", target)
				if n != last[target]+1 {
					t.Errorf("scrape %d: target_scrapes_total of %s went from %v to %v", scrapes.Load(), family, last[target], n)
				}
				last[target] = n
			}
			select {
			case scraped <- struct{}{}:
			case <-done:
				return
			}
			<-tick.C
		}
	})
	load.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			post(t, r.url, fmt.Sprintf(`{"type":"request_started","request_id":"r%d","model_name":"m"}`, i), http.StatusAccepted)
			events.Add(1)
		}
	})
	load.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				publisher.publish(t)
				records++
			}
		}
	})
	for i := 1; i <= reloads; i++ {
		<-scraped
		if err := r.Reload(t.Context(), parseConfig(t, variant(i))); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	<-scraped
	close(done)
	load.Wait()

	r.await(t, "whole count of records", func(page map[string]*dto.MetricFamily) string {
		if n, _ := metric(page, "dynamo_fpm_records_total"); int(n) != records {
			return fmt.Sprintf("%v of %d", n, records)
		}
		return ""
	})
	page := families(t, r.url)
	if n, _ := metric(page, "omni_exporter_events_received_total", "type", "request_started"); int64(n) != events.Load() {
		t.Errorf("%v events counted, want %d", n, events.Load())
	}
	if n, ok := metric(page, "omni_exporter_fpm_reconnects_total"); !ok || n != 0 || publisher.connections.Load() != 1 {
		t.Errorf("%v reconnects shown, %d connections made to the publisher, want 0 and 1", n, publisher.connections.Load())
	}
	if n, _ := metric(page, "dynamo_fpm_records_lost_total"); n != 0 {
		t.Errorf("%v records lost", n)
	}
	if n, _ := metric(page, "omni_exporter_events_series_limit"); n != 1000+reloads {
		t.Errorf("the limit of event series is %v, want %d", n, 1000+reloads)
	}
	for _, target := range r.web.Targets() {
		if target.Address() != steady {
			continue
		}
		if misses := target.Counts().LineMisses; misses != 1 {
			t.Errorf("%d lines of a target that never changed were taken apart, want 1", misses)
		}
	}
	if n, _ := metric(page, "omni_exporter_config_last_reload_successful"); n != 1 {
		t.Errorf("last_reload_successful is %v", n)
	}
	t.Logf("%d scrapes, %d events and %d records during %d reloads", scrapes.Load(), events.Load(), records, reloads)
}

// A configuration that cannot be put to work changes nothing, and shows.
func TestReloadThatFails(t *testing.T) {
	good := engine(t, "good")
	yaml := fmt.Sprintf("pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: [%q]}]}]}]", good)
	r := run(t, yaml, options())
	before, _ := metric(families(t, r.url), "omni_exporter_config_last_reload_success_timestamp_seconds")
	for name, bad := range map[string]string{
		"targets":   `pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: ["a:1", "b:1"]}], relabel_configs: [{target_label: __address__, replacement: "c:1"}]}]}]`,
		"client":    `pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: ["a:1"]}], tls_config: {ca_file: /nowhere/ca.pem}}]}]`,
		"discovery": `pipelines: [{stages: [{}], upstreams: [{http_sd_configs: [{url: "http://a/", tls_config: {ca_file: /nowhere/ca.pem}}]}]}]`,
		"stream":    `forward_pass_metrics: {streams: [{static_configs: [{targets: ["tcp://a:1"]}], relabel_configs: [{target_label: __address__, replacement: "udp://a:1"}]}]}`,
	} {
		if err := r.Reload(t.Context(), parseConfig(t, bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		page := families(t, r.url)
		if _, ok := metric(page, "vllm:good"); !ok {
			t.Errorf("%s: the page lacks the target of the configuration in force", name)
		}
		if n, _ := metric(page, "omni_exporter_config_last_reload_successful"); n != 0 {
			t.Errorf("%s: last_reload_successful is %v", name, n)
		}
		if n, _ := metric(page, "omni_exporter_config_last_reload_success_timestamp_seconds"); n != before {
			t.Errorf("%s: the time of the last success has changed", name)
		}
	}
	if err := r.Reload(t.Context(), parseConfig(t, yaml)); err != nil {
		t.Fatal(err)
	}
	if n, _ := metric(families(t, r.url), "omni_exporter_config_last_reload_successful"); n != 1 {
		t.Errorf("last_reload_successful is %v after a success", n)
	}
}

// The prefix of families that are computed here is that of the configuration in
// force, and what they count goes on.
func TestReloadOfTheOmniPrefix(t *testing.T) {
	r := run(t, "", options())
	post(t, r.url, batch, http.StatusAccepted)
	for prefix, want := range map[string]string{"acme_": "acme_requests_success_total", "vllm_omni:": "vllm_omni:requests_success_total", "keep": "vllm:omni_requests_success_total"} {
		if err := r.Reload(t.Context(), parseConfig(t, fmt.Sprintf("omni_prefix: %q", prefix))); err != nil {
			t.Fatal(err)
		}
		page := families(t, r.url)
		if n, _ := metric(page, want, "finished_reason", "stop"); n != 1 {
			t.Errorf("omni_prefix %q: %s is %v, want 1", prefix, want, n)
		}
		if prefix == "acme_" && page["vllm:omni_requests_success_total"] != nil {
			t.Error("the family is there under two names")
		}
	}
}

// writeFile replaces a file as a whole, as those who write them for file_sd should.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Targets and publishers that a file names come and go with it; a reload loses none
// of them, also when it changes how the file is read.
func TestDiscoveryByFile(t *testing.T) {
	a, b := engine(t, "a"), engine(t, "b")
	publisher := newTestPublisher(t)
	dir := t.TempDir()
	engines, streams := filepath.Join(dir, "engines.json"), filepath.Join(dir, "streams.json")
	writeFile(t, engines, fmt.Sprintf(`[{"targets": [%q], "labels": {"__meta_place": "1"}}]`, a))
	writeFile(t, streams, `[]`)
	yaml := func(interval string) string {
		return fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines:
- stages: [{}, {}]
  upstreams:
  - stage: "0"
    file_sd_configs: [{files: [%q], refresh_interval: %s}]
    relabel_configs: [{source_labels: [__meta_place], regex: (.+), target_label: stage}]
forward_pass_metrics:
  streams:
  - file_sd_configs: [{files: [%q]}]
    relabel_configs: [{target_label: dynamo_component, replacement: backend}]
`, engines, interval, streams)
	}
	r := run(t, yaml("5m"), options())

	// What is there at the start is on the first page.
	page := families(t, r.url)
	if _, ok := metric(page, "vllm:a", "stage", "1", "replica", a); !ok {
		t.Errorf("the first page lacks the target: %v", page["vllm:a"])
	}
	if n, _ := metric(page, "omni_exporter_engines_seen", "stage", "1"); n != 1 {
		t.Errorf("engines_seen is %v, want 1", n)
	}

	writeFile(t, streams, fmt.Sprintf(`[{"targets": [%q, "host:port", "udp://a:1"], "labels": {"stage": "1", "other": "x"}}]`, strings.TrimPrefix(publisher.address(), "tcp://")))
	<-publisher.subscribed
	publisher.publish(t)
	r.await(t, "record of the publisher", func(page map[string]*dto.MetricFamily) string {
		if n, _ := metric(page, "dynamo_fpm_records_total", "stage", "1", "dynamo_component", "backend"); n != 1 {
			return fmt.Sprintf("records_total is %v", n)
		}
		if n, _ := metric(page, "omni_exporter_fpm_rejected_publishers", "reason", "address"); n != 2 {
			return fmt.Sprintf("%v publishers rejected", n)
		}
		return ""
	})

	// Read otherwise, the same file gives the same target: it never leaves the page.
	if err := r.Reload(t.Context(), parseConfig(t, yaml("1m"))); err != nil {
		t.Fatal(err)
	}
	page = families(t, r.url)
	if n, ok := metric(page, "vllm:a"); !ok || n < 2 {
		t.Errorf("after the reload, vllm:a is %v", n)
	}

	writeFile(t, engines, fmt.Sprintf(`[{"targets": [%q, %q]}]`, a, b))
	r.await(t, "second target", func(page map[string]*dto.MetricFamily) string {
		_, hasB := metric(page, "vllm:b", "stage", "0")
		_, moved := metric(page, "vllm:a", "stage", "0")
		if !hasB || !moved {
			return fmt.Sprintf("has b: %v, moved a: %v", hasB, moved)
		}
		if n, _ := metric(page, "omni_exporter_engines_expected", "stage", "0"); n != 2 {
			return fmt.Sprintf("engines_expected is %v", n)
		}
		return ""
	})
	writeFile(t, engines, "[")
	r.await(t, "failure", func(page map[string]*dto.MetricFamily) string {
		if _, ok := metric(page, "vllm:b"); !ok {
			t.Error("a file that cannot be read took its targets away")
		}
		if n, _ := metric(page, "omni_exporter_discovery_failures_total", "mechanism", "file"); n == 0 {
			return "none counted"
		}
		return ""
	})
	writeFile(t, engines, "[]")
	r.await(t, "end of the targets", func(page map[string]*dto.MetricFamily) string {
		if page["vllm:a"] != nil || page["vllm:b"] != nil || page["omni_exporter_target_up"] != nil {
			return "still there"
		}
		return ""
	})
	if publisher.connections.Load() != 1 {
		t.Errorf("%d connections to the publisher, want 1", publisher.connections.Load())
	}
}

func TestListensAt(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		listen, target string
		want           bool
	}{
		{":10380", "127.0.0.1:10380", true},
		{":10380", "localhost:10380", true},
		{":10380", "LOCALHOST.:10380", true},
		{":10380", "[::1]:10380", true},
		{":10380", "[::ffff:127.0.0.1]:10380", true},
		{":10380", "0.0.0.0:10380", true},
		{":10380", name + ":10380", true},
		{":10380", "127.0.0.1:8000", false},
		{":10380", "192.0.2.1:10380", false},
		{":10380", "elsewhere:10380", false},
		{"0.0.0.0:10380", "127.9.9.9:10380", true},
		{"127.0.0.1:10380", "127.0.0.1:10380", true},
		{"127.0.0.1:10380", "localhost:10380", true},
		{"127.0.0.1:10380", name + ":10380", false},
		{"192.0.2.1:10380", "192.0.2.1:10380", true},
		{"192.0.2.1:10380", "127.0.0.1:10380", false},
		{"host.example:10380", "Host.Example:10380", true},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"vsock://:10380", "127.0.0.1:10380", false},
		{"nonsense", "127.0.0.1:10380", false},
	} {
		if got := listensAt([]string{test.listen})(test.target); got != test.want {
			t.Errorf("listening at %s, target %s: %v, want %v", test.listen, test.target, got, test.want)
		}
	}
}

// Every target and publisher is one exporter's of the fleet.
func TestShardsOfExporters(t *testing.T) {
	for _, bad := range []Shard{{Index: -1}, {Index: 1}, {Index: 2, Count: 2}, {Count: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	const targets, count = 60, 3
	var upstreams, streams []string
	for i := range targets {
		upstreams = append(upstreams, fmt.Sprintf(`"10.0.0.%d:8000"`, i))
		streams = append(streams, fmt.Sprintf(`"tcp://127.0.0.1:%d"`, 1+i))
	}
	yaml := fmt.Sprintf(`
pipelines: [{name: p, stages: [{}], upstreams: [{stage: "0", static_configs: [{targets: [%s]}]}]}]
forward_pass_metrics: {streams: [{static_configs: [{targets: [%s]}]}]}
`, strings.Join(upstreams, ","), strings.Join(streams, ","))
	seen, replicas := map[string]int{}, map[string]bool{}
	for index := range count {
		o := options()
		o.Shard = Shard{Index: index, Count: count}
		e, err := New(parseConfig(t, yaml), o)
		if err != nil {
			t.Fatal(err)
		}
		share := e.web.Targets()
		if n := len(share); n < targets/count/3 || n > targets {
			t.Errorf("shard %d has %d of %d targets", index, n, targets)
		}
		for _, target := range share {
			seen[target.Address()]++
			replicas[target.Replica()] = true
		}
		for _, s := range e.passes.streams.State() {
			seen[s.Endpoint.Address]++
		}
		e.Close()
	}
	if len(seen) != 2*targets || len(replicas) != targets {
		t.Errorf("%d targets and publishers and %d replicas are seen, want %d and %d", len(seen), len(replicas), 2*targets, targets)
	}
	for address, n := range seen {
		if n != 1 {
			t.Errorf("%s is of %d exporters", address, n)
		}
	}
}

// A way of discovery that cannot be used is an error at the start, not a page that
// stays empty.
func TestDiscoveryThatCannotBeUsed(t *testing.T) {
	c := parseConfig(t, `pipelines: [{stages: [{}], upstreams: [{kubernetes_sd_configs: [{role: pod}]}]}]`)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := New(c, options())
	if err == nil || !strings.Contains(err.Error(), "kubernetes_sd_configs") {
		t.Errorf("got %v", err)
	}
}
