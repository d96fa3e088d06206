package stream

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// DialFunc opens a connection. It must honour the context, which carries Timing.Dial.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what a Supervisor needs. Sink is required.
type Options struct {
	// Sink takes every message of every endpoint, from one goroutine per endpoint.
	Sink fpm.Sink
	// Logger defaults to slog.Default.
	Logger *slog.Logger
	// Dial defaults to net.Dialer's, with keep-alive probes.
	Dial DialFunc
	// Timing defaults to DefaultTiming where it is zero as a whole.
	Timing Timing
}

// Supervisor keeps a changing set of endpoints subscribed.
type Supervisor struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	order []Endpoint
	conns map[string]*supervised // by address
}

type supervised struct {
	conn   *connection
	cancel context.CancelFunc
}

// NewSupervisor returns a Supervisor without endpoints. Close must be called.
func NewSupervisor(o Options) *Supervisor {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Dial == nil {
		dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
		o.Dial = dialer.DialContext
	}
	if o.Timing == (Timing{}) {
		o.Timing = DefaultTiming()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Supervisor{options: o, ctx: ctx, cancel: cancel, conns: make(map[string]*supervised)}
}

// Apply makes endpoints the set that is subscribed. Connections of endpoints that did not change are not touched, so
// a reload loses nothing. Endpoints with a bad address, and the second of two with the same, are left out and named
// in the error. After Close it does nothing.
func (s *Supervisor) Apply(endpoints []Endpoint) error {
	good, err := check(endpoints)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return err
	}
	wanted := make(map[string]Endpoint, len(good))
	for _, e := range good {
		wanted[e.Address] = e
	}
	for address, have := range s.conns {
		if e, keep := wanted[address]; !keep || e != have.conn.endpoint {
			have.cancel()
			delete(s.conns, address)
		}
	}
	for _, e := range good {
		if s.conns[e.Address] == nil {
			s.start(e)
		}
	}
	s.order = good
	return err
}

// start runs a connection of its own for e.
func (s *Supervisor) start(e Endpoint) {
	ctx, cancel := context.WithCancel(s.ctx)
	c := newConnection(e, s.options)
	s.conns[e.Address] = &supervised{conn: c, cancel: cancel}
	s.running.Go(func() {
		defer cancel()
		c.run(ctx)
	})
}

// State returns a snapshot of each endpoint, in the order they were applied.
func (s *Supervisor) State() []EndpointState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]EndpointState, 0, len(s.order))
	for _, e := range s.order {
		out = append(out, s.conns[e.Address].conn.snapshot())
	}
	return out
}

// Close ends every connection and waits until the last delivery is done.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}
