package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// greetingBytes is what libzmq 4.3 sends: signature, version 3.1, mechanism NULL, no server.
func greetingBytes() []byte {
	b := make([]byte, greetingSize)
	b[0], b[9], b[10], b[11] = signature, 0x7f, 3, 1
	copy(b[12:], "NULL")
	return b
}

// readyBytes is the READY command of a socket type.
func readyBytes(socketType string) []byte {
	body := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(socketType)))
	body = append(body, socketType...)
	return frame(flagCommand, body)
}

// frame puts a ZMTP header before body.
func frame(flags byte, body []byte) []byte {
	if len(body) > 255 {
		head := binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(body)))
		return append(head, body...)
	}
	return append([]byte{flags, byte(len(body))}, body...)
}

// message is the three frames of a record.
func message(seq uint64, payload []byte) []byte {
	return bytes.Join([][]byte{
		frame(flagMore, nil), frame(flagMore, binary.BigEndian.AppendUint64(nil, seq)), frame(0, payload),
	}, nil)
}

func encode(t testing.TB, r fpm.Record) []byte {
	t.Helper()
	b, err := r.AppendMsgpack(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func record(seq uint64) fpm.Record {
	return fpm.Record{
		Version: 1, WorkerID: "4192", CounterID: seq, WallTime: 0.02,
		Scheduled: fpm.Scheduled{NumDecodeRequests: 3, SumDecodeKVTokens: 1024},
	}
}

// send writes records of the given numbers.
func send(t testing.TB, conn net.Conn, seqs ...uint64) {
	t.Helper()
	for _, seq := range seqs {
		if _, err := conn.Write(message(seq, encode(t, record(seq)))); err != nil {
			t.Errorf("write: %v", err)
			return
		}
	}
}

// handshake plays a publisher up to and including our subscription, and reports whether that came.
func handshake(conn net.Conn, socketType string) bool {
	if _, err := io.ReadFull(conn, make([]byte, greetingSize)); err != nil {
		return false
	}
	if _, err := conn.Write(append(greetingBytes(), readyBytes(socketType)...)); err != nil {
		return false
	}
	if name, _, err := readFrame(conn); err != nil || !bytes.HasPrefix(name, []byte("\x05READY")) {
		return false
	}
	body, _, err := readFrame(conn)
	return err == nil && string(body) == "\x01"
}

// readFrame reads one short frame.
func readFrame(conn net.Conn) (body []byte, flags byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(conn, head[:]); err != nil {
		return nil, 0, err
	}
	body = make([]byte, head[1])
	_, err = io.ReadFull(conn, body)
	return body, head[0], err
}

// drain reads frames until the connection ends, answers pings if told to, and returns how many came.
func drain(conn net.Conn, answer bool) (pings int) {
	for {
		body, flags, err := readFrame(conn)
		if err != nil {
			return pings
		}
		if flags&flagCommand != 0 && bytes.HasPrefix(body, []byte("\x04PING")) {
			pings++
			if answer {
				if _, err := conn.Write(frame(flagCommand, []byte("\x04PONG"))); err != nil {
					return pings
				}
			}
		}
	}
}

// collected keeps copies of deliveries.
type collected struct {
	mu  sync.Mutex
	all []fpm.Delivery
}

func (c *collected) sink(d *fpm.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, *d)
}

func (c *collected) list() []fpm.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]fpm.Delivery(nil), c.all...)
}

// await polls until ok, or fails the test after a time that only a hang exceeds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// impatient returns short waits for peers on loopback that are meant to fail.
func impatient() Timing {
	return Timing{
		Dial: 2 * time.Second, Handshake: time.Second, Write: time.Second,
		Ping: 200 * time.Millisecond, Idle: time.Second,
		BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	}
}

// serve accepts connections on loopback and hands each to play until the test ends.
func serve(t testing.TB, play func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, play)
	return "tcp://" + l.Addr().String()
}

func serveOn(t testing.TB, l net.Listener, play func(net.Conn)) (stop func()) {
	t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns = map[net.Conn]bool{}
	)
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				play(conn)
			})
		}
	})
	stop = sync.OnceFunc(func() {
		l.Close()
		mu.Lock()
		for conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// start supervises the addresses until the test ends.
func start(t testing.TB, o Options, addresses ...string) *Supervisor {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	s := NewSupervisor(o)
	t.Cleanup(s.Close)
	var endpoints []Endpoint
	for _, a := range addresses {
		endpoints = append(endpoints, Endpoint{Address: a, Rank: fpm.UnknownRank})
	}
	if err := s.Apply(endpoints); err != nil {
		t.Fatal(err)
	}
	return s
}

// pipes is a dialer whose other ends are handed to play, for tests in a synctest bubble.
func pipes(play func(attempt int, conn net.Conn)) DialFunc {
	attempt := 0
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func(n int) {
			defer theirs.Close()
			play(n, theirs)
		}(attempt)
		attempt++
		return ours, nil
	}
}
