package sidebyside

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
)

// documented reads a query of docs/benchmark.md by its name.
func documented(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../../../docs/benchmark.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)<!-- query: " + name + " -->\n```promql\n(.*?)```").FindSubmatch(data)
	if m == nil {
		t.Fatalf("docs/benchmark.md has no query %q", name)
	}
	return string(m[1])
}

// load renders what a registry gathers as input for Prometheus's test storage.
func load(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("load 1m\n")
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := m.GetGauge().GetValue()
			if m.Counter != nil {
				value = m.GetCounter().GetValue()
			}
			fmt.Fprintf(&b, "  %s{%s} %v\n", f.GetName(), strings.Join(labels, ","), value)
		}
	}
	return b.String()
}

func TestDocumentedQueries(t *testing.T) {
	dir := t.TempDir()
	benchmarktest.New(t, benchmarktest.Options{}).Write(t, dir)
	b := collector.NewBenchmark(collector.BenchmarkOptions{Patterns: []string{filepath.Join(dir, "*_merged.json")}})
	b.Refresh()
	r := prometheus.NewRegistry()
	r.MustRegister(b)

	// Two ranks as the forward-pass collector shows them: rank 0 runs a shape of the benchmark, rank 1 its batch with other
	// contexts, rank 2 none of it, rank 3 is idle and rank 4 reports GPU time.
	gauge := func(name string, labels ...string) *prometheus.GaugeVec {
		return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: "x"}, append([]string{"worker_id", "dp_rank"}, labels...))
	}
	requests, tokens := gauge("dynamo_fpm_scheduled_decode_requests"), gauge("dynamo_fpm_scheduled_decode_kv_tokens")
	last := gauge("dynamo_fpm_last_forward_pass_seconds", "timing_scope")
	for rank, v := range [][3]float64{{2, 2048, 0.0624}, {4, 5000, 0.0206}, {3, 9000, 0.05}, {0, 0, 0.05}, {2, 2048, 0.001}} {
		id := fmt.Sprint(rank)
		scope := "scheduler_wall_time"
		if rank == 4 {
			scope = "model_step_cuda"
		}
		requests.WithLabelValues("4192", id).Set(v[0])
		tokens.WithLabelValues("4192", id).Set(v[1])
		last.WithLabelValues("4192", id, scope).Set(v[2])
	}
	storage := promqltest.LoadedStorage(t, load(t, r))
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)

	for name, want := range map[string][]string{
		"same shape": {
			`{batch_size="2", dp_rank="0", source="live", total_kv_read_tokens="2048", worker_id="4192"} 0.0624`,
			`{batch_size="2", source="benchmark", total_kv_read_tokens="2048"} 0.0313`,
			`{batch_size="3", dp_rank="2", source="live", total_kv_read_tokens="9000", worker_id="4192"} 0.0500`,
			`{batch_size="4", dp_rank="1", source="live", total_kv_read_tokens="5000", worker_id="4192"} 0.0206`,
			`{batch_size="4", source="benchmark", total_kv_read_tokens="4096"} 0.0412`,
		},
		"slowdown": {
			`{batch_size="2", dp_rank="0", worker_id="4192"} 1.9936`,
			`{batch_size="4", dp_rank="1", worker_id="4192"} 0.5000`,
		},
	} {
		q, err := engine.NewInstantQuery(t.Context(), storage, nil, documented(t, name), time.Unix(0, 0))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		vector, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := lines(vector); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		q.Close()
	}
}

func lines(v promql.Vector) []string {
	var out []string
	for _, s := range v {
		out = append(out, fmt.Sprintf("%s %.4f", s.Metric, s.F))
	}
	slices.Sort(out)
	return out
}
