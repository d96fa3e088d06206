package collector

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
)

// DefaultOmniPrefix begins the names of the omni families unless another prefix
// is given: the spelling of vLLM-Omni's metrics design.
const DefaultOmniPrefix = "vllm:omni_"

// DefaultMaxSeries is how many label sets the omni collectors hold together
// unless told otherwise.
const DefaultMaxSeries = 10_000

// ErrSeriesLimit is returned by an observation that would need a new label set
// when the budget is spent. Nothing of the observation was recorded; label sets
// that exist go on moving.
var ErrSeriesLimit = errors.New("no room for another label set (events.max_series)")

// SeriesBudget bounds the label sets of all collectors that share it; one child
// of one family is one label set, whatever its number of buckets. It is safe
// for concurrent use.
type SeriesBudget struct {
	limit, used atomic.Int64
}

// NewSeriesBudget returns a budget of limit label sets; 0 or less is no limit.
func NewSeriesBudget(limit int) *SeriesBudget {
	b := &SeriesBudget{}
	b.SetLimit(limit)
	return b
}

// SetLimit changes the limit. Label sets already made stay.
func (b *SeriesBudget) SetLimit(limit int) { b.limit.Store(int64(limit)) }

// Limit returns the limit; 0 or less is no limit.
func (b *SeriesBudget) Limit() int { return int(b.limit.Load()) }

// Used returns how many label sets were made.
func (b *SeriesBudget) Used() int { return int(b.used.Load()) }

// take reserves n label sets, all or none.
func (b *SeriesBudget) take(n int) error {
	for n > 0 {
		used, limit := b.used.Load(), b.limit.Load()
		if limit > 0 && used+int64(n) > limit {
			return ErrSeriesLimit
		}
		if b.used.CompareAndSwap(used, used+int64(n)) {
			return nil
		}
	}
	return nil
}

// OmniOptions configures the collectors of the omni families.
type OmniOptions struct {
	// Prefix begins every family name; DefaultOmniPrefix if empty.
	Prefix string
	// Budget bounds the label sets and is shared by the collectors that are
	// given the same one; nil is an own one of DefaultMaxSeries.
	Budget *SeriesBudget
	// Requests holds what is known of each request and is shared likewise, so
	// that audio of an aborted request is recognised; nil is an own one.
	Requests *RequestTable
	// ContinuityThresholdsMS are the underruns, in milliseconds, up to which a
	// stream counts as continuous; {DefaultContinuityThresholdMS} if empty.
	// Only the audio collector reads it.
	ContinuityThresholdsMS []int
}

func (o OmniOptions) withDefaults() (OmniOptions, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultOmniPrefix
	}
	if !model.LegacyValidation.IsValidMetricName(o.Prefix + "x") {
		return o, fmt.Errorf("omni prefix %q cannot begin a metric name", o.Prefix)
	}
	if o.Budget == nil {
		o.Budget = NewSeriesBudget(DefaultMaxSeries)
	}
	if o.Requests == nil {
		o.Requests = NewRequestTable(RequestTableOptions{})
	}
	return o, nil
}

// omniFamily is the fixed part of a family: its name after the prefix, its help
// and, for a histogram, its buckets.
type omniFamily struct {
	name, help string
	buckets    []float64
}

// metricSet holds the children of a collector's families. They are made on
// first observation and never removed, so that a scrape reads a list that only
// grows. It is an unchecked collector, because series of the unnamed pipeline
// have no label `pipeline` and those of named pipelines do, and a described
// family must have the same label names throughout.
//
// The mutex also guards the embedding collector's own maps.
type metricSet struct {
	prefix  string
	budget  *SeriesBudget
	mu      sync.Mutex
	metrics []prometheus.Metric
}

// Describe implements prometheus.Collector by describing nothing.
func (s *metricSet) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. The lock is not held while the
// receiver is slow: elements of the list never change once it is this long.
func (s *metricSet) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	metrics := s.metrics
	s.mu.Unlock()
	for _, m := range metrics {
		out <- m
	}
}

// missing counts the children that do not exist yet.
func missing(children ...prometheus.Metric) int {
	n := 0
	for _, c := range children {
		if c == nil {
			n++
		}
	}
	return n
}

// labels gives the constant labels of a child: names and values in pairs, and
// `pipeline` only when it is named.
func labels(pipeline string, pairs ...string) prometheus.Labels {
	l := make(prometheus.Labels, len(pairs)/2+1)
	for i := 0; i+1 < len(pairs); i += 2 {
		l[pairs[i]] = pairs[i+1]
	}
	if pipeline != "" {
		l["pipeline"] = pipeline
	}
	return l
}

// The three makers below are called with the mutex held, after the budget was
// taken.

func (s *metricSet) counter(f omniFamily, l prometheus.Labels) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: s.prefix + f.name, Help: f.help, ConstLabels: l})
	s.metrics = append(s.metrics, c)
	return c
}

func (s *metricSet) gauge(f omniFamily, l prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: s.prefix + f.name, Help: f.help, ConstLabels: l})
	s.metrics = append(s.metrics, g)
	return g
}

func (s *metricSet) histogram(f omniFamily, l prometheus.Labels) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: s.prefix + f.name, Help: f.help, ConstLabels: l, Buckets: f.buckets,
	})
	s.metrics = append(s.metrics, h)
	return h
}
