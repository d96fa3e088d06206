package collector

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
)

// benchmarkFamilies are the descriptions of what a Benchmark collector shows.
type benchmarkFamilies struct {
	info, status, valid, findings, points, wallTime, omitted, completed, probe, fileUp *prometheus.Desc
}

func newBenchmarkFamilies() benchmarkFamilies {
	family := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dynamo_fpm_benchmark_"+name, help, labels, nil)
	}
	return benchmarkFamilies{
		info: family("info", "Always 1; whose engine was measured. resolution says what is known of the workers' attention backend.",
			"run", "mode", "model", "vllm_version", "dynamo_version", "attention_backend_requested", "attention_backend_resolved", "resolution", "grid_digest"),
		status:   family("status", "1 for how the run ended: complete, partial (stopped by its time limit) or failed.", "run", "status"),
		valid:    family("valid", "Whether the artifact and its sidecar keep all rules of a trustworthy benchmark.", "run"),
		findings: family("findings", "What the verification of the artifact and its sidecar found, by severity.", "run", "severity"),
		points:   family("points", "Points of the grid, per rank, by state.", "run", "state"),
		wallTime: family("wall_time_seconds", "Measured scheduler wall time of a shape, of the slowest data-parallel rank.",
			"run", "phase", "total_prefill_tokens", "total_kv_read_tokens", "batch_size"),
		omitted:   family("points_omitted", "Measured points without a wall-time series of their own: past the limit, or a shape that was measured again.", "run"),
		completed: family("completed_timestamp_seconds", "Unix time at which the run ended.", "run"),
		probe:     family("worker_probe_complete", "Whether the worker probe saw every worker of the run, without issues. Absent when no probe result is known.", "run"),
		fileUp:    family("file_up", "Whether the file could be read as a benchmark artifact.", "file"),
	}
}

// Describe implements prometheus.Collector.
func (b *Benchmark) Describe(ch chan<- *prometheus.Desc) {
	f := b.families
	for _, d := range []*prometheus.Desc{f.info, f.status, f.valid, f.findings, f.points, f.wallTime, f.omitted, f.completed, f.probe, f.fileUp} {
		ch <- d
	}
	b.reads.Describe(ch)
	b.failed.Describe(ch)
}

// Collect implements prometheus.Collector.
func (b *Benchmark) Collect(ch chan<- prometheus.Metric) {
	b.reads.Collect(ch)
	b.failed.Collect(ch)
	b.mu.RLock()
	files, runs := b.files, b.runs
	b.mu.RUnlock()
	// Both are replaced as a whole, never changed.
	for _, path := range slices.Sorted(maps.Keys(files)) {
		ch <- gaugeOf(b.families.fileUp, boolValue(files[path].run != nil), valid(path))
	}
	left := b.options.MaxPoints
	for _, r := range runs {
		b.collectRun(ch, r)
		shown := r.wallTimes[:min(left, len(r.wallTimes))]
		left -= len(shown)
		for _, p := range shown {
			ch <- gaugeOf(b.families.wallTime, p.seconds, r.id, p.phase,
				strconv.FormatInt(p.prefill, 10), strconv.FormatInt(p.read, 10), strconv.FormatInt(p.batch, 10))
		}
		ch <- gaugeOf(b.families.omitted, float64(len(r.wallTimes)-len(shown)+r.pointsRepeated), r.id)
	}
}

func (b *Benchmark) collectRun(ch chan<- prometheus.Metric, r *benchmarkRun) {
	f := b.families
	ch <- gaugeOf(f.info, 1, r.info...)
	for _, s := range []string{benchmark.StatusComplete, benchmark.StatusPartial, benchmark.StatusFailed} {
		ch <- gaugeOf(f.status, boolValue(r.status == s), r.id, s)
	}
	ch <- gaugeOf(f.valid, boolValue(r.valid), r.id)
	ch <- gaugeOf(f.findings, float64(r.errors), r.id, string(benchmark.SeverityError))
	ch <- gaugeOf(f.findings, float64(r.notes), r.id, string(benchmark.SeverityNote))
	ch <- gaugeOf(f.points, float64(r.expected), r.id, "expected")
	ch <- gaugeOf(f.points, float64(r.completed), r.id, "completed")
	ch <- gaugeOf(f.points, float64(r.skipped), r.id, "skipped")
	if !r.completedAt.IsZero() {
		ch <- gaugeOf(f.completed, float64(r.completedAt.UnixMilli())/1000, r.id)
	}
	if r.probeKnown {
		ch <- gaugeOf(f.probe, boolValue(r.probeComplete), r.id)
	}
}

func gaugeOf(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
