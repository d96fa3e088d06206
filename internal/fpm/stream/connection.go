package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// connection keeps one endpoint subscribed: one goroutine that dials, reads and delivers until its context ends.
type connection struct {
	endpoint Endpoint
	origin   *fpm.Origin
	dial     DialFunc
	timing   Timing
	sink     fpm.Sink
	log      *slog.Logger

	// Owned by the goroutine.
	decoder  *fpm.Decoder
	sequence sequence
	delivery fpm.Delivery
	junk     junkMeter
	proven   bool // a record came over this connection; a mere handshake proves nothing

	mu    sync.Mutex
	state EndpointState
	ever  bool // a connection stood before
}

func newConnection(e Endpoint, o Options) *connection {
	return &connection{
		endpoint: e, origin: e.origin(), dial: o.Dial, timing: o.Timing, sink: o.Sink,
		log:     o.Logger.With("endpoint", e.Address),
		decoder: fpm.NewDecoder(),
		state:   EndpointState{Endpoint: e, Phase: PhaseConnecting, Since: time.Now(), Rank: fpm.UnknownRank},
	}
}

// run connects again and again until ctx ends.
func (c *connection) run(ctx context.Context) {
	backoff := c.timing.BackoffMin
	for ctx.Err() == nil {
		c.enter(PhaseConnecting)
		c.proven = false
		err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.proven {
			backoff = c.timing.BackoffMin
		}
		reason := reasonOf(err)
		if reason == ReasonSocketType || reason == ReasonFlood {
			backoff = c.timing.BackoffMax // that will not change soon
		}
		wait := backoff/2 + rand.N(backoff/2+1)
		c.ended(reason, err, wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		backoff = min(backoff+backoff/2, c.timing.BackoffMax)
	}
}

// session holds one connection from dialling to its end, and returns why it ended.
func (c *connection) session(ctx context.Context) (err error) {
	defer func() {
		// The ZMTP library is known to panic at what it did not expect. The guard lets nothing known through; what
		// is not known must still not end the process.
		if r := recover(); r != nil {
			c.log.Error("Panic in the connection, please report", "panic", r, "stack", string(debug.Stack()))
			err = fault(ReasonPanic, "panic: %v", r)
		}
	}()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	g := newGuard(conn, c.timing)
	z, err := zmq4.Open(g, null.Security(), zmq4.Sub, nil, false, nil)
	if err != nil {
		return handshakeError(g, err)
	}
	if err := z.SendMsg(zmq4.NewMsg([]byte{1})); err != nil { // subscribe to every topic
		return err
	}
	c.enter(PhaseConnected)
	c.sequence.reconnected()
	c.log.Debug("Subscribed to forward-pass metrics")
	for {
		msg, err := z.RecvMsg()
		if g.err != nil {
			return g.err
		}
		if err != nil {
			return fault(ReasonProtocol, "%w", err)
		}
		useful := msg.Type != zmq4.CmdMsg && c.message(msg.Frames)
		if !useful && c.junk.flooded() {
			return fault(ReasonFlood, "more than %d commands and refused messages a second", maxJunk)
		}
	}
}

// connect dials the endpoint.
func (c *connection) connect(ctx context.Context) (net.Conn, error) {
	network, address, err := ParseAddress(c.endpoint.Address)
	if err != nil {
		return nil, &connError{reason: ReasonDial, err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timing.Dial)
	defer cancel()
	conn, err := c.dial(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &connError{reason: ReasonDialTimeout, err: err}
	}
	return nil, &connError{reason: ReasonDial, err: err}
}

// handshakeError prefers what the guard saw to what the library made of it.
func handshakeError(g *guard, err error) error {
	if g.err == nil {
		return fault(ReasonHandshake, "%w", err)
	}
	if reasonOf(g.err) == ReasonClosed {
		return fault(ReasonHandshake, "the peer ended the connection during the handshake")
	}
	return g.err
}

// message delivers one message and reports whether it held a record.
func (c *connection) message(frames [][]byte) bool {
	d := &c.delivery
	*d = fpm.Delivery{Origin: c.origin, Received: time.Now()}
	if len(frames) != 3 || len(frames[0]) != 0 || len(frames[1]) != 8 {
		d.Rejected = framingFault(frames)
	} else {
		d.Rejected = c.decoder.Decode(frames[2], &d.Record)
		worker := ""
		if d.Rejected == nil {
			worker = d.Record.WorkerID
		}
		s := c.sequence.next(binary.BigEndian.Uint64(frames[1]), worker, frames[2])
		d.Lost, d.Restarted = s.lost, s.restarted
		if s.duplicate && d.Rejected == nil {
			d.Rejected = &fpm.RejectError{Reason: fpm.ReasonDuplicate, Detail: "the same message twice"}
		}
	}
	c.note(d)
	c.sink(d)
	return d.Rejected == nil
}

func framingFault(frames [][]byte) *fpm.RejectError {
	detail := fmt.Sprintf("%d frames instead of topic, sequence number and payload", len(frames))
	if len(frames) == 3 {
		detail = fmt.Sprintf("topic of %d and sequence number of %d bytes instead of 0 and 8", len(frames[0]), len(frames[1]))
	}
	return &fpm.RejectError{Reason: fpm.ReasonFraming, Detail: detail}
}

// note keeps what the state says of messages.
func (c *connection) note(d *fpm.Delivery) {
	first := d.Rejected == nil && !c.proven
	c.mu.Lock()
	c.state.Messages++
	c.state.LastMessage = d.Received
	if d.Rejected == nil {
		c.proven = true
		c.state.WorkerID, c.state.Rank = d.Record.WorkerID, int(d.Record.DPRank)
	}
	c.mu.Unlock()
	if first {
		c.log.Info("Forward-pass records arrive", "worker_id", fmt.Sprintf("%q", d.Record.WorkerID), "dp_rank", d.Record.DPRank)
	}
	if first && c.endpoint.Rank != fpm.UnknownRank && uint64(c.endpoint.Rank) != d.Record.DPRank {
		c.log.Warn("Another data-parallel rank publishes here than the port stands for; check base port and data_parallel_size",
			"expected", c.endpoint.Rank, "rank", d.Record.DPRank)
	}
	if d.Rejected != nil && c.junk.firstRejection() {
		c.log.Warn("Message refused; further ones are only counted", "err", fmt.Sprintf("%q", d.Rejected.Error()))
	}
}

// enter notes a phase.
func (c *connection) enter(p Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p == PhaseConnected {
		if c.ever {
			c.state.Reconnects++
		}
		c.ever = true
	}
	c.state.Phase, c.state.Since = p, time.Now()
}

// ended notes the end of a connection or attempt, and logs it unless the one before failed alike.
func (c *connection) ended(reason Reason, err error, wait time.Duration) {
	c.mu.Lock()
	news := c.proven || c.state.LastReason != reason
	c.state.Failures++
	c.state.LastReason, c.state.LastError = reason, err.Error()
	c.state.Phase, c.state.Since = PhaseWaiting, time.Now()
	c.mu.Unlock()
	level := slog.LevelDebug
	if news {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "Endpoint of forward-pass metrics is not connected, will try again",
		"reason", string(reason), "err", err.Error(), "wait", wait.Round(time.Millisecond))
}

func (c *connection) snapshot() EndpointState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// junkMeter counts what a peer sends beside records.
type junkMeter struct {
	second int64
	count  int
	warned bool
}

// flooded counts one more and reports whether this second has had more than maxJunk.
func (m *junkMeter) flooded() bool {
	if now := time.Now().Unix(); now != m.second {
		m.second, m.count = now, 0
	}
	m.count++
	return m.count > maxJunk
}

// firstRejection reports true once.
func (m *junkMeter) firstRejection() bool {
	first := !m.warned
	m.warned = true
	return first
}
