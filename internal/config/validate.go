package config

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// validate reports every fault of meaning to r. It completes HTTP client options, as Prometheus's own check of them does.
func (c *Config) validate(r *report) {
	c.Global.validate(r, "global")
	if !metricNamePrefix(c.OmniPrefix) {
		r.add("omni_prefix", "%s cannot begin a metric name: write letters, digits, \"_\" and \":\", such as \"vllm:omni_\", or \"keep\"", quote(c.OmniPrefix))
	}
	if c.CreatedSeries != CreatedDrop && c.CreatedSeries != CreatedKeep {
		r.add("created_series", "%s is neither drop nor keep: write one of the two", quote(string(c.CreatedSeries)))
	}
	if len(c.Include) == 0 {
		r.add("include", "an empty list lets no family through: remove the key for the default, or write \"*\" for everything")
	}
	for i, pattern := range c.Include {
		if _, err := path.Match(pattern, ""); err != nil {
			r.add(index("include", i), "%s is no pattern: close each \"[\" with \"]\"", quote(pattern))
		}
	}
	c.validatePipelines(r)
	c.Events.validate(r, "events")
	c.ForwardPassMetrics.validate(r, "forward_pass_metrics")
}

// metricNamePrefix reports whether every name that begins with s and goes on with letters is a metric name that all versions
// of Prometheus accept.
func metricNamePrefix(s string) bool { return model.LegacyValidation.IsValidMetricName(s) }

// validate reports faults of the options under at.
func (o *ScrapeOptions) validate(r *report, at string) {
	if o.ScrapeTimeout <= 0 {
		r.add(sub(at, "scrape_timeout"), "must be more than 0: write a duration such as 10s")
	}
	notNegative(r, sub(at, "body_size_limit"), int64(o.BodySizeLimit))
	notNegative(r, sub(at, "sample_limit"), int64(o.SampleLimit))
	notNegative(r, sub(at, "label_limit"), int64(o.LabelLimit))
	notNegative(r, sub(at, "label_name_length_limit"), int64(o.LabelNameLengthLimit))
	notNegative(r, sub(at, "label_value_length_limit"), int64(o.LabelValueLengthLimit))
}

// notNegative reports a limit below 0.
func notNegative(r *report, at string, n int64) {
	if n < 0 {
		r.add(at, "must not be negative, found %d: write 0 for no limit", n)
	}
}

func (e *Events) validate(r *report, at string) {
	if e.MaxBodySize <= 0 {
		r.add(sub(at, "max_body_size"), "must be more than 0: write a size such as 1MB")
	}
	atLeastOne(r, sub(at, "max_series"), e.MaxSeries)
	if e.RequestTimeout <= 0 {
		r.add(sub(at, "request_timeout"), "must be more than 0: write a duration such as 1h")
	}
	thresholds := sub(at, "continuity_thresholds_ms")
	if len(e.ContinuityThresholdsMS) == 0 {
		r.add(thresholds, "an empty list judges no stream: remove the key for the default, or name a threshold in milliseconds")
	}
	for i, ms := range e.ContinuityThresholdsMS {
		atLeastOne(r, index(thresholds, i), ms)
		if slices.Contains(e.ContinuityThresholdsMS[:i], ms) {
			r.add(index(thresholds, i), "%d is already in the list: remove one of the two", ms)
		}
	}
}

// positive reports a duration that is not more than 0.
func positive(r *report, at string, d model.Duration) {
	if d <= 0 {
		r.add(at, "must be more than 0: write a duration such as 30s")
	}
}

// atLeastOne reports a number below 1.
func atLeastOne[N int | int64](r *report, at string, n N) {
	if n < 1 {
		r.add(at, "must be at least 1, found %d", n)
	}
}

func (f *ForwardPassMetrics) validate(r *report, at string) {
	seen := map[string]string{}
	for i := range f.Streams {
		f.Streams[i].validate(r, index(sub(at, "streams"), i), seen)
	}
	validateFileGlobs(r, sub(at, "trace_files"), f.TraceFiles)
	validateFileGlobs(r, sub(at, "benchmark_artifacts"), f.BenchmarkArtifacts)
	if f.StaleAfter <= 0 {
		r.add(sub(at, "stale_after"), "must be more than 0: write a duration such as 10s")
	}
	if f.ForgetAfter < f.StaleAfter {
		r.add(sub(at, "forget_after"), "%s is less than stale_after, %s: a rank is stale before it is forgotten", f.ForgetAfter, f.StaleAfter)
	}
	f.Capture.validate(r, sub(at, "capture"))
}

