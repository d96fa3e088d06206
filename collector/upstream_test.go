package collector

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// upstreamState is of two targets, one that was never scraped, and two stages.
func upstreamState() UpstreamState {
	return UpstreamState{
		Targets: []UpstreamTarget{
			{
				Target: "10.0.0.1:8000", Pipeline: "p", Up: true, Duration: 250 * time.Millisecond, BodySize: 1000, Samples: 12,
				Unmapped: 2, LastSuccess: time.UnixMilli(1_700_000_000_500), Scrapes: 7,
				Failures: []UpstreamLoss{{"connect", 3}, {"timeout", 0}},
			},
			{Target: "10.0.0.2:8000", Pipeline: "p", Failures: []UpstreamLoss{{"connect", 0}, {"timeout", 0}}},
		},
		Stages: []UpstreamStage{
			{Pipeline: "p", Stage: "0", Name: "thinker", Expected: 1, Seen: 1},
			{Pipeline: "p", Stage: "1", Name: "talker", Expected: 2, Seen: 0},
		},
		Conflicts: []UpstreamLoss{{"type", 1}, {"help", 0}},
		Dropped:   []UpstreamLoss{{"duplicate", 4}},
		Rejected:  []UpstreamRejected{{"p", "duplicate", 2}, {"p", "self", 0}},
		LineHits:  101, LineMisses: 7,
	}
}

func collected(s UpstreamState) *Upstream { return NewUpstream(func() UpstreamState { return s }) }

func TestUpstreamShowsEveryTarget(t *testing.T) {
	const want = `
# HELP omni_exporter_engines_expected Engines of the stage, as configured.
# TYPE omni_exporter_engines_expected gauge
omni_exporter_engines_expected{pipeline="p",stage="0"} 1
omni_exporter_engines_expected{pipeline="p",stage="1"} 2
# HELP omni_exporter_engines_seen Engines of the stage whose series the last pages held.
# TYPE omni_exporter_engines_seen gauge
omni_exporter_engines_seen{pipeline="p",stage="0"} 1
omni_exporter_engines_seen{pipeline="p",stage="1"} 0
# HELP omni_exporter_line_cache_hits_total Lines of upstream pages that were known from the target's last page.
# TYPE omni_exporter_line_cache_hits_total counter
omni_exporter_line_cache_hits_total 101
# HELP omni_exporter_line_cache_misses_total Lines of upstream pages that had to be taken apart.
# TYPE omni_exporter_line_cache_misses_total counter
omni_exporter_line_cache_misses_total 7
# HELP omni_exporter_merge_conflicts_total Disagreements between the pages that were merged, by kind.
# TYPE omni_exporter_merge_conflicts_total counter
omni_exporter_merge_conflicts_total{kind="help"} 0
omni_exporter_merge_conflicts_total{kind="type"} 1
# HELP omni_exporter_merge_dropped_samples_total Samples of good pages that were left out, by reason.
# TYPE omni_exporter_merge_dropped_samples_total counter
omni_exporter_merge_dropped_samples_total{reason="duplicate"} 4
# HELP omni_exporter_rejected_targets Targets that were found and are not scraped, by reason.
# TYPE omni_exporter_rejected_targets gauge
omni_exporter_rejected_targets{pipeline="p",reason="duplicate"} 2
omni_exporter_rejected_targets{pipeline="p",reason="self"} 0
# HELP omni_exporter_stage_info Name of the stage; the value is 1.
# TYPE omni_exporter_stage_info gauge
omni_exporter_stage_info{name="talker",pipeline="p",stage="1"} 1
omni_exporter_stage_info{name="thinker",pipeline="p",stage="0"} 1
# HELP omni_exporter_target_last_success_timestamp_seconds When the target last brought a whole page.
# TYPE omni_exporter_target_last_success_timestamp_seconds gauge
omni_exporter_target_last_success_timestamp_seconds{pipeline="p",target="10.0.0.1:8000"} 1.7000000005e+09
# HELP omni_exporter_target_scrape_body_size_bytes Size of the target's last page, decompressed; 0 if the scrape failed before it was read.
# TYPE omni_exporter_target_scrape_body_size_bytes gauge
omni_exporter_target_scrape_body_size_bytes{pipeline="p",target="10.0.0.1:8000"} 1000
omni_exporter_target_scrape_body_size_bytes{pipeline="p",target="10.0.0.2:8000"} 0
# HELP omni_exporter_target_scrape_duration_seconds Duration of the last scrape of the target.
# TYPE omni_exporter_target_scrape_duration_seconds gauge
omni_exporter_target_scrape_duration_seconds{pipeline="p",target="10.0.0.1:8000"} 0.25
omni_exporter_target_scrape_duration_seconds{pipeline="p",target="10.0.0.2:8000"} 0
# HELP omni_exporter_target_scrape_failures_total Failed scrapes of the target, by reason.
# TYPE omni_exporter_target_scrape_failures_total counter
omni_exporter_target_scrape_failures_total{pipeline="p",reason="connect",target="10.0.0.1:8000"} 3
omni_exporter_target_scrape_failures_total{pipeline="p",reason="connect",target="10.0.0.2:8000"} 0
omni_exporter_target_scrape_failures_total{pipeline="p",reason="timeout",target="10.0.0.1:8000"} 0
omni_exporter_target_scrape_failures_total{pipeline="p",reason="timeout",target="10.0.0.2:8000"} 0
# HELP omni_exporter_target_scrape_samples_scraped Samples in the target's last page, before relabeling.
# TYPE omni_exporter_target_scrape_samples_scraped gauge
omni_exporter_target_scrape_samples_scraped{pipeline="p",target="10.0.0.1:8000"} 12
omni_exporter_target_scrape_samples_scraped{pipeline="p",target="10.0.0.2:8000"} 0
# HELP omni_exporter_target_scrapes_total Scrapes of the target.
# TYPE omni_exporter_target_scrapes_total counter
omni_exporter_target_scrapes_total{pipeline="p",target="10.0.0.1:8000"} 7
omni_exporter_target_scrapes_total{pipeline="p",target="10.0.0.2:8000"} 0
# HELP omni_exporter_target_up Whether the last scrape of the target brought a whole page.
# TYPE omni_exporter_target_up gauge
omni_exporter_target_up{pipeline="p",target="10.0.0.1:8000"} 1
omni_exporter_target_up{pipeline="p",target="10.0.0.2:8000"} 0
# HELP omni_exporter_unmapped_engines Engines in the target's last page that are outside the pipeline's map.
# TYPE omni_exporter_unmapped_engines gauge
omni_exporter_unmapped_engines{pipeline="p",target="10.0.0.1:8000"} 2
omni_exporter_unmapped_engines{pipeline="p",target="10.0.0.2:8000"} 0
`
	if err := testutil.CollectAndCompare(collected(upstreamState()), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// The unnamed pipeline adds no label: OpenMetrics and Prometheus take an empty one
// for none, so it would say nothing.
func TestUpstreamOfTheUnnamedPipelineHasNoPipelineLabel(t *testing.T) {
	s := upstreamState()
	for i := range s.Targets {
		s.Targets[i].Pipeline = ""
	}
	for i := range s.Stages {
		s.Stages[i].Pipeline = ""
	}
	for i := range s.Rejected {
		s.Rejected[i].Pipeline = ""
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collected(s))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		t.Fatal("nothing was gathered")
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "pipeline" {
					t.Errorf("%s has %v", f.GetName(), m)
				}
			}
		}
	}
}

