package exporter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// captureCloseTimeout bounds how long the end waits for the disk.
const captureCloseTimeout = 5 * time.Second

// capture writes what streams deliver to trace files, if that is asked for.
type capture struct {
	wanted   *bool // nil leaves it to the environment
	lookup   func(string) (string, bool)
	captured *trace.Captured
	log      *slog.Logger

	mu       sync.RWMutex
	writer   *trace.Writer // nil when off
	settings trace.Settings
	off      trace.OffReason // why there is no writer
}

func newCapture(o Options) *capture {
	c := &capture{wanted: o.FPMTrace, lookup: o.LookupEnv, captured: trace.NewCaptured(), log: o.Logger}
	if c.lookup == nil {
		c.lookup = func(string) (string, bool) { return "", false }
	}
	return c
}

func (c *capture) collector() prometheus.Collector {
	return collector.NewFPMCapture(c.captured, c.state)
}

func (c *capture) state() collector.FPMCaptureState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := collector.FPMCaptureState{Off: c.off}
	if c.writer != nil {
		s.Off, s.Queued = c.writer.Off(), c.writer.Queued()
		s.Enabled = s.Off == trace.OffNone
	}
	return s
}

// record is an fpm.Sink.
func (c *capture) record(d *fpm.Delivery) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.writer != nil {
		c.writer.Record(d)
	}
}

// apply starts, goes on with or ends writing by the configuration, in which the
// environment has the last word. What cannot be used switches writing off and
// nothing else.
func (c *capture) apply(f *config.ForwardPassMetrics) {
	enabled, settings, err := c.read(f)
	c.mu.RLock()
	unchanged := err == nil && enabled && c.writer != nil && c.writer.Off() == trace.OffNone && settings == c.settings
	c.mu.RUnlock()
	if unchanged {
		return
	}
	c.close()
	var writer *trace.Writer
	off := trace.OffNone
	if err != nil {
		off = trace.OffSettings
	} else if enabled {
		writer, err = trace.NewWriter(trace.WriterOptions{Settings: settings, Captured: c.captured, Logger: c.log})
		if start, ok := errors.AsType[*trace.StartError](err); ok {
			off = start.Reason
		}
	}
	if err != nil {
		c.log.Warn("Forward-pass tracing is off until the next start or reload, all else goes on", "reason", string(off), "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writer, c.settings, c.off = writer, settings, off
}

// read returns what the configuration, the flag and the environment ask for.
func (c *capture) read(f *config.ForwardPassMetrics) (enabled bool, s trace.Settings, err error) {
	if c.wanted != nil {
		enabled = *c.wanted
	} else if enabled, err = trace.EnabledByEnv(c.lookup); err != nil {
		return false, s, err
	}
	if !enabled {
		return false, s, nil
	}
	s = trace.Settings{
		OutputPath: f.Capture.OutputPath, Mode: fpm.CaptureSampled, SampleInterval: time.Duration(f.Capture.SampleInterval),
		RollBytes: f.Capture.JSONLGZRollBytes, MaxSegments: f.Capture.MaxSegments,
	}
	if f.Capture.Mode == config.CaptureFull {
		s.Mode = fpm.CaptureFull
	}
	s, err = s.FromEnv(c.lookup)
	return true, s, err
}

// close writes what is left.
func (c *capture) close() {
	c.mu.Lock()
	writer := c.writer
	c.writer, c.off = nil, trace.OffNone
	c.mu.Unlock()
	if writer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), captureCloseTimeout)
	defer cancel()
	if err := writer.Close(ctx); err != nil {
		c.log.Warn("Forward-pass trace is not complete, the disk is too slow", "err", err)
	}
}
