package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// replay is a connection whose peer says what is given, in chunks, and then closes.
type replay struct {
	net.Conn // nil: everything that is used is below
	said     *bytes.Reader
	chunk    int
	heard    bytes.Buffer
}

func (r *replay) Read(p []byte) (int, error) {
	if r.chunk > 0 && len(p) > r.chunk {
		p = p[:r.chunk]
	}
	return r.said.Read(p)
}

func (r *replay) Write(p []byte) (int, error)      { return r.heard.Write(p) }
func (r *replay) Close() error                     { return nil }
func (r *replay) SetReadDeadline(time.Time) error  { return nil }
func (r *replay) SetWriteDeadline(time.Time) error { return nil }

// published is a publisher's whole side of a connection.
func published(parts ...[]byte) []byte {
	return bytes.Join(append([][]byte{greetingBytes(), readyBytes("PUB")}, parts...), nil)
}

// TestGuardIsTransparent: in whatever chunks bytes come, zmq4 gets the messages that were sent, up to the limits.
func TestGuardIsTransparent(t *testing.T) {
	var sent []byte
	for seq := range uint64(20) {
		sent = append(sent, message(seq, encode(t, record(seq)))...)
		sent = append(sent, frame(flagCommand, []byte("\x04PING\x00\x00"))...)
	}
	sent = append(sent, message(20, make([]byte, maxFrame))...)
	for _, chunk := range []int{0, 1, 2, 3, 7, 9, 64, 410, 4096} {
		conn := &replay{said: bytes.NewReader(published(sent)), chunk: chunk}
		g := newGuard(conn, DefaultTiming())
		z, err := zmq4.Open(g, null.Security(), zmq4.Sub, nil, false, nil)
		if err != nil {
			t.Fatalf("chunks of %d: %v", chunk, err)
		}
		messages, pongs := 0, 0
		for {
			msg, err := z.RecvMsg()
			if err != nil {
				break
			}
			if msg.Type == zmq4.CmdMsg {
				pongs++
				continue
			}
			if seq := binary.BigEndian.Uint64(msg.Frames[1]); seq != uint64(messages) {
				t.Errorf("chunks of %d: message %d has number %d", chunk, messages, seq)
			}
			messages++
		}
		if messages != 21 || pongs != 20 || reasonOf(g.err) != ReasonClosed {
			t.Errorf("chunks of %d: %d messages, %d pings, ended by %v", chunk, messages, pongs, g.err)
		}
		if n := bytes.Count(conn.heard.Bytes(), []byte("\x04PONG")); n != 20 {
			t.Errorf("chunks of %d: %d pongs", chunk, n)
		}
	}
}

// TestGuardFailsForGood: after a fault no byte passes, whoever asks again.
func TestGuardFailsForGood(t *testing.T) {
	conn := &replay{said: bytes.NewReader(append([]byte("HTTP"), published()...))}
	g := newGuard(conn, DefaultTiming())
	for range 3 {
		if n, err := g.Read(make([]byte, 1)); n != 0 || reasonOf(err) != ReasonHandshake {
			t.Errorf("read %d, %v", n, err)
		}
	}
	if _, err := g.Write([]byte("x")); reasonOf(err) != ReasonHandshake {
		t.Errorf("write: %v", err)
	}
}

// TestGuardHoldsReady: a peer that is no publisher never gets our READY.
func TestGuardHoldsReady(t *testing.T) {
	for socketType, want := range map[string]int{"ROUTER": greetingSize, "XPUB": greetingSize + 40} {
		conn := &replay{said: bytes.NewReader(append(greetingBytes(), readyBytes(socketType)...))}
		_, err := zmq4.Open(newGuard(conn, DefaultTiming()), null.Security(), zmq4.Sub, nil, false, nil)
		if (err == nil) != (socketType == "XPUB") || conn.heard.Len() != want {
			t.Errorf("%s: sent %d bytes, want %d; %v; %q", socketType, conn.heard.Len(), want, err, conn.heard.Bytes()[greetingSize:])
		}
	}
}

// FuzzConnection plays arbitrary bytes to a whole connection, beginning at each of its phases.
func FuzzConnection(f *testing.F) {
	whole := published(message(1, encode(f, record(1))), frame(flagCommand, []byte("\x04PING\x00\x00")))
	f.Add(byte(0), byte(0), whole)
	f.Add(byte(1), byte(1), whole[greetingSize:])
	f.Add(byte(2), byte(5), whole[greetingSize+len(readyBytes("PUB")):])
	f.Add(byte(2), byte(0), []byte{flagLong, 0x40, 0, 0, 0, 0, 0, 0, 0})
	f.Add(byte(2), byte(0), bytes.Repeat(frame(flagMore, nil), 10))
	f.Add(byte(2), byte(0), frame(flagCommand, []byte("\xffPING")))
	f.Add(byte(1), byte(3), frame(flagCommand, []byte("\x05READY\x0bSocket-Type\x00\x00\xff\xffPUB")))
	f.Add(byte(1), byte(0), frame(flagCommand, []byte("\x05READY\x0bSoCket-TYpe\x00\x00\x00\x03PUB")))
	f.Fuzz(func(t *testing.T, phase, chunk byte, raw []byte) {
		var said []byte
		if phase%3 > 0 {
			said = append(said, greetingBytes()...)
		}
		if phase%3 > 1 {
			said = append(said, readyBytes("PUB")...)
		}
		conn := &replay{said: bytes.NewReader(append(said, raw...)), chunk: int(chunk)}
		deliveries := 0
		c := newConnection(Endpoint{Address: "tcp://publisher:20380", Rank: fpm.UnknownRank}, Options{
			Logger: quiet(), Timing: DefaultTiming(),
			Sink: func(d *fpm.Delivery) {
				deliveries++
				if d.Rejected == nil && d.Record.Validate() != nil {
					t.Errorf("delivered %+v", d.Record)
				}
			},
			Dial: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		})
		err := c.session(t.Context())
		if err == nil || reasonOf(err) == ReasonPanic {
			t.Fatalf("ended by %v", err)
		}
		if deliveries*2 > len(raw) {
			t.Errorf("%d messages out of %d bytes", deliveries, len(raw))
		}
		if limit := 2*len(raw) + 1024; conn.heard.Len() > limit {
			t.Errorf("%d bytes heard for %d said", conn.heard.Len(), len(raw))
		}
	})
}

// BenchmarkConnection is the whole way of a record from the wire to the sink.
func BenchmarkConnection(b *testing.B) {
	var said []byte
	const messages = 1000
	for seq := range uint64(messages) {
		said = append(said, message(seq, encode(b, record(seq)))...)
	}
	said = published(said)
	delivered := 0
	c := newConnection(Endpoint{Address: "tcp://publisher:20380"}, Options{
		Logger: quiet(), Timing: DefaultTiming(), Sink: func(*fpm.Delivery) { delivered++ },
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return &replay{said: bytes.NewReader(said)}, nil
		},
	})
	b.ReportAllocs()
	runs := 0
	for b.Loop() {
		runs++
		if err := c.session(b.Context()); reasonOf(err) != ReasonClosed {
			b.Fatal(err)
		}
	}
	if delivered != runs*messages {
		b.Errorf("%d records of %d", delivered, runs*messages)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(delivered), "ns/record")
}
