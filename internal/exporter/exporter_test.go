package exporter

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the tables in docs/metrics.md")
	goleak.VerifyTestMain(m)
}

func options() Options {
	return Options{
		Logger: slog.New(slog.DiscardHandler), TelemetryPath: "/metrics", TimeoutOffset: 500 * time.Millisecond, MaxRequests: 40,
		Pipeline: true, Audio: true, Transfer: true, ForwardPasses: true, OwnProcess: true,
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

// start returns the base URL of an exporter.
func start(t *testing.T, yaml string, o Options) string {
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
	return s.URL
}

// families reads an exporter's page.
func families(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	out, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// post sends events, which must be answered with a status.
func post(t *testing.T, url, events string, status int) {
	t.Helper()
	resp, err := http.Post(url+"/api/v1/events", "application/x-ndjson", strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", resp.StatusCode, status, body)
	}
}

// A request that begins and ends, an audio stream and a transfer.
const batch = `{"type":"request_started","request_id":"r1","model_name":"m"}
{"type":"request_scheduled","request_id":"r1"}
{"type":"audio_first_packet","request_id":"r1","model_name":"m","stage":"2","replica":"0","ttfp_s":0.62}
{"type":"transfer_tx","model_name":"m","from_stage":"0","from_replica":"0","to_stage":"1","to_replica":"1","size_bytes":65536,"tx_ms":1.8}
{"type":"request_finished","request_id":"r1","finished_reason":"stop","e2e_s":2.41}
`

// TestEventsAndTargetsOnOnePage puts families computed from events beside those of an
// upstream that has some of the same: one family each.
func TestEventsAndTargetsOnOnePage(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, "# HELP vllm_omni:requests_success_total Theirs.\n# TYPE vllm_omni:requests_success_total counter\n"+
			"vllm_omni:requests_success_total{finished_reason=\"stop\",model_name=\"other\"} 4\n# TYPE vllm:x gauge\nvllm:x{engine=\"0\"} 1\n")
	}))
	defer upstream.Close()
	url := start(t, fmt.Sprintf("pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: [%q]}]}]}]", upstream.Listener.Addr()), options())
	post(t, url, batch, http.StatusAccepted)
	page := families(t, url)
	if n := len(page["vllm:x"].GetMetric()); n != 1 {
		t.Errorf("%d series of vllm:x, want 1", n)
	}
	success := map[string]float64{}
	for _, m := range page["vllm:omni_requests_success_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["finished_reason"] == "stop" {
			success[labels["model_name"]] = m.GetCounter().GetValue()
		}
	}
	if success["m"] != 1 || success["other"] != 4 {
		t.Errorf("successes by model %v, want m from events and other from the upstream", success)
	}
}

// TestCollectorsThatAreOff demands that a collector that is off has no family.
func TestCollectorsThatAreOff(t *testing.T) {
	probes := map[string]string{
		"pipeline": "vllm:omni_requests_success_total", "audio": "vllm:omni_audio_ttfp_s", "transfer": "vllm:omni_transfer_size_bytes",
		"process": "go_goroutines", "fpm": "omni_exporter_fpm_connected",
	}
	off := map[string]func(*Options){
		"":         func(*Options) {},
		"pipeline": func(o *Options) { o.Pipeline = false }, "audio": func(o *Options) { o.Audio = false },
		"transfer": func(o *Options) { o.Transfer = false }, "process": func(o *Options) { o.OwnProcess = false },
		"fpm": func(o *Options) { o.ForwardPasses = false },
	}
	// Nobody publishes there; the connection is tried again and again.
	const yaml = `forward_pass_metrics: {streams: [{static_configs: [{targets: ["tcp://127.0.0.1:1"]}]}]}`
	for collector, switchOff := range off {
		t.Run("without "+collector, func(t *testing.T) {
			o := options()
			switchOff(&o)
			url := start(t, yaml, o)
			status := http.StatusAccepted
			if !o.Pipeline || !o.Audio || !o.Transfer {
				status = http.StatusBadRequest // the events of one that is off are refused, the others taken
			}
			post(t, url, batch, status)
			page := families(t, url)
			for name, family := range probes {
				if _, there := page[family]; there == (name == collector) {
					t.Errorf("%s there: %t", family, there)
				}
			}
		})
	}
}

// TestOwnFamiliesLint lints the families whose names are the exporter's own; those of
// vLLM have colons, which the linter refuses.
func TestOwnFamiliesLint(t *testing.T) {
	url := start(t, `
pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: ["127.0.0.1:1"]}]}]}]
forward_pass_metrics: {streams: [{static_configs: [{targets: ["tcp://127.0.0.1:1"]}]}]}
`, options())
	var own []*dto.MetricFamily
	for name, f := range families(t, url) {
		if strings.HasPrefix(name, "omni_exporter_") || strings.HasPrefix(name, "dynamo_fpm_") {
			own = append(own, f)
		}
	}
	if len(own) < 20 {
		t.Fatalf("%d own families, which cannot be all", len(own))
	}
	problems, err := promlint.NewWithMetricFamilies(own).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestTwoExporters demands that two in one process know nothing of each other.
func TestTwoExporters(t *testing.T) {
	first, second := start(t, "", options()), start(t, "", options())
	post(t, first, batch, http.StatusAccepted)
	if _, ok := families(t, first)["vllm:omni_audio_ttfp_s"]; !ok {
		t.Error("the first does not show its events")
	}
	for name, f := range families(t, second) {
		for _, m := range f.GetMetric() {
			if name == "omni_exporter_events_received_total" && m.GetCounter().GetValue() != 0 {
				t.Errorf("the second counts events of the first: %v", m)
			}
		}
	}
}

func TestConfigurationIsInForce(t *testing.T) {
	page := families(t, start(t, "", options()))
	if v := page["omni_exporter_config_last_reload_successful"].GetMetric(); len(v) != 1 || v[0].GetGauge().GetValue() != 1 {
		t.Errorf("last reload successful: %v", v)
	}
	loaded := page["omni_exporter_config_last_reload_success_timestamp_seconds"].GetMetric()
	if len(loaded) != 1 || time.Since(time.Unix(int64(loaded[0].GetGauge().GetValue()), 0)).Abs() > time.Hour {
		t.Errorf("last reload at %v", loaded)
	}
	if _, ok := page["omni_exporter_build_info"]; !ok {
		t.Error("no omni_exporter_build_info")
	}
}

// TestCannotStart demands an error and that nothing is left running.
func TestCannotStart(t *testing.T) {
	for name, test := range map[string]struct{ yaml, want string }{
		"targets": {`
pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: ["a:1"]}], tls_config: {cert_file: /nowhere/c, key_file: /nowhere/k}}]}]
forward_pass_metrics: {streams: [{static_configs: [{targets: ["tcp://127.0.0.1:1"]}]}]}`, "/nowhere/c"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := options()
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			e, err := New(parseConfig(t, test.yaml), o)
			if err == nil {
				e.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want it to name %q", err, test.want)
			}
		})
	}
}

// The registry of the exporter itself must be consistent: every description fits its
// metrics.
func TestRegistryIsPedantic(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	o := options()
	newReloads().register(registry)
	c := parseConfig(t, "")
	omni, err := newOmni(c, o, registry)
	if err != nil {
		t.Fatal(err)
	}
	passes := newForwardPasses(c, o, registry)
	defer passes.close()
	r := httptest.NewRequest(http.MethodPost, "/api/v1/events", strings.NewReader(batch))
	w := httptest.NewRecorder()
	omni.handler.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}
