package config

import (
	"net/url"
	"strconv"
	"time"

	"github.com/alecthomas/units"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
)

// MaxEngines is the greatest number of engines in the stages of one pipeline, far above what is run, so that a mistyped
// number of replicas is an error and not an exhausted memory.
const MaxEngines = 100_000

// OnUnmapped says what happens to the series of an engine outside the map of its pipeline.
type OnUnmapped string

// The values of on_unmapped.
const (
	UnmappedKeep OnUnmapped = "keep"
	UnmappedDrop OnUnmapped = "drop"
)

// Pipeline is a row of stages and the servers that run them.
type Pipeline struct {
	// Name of the pipeline. Optional while there is one pipeline; when set, every series carries it as `pipeline`.
	Name string `yaml:"name,omitempty"`
	// The stages in order. The flat engine index counts the replicas of the first stage, then those of the next, and so on.
	Stages []Stage `yaml:"stages"`
	// What happens to the series of an engine outside the map: `keep` leaves `engine` as it is, `drop` drops them; both count it.
	OnUnmapped OnUnmapped `yaml:"on_unmapped"`
	// The servers to scrape. A pipeline without any is fed by events alone.
	Upstreams []Upstream `yaml:"upstreams,omitempty"`
}

// DefaultPipeline returns the defaults of an item of pipelines.
func DefaultPipeline() Pipeline { return Pipeline{OnUnmapped: UnmappedKeep} }

// UnmarshalYAML fills in the defaults before decoding.
func (p *Pipeline) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Pipeline
	*p = DefaultPipeline()
	return unmarshal((*plain)(p))
}

// Stage is one step of a pipeline.
type Stage struct {
	// Name shown to people, in `omni_exporter_stage_info`. Defaults to the value of `stage`.
	Name string `yaml:"name,omitempty"`
	// Number of engines that run the stage, at least 1.
	Replicas int `yaml:"replicas"`
	// Value of the `stage` label. Defaults to the position in the list, from "0".
	Stage string `yaml:"stage,omitempty"`
}

// DefaultStage returns the defaults of an item of stages.
func DefaultStage() Stage { return Stage{Replicas: 1} }

// UnmarshalYAML fills in the defaults before decoding.
func (s *Stage) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Stage
	*s = DefaultStage()
	return unmarshal((*plain)(s))
}

// StageLabel returns the value of the `stage` label of the i-th stage, counted from 0.
func (p *Pipeline) StageLabel(i int) string {
	if s := p.Stages[i].Stage; s != "" {
		return s
	}
	return strconv.Itoa(i)
}

// StageName returns the name people know the i-th stage by: its name, else its label.
func (p *Pipeline) StageName(i int) string {
	if s := p.Stages[i].Name; s != "" {
		return s
	}
	return p.StageLabel(i)
}

// StageIndex returns the position of the stage whose label is label.
func (p *Pipeline) StageIndex(label string) (i int, ok bool) {
	for i := range p.Stages {
		if p.StageLabel(i) == label {
			return i, true
		}
	}
	return 0, false
}

// Replicas returns the number of replicas of each stage, in order: the sizes of the flat engine map.
func (p *Pipeline) Replicas() []int {
	sizes := make([]int, len(p.Stages))
	for i, s := range p.Stages {
		sizes[i] = s.Replicas
	}
	return sizes
}

// Engines returns the number of engines in all stages: the flat engine index runs from 0 to Engines()-1.
func (p *Pipeline) Engines() int {
	n := 0
	for _, s := range p.Stages {
		n += s.Replicas
	}
	return n
}

// ScrapeOptions are the deadline, the interval and the limits of a scrape. Names and meaning of the limits are Prometheus's;
// 0 is no limit. In a page that passes a limit nothing counts.
type ScrapeOptions struct {
	// Longest time that one scrape of one target takes.
	ScrapeTimeout model.Duration `yaml:"scrape_timeout"`
	// Age below which a page is served again: a target is scraped at most once in this time. 0 scrapes it for every request.
	MinScrapeInterval model.Duration `yaml:"min_scrape_interval"`
	// Largest page, decompressed.
	BodySizeLimit units.Base2Bytes `yaml:"body_size_limit"`
	// Largest number of samples in a page.
	SampleLimit int `yaml:"sample_limit"`
	// Largest number of labels of a series.
	LabelLimit int `yaml:"label_limit"`
	// Longest label name, in bytes.
	LabelNameLengthLimit int `yaml:"label_name_length_limit"`
	// Longest label value, in bytes.
	LabelValueLengthLimit int `yaml:"label_value_length_limit"`
}

