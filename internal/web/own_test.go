package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// TestClosedSetsStartAtZero demands that every reason and kind is there before it was
// met: increase() does not see a series begin.
func TestClosedSetsStartAtZero(t *testing.T) {
	good := serve(t, answer(engines))
	_, url := start(t, flat(good), options())
	page := get(t, url+"/metrics").body
	series := []string{"omni_exporter_line_cache_hits_total"}
	for _, reason := range scrape.Reasons() {
		series = append(series, fmt.Sprintf("omni_exporter_target_scrape_failures_total{reason=%q,target=%q}", reason, good))
	}
	for _, kind := range scrape.Conflicts() {
		series = append(series, fmt.Sprintf("omni_exporter_merge_conflicts_total{kind=%q}", kind))
	}
	for _, reason := range scrape.Drops() {
		series = append(series, fmt.Sprintf("omni_exporter_merge_dropped_samples_total{reason=%q}", reason))
	}
	for _, s := range series {
		if got := value(page, s); got != "0" {
			t.Errorf("%s is %q, want 0", s, got)
		}
	}
}

// TestEngines counts how complete the stages are.
func TestEngines(t *testing.T) {
	two := serve(t, answer("vllm:x{engine=\"0\"} 1\nvllm:x{engine=\"1\"} 1\n"))
	omni := serve(t, answer("vllm:x{engine=\"0\"} 1\nvllm:x{engine=\"2\"} 1\nvllm:x{engine=\"7\"} 1\nvllm:y{replica=\"9\",stage=\"1\"} 1\n"))
	_, url := start(t, fmt.Sprintf(`
pipelines:
- name: own
  stages: [{name: prefill}, {name: decode, replicas: 3}, {name: idle}]
  upstreams:
  - {stage: "0", data_parallel_size: 2, static_configs: [{targets: [%q, "127.0.0.1:1"]}]}
  - {stage: "1", static_configs: [{targets: ["127.0.0.1:2"]}]}
- name: flat
  stages: [{name: thinker}, {name: talker, replicas: 2}]
  upstreams: [{static_configs: [{targets: [%q]}]}]
`, two, omni), options())
	page := get(t, url+"/metrics").body
	for series, want := range map[string]string{
		`omni_exporter_engines_expected{pipeline="own",stage="0"}`:                     "4", // two servers of two
		`omni_exporter_engines_seen{pipeline="own",stage="0"}`:                         "2",
		`omni_exporter_engines_expected{pipeline="own",stage="1"}`:                     "3", // as configured
		`omni_exporter_engines_seen{pipeline="own",stage="1"}`:                         "0",
		`omni_exporter_engines_expected{pipeline="own",stage="2"}`:                     "1",
		`omni_exporter_engines_seen{pipeline="own",stage="2"}`:                         "0",
		`omni_exporter_engines_expected{pipeline="flat",stage="0"}`:                    "1",
		`omni_exporter_engines_seen{pipeline="flat",stage="0"}`:                        "1",
		`omni_exporter_engines_expected{pipeline="flat",stage="1"}`:                    "2",
		`omni_exporter_engines_seen{pipeline="flat",stage="1"}`:                        "2", // by the flat map, and by its own labels
		`omni_exporter_stage_info{name="talker",pipeline="flat",stage="1"}`:            "1",
		fmt.Sprintf(`omni_exporter_unmapped_engines{pipeline="flat",target=%q}`, omni): "1",
		fmt.Sprintf(`omni_exporter_unmapped_engines{pipeline="own",target=%q}`, two):   "0",
	} {
		if got := value(page, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

// TestLineCacheCounts demands that an unchanged page is known and a new line is not.
func TestLineCacheCounts(t *testing.T) {
	var lines atomic.Int64
	_, url := start(t, flat(serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(strings.Join([]string{"vllm:a 1\n", "vllm:b 1\n"}[:lines.Load()], ""))(w, r)
	})), options())
	for i, want := range []struct {
		lines        int64
		hits, misses string
	}{{1, "0", "1"}, {1, "1", "1"}, {2, "2", "2"}, {2, "4", "2"}} {
		lines.Store(want.lines)
		page := get(t, url+"/metrics").body
		if hits, misses := value(page, "omni_exporter_line_cache_hits_total"), value(page, "omni_exporter_line_cache_misses_total"); hits != want.hits || misses != want.misses {
			t.Errorf("scrape %d: %s hits and %s misses, want %s and %s", i, hits, misses, want.hits, want.misses)
		}
	}
}

// TestOwnFamiliesParse demands that what the exporter says of itself is a page by
// Prometheus's own reader, whatever targets and pipelines are called.
func TestOwnFamiliesParse(t *testing.T) {
	_, url := start(t, "pipelines: [{name: \"a\\\"b\\\\c\\nd ü\", stages: [{name: 'x\"y'}], upstreams: [{static_configs: [{targets: [\"127.0.0.1:1\"]}]}]}]", options())
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(get(t, url+"/metrics").body))
	if err != nil {
		t.Fatal(err)
	}
	m := families["omni_exporter_target_up"].GetMetric()
	if len(m) != 1 || m[0].GetLabel()[0].GetValue() != "a\"b\\c\nd ü" {
		t.Errorf("omni_exporter_target_up is %v", m)
	}
}

// A collector that fails costs its own families.
func TestFailingCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fine", Help: "Fine."}, func() float64 { return 1 }), failing{})
	o := options()
	o.Gatherer = registry
	_, url := start(t, flat(serve(t, answer(engines))), o)
	page := get(t, url+"/metrics").body
	for series, want := range map[string]string{"fine": "1", `vllm:x_total{replica="0",stage="0"}`: "1", "broken": ""} {
		if got := value(page, series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

type failing struct{}

func (failing) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("broken", "Broken.", nil, nil)
}

func (f failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Broken.", nil, nil), errors.New("broken"))
}
