package events

import "github.com/prometheus/client_golang/prometheus"

// Why an event, or a body, was refused: the closed set of the label reason of
// omni_exporter_events_rejected_total.
const (
	reasonMalformed      = "malformed"          // line is not one JSON object
	reasonUnknownType    = "unknown_type"       // line
	reasonMissingField   = "missing_field"      // line
	reasonInvalidValue   = "invalid_value"      // line
	reasonUnknownRequest = "unknown_request"    // line
	reasonMaxSeries      = "max_series"         // line
	reasonLineTooLong    = "line_too_long"      // line
	reasonDisabled       = "collector_disabled" // line

	reasonBodySize        = "body_size"        // whole body
	reasonBodyRead        = "body_read"        // whole body: cut off or not what its encoding says
	reasonContentType     = "content_type"     // whole body
	reasonContentEncoding = "content_encoding" // whole body
	reasonBusy            = "busy"             // whole body
)

func reasons() []string {
	return []string{
		reasonMalformed, reasonUnknownType, reasonMissingField, reasonInvalidValue, reasonUnknownRequest,
		reasonMaxSeries, reasonLineTooLong, reasonDisabled,
		reasonBodySize, reasonBodyRead, reasonContentType, reasonContentEncoding, reasonBusy,
	}
}

// Why an accepted event changed nothing: the closed set of the label reason of
// omni_exporter_events_ignored_total.
const (
	ignoredDuplicate        = "duplicate"
	ignoredReplicaUnknown   = "replica_unknown"
	ignoredStreamUnfinished = "stream_unfinished"
	ignoredStreamEmpty      = "stream_empty"
)

func ignoreReasons() []string {
	return []string{ignoredDuplicate, ignoredReplicaUnknown, ignoredStreamUnfinished, ignoredStreamEmpty}
}

// counters count every line and every refused body once.
type counters struct {
	received, rejected, ignored counterSet
}

// counterSet is a counter with one label of a closed set of values, each of
// which is there from the start.
type counterSet struct {
	vec     *prometheus.CounterVec
	byValue map[string]prometheus.Counter
}

func newCounterSet(name, help, label string, values []string) counterSet {
	s := counterSet{
		vec:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}),
		byValue: make(map[string]prometheus.Counter, len(values)),
	}
	for _, v := range values {
		s.byValue[v] = s.vec.WithLabelValues(v)
	}
	return s
}

func (s counterSet) inc(value string) { s.byValue[value].Inc() }

func newCounters() counters {
	return counters{
		received: newCounterSet("omni_exporter_events_received_total",
			"Events accepted, by type; with the lines that were rejected these are all lines of all bodies read.", "type", Types()),
		rejected: newCounterSet("omni_exporter_events_rejected_total",
			"Events refused, by reason; a body refused as a whole counts once.", "reason", reasons()),
		ignored: newCounterSet("omni_exporter_events_ignored_total",
			"Events accepted that by the rules of the families changed nothing, by reason.", "reason", ignoreReasons()),
	}
}

// Describe implements prometheus.Collector.
func (h *Handler) Describe(out chan<- *prometheus.Desc) {
	h.counters.received.vec.Describe(out)
	h.counters.rejected.vec.Describe(out)
	h.counters.ignored.vec.Describe(out)
	out <- h.seriesDesc
	out <- h.seriesLimitDesc
}

// Collect implements prometheus.Collector.
func (h *Handler) Collect(out chan<- prometheus.Metric) {
	h.counters.received.vec.Collect(out)
	h.counters.rejected.vec.Collect(out)
	h.counters.ignored.vec.Collect(out)
	if h.budget != nil {
		out <- prometheus.MustNewConstMetric(h.seriesDesc, prometheus.GaugeValue, float64(h.budget.Used()))
		out <- prometheus.MustNewConstMetric(h.seriesLimitDesc, prometheus.GaugeValue, float64(h.budget.Limit()))
	}
}
