package collector_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
)

// benchmarkDir is a directory of artifacts with a collector on its merged files, and what it logs.
func benchmarkDir(t *testing.T, patterns ...string) (dir string, b *collector.Benchmark, log *bytes.Buffer) {
	t.Helper()
	dir, log = t.TempDir(), &bytes.Buffer{}
	if len(patterns) == 0 {
		patterns = []string{"*_merged.json"}
	}
	for i, p := range patterns {
		patterns[i] = filepath.Join(dir, p)
	}
	return dir, collector.NewBenchmark(collector.BenchmarkOptions{Patterns: patterns, Logger: slog.New(slog.NewTextHandler(log, nil))}), log
}

func compareFamilies(t *testing.T, b prometheus.Collector, want string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(b, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestBenchmarkFamilies(t *testing.T) {
	dir, b, log := benchmarkDir(t)
	benchmarktest.New(t, benchmarktest.Options{Ranks: 4, Replies: func(r benchmarktest.L) benchmarktest.L { return r[:1] }}).Write(t, dir)
	b.Refresh()
	const want = `
# HELP dynamo_fpm_benchmark_completed_timestamp_seconds Unix time at which the run ended.
# TYPE dynamo_fpm_benchmark_completed_timestamp_seconds gauge
dynamo_fpm_benchmark_completed_timestamp_seconds{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"} 1.782806492e+09
# HELP dynamo_fpm_benchmark_file_up Whether the file could be read as a benchmark artifact.
# TYPE dynamo_fpm_benchmark_file_up gauge
dynamo_fpm_benchmark_file_up{file="DIR/benchmark_results_merged.json"} 1
# HELP dynamo_fpm_benchmark_findings What the verification of the artifact and its sidecar found, by severity.
# TYPE dynamo_fpm_benchmark_findings gauge
dynamo_fpm_benchmark_findings{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",severity="error"} 0
dynamo_fpm_benchmark_findings{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",severity="note"} 4
# HELP dynamo_fpm_benchmark_info Always 1; whose engine was measured. resolution says what is known of the workers' attention backend.
# TYPE dynamo_fpm_benchmark_info gauge
dynamo_fpm_benchmark_info{attention_backend_requested="",attention_backend_resolved="FLASH_ATTN_MLA",dynamo_version="0.9.0",grid_digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",mode="agg",model="deepseek-ai/DeepSeek-V3",resolution="worker_probe_partial",run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",vllm_version="0.29.0"} 1
# HELP dynamo_fpm_benchmark_points Points of the grid, per rank, by state.
# TYPE dynamo_fpm_benchmark_points gauge
dynamo_fpm_benchmark_points{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",state="completed"} 4
dynamo_fpm_benchmark_points{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",state="expected"} 4
dynamo_fpm_benchmark_points{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",state="skipped"} 0
# HELP dynamo_fpm_benchmark_points_omitted Measured points without a wall-time series of their own: past the limit, or a shape that was measured again.
# TYPE dynamo_fpm_benchmark_points_omitted gauge
dynamo_fpm_benchmark_points_omitted{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"} 0
# HELP dynamo_fpm_benchmark_status 1 for how the run ended: complete, partial (stopped by its time limit) or failed.
# TYPE dynamo_fpm_benchmark_status gauge
dynamo_fpm_benchmark_status{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",status="complete"} 1
dynamo_fpm_benchmark_status{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",status="failed"} 0
dynamo_fpm_benchmark_status{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",status="partial"} 0
# HELP dynamo_fpm_benchmark_valid Whether the artifact and its sidecar keep all rules of a trustworthy benchmark.
# TYPE dynamo_fpm_benchmark_valid gauge
dynamo_fpm_benchmark_valid{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"} 1
# HELP dynamo_fpm_benchmark_wall_time_seconds Measured scheduler wall time of a shape, of the slowest data-parallel rank.
# TYPE dynamo_fpm_benchmark_wall_time_seconds gauge
dynamo_fpm_benchmark_wall_time_seconds{batch_size="1",phase="prefill",run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",total_kv_read_tokens="0",total_prefill_tokens="128"} 0.013000000000000001
dynamo_fpm_benchmark_wall_time_seconds{batch_size="1",phase="prefill",run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",total_kv_read_tokens="0",total_prefill_tokens="256"} 0.023
dynamo_fpm_benchmark_wall_time_seconds{batch_size="2",phase="decode",run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",total_kv_read_tokens="2048",total_prefill_tokens="0"} 0.0333
dynamo_fpm_benchmark_wall_time_seconds{batch_size="4",phase="decode",run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b",total_kv_read_tokens="4096",total_prefill_tokens="0"} 0.0432
# HELP dynamo_fpm_benchmark_worker_probe_complete Whether the worker probe saw every worker of the run, without issues. Absent when no probe result is known.
# TYPE dynamo_fpm_benchmark_worker_probe_complete gauge
dynamo_fpm_benchmark_worker_probe_complete{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"} 0
# HELP omni_exporter_fpm_benchmark_read_failures_total Benchmark artifacts that could not be used.
# TYPE omni_exporter_fpm_benchmark_read_failures_total counter
omni_exporter_fpm_benchmark_read_failures_total 0
# HELP omni_exporter_fpm_benchmark_reads_total Benchmark artifacts read, those that could not be used included.
# TYPE omni_exporter_fpm_benchmark_reads_total counter
omni_exporter_fpm_benchmark_reads_total 1
`
	compareFamilies(t, b, strings.ReplaceAll(want, "DIR", dir))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
	if problems, err := testutil.CollectAndLint(b); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

const benchmarkReads = `
# HELP omni_exporter_fpm_benchmark_reads_total Benchmark artifacts read, those that could not be used included.
# TYPE omni_exporter_fpm_benchmark_reads_total counter
omni_exporter_fpm_benchmark_reads_total `

// TestBenchmarkReadsWhatChanges: a file is read once, again when it or its sidecar changes, and forgotten when it goes.
func TestBenchmarkReadsWhatChanges(t *testing.T) {
	dir, b, _ := benchmarkDir(t)
	reads := func(n string) {
		t.Helper()
		compareFamilies(t, b, benchmarkReads+n+"\n", "omni_exporter_fpm_benchmark_reads_total")
	}
	b.Refresh()
	reads("0")
	paths := benchmarktest.New(t, benchmarktest.Options{}).Write(t, dir)
	b.Refresh()
	b.Refresh()
	reads("1")
	if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_worker_probe_complete"); n != 1 {
		t.Errorf("%d probe series", n)
	}
	if err := os.Remove(paths[3]); err != nil {
		t.Fatal(err)
	}
	b.Refresh()
	reads("2")
	if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_worker_probe_complete"); n != 0 {
		t.Errorf("%d probe series of a sidecar that is gone", n)
	}
	s := benchmarktest.New(t, benchmarktest.Options{RunID: "another"})
	benchmarktest.WriteDoc(t, paths[2]+".tmp", s.Merged)
	if err := os.Rename(paths[2]+".tmp", paths[2]); err != nil {
		t.Fatal(err)
	}
	b.Refresh()
	reads("3")
	compareFamilies(t, b, `
# HELP dynamo_fpm_benchmark_valid Whether the artifact and its sidecar keep all rules of a trustworthy benchmark.
# TYPE dynamo_fpm_benchmark_valid gauge
dynamo_fpm_benchmark_valid{run="another"} 1
`, "dynamo_fpm_benchmark_valid")
	if err := os.Remove(paths[2]); err != nil {
		t.Fatal(err)
	}
	b.Refresh()
	if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_info", "dynamo_fpm_benchmark_file_up"); n != 0 {
		t.Errorf("%d series of a file that is gone", n)
	}
}

