package config

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
)

// ForwardPassMetrics configures where forward-pass metrics come from.
type ForwardPassMetrics struct {
	// Live streams, over ZMQ.
	Streams []Stream `yaml:"streams,omitempty"`
	// Globs of gzip trace files to follow.
	TraceFiles []string `yaml:"trace_files,omitempty"`
	// Whether trace files that exist when they are first followed are read from their beginning rather than from their end.
	TraceFromStart bool `yaml:"trace_from_start"`
	// File that keeps how far trace files were read, so that a restart goes on there. Without one they are followed anew.
	TraceStateFile string `yaml:"trace_state_file,omitempty"`
	// Globs of benchmark artifacts to expose.
	BenchmarkArtifacts []string `yaml:"benchmark_artifacts,omitempty"`
	// Silence after which a rank is down and its gauges go.
	StaleAfter model.Duration `yaml:"stale_after"`
	// Silence after which a rank is forgotten, its counters too; at least `stale_after`.
	ForgetAfter model.Duration `yaml:"forget_after"`
	// How records of the streams are written to trace files; what turns that on is the flag `--fpm-trace`.
	Capture Capture `yaml:"capture"`
}

// DefaultForwardPassMetrics returns the defaults of the forward_pass_metrics section.
func DefaultForwardPassMetrics() ForwardPassMetrics {
	return ForwardPassMetrics{
		StaleAfter:  model.Duration(10 * time.Second),
		ForgetAfter: model.Duration(5 * time.Minute),
		Capture:     DefaultCapture(),
	}
}

// Stream is a set of publishers of forward-pass metrics.
type Stream struct {
	// The publishers. Labels may be `dynamo_namespace`, `dynamo_component`, `stage`, `replica` and `pipeline`.
	StaticConfigs []StaticConfig `yaml:"static_configs,omitempty"`
	// Prometheus's discovery of publishers, where an address without a scheme is one of TCP
	Discovery `yaml:",inline"`
	// Prometheus's relabeling of publishers; may set the labels above. Other labels do not leave.
	RelabelConfigs []*relabel.Config `yaml:"relabel_configs,omitempty"`
	// Number of ranks of each publisher: rank r is at port+r, or at the path with `.r` appended.
	DataParallelSize int `yaml:"data_parallel_size"`
}

// DefaultStream returns the defaults of an item of streams.
func DefaultStream() Stream { return Stream{DataParallelSize: 1} }

// UnmarshalYAML fills in the defaults before decoding.
func (s *Stream) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Stream
	*s = DefaultStream()
	return unmarshal((*plain)(s))
}

// CaptureMode says which records a capture writes.
type CaptureMode string

// The values of capture.mode, as of DYN_FPM_MODE in Dynamo's FPM reference.
const (
	CaptureSampled CaptureMode = "sampled"
	CaptureFull    CaptureMode = "full"
)

// Capture configures the writing of trace files. Keys and defaults are those of the DYN_FPM_* environment in Dynamo's FPM
// reference.
type Capture struct {
	// Prefix of the files, to which producer, segment number and `.jsonl.gz` are appended.
	OutputPath string `yaml:"output_path"`
	// `sampled` writes the latest changed record of each rank once an interval; `full` writes every record.
	Mode CaptureMode `yaml:"mode"`
	// Interval of mode `sampled`.
	SampleInterval model.Duration `yaml:"sample_interval"`
	// Uncompressed size, in bytes, at which a new segment begins.
	JSONLGZRollBytes int64 `yaml:"jsonl_gz_roll_bytes"`
	// Number of segments kept of each producer, the one being written included.
	MaxSegments int `yaml:"max_segments"`
}

// DefaultCapture returns the defaults of the capture section.
func DefaultCapture() Capture {
	return Capture{
		OutputPath:       "/tmp/dynamo-fpm",
		Mode:             CaptureSampled,
		SampleInterval:   model.Duration(5 * time.Second),
		JSONLGZRollBytes: 256 << 20,
		MaxSegments:      4,
	}
}
