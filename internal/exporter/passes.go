package exporter

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// forwardPasses are the families of forward-pass metrics, the streams and trace
// files that feed them, the capture of streams, and the benchmark artifacts beside
// them. A nil one is off.
type forwardPasses struct {
	source   *endpointSource
	families *collector.FPM
	streams  *stream.Supervisor
	gate     *trace.Gate
	files    *traceFiles
	capture  *capture
	bench    *artifacts
	logger   *slog.Logger
}

func newForwardPasses(c *config.Config, o Options, registry *prometheus.Registry) *forwardPasses {
	logger := o.Logger
	families := collector.NewFPM(collector.FPMOptions{
		StaleAfter:  time.Duration(c.ForwardPassMetrics.StaleAfter),
		ForgetAfter: time.Duration(c.ForwardPassMetrics.ForgetAfter),
		Logger:      logger,
	})
	gate := trace.NewGate(families.Deliver, time.Duration(c.ForwardPassMetrics.StaleAfter))
	files, capture := newTraceFiles(gate, logger), newCapture(o)
	streams := stream.NewSupervisor(stream.Options{Logger: logger, Sink: func(d *fpm.Delivery) {
		capture.record(d)
		gate.Stream(d)
	}})
	bench := newArtifacts(logger)
	source := newEndpointSource(o, discovery.Nothing)
	registry.MustRegister(
		families, collector.NewFPMStreams(streams.State), files.collector(gate), capture.collector(), bench.families, source.rejected)
	return &forwardPasses{
		source: source, families: families, streams: streams, gate: gate,
		files: files, capture: capture, bench: bench, logger: logger,
	}
}

// check says which publishers of a configuration cannot be connected to.
func (f *forwardPasses) check(c *config.Config) error {
	if f == nil {
		return nil
	}
	if _, err := f.source.static(c); err != nil {
		return fmt.Errorf("forward_pass_metrics: %w", err)
	}
	return nil
}

// subscribe subscribes to the publishers of a configuration, and to those that
// discovery has found by now. Connections to those that did not change are not
// touched.
func (f *forwardPasses) subscribe(c *config.Config) {
	if f == nil {
		return
	}
	if err := f.streams.Apply(f.source.all(c)); err != nil {
		f.logger.Error("some publishers of forward passes are not subscribed to", "err", err)
	}
}

// apply puts a configuration that was checked to work: its publishers, trace files
// and artifacts. Those that did not change are not touched. A capture that had ended
// with an error is tried again.
func (f *forwardPasses) apply(c *config.Config) {
	if f == nil {
		return
	}
	f.subscribe(c)
	f.families.SetTimes(time.Duration(c.ForwardPassMetrics.StaleAfter), time.Duration(c.ForwardPassMetrics.ForgetAfter))
	f.gate.SetStale(time.Duration(c.ForwardPassMetrics.StaleAfter))
	f.capture.apply(&c.ForwardPassMetrics)
	f.files.apply(&c.ForwardPassMetrics)
	f.bench.apply(&c.ForwardPassMetrics)
	warnOfPorts(c, f.logger)
}

func (f *forwardPasses) close() {
	if f != nil {
		f.streams.Close()
		f.capture.close()
		f.files.close()
		f.bench.close()
	}
}