// TestBenchmarkBadFiles: each bad file is a metric and one log line, and takes nothing else with it.
func TestBenchmarkBadFiles(t *testing.T) {
	dir, b, log := benchmarkDir(t, "*.json", "[", "*.json")
	benchmarktest.New(t, benchmarktest.Options{Ranks: 1}).Write(t, dir)
	broken := benchmarktest.New(t, benchmarktest.Options{Ranks: 1, RunID: "broken\xff", Rank: func(_ int, r benchmarktest.M) { r["valid"] = false }})
	benchmarktest.WriteDoc(t, filepath.Join(dir, "invalid.json"), broken.RankDocs[0])
	for name, text := range map[string]string{"cut.json": `{"artifact_type": "merged", "x`, "nan.json": "{\"a\":\nNaN}", "other.json": `{"a": 1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Refresh()
	b.Refresh()
	want := `
# HELP dynamo_fpm_benchmark_file_up Whether the file could be read as a benchmark artifact.
# TYPE dynamo_fpm_benchmark_file_up gauge
dynamo_fpm_benchmark_file_up{file="DIR/benchmark_results.json"} 1
dynamo_fpm_benchmark_file_up{file="DIR/benchmark_results_merged.json"} 1
dynamo_fpm_benchmark_file_up{file="DIR/cut.json"} 0
dynamo_fpm_benchmark_file_up{file="DIR/invalid.json"} 1
dynamo_fpm_benchmark_file_up{file="DIR/nan.json"} 0
dynamo_fpm_benchmark_file_up{file="DIR/other.json"} 0
# HELP dynamo_fpm_benchmark_valid Whether the artifact and its sidecar keep all rules of a trustworthy benchmark.
# TYPE dynamo_fpm_benchmark_valid gauge
dynamo_fpm_benchmark_valid{run="3f6a0c1e9b2d4e7f8a5b6c7d8e9f0a1b"} 1
dynamo_fpm_benchmark_valid{run="broken` + "\uFFFD" + `"} 0
# HELP omni_exporter_fpm_benchmark_read_failures_total Benchmark artifacts that could not be used.
# TYPE omni_exporter_fpm_benchmark_read_failures_total counter
omni_exporter_fpm_benchmark_read_failures_total 3
`
	compareFamilies(t, b, strings.ReplaceAll(want, "DIR", dir),
		"dynamo_fpm_benchmark_file_up", "dynamo_fpm_benchmark_valid", "omni_exporter_fpm_benchmark_read_failures_total")
	lines := map[string]string{"cut.json": "cut off", "nan.json": "line 2", "other.json": "artifact_type", "invalid.json": "$.valid"}
	for name, why := range lines {
		n := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, name) && strings.Contains(line, why) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d lines on %s, want 1 that says %q", n, name, why)
		}
	}
	if !strings.Contains(log.String(), "pattern of benchmark artifacts is not valid") {
		t.Errorf("nothing on the bad pattern: %s", log)
	}
}

func TestBenchmarkSeriesAreBounded(t *testing.T) {
	dir := t.TempDir()
	b := collector.NewBenchmark(collector.BenchmarkOptions{Patterns: []string{filepath.Join(dir, "*.json")}, MaxPoints: 5})
	for _, id := range []string{"a", "b"} {
		s := benchmarktest.New(t, benchmarktest.Options{Ranks: 1, Points: 2, RunID: id, Point: func(i int, p benchmarktest.M) {
			if i == 2 { // the shape of point 1 again
				p["total_prefill_tokens"] = 128
			}
			if i == 4 {
				p["batch_size"] = 2000
			}
		}})
		benchmarktest.WriteDoc(t, filepath.Join(dir, id+".json"), s.RankDocs[0])
	}
	b.Refresh()
	if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_wall_time_seconds"); n != 5 {
		t.Errorf("%d series, want 5", n)
	}
	compareFamilies(t, b, `
# HELP dynamo_fpm_benchmark_points_omitted Measured points without a wall-time series of their own: past the limit, or a shape that was measured again.
# TYPE dynamo_fpm_benchmark_points_omitted gauge
dynamo_fpm_benchmark_points_omitted{run="a"} 1
dynamo_fpm_benchmark_points_omitted{run="b"} 2
`, "dynamo_fpm_benchmark_points_omitted")
}

func TestBenchmarkRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, b, _ := benchmarkDir(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			b.Run(ctx, time.Minute)
			close(done)
		}()
		synctest.Wait()
		benchmarktest.New(t, benchmarktest.Options{}).Write(t, dir)
		time.Sleep(time.Minute) // of the test's own clock
		synctest.Wait()
		if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_info"); n != 1 {
			t.Errorf("%d runs after an interval, want 1", n)
		}
		b.SetPatterns(nil)
		b.SetPatterns(nil)
		synctest.Wait()
		if n := testutil.CollectAndCount(b, "dynamo_fpm_benchmark_info"); n != 0 {
			t.Errorf("%d runs without patterns, want none", n)
		}
		cancel()
		<-done
	})
}
