package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// UpstreamTarget is the health of one target that is scraped.
type UpstreamTarget struct {
	Target   string // host:port, as discovered
	Pipeline string // "" for the unnamed pipeline

	Up          bool           // the last scrape brought a whole page
	Duration    time.Duration  // of the last scrape
	BodySize    int            // of the last page, in decompressed bytes
	Samples     int            // of the last page, before relabeling
	Unmapped    int            // engines of the last page outside the pipeline's map
	LastSuccess time.Time      // zero before the first
	Scrapes     int64          // so far
	Failures    []UpstreamLoss // failed scrapes so far, by reason; the reasons are a closed set
	LineHits    int64          // lines taken from the line cache so far
	LineMisses  int64          // lines taken apart so far
}

// UpstreamStage is how complete one stage of a pipeline is.
type UpstreamStage struct {
	Pipeline string
	Stage    string // the label's value
	Name     string // for people
	Expected int    // engines that the configuration describes
	Seen     int    // engines whose series the last pages held
}

// UpstreamLoss is a count with the value of the one label that tells it apart.
type UpstreamLoss struct {
	Label string
	Count int64
}

// UpstreamState is what an Upstream collector shows.
type UpstreamState struct {
	Targets   []UpstreamTarget
	Stages    []UpstreamStage
	Conflicts []UpstreamLoss // merge conflicts so far, by kind; the kinds are a closed set
	Dropped   []UpstreamLoss // samples of good pages left out so far, by reason; a closed set
}

// Upstream shows the health of what the exporter scrapes. Its metrics are made anew
// for every collection, so that nothing of a target that went stays. Labels of the
// unnamed pipeline are left out, which is why it describes nothing in advance.
type Upstream struct {
	state func() UpstreamState
}

// NewUpstream returns a collector of what state returns at each collection.
func NewUpstream(state func() UpstreamState) *Upstream { return &Upstream{state: state} }

// Describe sends nothing: the collector is an unchecked one.
func (u *Upstream) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (u *Upstream) Collect(ch chan<- prometheus.Metric) {
	s := u.state()
	e := upstreamEmitter{ch: ch, descs: map[string]*prometheus.Desc{}}
	var hits, misses int64
	for i := range s.Targets {
		t := &s.Targets[i]
		e.target(t)
		hits, misses = hits+t.LineHits, misses+t.LineMisses
	}
	for i := range s.Stages {
		e.stage(&s.Stages[i])
	}
	for _, l := range s.Conflicts {
		e.emit("merge_conflicts_total", "Disagreements between the pages that were merged, by kind.",
			prometheus.CounterValue, float64(l.Count), "kind", l.Label)
	}
	for _, l := range s.Dropped {
		e.emit("merge_dropped_samples_total", "Samples of good pages that were left out, by reason.",
			prometheus.CounterValue, float64(l.Count), "reason", l.Label)
	}
	e.emit("line_cache_hits_total", "Lines of upstream pages that were known from the target's last page.",
		prometheus.CounterValue, float64(hits))
	e.emit("line_cache_misses_total", "Lines of upstream pages that had to be taken apart.",
		prometheus.CounterValue, float64(misses))
}

// upstreamEmitter makes the metrics of one collection.
type upstreamEmitter struct {
	ch    chan<- prometheus.Metric
	descs map[string]*prometheus.Desc // by name and label names
}

func (e *upstreamEmitter) target(t *UpstreamTarget) {
	labels := []string{"target", t.Target}
	if t.Pipeline != "" {
		labels = append(labels, "pipeline", t.Pipeline)
	}
	gauge := func(name, help string, value float64) {
		e.emit(name, help, prometheus.GaugeValue, value, labels...)
	}
	up := 0.0
	if t.Up {
		up = 1
	}
	gauge("target_up", "Whether the last scrape of the target brought a whole page.", up)
	gauge("target_scrape_duration_seconds", "Duration of the last scrape of the target.", t.Duration.Seconds())
	gauge("target_scrape_body_size_bytes", "Size of the target's last page, decompressed; 0 if the scrape failed before it was read.", float64(t.BodySize))
	gauge("target_scrape_samples_scraped", "Samples in the target's last page, before relabeling.", float64(t.Samples))
	if !t.LastSuccess.IsZero() {
		gauge("target_last_success_timestamp_seconds", "When the target last brought a whole page.", float64(t.LastSuccess.UnixMilli())/1e3)
	}
	gauge("unmapped_engines", "Engines in the target's last page that are outside the pipeline's map.", float64(t.Unmapped))
	e.emit("target_scrapes_total", "Scrapes of the target.", prometheus.CounterValue, float64(t.Scrapes), labels...)
	for _, f := range t.Failures {
		e.emit("target_scrape_failures_total", "Failed scrapes of the target, by reason.", prometheus.CounterValue,
			float64(f.Count), append(labels[:len(labels):len(labels)], "reason", f.Label)...)
	}
}

func (e *upstreamEmitter) stage(s *UpstreamStage) {
	labels := []string{"stage", s.Stage}
	if s.Pipeline != "" {
		labels = append(labels, "pipeline", s.Pipeline)
	}
	e.emit("engines_expected", "Engines of the stage, as configured.", prometheus.GaugeValue, float64(s.Expected), labels...)
	e.emit("engines_seen", "Engines of the stage whose series the last pages held.", prometheus.GaugeValue, float64(s.Seen), labels...)
	e.emit("stage_info", "Name of the stage; the value is 1.", prometheus.GaugeValue, 1, append(labels, "name", s.Name)...)
}

// emit sends one metric; labels are names and values in turn.
func (e *upstreamEmitter) emit(name, help string, kind prometheus.ValueType, value float64, labels ...string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	key := name
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
		key += "," + labels[i]
	}
	desc, ok := e.descs[key]
	if !ok {
		desc = prometheus.NewDesc("omni_exporter_"+name, help, names, nil)
		e.descs[key] = desc
	}
	e.ch <- prometheus.MustNewConstMetric(desc, kind, value, values...)
}
