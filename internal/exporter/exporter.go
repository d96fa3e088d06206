// Package exporter puts one exporter together from its parts: the collectors, the
// intake of events, the forward-pass streams and the web server, all by one
// configuration. The program and the demo start the same one.
package exporter

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/web"
)

// Options are what does not come from the configuration file.
type Options struct {
	Logger *slog.Logger

	TelemetryPath string
	TimeoutOffset time.Duration
	MaxRequests   int

	// Which collectors are on; one that is off has no families and costs nothing.
	Pipeline, Audio, Transfer, ForwardPasses bool

	// Pprof serves profiles of the exporter itself.
	Pprof bool

	// OwnProcess adds go_* and process_* of the exporter itself.
	OwnProcess bool
}

// Exporter is a running exporter. Its Handler answers requests until Close.
type Exporter struct {
	options Options
	web     *web.Server
	omni    *omni
	passes  *forwardPasses
	reloads reloads
}

// New starts an exporter. The error says what of the configuration cannot be used.
func New(c *config.Config, o Options) (*Exporter, error) {
	e := &Exporter{options: o, reloads: newReloads()}
	registry := prometheus.NewRegistry()
	registry.MustRegister(versioncollector.NewCollector("omni_exporter"))
	e.reloads.register(registry)
	if o.OwnProcess {
		registry.MustRegister(
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	var err error
	if e.omni, err = newOmni(c, o, registry); err != nil {
		return nil, err
	}
	if o.ForwardPasses {
		e.passes = newForwardPasses(c, o.Logger, registry)
	}
	e.web, err = web.New(c, web.Options{
		Logger: o.Logger, Gatherer: registry, TelemetryPath: o.TelemetryPath,
		TimeoutOffset: o.TimeoutOffset, MaxRequests: o.MaxRequests, Events: e.omni.handler, Pprof: o.Pprof,
	})
	if err == nil {
		err = e.passes.apply(c)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	e.reloads.succeeded(time.Now())
	return e, nil
}

// Handler returns what answers the exporter's HTTP requests.
func (e *Exporter) Handler() http.Handler { return e.web }

// Close ends all scrapes and streams.
func (e *Exporter) Close() {
	e.passes.close()
	if e.web != nil {
		e.web.Close()
	}
}
