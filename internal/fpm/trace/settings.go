package trace

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// Settings say what a Writer writes and where.
type Settings struct {
	// OutputPath is what the names of all files begin with.
	OutputPath string
	// Mode is fpm.CaptureSampled or fpm.CaptureFull.
	Mode fpm.Capture
	// SampleInterval is how often a rank is written in mode sampled.
	SampleInterval time.Duration
	// RollBytes is the number of uncompressed bytes that a segment holds at most, but for a larger row alone.
	RollBytes int64
	// MaxSegments is how many segments are kept of each producer, the one being written included.
	MaxSegments int
}

// The environment of Dynamo's FPM reference, "Configuration".
const (
	EnvTrace          = "DYN_FPM_TRACE"
	EnvOutputPath     = "DYN_FPM_OUTPUT_PATH"
	EnvMode           = "DYN_FPM_MODE"
	EnvSampleInterval = "DYN_FPM_SAMPLE_INTERVAL_MS"
	EnvRollBytes      = "DYN_FPM_JSONL_GZ_ROLL_BYTES"
	EnvMaxSegments    = "DYN_FPM_MAX_SEGMENTS"
)

// EnabledByEnv reports whether the environment switches tracing on. lookup is os.LookupEnv or like it.
func EnabledByEnv(lookup func(string) (string, bool)) (bool, error) {
	value, set := lookup(EnvTrace)
	if !set {
		return false, nil
	}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "on", "yes":
		return true, nil
	case "0", "false", "off", "no":
		return false, nil
	default:
		return false, fmt.Errorf("%s: %q is none of 1, 0, true, false, on, off, yes, no", EnvTrace, value)
	}
}

// FromEnv returns the settings with those that the environment sets in their place. The error joins one for each
// variable whose value cannot be used, sampling interval included in either mode.
func (s Settings) FromEnv(lookup func(string) (string, bool)) (Settings, error) {
	var errs []error
	positive := func(name string, bits int) (int64, bool) {
		value, set := lookup(name)
		if !set {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, bits)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s: %q is no whole number from 1", name, value))
			return 0, false
		}
		return n, true
	}
	if value, set := lookup(EnvOutputPath); set {
		s.OutputPath = strings.TrimSpace(value)
		if s.OutputPath == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", EnvOutputPath))
		}
	}
	if value, set := lookup(EnvMode); set {
		switch strings.ToLower(strings.TrimSpace(value)) {
		case fpm.CaptureSampled.String():
			s.Mode = fpm.CaptureSampled
		case fpm.CaptureFull.String():
			s.Mode = fpm.CaptureFull
		default:
			errs = append(errs, fmt.Errorf("%s: %q is neither sampled nor full", EnvMode, value))
		}
	}
	if n, set := positive(EnvSampleInterval, 64); set {
		s.SampleInterval = time.Duration(min(n, maxIntervalMS)) * time.Millisecond
	}
	if n, set := positive(EnvRollBytes, 64); set {
		s.RollBytes = n
	}
	if n, set := positive(EnvMaxSegments, 32); set {
		s.MaxSegments = int(n)
	}
	return s, errors.Join(errs...)
}

// maxIntervalMS is a year; more would overflow a time.Duration.
const maxIntervalMS = 365 * 24 * 3600 * 1000

// check returns what is wrong with settings that come from elsewhere.
func (s Settings) check() error {
	switch {
	case strings.TrimSpace(s.OutputPath) == "":
		return errors.New("the output path is empty")
	case s.Mode != fpm.CaptureFull && s.Mode != fpm.CaptureSampled:
		return errors.New("the mode is neither sampled nor full")
	case s.SampleInterval <= 0:
		return errors.New("the sampling interval is not more than 0")
	case s.RollBytes < 1 || s.MaxSegments < 1:
		return errors.New("segments cannot hold less than a byte, nor be fewer than 1")
	}
	return nil
}
