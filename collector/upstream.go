package collector

import (
	"strconv"
	"strings"
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
}

// UpstreamRejected is a number of targets of a pipeline that were found and are not
// scraped, for one reason of a closed set.
type UpstreamRejected struct {
	Pipeline string
	Reason   string
	Count    int
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
	Rejected  []UpstreamRejected

	LineHits   int64 // lines taken from line caches so far
	LineMisses int64 // lines taken apart so far
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
	s.walk(&upstreamMetrics{ch: ch})
}

// AppendText appends the same metrics in the text format. With a thousand targets
// there are some twenty thousand of them, and going through a registry costs as much
// as scraping the targets.
func (u *Upstream) AppendText(dst []byte) []byte {
	s := u.state()
	return appendUpstream(dst, s.walk)
}

// AppendTargets appends the metrics of targets alone, in the text format.
func (u *Upstream) AppendTargets(dst []byte) []byte {
	s := u.state()
	return appendUpstream(dst, s.walkTargets)
}

// AppendSums appends the metrics that are of no one target, in the text format.
func (u *Upstream) AppendSums(dst []byte) []byte {
	s := u.state()
	return appendUpstream(dst, s.walkSums)
}

func appendUpstream(dst []byte, walk func(upstreamSink)) []byte {
	t := upstreamText{out: dst, escape: strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)}
	walk(&t)
	return t.out
}

// upstreamSink takes the families one after the other: each family, then its samples.
// Labels are names and values in turn; those without a value are to be left out.
type upstreamSink interface {
	family(name, help string, kind prometheus.ValueType)
	sample(value float64, labels ...string)
}

// walk hands every metric to the sink.
func (s *UpstreamState) walk(sink upstreamSink) {
	s.walkTargets(sink)
	s.walkSums(sink)
}

func (s *UpstreamState) walkTargets(sink upstreamSink) {
	for _, f := range targetFamilies() {
		sink.family(f.name, f.help, f.kind)
		for i := range s.Targets {
			t := &s.Targets[i]
			if value, ok := f.value(t); ok {
				sink.sample(value, "pipeline", t.Pipeline, "target", t.Target)
			}
		}
	}
	sink.family("target_scrape_failures_total", "Failed scrapes of the target, by reason.", prometheus.CounterValue)
	for i := range s.Targets {
		t := &s.Targets[i]
		for _, l := range t.Failures {
			sink.sample(float64(l.Count), "pipeline", t.Pipeline, "reason", l.Label, "target", t.Target)
		}
	}
}

func (s *UpstreamState) walkSums(sink upstreamSink) {
	s.walkStages(sink)
	sink.family("rejected_targets", "Targets that were found and are not scraped, by reason.", prometheus.GaugeValue)
	for _, r := range s.Rejected {
		sink.sample(float64(r.Count), "pipeline", r.Pipeline, "reason", r.Reason)
	}
	sink.family("merge_conflicts_total", "Disagreements between the pages that were merged, by kind.", prometheus.CounterValue)
	for _, l := range s.Conflicts {
		sink.sample(float64(l.Count), "kind", l.Label)
	}
	sink.family("merge_dropped_samples_total", "Samples of good pages that were left out, by reason.", prometheus.CounterValue)
	for _, l := range s.Dropped {
		sink.sample(float64(l.Count), "reason", l.Label)
	}
	sink.family("line_cache_hits_total", "Lines of upstream pages that were known from the target's last page.", prometheus.CounterValue)
	sink.sample(float64(s.LineHits))
	sink.family("line_cache_misses_total", "Lines of upstream pages that had to be taken apart.", prometheus.CounterValue)
	sink.sample(float64(s.LineMisses))
}

