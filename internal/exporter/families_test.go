package exporter

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

// Events of every type, as docs/events.md has them.
const everyEvent = batch + `{"type":"request_started","request_id":"r2","model_name":"m"}
{"type":"request_failed","request_id":"r2"}
{"type":"audio_finished","request_id":"r1","model_name":"m","stage":"2","replica":"0","audio_frames":96000,"sample_rate":24000,"stage_gen_time_s":1.9}
{"type":"audio_stream_finished","request_id":"r1","model_name":"m","stage":"2","replica":"0","sample_rate":24000,"channels":1,"bytes_per_sample":2,"arrivals_s":[0.62,1.1],"chunk_bytes":[24000,24000]}
{"type":"audio_finished","request_id":"r4","model_name":"m","stage":"2","replica":"0","audio_frames":0,"sample_rate":24000,"stage_gen_time_s":1.9}
{"type":"transfer_rx","model_name":"m","from_stage":"0","from_replica":"0","to_stage":"1","to_replica":"1","rx_ms":0.9,"in_flight_ms":0.4}
`

// everyFamily returns the families of an exporter that does everything it can.
func everyFamily(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	dir := t.TempDir()
	full := tracetest.Row("1", 1, time.Now())
	sampled := tracetest.Row("2", 1, time.Now())
	sampled.Capture = fpm.CaptureSampled
	for name, row := range map[string]trace.Row{"full": full, "sampled": sampled} {
		if err := tracetest.WriteFile(filepath.Join(dir, name+".jsonl.gz"), []trace.Row{row}, 1); err != nil {
			t.Fatal(err)
		}
	}
	benchmarktest.New(t, benchmarktest.Options{}).Write(t, dir)
	o := options()
	tracing := true
	o.FPMTrace = &tracing
	url := start(t, fmt.Sprintf(`
pipelines:
- name: p
  stages: [{name: thinker}]
  upstreams: [{static_configs: [{targets: ["127.0.0.1:1"]}]}]
forward_pass_metrics:
  streams: [{static_configs: [{targets: ["tcp://127.0.0.1:1"], labels: {stage: "0", replica: "0", pipeline: p}}]}]
  trace_files: [%q]
  trace_from_start: true
  benchmark_artifacts: [%q]
  stale_after: 1h
  forget_after: 1h
  capture: {output_path: %q}
`, filepath.Join(dir, "*.jsonl.gz"), filepath.Join(dir, benchmarktest.MergedFile), filepath.Join(dir, "nowhere", "prefix")), o)
	post(t, url, everyEvent, http.StatusAccepted)
	awaited := []string{
		"dynamo_fpm_last_forward_pass_seconds", "dynamo_fpm_sampled_records_total", "dynamo_fpm_benchmark_info", "omni_exporter_fpm_last_disconnect_info",
		"omni_exporter_fpm_capture_off",
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		page := families(t, url)
		missing := slices.DeleteFunc(slices.Clone(awaited), func(name string) bool { return page[name] != nil })
		if len(missing) == 0 {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q on the page", missing)
		}
	}
}

// familyGroup is a table of docs/metrics.md.
type familyGroup struct {
	name    string
	matches func(family string) bool
}

func familyGroups() []familyGroup {
	prefix := func(name, prefix string, but ...string) familyGroup {
		return familyGroup{name, func(family string) bool {
			return strings.HasPrefix(family, prefix) && !slices.ContainsFunc(but, func(p string) bool { return strings.HasPrefix(family, p) })
		}}
	}
	return []familyGroup{
		prefix("events", "vllm:omni_"),
		prefix("forward passes", "dynamo_fpm_", "dynamo_fpm_sampled_", "dynamo_fpm_benchmark_"),
		prefix("benchmark artifacts", "dynamo_fpm_benchmark_"),
		prefix("streams and traces", "omni_exporter_fpm_"),
		prefix("exporter", "omni_exporter_", "omni_exporter_fpm_"),
	}
}

// familyTable writes families as a table, by name.
func familyTable(page map[string]*dto.MetricFamily, g familyGroup) string {
	var b strings.Builder
	b.WriteString("| family | type | labels | says |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(page)) {
		if !g.matches(name) {
			continue
		}
		f := page[name]
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()),
			strings.Join(slices.Sorted(maps.Keys(labels)), ", "), cmp.Or(strings.ReplaceAll(f.GetHelp(), "|", "\\|"), "-"))
	}
	return b.String()
}

// TestFamiliesAreDocumented holds the tables of docs/metrics.md against a page. With
// -update it writes them.
func TestFamiliesAreDocumented(t *testing.T) {
	page := everyFamily(t)
	path := filepath.Join("..", "..", "docs", "metrics.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, g := range familyGroups() {
		open, end := fmt.Sprintf("<!-- families: %s -->\n", g.name), "<!-- end -->"
		before, rest, found := strings.Cut(want, open)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no table of %s between %q and %q", path, g.name, open, end)
		}
		want = before + open + familyTable(page, g) + end + after
	}
	for name := range page {
		documented := slices.ContainsFunc(familyGroups(), func(g familyGroup) bool { return g.matches(name) })
		base, sampled := strings.CutPrefix(name, "dynamo_fpm_sampled_")
		switch {
		case sampled:
			if page["dynamo_fpm_"+base] == nil {
				t.Errorf("%s is no family of full traces with a prefix", name)
			}
		case !documented && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_"):
			t.Errorf("%s is in no table", name)
		}
	}
	if want == string(text) {
		return
	}
	if f := flag.Lookup("update"); f == nil || f.Value.String() != "true" {
		t.Fatalf("%s is not what the exporter shows: go test ./internal/exporter -run %s -update", path, t.Name())
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