func TestUpstreamOfNothing(t *testing.T) {
	want := []string{"omni_exporter_line_cache_hits_total", "omni_exporter_line_cache_misses_total"}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collected(UpstreamState{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
	}
	if !slices.Equal(got, want) {
		t.Errorf("families %q, want %q", got, want)
	}
}

// TestUpstreamTextIsWhatIsCollected holds the text against the metrics, with labels
// that need escapes.
func TestUpstreamTextIsWhatIsCollected(t *testing.T) {
	hostile := upstreamState()
	for i := range hostile.Targets {
		hostile.Targets[i].Pipeline = "a\"b\\c\nd ü"
	}
	hostile.Stages[0].Name = `"} 1`
	unnamed := upstreamState()
	unnamed.Targets[0].Pipeline, unnamed.Targets[1].Pipeline = "", ""
	for name, state := range map[string]UpstreamState{"usual": upstreamState(), "hostile": hostile, "unnamed": unnamed, "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			text := collected(state).AppendText([]byte("# before\n"))
			rest, ok := bytes.CutPrefix(text, []byte("# before\n"))
			if !ok {
				t.Fatalf("the text before is gone: %.60q", text)
			}
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(collected(state))
			want, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			parser := expfmt.NewTextParser(model.UTF8Validation)
			got, err := parser.TextToMetricFamilies(bytes.NewReader(rest))
			if err != nil {
				t.Fatal(err)
			}
			for name, f := range got {
				if len(f.GetMetric()) == 0 {
					delete(got, name) // a registry does not show a family of none
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d families in text, %d collected", len(got), len(want))
			}
			for _, f := range want {
				if a, b := inText(f), inText(got[f.GetName()]); a != b {
					t.Errorf("collected\n%s\nin text\n%s", a, b)
				}
			}
		})
	}
}

// inText writes a family with its metrics in one order.
func inText(f *dto.MetricFamily) string {
	if f == nil {
		return ""
	}
	slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return strings.Compare(a.String(), b.String()) })
	var out bytes.Buffer
	_, _ = expfmt.MetricFamilyToText(&out, f)
	return out.String()
}

func TestUpstreamLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(collected(upstreamState()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
