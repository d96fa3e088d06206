package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

const (
	// handshakeTimeout bounds how long a subscriber may take to greet.
	handshakeTimeout = 3 * time.Second
	// sendTimeout is how long a subscriber may block; then it is cut off.
	sendTimeout = 10 * time.Second
	// highWater is how many messages wait for a subscriber before more are dropped, libzmq's default for PUB sockets.
	highWater = 1000
)

// Publisher is a PUB socket of one rank. It listens itself and leaves ZMTP to zmq4, whose own PUB socket leaves
// goroutines behind when it is closed.
type Publisher struct {
	listener   net.Listener
	log        *slog.Logger
	running    sync.WaitGroup
	dropped    atomic.Uint64
	subscribed chan struct{} // closed when the first subscriber has subscribed

	mu          sync.Mutex
	closed      bool
	conns       map[net.Conn]struct{}
	subscribers map[net.Conn]chan zmq4.Msg
}

// Listen returns a publisher at a TCP address, host:port.
func Listen(ctx context.Context, address string, log *slog.Logger) (*Publisher, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	p := &Publisher{
		listener: listener, log: log, subscribed: make(chan struct{}),
		conns: make(map[net.Conn]struct{}), subscribers: make(map[net.Conn]chan zmq4.Msg),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Endpoint returns where to subscribe.
func (p *Publisher) Endpoint() string { return "tcp://" + p.listener.Addr().String() }

// Subscribed is closed once somebody has subscribed.
func (p *Publisher) Subscribed() <-chan struct{} { return p.subscribed }

// Dropped counts messages that a subscriber was too slow for.
func (p *Publisher) Dropped() uint64 { return p.dropped.Load() }

// Send publishes a record in the three frames of Dynamo's FPM reference: an empty topic, the sequence number and the
// record. It does not wait: what a subscriber does not take is dropped, and nobody gets what came before its
// subscription.
func (p *Publisher) Send(r *fpm.Record, sequence uint64) error {
	payload, err := r.AppendMsgpack(nil)
	if err != nil {
		return err
	}
	msg := zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, sequence), payload)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, queue := range p.subscribers {
		select {
		case queue <- msg:
		default:
			p.dropped.Add(1)
		}
	}
	return nil
}

// Close sends what waits, for as long as ctx allows, and ends all connections.
func (p *Publisher) Close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for conn, queue := range p.subscribers {
		close(queue)
		delete(p.subscribers, conn)
	}
	for conn := range p.conns {
		// The reading end; what waits is still being sent.
		_ = conn.SetReadDeadline(time.Now())
	}
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for conn := range p.conns {
			_ = conn.Close()
		}
	})
	defer stop()
	p.running.Wait()
}

func (p *Publisher) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.log.Warn("Publisher accepts nobody any more", "endpoint", p.Endpoint(), "err", err)
			}
			return
		}
		p.mu.Lock()
		if p.closed {
			_ = conn.Close()
		} else {
			p.conns[conn] = struct{}{}
			p.running.Go(func() { p.attend(conn) })
		}
		p.mu.Unlock()
	}
}

// attend serves a peer until it has gone.
func (p *Publisher) attend(conn net.Conn) {
	var sender sync.WaitGroup
	defer func() {
		// zmq4 trusts the lengths that a peer sends, and panics at some.
		if r := recover(); r != nil {
			p.log.Warn("Peer sent what is no ZMTP", "peer", conn.RemoteAddr(), "panic", r)
		}
		p.mu.Lock()
		if queue := p.subscribers[conn]; queue != nil {
			close(queue)
			delete(p.subscribers, conn)
		}
		p.mu.Unlock()
		sender.Wait()
		_ = conn.Close()
		p.mu.Lock()
		delete(p.conns, conn)
		p.mu.Unlock()
	}()
	if err := p.serve(conn, &sender); err != nil {
		p.log.Debug("Subscriber left", "peer", conn.RemoteAddr(), "err", err)
	}
}

func (p *Publisher) serve(conn net.Conn, sender *sync.WaitGroup) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	z, err := zmq4.Open(conn, null.Security(), zmq4.Pub, nil, true, nil)
	if err != nil {
		return err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		err = conn.SetDeadline(time.Time{})
	}
	p.mu.Unlock()
	if closed || err != nil {
		return err
	}
	for {
		msg, err := z.RecvMsg()
		if err != nil {
			return err
		}
		// A subscription is the byte 1 and a prefix of topics; the only topic here is the empty one.
		if msg.Type == zmq4.CmdMsg || len(msg.Frames) != 1 {
			continue
		}
		switch string(msg.Frames[0]) {
		case "\x01":
			p.subscribe(conn, z, sender)
		case "\x00":
			p.unsubscribe(conn)
		}
	}
}

func (p *Publisher) subscribe(conn net.Conn, z *zmq4.Conn, sender *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.subscribers[conn] != nil {
		return
	}
	queue := make(chan zmq4.Msg, highWater)
	p.subscribers[conn] = queue
	select {
	case <-p.subscribed:
	default:
		close(p.subscribed)
	}
	sender.Go(func() {
		for msg := range queue {
			err := conn.SetWriteDeadline(time.Now().Add(sendTimeout))
			if err == nil {
				err = z.SendMsg(msg)
			}
			if err != nil {
				p.log.Debug("Subscriber cut off", "peer", conn.RemoteAddr(), "err", err)
				_ = conn.Close() // ends the reading
				for range queue {
					p.dropped.Add(1)
				}
				return
			}
		}
	})
}

func (p *Publisher) unsubscribe(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if queue := p.subscribers[conn]; queue != nil {
		close(queue)
		delete(p.subscribers, conn)
	}
}
