// Package config reads, checks and prints the configuration of omni_exporter.
//
// A configuration comes from one YAML file ([Load], [Parse]) or from flags alone ([FromFlags]). Whatever is wrong with it is
// reported at once, each fault as an [Error] that names file, line and key and says what to do. A [Config] is complete after
// loading (defaults filled in, `global` inherited by upstreams, relative paths joined with the file's directory) and is never
// written again, so that any number of goroutines may read it.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/alecthomas/units"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// OmniPrefixKeep as the value of omni_prefix leaves omni families under the names they came with.
const OmniPrefixKeep = "keep"

// CreatedSeries says what happens to the `_created` series of client libraries.
type CreatedSeries string

// The values of created_series.
const (
	CreatedDrop CreatedSeries = "drop"
	CreatedKeep CreatedSeries = "keep"
)

// Config is a whole configuration. Every section may be absent or empty.
type Config struct {
	// Deadline, interval and limits of every scrape. An upstream may override each of them.
	Global ScrapeOptions `yaml:"global"`
	// Prefix with which omni families leave; those that come in as `vllm:omni_` and as `vllm_omni:` are treated alike.
	// `keep` leaves both as they are.
	OmniPrefix string `yaml:"omni_prefix"`
	// Whether families of old engines get their current name when the current one is absent from the page.
	NormalizeNames bool `yaml:"normalize_names"`
	// What happens to `_created` series: `drop` or `keep`.
	CreatedSeries CreatedSeries `yaml:"created_series"`
	// Globs of the families let through, matched against the whole family name (`*`, `?`, `[a-z]`).
	Include Globs `yaml:"include"`
	// The pipelines whose engines are scraped.
	Pipelines []Pipeline `yaml:"pipelines,omitempty"`
	// Intake of omni events.
	Events Events `yaml:"events"`
	// Forward-pass metrics of engines.
	ForwardPassMetrics ForwardPassMetrics `yaml:"forward_pass_metrics"`
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config {
	return Config{
		Global:             DefaultScrapeOptions(),
		OmniPrefix:         "vllm:omni_",
		NormalizeNames:     true,
		CreatedSeries:      CreatedDrop,
		Include:            Globs{"vllm:*", "vllm_omni:*"},
		Events:             DefaultEvents(),
		ForwardPassMetrics: DefaultForwardPassMetrics(),
	}
}

// UnmarshalYAML fills in the defaults before decoding.
func (c *Config) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Config
	*c = DefaultConfig()
	return unmarshal((*plain)(c))
}

// String returns the configuration as YAML, with defaults filled in and secrets shown as <secret>.
func (c *Config) String() string {
	out, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Sprintf("# the configuration cannot be printed: %v\n", err)
	}
	return string(out)
}

// Globs is a list of patterns for family names, in the language of [path.Match].
type Globs []string

// Match reports whether a pattern of the list matches the whole of the family name.
func (g Globs) Match(family string) bool {
	for _, pattern := range g {
		if ok, err := path.Match(pattern, family); ok && err == nil {
			return true
		}
	}
	return false
}

// Events configures the intake of omni events over HTTP.
type Events struct {
	// Largest decompressed body of one POST.
	MaxBodySize units.Base2Bytes `yaml:"max_body_size"`
	// Number of label sets that events may create in all; events that would need more are refused.
	MaxSeries int `yaml:"max_series"`
	// Age at which a request that never finished is given up, counted as expired and no longer shown as running or waiting.
	RequestTimeout model.Duration `yaml:"request_timeout"`
	// Thresholds, in milliseconds, for which the continuity of audio streams is judged: one `threshold_ms` each.
	ContinuityThresholdsMS []int `yaml:"continuity_thresholds_ms,flow"`
}

// DefaultEvents returns the defaults of the events section. The threshold of 100 ms is the one of vLLM-Omni's metrics design.
func DefaultEvents() Events {
	return Events{
		MaxBodySize:            units.MiB,
		MaxSeries:              10000,
		RequestTimeout:         model.Duration(time.Hour),
		ContinuityThresholdsMS: []int{100},
	}
}

// Load reads and checks the configuration file at path. The error joins one [Error] for every fault found, in the order of
// lines, or says why the file cannot be read.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks data as the content of the configuration file called name; nothing is read from disk. Relative paths are
// joined with the directory of name. The error is as for [Load].
//
// Faults of form (unknown keys, wrong types) are all reported before any fault of meaning is looked for, because half a
// section would be blamed for what its other half says.
func Parse(name string, data []byte) (*Config, error) {
	r := &report{locate: func(string) (string, int) { return name, 0 }}
	root := readDocument(r, data)
	if err := r.err(); err != nil {
		return nil, err
	}
	lines := checkForm(r, name, root)
	if err := r.err(); err != nil {
		return nil, err
	}

	c := DefaultConfig()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil, r.err()
	}
	c.validate(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	c.inherit(lines.written)
	c.setDirectory(filepath.Dir(name))
	return &c, nil
}

// inherit copies the options of `global` to each upstream that does not write its own; written tells which keys the file has.
func (c *Config) inherit(written func(path string) bool) {
	for i := range c.Pipelines {
		for j := range c.Pipelines[i].Upstreams {
			at := index(sub(index("pipelines", i), "upstreams"), j)
			c.Pipelines[i].Upstreams[j].inherit(c.Global, func(key string) bool { return written(sub(at, key)) })
		}
	}
}

// setDirectory joins every relative path of the configuration with dir.
func (c *Config) setDirectory(dir string) {
	for i := range c.Pipelines {
		for j := range c.Pipelines[i].Upstreams {
			u := &c.Pipelines[i].Upstreams[j]
			u.HTTPClient.SetDirectory(dir)
			u.setDirectory(dir)
		}
	}
	fpm := &c.ForwardPassMetrics
	for i := range fpm.Streams {
		fpm.Streams[i].setDirectory(dir)
	}
	for i, p := range fpm.TraceFiles {
		fpm.TraceFiles[i] = commoncfg.JoinDir(dir, p)
	}
	for i, p := range fpm.BenchmarkArtifacts {
		fpm.BenchmarkArtifacts[i] = commoncfg.JoinDir(dir, p)
	}
	fpm.TraceStateFile = commoncfg.JoinDir(dir, fpm.TraceStateFile)
	fpm.Capture.OutputPath = commoncfg.JoinDir(dir, fpm.Capture.OutputPath)
}
