package stream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// hold keeps a connection open, saying nothing, until the other side ends it.
func hold(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// afterHandshake plays a publisher and then sends raw bytes.
func afterHandshake(raw ...[]byte) func(net.Conn) {
	return func(conn net.Conn) {
		if handshake(conn, "PUB") {
			_, _ = conn.Write(bytes.Join(raw, nil))
			hold(conn)
		}
	}
}

// insteadOfReady sends a greeting and then raw bytes.
func insteadOfReady(raw []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write(append(greetingBytes(), raw...))
		hold(conn)
	}
}

// forEver sends raw until the connection ends.
func forEver(raw []byte) func(net.Conn) {
	return func(conn net.Conn) {
		if !handshake(conn, "PUB") {
			return
		}
		go hold(conn)
		for {
			if _, err := conn.Write(raw); err != nil {
				return
			}
		}
	}
}

type hostilePeer struct {
	name   string
	play   func(net.Conn)
	reason Reason
}

// hostilePeers are those that made, or would make, the library panic, hang, or allocate without bound, and services
// that a wrong port may lead to.
func hostilePeers() []hostilePeer {
	huge := func(b byte) []byte { return append([]byte{flagLong, b}, bytes.Repeat([]byte{b}, 7)...) }
	property := func(raw string) []byte { return frame(flagCommand, []byte("\x05READY"+raw)) }
	pings := bytes.Repeat(frame(flagCommand, []byte("\x04PING\x00\x00")), 1000)
	junk := bytes.Repeat(frame(0, []byte("x")), 1000)
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	random[0] = 'r'
	return []hostilePeer{
		{"frame of 2^62", afterHandshake([]byte{flagLong, 0x40, 0, 0, 0, 0, 0, 0, 0}), ReasonOversized},
		{"frame of 2^64-1", afterHandshake(huge(0xff)), ReasonOversized},
		{"frame one byte too large", afterHandshake(frame(0, make([]byte, maxFrame+1))), ReasonOversized},
		{"command of 2^62", afterHandshake([]byte{flagLong | flagCommand, 0x40, 0, 0, 0, 0, 0, 0, 0}), ReasonOversized},
		{"endless multipart", forEver(bytes.Repeat(frame(flagMore, []byte("part")), 100)), ReasonTooManyParts},
		{"empty command", afterHandshake([]byte{flagCommand, 0}), ReasonProtocol},
		{"command in parts", afterHandshake([]byte{flagCommand | flagMore, 1, 0}), ReasonProtocol},
		{"command within a message", afterHandshake(frame(flagMore, nil), frame(flagCommand, []byte("\x04PING\x00\x00"))), ReasonProtocol},
		{"command with a long name", afterHandshake([]byte{flagCommand, 2, 200, 'x'}), ReasonProtocol},
		{"reserved flags", afterHandshake([]byte{0x80, 1, 0}), ReasonProtocol},
		{"flood of pings", forEver(pings), ReasonFlood},
		{"flood of junk", forEver(junk), ReasonFlood},
		{"goes silent", afterHandshake(), ReasonIdle},
		{"goes silent within a frame", afterHandshake([]byte{0, 200, 1, 2, 3}), ReasonIdle},
		{"closes at once", func(net.Conn) {}, ReasonHandshake},
		{"closes after the handshake", func(c net.Conn) { handshake(c, "PUB") }, ReasonClosed},
		{"accepts and says nothing", hold, ReasonHandshakeTimeout},
		{"random bytes", func(c net.Conn) { _, _ = c.Write(random); hold(c) }, ReasonHandshake},
		{"HTTP server", httpServer, ReasonHandshake},
		{"half a greeting", func(c net.Conn) { _, _ = c.Write(greetingBytes()[:30]); hold(c) }, ReasonHandshakeTimeout},
		{"ZMTP 2", func(c net.Conn) {
			g := greetingBytes()
			g[10] = 1
			_, _ = c.Write(g)
			hold(c)
		}, ReasonHandshake},
		{"CURVE", func(c net.Conn) {
			g := greetingBytes()
			copy(g[12:], "CURVE")
			_, _ = c.Write(g)
			hold(c)
		}, ReasonHandshake},
		{"ROUTER", insteadOfReady(readyBytes("ROUTER")), ReasonSocketType},
		{"unknown socket type", insteadOfReady(readyBytes("TEAPOT")), ReasonSocketType},
		{"property names in capitals", insteadOfReady(property("\x0bSOCKET-TYPE\x00\x00\x00\x04XPUB")), ReasonIdle},
		{"no socket type", insteadOfReady(property("")), ReasonSocketType},
		{"property name beyond the end", insteadOfReady(property("\xffSocket-Type")), ReasonHandshake},
		{"property without a length", insteadOfReady(property("\x0bSocket-Type\x00\x00")), ReasonHandshake},
		{"property of 4 GiB", insteadOfReady(property("\x0bSocket-Type\xff\xff\xff\xffPUB")), ReasonHandshake},
		{"READY of 2^62", insteadOfReady([]byte{flagCommand | flagLong, 0x40, 0, 0, 0, 0, 0, 0, 0}), ReasonOversized},
		{"message instead of READY", insteadOfReady(frame(0, []byte("\x05READY"))), ReasonHandshake},
		{"ERROR instead of READY", insteadOfReady(frame(flagCommand, []byte("\x05ERROR\x06denied"))), ReasonHandshake},
		{"other command than READY", insteadOfReady(frame(flagCommand, []byte("\x05HELLO"))), ReasonHandshake},
	}
}

