package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// constMetrics sends metrics of one value each.
type constMetrics struct {
	ch chan<- prometheus.Metric
}

func (c constMetrics) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (c constMetrics) counter(desc *prometheus.Desc, value uint64, labels ...string) {
	c.ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// FPMTraceFiles is what NewFPMTraceFiles shows.
type FPMTraceFiles struct {
	Totals *trace.Totals
	// State is that of the follower, or zero when no files are followed.
	State func() trace.FollowerState
	// SkippedRows and SkippedRecords count what streams and traces both told, by (*trace.Gate).
	SkippedRows, SkippedRecords func() uint64
}

// fpmTraceFiles exposes how the reading of trace files goes.
type fpmTraceFiles struct {
	FPMTraceFiles
	files, open, pending, notified, saved         *prometheus.Desc
	rows, rejected, failures, members, bytes, dup *prometheus.Desc
}

// NewFPMTraceFiles returns a collector of how the reading of trace files goes. What is in the rows is the FPM
// collector's.
func NewFPMTraceFiles(f FPMTraceFiles) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("omni_exporter_fpm_trace_"+name, help, labels, nil)
	}
	return &fpmTraceFiles{
		FPMTraceFiles: f,
		files:         desc("files", "Trace files that are followed."),
		open:          desc("open_files", "Trace files that are open."),
		pending:       desc("pending_bytes", "Compressed bytes of trace files that were not read yet, unfinished gzip members included."),
		notified:      desc("notified", "Whether the system tells of changes to trace files; they are polled in any case."),
		saved:         desc("state_saved", "Whether the state file was read and written the last time, 1 when there is none."),
		rows:          desc("rows_total", "Rows of trace files accepted.", "capture_mode"),
		rejected:      desc("rows_rejected_total", "Rows of trace files refused, by reason.", "reason"),
		failures:      desc("file_failures_total", "Parts of trace files, or whole ones, that could not be read, by reason.", "reason"),
		members:       desc("members_total", "Gzip members of trace files read."),
		bytes:         desc("read_bytes_total", "Uncompressed bytes of trace files read."),
		dup:           desc("duplicates_total", "Records that a stream and a trace both told, by which of them was left out.", "left_out"),
	}
}

// Describe implements prometheus.Collector.
func (c *fpmTraceFiles) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.files, c.open, c.pending, c.notified, c.saved, c.rows, c.rejected, c.failures, c.members, c.bytes, c.dup,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *fpmTraceFiles) Collect(ch chan<- prometheus.Metric) {
	m, state := constMetrics{ch}, c.State()
	m.gauge(c.files, float64(state.Files))
	m.gauge(c.open, float64(state.Open))
	m.gauge(c.pending, float64(state.Pending))
	m.gauge(c.notified, truth(state.Notified))
	m.gauge(c.saved, truth(state.StateSaved))
	for _, mode := range []fpm.Capture{fpm.CaptureFull, fpm.CaptureSampled} {
		m.counter(c.rows, c.Totals.Rows(mode), mode.String())
	}
	for _, reason := range trace.RowReasons() {
		m.counter(c.rejected, c.Totals.Rejected(reason), string(reason))
	}
	for _, reason := range trace.FileReasons() {
		m.counter(c.failures, c.Totals.Failures(reason), string(reason))
	}
	m.counter(c.members, c.Totals.Members())
	m.counter(c.bytes, c.Totals.Bytes())
	m.counter(c.dup, c.SkippedRows(), "row")
	m.counter(c.dup, c.SkippedRecords(), "record")
}

// FPMCaptureState is what a capture is at.
type FPMCaptureState struct {
	// Enabled is whether records are being written.
	Enabled bool
	// Off is why they are not although they should be, trace.OffNone otherwise.
	Off    trace.OffReason
	Queued int
}

// fpmCapture exposes how the writing of trace files goes.
type fpmCapture struct {
	captured                                                             *trace.Captured
	state                                                                func() FPMCaptureState
	enabled, off, queued, rows, rowBytes, bytes, dropped, removed, given *prometheus.Desc
}

// NewFPMCapture returns a collector of how the writing of trace files goes.
func NewFPMCapture(captured *trace.Captured, state func() FPMCaptureState) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("omni_exporter_fpm_capture_"+name, help, labels, nil)
	}
	return &fpmCapture{
		captured: captured, state: state,
		enabled:  desc("enabled", "Whether forward-pass records are written to trace files."),
		off:      desc("off", "1 for the reason for which records are not written although they should be.", "reason"),
		queued:   desc("queue_length", "Records that wait to be written."),
		rows:     desc("rows_total", "Rows written to trace files."),
		rowBytes: desc("row_bytes_total", "Bytes of the rows written, uncompressed."),
		bytes:    desc("file_bytes_total", "Bytes that trace files grew by."),
		dropped:  desc("records_dropped_total", "Records that reached no trace file, by reason.", "reason"),
		removed:  desc("segments_removed_total", "Segments deleted because no more are kept."),
		given:    desc("records_sampled_out_total", "Records that a later one of the same rank replaced before the sampling interval ended."),
	}
}

// Describe implements prometheus.Collector.
func (c *fpmCapture) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.enabled, c.off, c.queued, c.rows, c.rowBytes, c.bytes, c.dropped, c.removed, c.given} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *fpmCapture) Collect(ch chan<- prometheus.Metric) {
	m, state := constMetrics{ch}, c.state()
	m.gauge(c.enabled, truth(state.Enabled))
	for _, reason := range trace.OffReasons() {
		m.gauge(c.off, truth(state.Off == reason), string(reason))
	}
	m.gauge(c.queued, float64(state.Queued))
	m.counter(c.rows, c.captured.Rows())
	m.counter(c.rowBytes, c.captured.RowBytes())
	m.counter(c.bytes, c.captured.FileBytes())
	for _, reason := range trace.DropReasons() {
		m.counter(c.dropped, c.captured.Dropped(reason), string(reason))
	}
	m.counter(c.removed, c.captured.Removed())
	m.counter(c.given, c.captured.Replaced())
}