func (s *UpstreamState) walkStages(sink upstreamSink) {
	sink.family("engines_expected", "Engines of the stage, as configured.", prometheus.GaugeValue)
	for _, st := range s.Stages {
		sink.sample(float64(st.Expected), "pipeline", st.Pipeline, "stage", st.Stage)
	}
	sink.family("engines_seen", "Engines of the stage whose series the last pages held.", prometheus.GaugeValue)
	for _, st := range s.Stages {
		sink.sample(float64(st.Seen), "pipeline", st.Pipeline, "stage", st.Stage)
	}
	sink.family("stage_info", "Name of the stage; the value is 1.", prometheus.GaugeValue)
	for _, st := range s.Stages {
		sink.sample(1, "name", st.Name, "pipeline", st.Pipeline, "stage", st.Stage)
	}
}

// targetFamily is a family with one series a target.
type targetFamily struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*UpstreamTarget) (value float64, known bool)
}

func targetFamilies() []targetFamily {
	gauge := func(name, help string, value func(*UpstreamTarget) float64) targetFamily {
		return targetFamily{name, help, prometheus.GaugeValue, func(t *UpstreamTarget) (float64, bool) { return value(t), true }}
	}
	return []targetFamily{
		gauge("target_up", "Whether the last scrape of the target brought a whole page.", func(t *UpstreamTarget) float64 {
			if t.Up {
				return 1
			}
			return 0
		}),
		gauge("target_scrape_duration_seconds", "Duration of the last scrape of the target.",
			func(t *UpstreamTarget) float64 { return t.Duration.Seconds() }),
		gauge("target_scrape_body_size_bytes", "Size of the target's last page, decompressed; 0 if the scrape failed before it was read.",
			func(t *UpstreamTarget) float64 { return float64(t.BodySize) }),
		gauge("target_scrape_samples_scraped", "Samples in the target's last page, before relabeling.",
			func(t *UpstreamTarget) float64 { return float64(t.Samples) }),
		gauge("unmapped_engines", "Engines in the target's last page that are outside the pipeline's map.",
			func(t *UpstreamTarget) float64 { return float64(t.Unmapped) }),
		{
			"target_last_success_timestamp_seconds", "When the target last brought a whole page.", prometheus.GaugeValue,
			func(t *UpstreamTarget) (float64, bool) {
				return float64(t.LastSuccess.UnixMilli()) / 1e3, !t.LastSuccess.IsZero()
			},
		},
		{
			"target_scrapes_total", "Scrapes of the target.", prometheus.CounterValue,
			func(t *UpstreamTarget) (float64, bool) { return float64(t.Scrapes), true },
		},
	}
}

// upstreamMetrics sends metrics.
type upstreamMetrics struct {
	ch         chan<- prometheus.Metric
	name, help string
	kind       prometheus.ValueType
}

func (m *upstreamMetrics) family(name, help string, kind prometheus.ValueType) {
	m.name, m.help, m.kind = "omni_exporter_"+name, help, kind
}

func (m *upstreamMetrics) sample(value float64, labels ...string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		if labels[i+1] != "" {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
	}
	m.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.name, m.help, names, nil), m.kind, value, values...)
}

// upstreamText writes text.
type upstreamText struct {
	out    []byte
	name   string
	escape *strings.Replacer
}

func (t *upstreamText) family(name, help string, kind prometheus.ValueType) {
	t.name = "omni_exporter_" + name
	word := "gauge"
	if kind == prometheus.CounterValue {
		word = "counter"
	}
	t.out = append(t.out, "# HELP "+t.name+" "+help+"\n# TYPE "+t.name+" "+word+"\n"...)
}

func (t *upstreamText) sample(value float64, labels ...string) {
	t.out = append(t.out, t.name...)
	open := byte('{')
	for i := 0; i < len(labels); i += 2 {
		if labels[i+1] == "" {
			continue
		}
		t.out = append(append(append(t.out, open), labels[i]...), '=', '"')
		t.out = append(append(t.out, t.escape.Replace(labels[i+1])...), '"')
		open = ','
	}
	if open == ',' {
		t.out = append(t.out, '}')
	}
	t.out = strconv.AppendFloat(append(t.out, ' '), value, 'g', -1, 64)
	t.out = append(t.out, '\n')
}