func validateFileGlobs(r *report, at string, globs []string) {
	for i, glob := range globs {
		if _, err := filepath.Match(glob, ""); err != nil || glob == "" {
			r.add(index(at, i), "%s is no file pattern: write a path, with \"*\" for any part of a name and each \"[\" closed by \"]\"", quote(glob))
		}
	}
}

func (c *Capture) validate(r *report, at string) {
	if strings.TrimSpace(c.OutputPath) == "" {
		r.add(sub(at, "output_path"), "must not be empty: write the prefix of the files, such as /tmp/dynamo-fpm")
	}
	if c.Mode != CaptureSampled && c.Mode != CaptureFull {
		r.add(sub(at, "mode"), "%s is neither sampled nor full: write one of the two", quote(string(c.Mode)))
	}
	if c.SampleInterval <= 0 {
		r.add(sub(at, "sample_interval"), "must be more than 0: write a duration such as 5s")
	}
	atLeastOne(r, sub(at, "jsonl_gz_roll_bytes"), c.JSONLGZRollBytes)
	atLeastOne(r, sub(at, "max_segments"), c.MaxSegments)
}

// validate reports faults of the stream under at. Publishers are entered in seen, with the path they are at.
func (s *Stream) validate(r *report, at string, seen map[string]string) {
	if !validDataParallelSize(r, sub(at, "data_parallel_size"), s.DataParallelSize) {
		return
	}
	s.Discovery.validate(r, at)
	validateRules(r, sub(at, "relabel_configs"), s.RelabelConfigs)
	if len(s.StaticConfigs) == 0 && !s.Discovers() {
		r.add(at, "no targets: add static_configs with the addresses of publishers, or another way to find them")
	}
	for i, group := range s.StaticConfigs {
		groupAt := index(sub(at, "static_configs"), i)
		if len(group.Targets) == 0 {
			r.add(sub(groupAt, "targets"), "no targets: write addresses such as \"tcp://10.0.0.5:20380\"")
		}
		for j, address := range group.Targets {
			s.validatePublisher(r, index(sub(groupAt, "targets"), j), address, seen)
		}
		for _, name := range sortedKeys(group.Labels) {
			switch name {
			case "dynamo_namespace", "dynamo_component", "stage", "replica", "pipeline":
			default:
				r.add(sub(sub(groupAt, "labels"), name), "no label of forward-pass metrics: use dynamo_namespace, dynamo_component, stage, replica or pipeline")
			}
		}
	}
}

// validatePublisher reports a publisher's address that cannot be dialled, or one of whose ranks is there already.
func (s *Stream) validatePublisher(r *report, at, address string, seen map[string]string) {
	var rank func(i int) string
	if file, ok := strings.CutPrefix(address, "ipc://"); ok {
		if len(file) < 2 || (file[0] != '/' && file[0] != '@') {
			r.add(at, "%s names no socket: write ipc:// and an absolute path, such as \"ipc:///run/fpm.sock\"", quote(address))
			return
		}
		rank = func(i int) string {
			if s.DataParallelSize == 1 {
				return address
			}
			return address + "." + strconv.Itoa(i)
		}
	} else {
		hostPort, ok := strings.CutPrefix(address, "tcp://")
		if !ok || strings.ContainsAny(hostPort, "@/?#") {
			r.add(at, "%s is no address of a publisher: write \"tcp://host:port\" or \"ipc:///path\"", quote(withoutUser(address)))
			return
		}
		host, port, fault := splitAddress(hostPort)
		if fault != "" {
			r.add(at, "%s %s: write tcp://host:port, such as \"tcp://10.0.0.5:20380\"", quote(address), fault)
			return
		}
		if last := port + s.DataParallelSize - 1; last > 65535 {
			r.add(at, "rank %d would be on port %d, and the last port is 65535: lower the port or data_parallel_size", s.DataParallelSize-1, last)
			return
		}
		rank = func(i int) string { return "tcp://" + host + ":" + strconv.Itoa(port+i) }
	}
	for i := range s.DataParallelSize {
		if first, ok := seen[rank(i)]; ok {
			r.add(at, "rank %d, at %s, is already read by %s: keep one of the two", i, quote(rank(i)), r.where(first))
			return
		}
	}
	for i := range s.DataParallelSize {
		seen[rank(i)] = at
	}
}
