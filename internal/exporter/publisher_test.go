package exporter

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// testPublisher is a PUB socket of forward passes.
type testPublisher struct {
	listener    net.Listener
	subscribed  chan struct{} // closed with the first subscription
	connections atomic.Int64  // so far
	running     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]*zmq4.Conn
	next  uint64
}

func newTestPublisher(t *testing.T) *testPublisher {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &testPublisher{listener: listener, subscribed: make(chan struct{}), conns: map[net.Conn]*zmq4.Conn{}}
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.attend(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *testPublisher) address() string { return "tcp://" + p.listener.Addr().String() }

func (p *testPublisher) attend(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	z, err := zmq4.Open(conn, null.Security(), zmq4.Pub, nil, true, nil)
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	for {
		msg, err := z.RecvMsg()
		if err != nil {
			break
		}
		if msg.Type == zmq4.CmdMsg || len(msg.Frames) != 1 || string(msg.Frames[0]) != "\x01" {
			continue
		}
		p.mu.Lock()
		p.conns[conn] = z
		if p.connections.Add(1) == 1 {
			close(p.subscribed)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// publish sends the next record to all subscribers.
func (p *testPublisher) publish(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	record := fpm.Record{Version: 1, WorkerID: "7", CounterID: p.next, WallTime: 0.01, Scheduled: fpm.Scheduled{NumDecodeRequests: 3, SumDecodeKVTokens: 100}}
	payload, err := record.AppendMsgpack(nil)
	if err != nil {
		t.Error(err)
		return
	}
	sequence := make([]byte, 8)
	for i := range sequence {
		sequence[7-i] = byte(p.next >> (8 * i))
	}
	for _, z := range p.conns {
		if err := z.SendMsg(zmq4.NewMsgFrom([]byte{}, sequence, payload)); err != nil {
			t.Error(err)
		}
	}
}
