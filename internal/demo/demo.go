// Package demo runs the exporter over a simulated pipeline, in one process and on
// loopback. Nothing between the two is shortened: the exporter scrapes the
// pipeline's servers over HTTP, gets its events over HTTP and its forward passes
// over ZMQ, and is the same one that the program starts.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// Options describe a demo.
type Options struct {
	Address string        // where the exporter listens, host:port; port 0 takes a free one
	Seed    uint64        // of the simulated traffic
	WarmUp  time.Duration // simulated traffic that has passed before the exporter is ready
	Faults  []simulator.Fault
	Out     io.Writer // gets told where to look, once the exporter is ready
	Logger  *slog.Logger
}

const (
	// DefaultWarmUp is long enough that there is something in every histogram.
	DefaultWarmUp = 5 * time.Minute
	// step is how much traffic passes between two looks at whether the demo goes on.
	step = time.Second

	// ranks is the number of data-parallel ranks that publish forward passes.
	ranks = 2
	// pipelineName is the pipeline's in the configuration and in events.
	pipelineName = "qwen3-omni"

	readHeaderTimeout = 10 * time.Second
	// shutdownTimeout is how long requests under way may take after an interrupt.
	shutdownTimeout = 5 * time.Second
)

// demo is a demo at work.
type demo struct {
	options    Options
	url        string // of the exporter
	pipeline   *simulator.Pipeline
	exporter   *exporter.Exporter
	publishers publishers
	events     *eventPoster
	warm       atomic.Bool
}

// Run runs a demo until ctx ends, which is no error. When it returns, nothing of
// it is left.
func Run(ctx context.Context, o Options) error {
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --web.listen-address", err)
	}
	defer listener.Close()
	d := &demo{options: o, url: "http://" + reachable(listener.Addr())}
	d.events = newEventPoster(ctx, d.url+eventsPath, o.Logger)
	defer d.events.close()
	if d.publishers, err = newPublishers(ctx, ranks, o.Logger); err != nil {
		return err
	}
	defer d.publishers.close()
	d.pipeline, err = simulator.New(simulator.Options{
		Seed: o.Seed, Pipeline: pipelineName, Ranks: ranks, Start: time.Now().Add(-o.WarmUp),
		Events: d.events.post, ForwardPasses: d.publishers.publish,
	})
	if err != nil {
		return err
	}
	if err := d.pipeline.Listen(); err != nil {
		return err
	}
	return d.run(ctx, listener)
}

// run starts the parts and ends them together.
func (d *demo) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.pipeline.Serve(ctx) })
	group.Go(func() error {
		if err := d.startExporter(); err != nil {
			return err
		}
		defer d.exporter.Close()
		server := &http.Server{Handler: d, ReadHeaderTimeout: readHeaderTimeout}
		group.Go(func() error { return d.simulate(ctx) })
		return serve(ctx, server, listener)
	})
	return group.Wait()
}

func (d *demo) startExporter() error {
	c, err := d.configuration()
	if err != nil {
		return err
	}
	d.exporter, err = exporter.New(c, exporter.Options{
		Logger: d.options.Logger, TelemetryPath: "/metrics", TimeoutOffset: 500 * time.Millisecond, MaxRequests: 40,
		Pipeline: true, Audio: true, Transfer: true, ForwardPasses: true, OwnProcess: true,
	})
	return err
}

// simulate lets the traffic of some minutes pass at once, and then goes on in real
// time, with the faults.
func (d *demo) simulate(ctx context.Context) error {
	d.publishers.awaitSubscribers(ctx)
	for left := d.options.WarmUp; left > 0 && !over(ctx); left -= step {
		d.pipeline.Step(min(left, step))
	}
	if over(ctx) {
		return nil
	}
	for _, f := range d.options.Faults {
		if err := d.pipeline.SetFault(f, true); err != nil {
			return err
		}
	}
	d.warm.Store(true)
	if _, err := io.WriteString(d.options.Out, d.introduction()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return d.pipeline.Run(ctx)
}

// over reports whether the demo is to end.
func over(ctx context.Context) bool { return ctx.Err() != nil }

// ServeHTTP passes requests on to the exporter. Until the traffic of the first
// minutes has passed, it takes events only.
func (d *demo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.warm.Load() && r.URL.Path != eventsPath {
		http.Error(w, "the demo is warming up", http.StatusServiceUnavailable)
		return
	}
	d.exporter.Handler().ServeHTTP(w, r)
}

// serve answers requests until ctx ends, then lets those under way end.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// reachable returns an address at which this host reaches a listener.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}
