package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// A rank of a sampled trace has sums of its own, which no query for all passes finds, and gauges with a label. The same
// rank's full trace beside it changes nothing.
func TestFPMSampled(t *testing.T) {
	f := NewFPM(FPMOptions{})
	deliver := func(capture fpm.Capture, r fpm.Record) {
		f.Deliver(&fpm.Delivery{Origin: &fpm.Origin{Name: "/tmp/dynamo-fpm.4192"}, Capture: capture, Received: time.Now(), Record: r})
	}
	deliver(fpm.CaptureFull, fpmActive())
	deliver(fpm.CaptureSampled, fpmActive())
	deliver(fpm.CaptureSampled, fpmActive())
	page := fpmPage(t, f)
	base := map[string]float64{}
	for name, value := range page {
		family, labels, _ := strings.Cut(name, "{")
		sampled := strings.Contains(labels, `capture_mode="sampled"`)
		if ours := strings.HasPrefix(family, "dynamo_fpm_sampled_"); ours && !sampled {
			t.Errorf("%s has no label", name)
		}
		if (strings.HasSuffix(family, "_total") || strings.HasSuffix(family, "_count")) && sampled != strings.HasPrefix(family, "dynamo_fpm_sampled_") {
			t.Errorf("%s is in the wrong family", name)
		}
		base[family] += value
	}
	for family, want := range map[string]float64{
		"dynamo_fpm_forward_passes_total": 1, "dynamo_fpm_sampled_forward_passes_total": 2, "dynamo_fpm_records_total": 1,
		"dynamo_fpm_sampled_records_total": 2, "dynamo_fpm_decode_batch_size_count": 1, "dynamo_fpm_sampled_decode_batch_size_count": 2,
		"dynamo_fpm_up": 2, "dynamo_fpm_sampled_records_lost_total": 0,
	} {
		if base[family] != want {
			t.Errorf("%s is %v, want %v", family, base[family], want)
		}
	}
}

// Rows of several workers that take turns in one file break no sequence but their own, and a trace that takes over from a
// stream is no second publisher.
func TestFPMTraceOrigins(t *testing.T) {
	f := NewFPM(FPMOptions{})
	origin := fpm.Origin{Name: "/tmp/dynamo-fpm.x", Rank: 0}
	deliver := func(origin fpm.Origin, capture fpm.Capture, worker string, lost uint64) {
		r := fpmActive()
		r.WorkerID = worker
		f.Deliver(&fpm.Delivery{Origin: &origin, Capture: capture, Received: time.Now(), Record: r, Lost: lost})
	}
	deliver(origin, fpm.CaptureFull, "a", 0)
	deliver(origin, fpm.CaptureFull, "b", 0)
	deliver(origin, fpm.CaptureFull, "a", 3)
	deliver(fpm.Origin{Name: "tcp://h:1", Rank: 0}, fpm.CaptureStream, "a", 0)
	deliver(origin, fpm.CaptureFull, "a", 0)
	deliver(fpm.Origin{Name: "tcp://h:1", Rank: 0}, fpm.CaptureStream, "a", 0)
	for name, value := range fpmPage(t, f) {
		switch {
		case strings.HasPrefix(name, "dynamo_fpm_records_lost_total"):
			if want := map[bool]float64{true: 3}[strings.Contains(name, `worker_id="a"`)]; value != want {
				t.Errorf("%s is %v, want %v", name, value, want)
			}
		case strings.HasPrefix(name, "omni_exporter_fpm_identity_conflicts_total") && value != 0:
			t.Errorf("%s is %v", name, value)
		}
	}
}

// Every reason and mode is there from the start, at 0.
func TestFPMTraceFilesAndCapture(t *testing.T) {
	zero := func() uint64 { return 0 }
	off := FPMCaptureState{Off: trace.OffFull, Queued: 3}
	for _, c := range []prometheus.Collector{
		NewFPMTraceFiles(FPMTraceFiles{
			Totals: trace.NewTotals(), SkippedRows: zero, SkippedRecords: zero,
			State: func() trace.FollowerState {
				return trace.FollowerState{Files: 3, Open: 2, Pending: 70, StateSaved: true}
			},
		}),
		NewFPMCapture(trace.NewCaptured(), func() FPMCaptureState { return off }),
	} {
		if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	}
	page := fpmPage(t, NewFPMTraceFiles(FPMTraceFiles{
		Totals: trace.NewTotals(), SkippedRows: zero, SkippedRecords: zero,
		State: func() trace.FollowerState {
			return trace.FollowerState{Files: 3, Open: 2, Pending: 70, StateSaved: true}
		},
	}))
	want := map[string]float64{
		"omni_exporter_fpm_trace_files": 3, "omni_exporter_fpm_trace_open_files": 2, "omni_exporter_fpm_trace_pending_bytes": 70,
		"omni_exporter_fpm_trace_notified": 0, "omni_exporter_fpm_trace_state_saved": 1, "omni_exporter_fpm_trace_members_total": 0,
		"omni_exporter_fpm_trace_read_bytes_total": 0, `omni_exporter_fpm_trace_duplicates_total{left_out="row"}`: 0,
		`omni_exporter_fpm_trace_duplicates_total{left_out="record"}`: 0, `omni_exporter_fpm_trace_rows_total{capture_mode="full"}`: 0,
		`omni_exporter_fpm_trace_rows_total{capture_mode="sampled"}`: 0,
	}
	for _, reason := range trace.RowReasons() {
		want[`omni_exporter_fpm_trace_rows_rejected_total{reason="`+string(reason)+`"}`] = 0
	}
	for _, reason := range trace.FileReasons() {
		want[`omni_exporter_fpm_trace_file_failures_total{reason="`+string(reason)+`"}`] = 0
	}
	demandPage(t, want, page)

	want = map[string]float64{
		"omni_exporter_fpm_capture_enabled": 0, "omni_exporter_fpm_capture_queue_length": 3, "omni_exporter_fpm_capture_rows_total": 0,
		"omni_exporter_fpm_capture_row_bytes_total": 0, "omni_exporter_fpm_capture_file_bytes_total": 0,
		"omni_exporter_fpm_capture_segments_removed_total": 0, "omni_exporter_fpm_capture_records_sampled_out_total": 0,
	}
	for _, reason := range trace.OffReasons() {
		want[`omni_exporter_fpm_capture_off{reason="`+string(reason)+`"}`] = truth(reason == trace.OffFull)
	}
	for _, reason := range trace.DropReasons() {
		want[`omni_exporter_fpm_capture_records_dropped_total{reason="`+string(reason)+`"}`] = 0
	}
	demandPage(t, want, fpmPage(t, NewFPMCapture(trace.NewCaptured(), func() FPMCaptureState { return off })))
}

func demandPage(t *testing.T, want, got map[string]float64) {
	t.Helper()
	for name, value := range want {
		if !strings.Contains(name, "{") {
			name += "{}"
		}
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, value)
		}
	}
	for name := range got {
		if _, ok := want[strings.TrimSuffix(name, "{}")]; !ok {
			t.Errorf("%s is not expected", name)
		}
	}
}
