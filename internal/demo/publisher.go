package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

const (
	// handshakeTimeout bounds how long a subscriber may take to greet.
	handshakeTimeout = 3 * time.Second
	// sendTimeout is how long a subscriber may take to take a record; then it is cut off.
	sendTimeout = time.Second
	// portsTried is how many ports may be taken: several demos and engines run beside
	// each other.
	portsTried = 1000
)

// publisher is a PUB socket. It does the listening itself and leaves ZMTP to zmq4:
// zmq4's own PUB socket leaves a goroutine behind when it is closed.
type publisher struct {
	listener net.Listener
	logger   *slog.Logger
	running  sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	conns      map[net.Conn]*zmq4.Conn // nil until the peer has subscribed
	subscribed chan struct{}           // closed when the first one has
}

// newPublisher listens on the first free port of loopback from Dynamo's default on:
// below the ports that the kernel gives to outbound connections.
func newPublisher(ctx context.Context, logger *slog.Logger) (*publisher, error) {
	var config net.ListenConfig
	var listener net.Listener
	var err error
	for port := stream.DefaultPort; port < stream.DefaultPort+portsTried; port++ {
		if listener, err = config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p := &publisher{
		listener: listener, logger: logger, conns: map[net.Conn]*zmq4.Conn{}, subscribed: make(chan struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// address returns where to subscribe.
func (p *publisher) address() string { return "tcp://" + p.listener.Addr().String() }

// close ends all connections and returns when nothing is left of them.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *publisher) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.logger.Warn("publisher accepts nobody any more", "err", err)
			}
			return
		}
		p.running.Go(func() {
			if err := p.attend(conn); err != nil {
				p.logger.Debug("subscriber left", "err", err)
			}
			p.remove(conn)
		})
	}
}

// attend greets a peer, takes its subscription, and returns when it has gone.
func (p *publisher) attend(conn net.Conn) error {
	if !p.add(conn, nil) {
		return nil
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	z, err := zmq4.Open(conn, null.Security(), zmq4.Pub, nil, true, nil)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		msg, err := z.RecvMsg()
		if err != nil {
			return err
		}
		// A subscription is the byte 1 and a topic; the only topic here is the empty one.
		if msg.Type != zmq4.CmdMsg && len(msg.Frames) == 1 && string(msg.Frames[0]) == "\x01" {
			p.add(conn, z)
		}
	}
}

// add keeps a connection, and returns false if the publisher is closed.
func (p *publisher) add(conn net.Conn, z *zmq4.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = z
	if z != nil {
		select {
		case <-p.subscribed:
		default:
			close(p.subscribed)
		}
	}
	return true
}

func (p *publisher) remove(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

// send sends a message to everyone who has subscribed. Who has not gets nothing of
// it, as with every PUB socket.
func (p *publisher) send(frames ...[]byte) {
	msg := zmq4.NewMsgFrom(frames...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, z := range p.conns {
		if z == nil {
			continue
		}
		err := conn.SetWriteDeadline(time.Now().Add(sendTimeout))
		if err == nil {
			err = z.SendMsg(msg)
		}
		if err != nil {
			p.logger.Debug("subscriber cut off", "err", err)
			_ = conn.Close() // attend notices, and removes it
		}
	}
}