// ServeHostile starts the peers of the given names for the tests outside of the package.
func ServeHostile(t testing.TB, names ...string) (endpoints []Endpoint) {
	t.Helper()
	for _, peer := range hostilePeers() {
		if slices.Contains(names, peer.name) {
			endpoints = append(endpoints, Endpoint{Address: serve(t, peer.play), Rank: fpm.UnknownRank})
		}
	}
	if len(endpoints) != len(names) {
		t.Fatalf("%d peers for the names %q", len(endpoints), names)
	}
	return endpoints
}

// httpServer answers our greeting as net/http does.
func httpServer(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // it waits for a line that never ends
	_, _ = http.ReadRequest(bufio.NewReader(conn))
	_, _ = fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")
}

func TestHostilePeers(t *testing.T) {
	for _, peer := range hostilePeers() {
		t.Run(peer.name, func(t *testing.T) {
			t.Parallel()
			var got collected
			s := start(t, Options{Sink: got.sink, Timing: impatient()}, serve(t, peer.play))
			await(t, "two failures", func() bool { return s.State()[0].Failures >= 2 })
			st := s.State()[0]
			if st.LastReason != peer.reason || st.LastError == "" {
				t.Errorf("ended for %q (%s), want %q", st.LastReason, st.LastError, peer.reason)
			}
			for _, d := range got.list() {
				if d.Rejected == nil {
					t.Errorf("delivered a record: %+v", d.Record)
				}
			}
		})
	}
}

// TestHostileBesideGood lets every hostile peer run beside a publisher: its records all arrive, and neither goroutines
// nor memory grow with the number of attempts.
func TestHostileBesideGood(t *testing.T) {
	const records = 2000
	release := make(chan struct{})
	good := serve(t, func(conn net.Conn) {
		if !handshake(conn, "PUB") {
			return
		}
		go drain(conn, true)
		for seq := range uint64(records) {
			if seq == records/2 {
				<-release
			}
			send(t, conn, seq)
		}
		hold(conn)
	})
	var addresses []string
	for _, peer := range hostilePeers() {
		addresses = append(addresses, serve(t, peer.play))
	}
	var got, junk collected
	start(t, Options{Sink: got.sink}, good)
	s := start(t, Options{Sink: func(d *fpm.Delivery) {
		if d.Rejected == nil {
			junk.sink(d)
		}
	}, Timing: impatient()}, addresses...)

	attempts := func() uint64 {
		fewest := ^uint64(0)
		for _, st := range s.State() {
			fewest = min(fewest, st.Failures)
		}
		return fewest
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	await(t, "first attempts", func() bool { return attempts() >= 2 })
	goroutines, before := runtime.NumGoroutine(), heap()
	await(t, "many attempts", func() bool { return attempts() >= 4 })
	// Peers hold some goroutines each at any moment; growth with the attempts would be hundreds.
	if now := runtime.NumGoroutine(); now > goroutines+100 {
		t.Errorf("%d goroutines grew to %d", goroutines, now)
	}
	if now := heap(); now > before+32<<20 {
		t.Errorf("heap of %d bytes grew to %d", before, now)
	}
	if n := len(junk.list()); n != 0 {
		t.Errorf("%d records from peers that have none", n)
	}
	close(release)
	await(t, "all records", func() bool { return len(got.list()) == records })
	for i, d := range got.list() {
		if d.Rejected != nil || d.Lost != 0 || d.Restarted || d.Record.CounterID != uint64(i) {
			t.Fatalf("delivery %d: %+v", i, d)
		}
	}
}