// DefaultScrapeOptions returns the defaults of the global section.
func DefaultScrapeOptions() ScrapeOptions {
	return ScrapeOptions{
		ScrapeTimeout:     model.Duration(10 * time.Second),
		MinScrapeInterval: model.Duration(time.Second),
		BodySizeLimit:     32 * units.MiB,
	}
}

// Upstream is a set of servers that are scraped the same way.
type Upstream struct {
	// Value of the `stage` label of all targets, for servers that run one stage only. Without it the flat engine map applies.
	Stage string `yaml:"stage,omitempty"`
	// Value of the `replica` label of engine 0 of the one target; needs `stage`. Without it targets are numbered.
	Replica string `yaml:"replica,omitempty"`
	// Number of data-parallel engines of each target; needs `stage`. Engine i of replica R becomes R*data_parallel_size+i.
	DataParallelSize int `yaml:"data_parallel_size"`
	// Path of the page.
	MetricsPath string `yaml:"metrics_path"`
	// Protocol: `http` or `https`.
	Scheme string `yaml:"scheme"`
	// Query parameters of the request, each a list of values.
	Params url.Values `yaml:"params,omitempty"`
	// Whether the server is asked to compress the page. Off, because engines do that on the event loop that serves requests.
	EnableCompression bool `yaml:"enable_compression"`
	// Deadline, interval and limits. Those not written are the ones of `global`.
	ScrapeOptions `yaml:",inline"`
	// Targets by address.
	StaticConfigs []StaticConfig `yaml:"static_configs,omitempty"`
	// Prometheus's discovery of targets
	Discovery `yaml:",inline"`
	// Prometheus's relabeling of targets; may set `stage` and `replica`.
	RelabelConfigs []*relabel.Config `yaml:"relabel_configs,omitempty"`
	// Prometheus's relabeling of series.
	MetricRelabelConfigs []*relabel.Config `yaml:"metric_relabel_configs,omitempty"`
	// Prometheus's HTTP client options.
	HTTPClient commoncfg.HTTPClientConfig `yaml:",inline"`
}

// DefaultUpstream returns the defaults of an item of upstreams.
func DefaultUpstream() Upstream {
	return Upstream{
		DataParallelSize: 1,
		MetricsPath:      "/metrics",
		Scheme:           "http",
		ScrapeOptions:    DefaultScrapeOptions(),
		HTTPClient:       commoncfg.DefaultHTTPClientConfig,
	}
}

// UnmarshalYAML fills in the defaults before decoding.
func (u *Upstream) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Upstream
	*u = DefaultUpstream()
	return unmarshal((*plain)(u))
}

// inherit takes from global every option whose key was not written in the upstream.
func (u *Upstream) inherit(global ScrapeOptions, written func(key string) bool) {
	own := u.ScrapeOptions
	u.ScrapeOptions = global
	if written("scrape_timeout") {
		u.ScrapeTimeout = own.ScrapeTimeout
	}
	if written("min_scrape_interval") {
		u.MinScrapeInterval = own.MinScrapeInterval
	}
	if written("body_size_limit") {
		u.BodySizeLimit = own.BodySizeLimit
	}
	if written("sample_limit") {
		u.SampleLimit = own.SampleLimit
	}
	if written("label_limit") {
		u.LabelLimit = own.LabelLimit
	}
	if written("label_name_length_limit") {
		u.LabelNameLengthLimit = own.LabelNameLengthLimit
	}
	if written("label_value_length_limit") {
		u.LabelValueLengthLimit = own.LabelValueLengthLimit
	}
}

// StaticConfig is a list of targets with labels in common.
type StaticConfig struct {
	// The targets: `host:port` in upstreams, `tcp://host:port` or `ipc:///path` in forward-pass streams.
	Targets []string `yaml:"targets"`
	// Labels added to everything that comes from the targets. `stage` and `replica` place the targets.
	Labels map[string]string `yaml:"labels,omitempty"`
}

// Place returns the stage and replica that targets of the group s are given by the upstream or by their labels, before any
// relabeling; empty where neither says. A loaded configuration never says it in both.
func (u *Upstream) Place(s StaticConfig) (stage, replica string) {
	stage, replica = u.Stage, u.Replica
	if stage == "" {
		stage = s.Labels["stage"]
	}
	if replica == "" {
		replica = s.Labels["replica"]
	}
	return stage, replica
}
