// Package exporter puts one exporter together from its parts: the collectors, the
// intake of events, the forward-pass streams and the web server, all by one
// configuration. The program and the demo start the same one.
package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
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

	// FPMTrace switches the capture of forward passes on or off; nil leaves it to the
	// environment. LookupEnv is os.LookupEnv, or nil for an empty environment.
	FPMTrace  *bool
	LookupEnv func(string) (string, bool)

	// ListenAddresses are where the exporter listens, as far as known: it does not scrape
	// itself.
	ListenAddresses []string

	// Shard is this exporter's share of the targets.
	Shard Shard

	// Lifecycle takes the requests to reload and to quit; the zero value refuses both.
	Lifecycle web.Lifecycle

	// MaxConnections bounds the connections that are open at a time; 0: no limit.
	MaxConnections int

	// Pprof serves profiles of the exporter itself.
	Pprof bool

	// OwnProcess adds go_* and process_* of the exporter itself.
	OwnProcess bool
}

// Exporter is a running exporter. Its Handler answers requests until Close.
type Exporter struct {
	options     Options
	web         *web.Server
	omni        *omni
	passes      *forwardPasses
	discovery   *discovery.Manager
	connections *web.Connections
	reloads     reloads

	reloading sync.Mutex // held by Reload

	mu     sync.Mutex     // held while a configuration or what was discovered is put to work
	config *config.Config // in force; nil before the start
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
	if e.discovery, err = discovery.NewManager(o.Logger, e.rediscover); err != nil {
		return nil, err
	}
	e.connections = web.NewConnections(o.MaxConnections)
	registry.MustRegister(e.discovery.Failures(), e.connections)
	if o.ForwardPasses {
		e.passes = newForwardPasses(c, o, registry)
		e.passes.source.found = e.discovery.Found
	}
	if err := e.start(c, registry); err != nil {
		e.Close()
		return nil, fmt.Errorf("start: %w", err)
	}
	e.rediscover() // what was found while starting
	e.reloads.succeeded()
	return e, nil
}

// start puts the first configuration to work.
func (e *Exporter) start(c *config.Config, registry *prometheus.Registry) error {
	if err := e.check(c); err != nil {
		return err
	}
	e.discovery.Add(context.Background(), e.ways(c))
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.options
	var err error
	e.web, err = web.New(c, web.Options{
		Logger: o.Logger, Gatherer: registry, TelemetryPath: o.TelemetryPath,
		TimeoutOffset: o.TimeoutOffset, MaxRequests: o.MaxRequests, Events: e.omni.handler, Pprof: o.Pprof, Streams: e.passes.state(),
		Found: e.discovery.Found, Shard: o.Shard.has(), Self: listensAt(o.ListenAddresses), Lifecycle: o.Lifecycle,
	})
	if err != nil {
		return err
	}
	e.passes.apply(c)
	e.config = c
	return nil
}

// Handler returns what answers the exporter's HTTP requests.
func (e *Exporter) Handler() http.Handler { return e.web }

// ConnState is for the http.Server that serves the Handler: it counts connections.
func (e *Exporter) ConnState(c net.Conn, s http.ConnState) { e.connections.ConnState(c, s) }

// Close ends all scrapes and streams.
func (e *Exporter) Close() {
	e.discovery.Close()
	e.passes.close()
	if e.web != nil {
		e.web.Close()
	}
}
