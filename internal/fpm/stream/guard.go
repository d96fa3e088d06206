package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Flags of a ZMTP frame (RFC 23).
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
)

// greetingSize is the length of ZMTP 3's greeting, which begins with signature.
const (
	greetingSize = 64
	signature    = 0xff
)

// ping is ZMTP 3.1's PING command with a time to live of zero: the publisher shall answer, but not watch us in turn.
// libzmq's publishers answer since 4.2, without any option.
const ping = "\x04\x07\x04PING\x00\x00"

// minWait is granted to every read. With a deadline that has passed, a read fails even if bytes are waiting, and this
// process may have been stopped for longer than any deadline.
const minWait = 50 * time.Millisecond

type phase uint8

const (
	phaseGreeting phase = iota
	phaseReady
	phaseTraffic
)

// guard is the connection that zmq4 works on. It reads the frame headers as they pass and ends the connection before
// zmq4 sees a frame that it would trust wrongly, gives every read and write a deadline, pings a silent peer and gives
// up a dead one. One goroutine reads; after the handshake the same one writes, so that a ping and the library's answer
// to the peer's ping cannot interleave.
type guard struct {
	net.Conn
	timing Timing
	in     *bufio.Reader
	err    error // the first fault; everything fails with it from then on

	phase    phase
	greeting int    // bytes of the peer's greeting passed on
	sent     int    // bytes written to the peer
	held     []byte // our READY, kept back until the peer proved to be a publisher
	ready    []byte // what is still to be read of the READY that stands for the peer's

	header    [9]byte
	headerLen int
	body      uint64 // bytes of the current frame still to pass
	more      bool   // the current frame is not its message's last
	parts     int

	readAt   time.Time // when bytes last came
	pingedAt time.Time // when the last ping was sent
	progress time.Time // when the last whole frame came
}

func newGuard(conn net.Conn, timing Timing) *guard {
	now := time.Now()
	g := &guard{Conn: conn, timing: timing, readAt: now, progress: now}
	g.in = bufio.NewReaderSize(source{g}, readBuffer)
	return g
}

// Read implements io.Reader. It never returns bytes together with an error, and no bytes of a chunk that breaks a
// limit: zmq4 would act on them.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.read(p)
	if err != nil {
		g.err = err
		return 0, err
	}
	return n, nil
}

func (g *guard) read(p []byte) (int, error) {
	switch g.phase {
	case phaseGreeting:
		first, err := g.in.Peek(1)
		if err != nil {
			return 0, err
		}
		if g.greeting == 0 && first[0] != signature {
			return 0, fault(ReasonHandshake, "the peer does not speak ZMTP, it begins with %.16q", g.buffered())
		}
		n, err := g.in.Read(p[:min(len(p), greetingSize-g.greeting)])
		g.greeting += n
		if g.greeting == greetingSize {
			g.phase = phaseReady
		}
		return n, err
	case phaseReady:
		kind, err := g.readReady()
		if err != nil {
			return 0, err
		}
		g.ready = readyFrame(kind)
		g.phase = phaseTraffic
		g.readAt = time.Now()
		g.progress = g.readAt
		if _, err := g.write(g.held); err != nil {
			return 0, err
		}
		g.held = nil
	}
	if len(g.ready) > 0 {
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	}
	n, err := g.in.Read(p)
	if err != nil {
		return 0, err
	}
	return n, g.scan(p[:n])
}

// Write implements io.Writer. Our READY waits until the peer's has shown a publisher: others are left alone, such as
// the ROUTER with which Dynamo's self-benchmark synchronises its ranks one port above the last of them.
func (g *guard) Write(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	if g.phase != phaseTraffic && g.sent >= greetingSize {
		if len(g.held)+len(p) > maxCommand {
			return 0, fault(ReasonProtocol, "more than %d bytes to write before the handshake", maxCommand)
		}
		g.held = append(g.held, p...)
		return len(p), nil
	}
	return g.write(p)
}

func (g *guard) write(p []byte) (int, error) {
	if g.err = g.SetWriteDeadline(time.Now().Add(g.timing.Write)); g.err != nil {
		g.err = fault(ReasonClosed, "%w", g.err)
		return 0, g.err
	}
	n, err := g.Conn.Write(p)
	g.sent += n
	if err != nil {
		g.err = fault(ReasonWrite, "%w", err)
	}
	return n, g.err
}

// buffered returns what is there to be shown in an error.
func (g *guard) buffered() []byte {
	b, _ := g.in.Peek(g.in.Buffered())
	return b
}

// scan follows the frames through p and returns a fault at the first header that breaks a limit.
func (g *guard) scan(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(g.body, uint64(len(p)))
			p = p[n:]
			g.body -= n
			if g.body == 0 {
				g.frameDone()
			}
			continue
		}
		need := 2
		if g.headerLen > 0 && g.header[0]&flagLong != 0 {
			need = 9
		}
		g.header[g.headerLen] = p[0]
		g.headerLen++
		p = p[1:]
		if g.headerLen == 1 || g.headerLen < need {
			continue
		}
		g.headerLen = 0
		size := uint64(g.header[1])
		if g.header[0]&flagLong != 0 {
			size = binary.BigEndian.Uint64(g.header[1:])
		}
		if err := g.frame(g.header[0], size); err != nil {
			return err
		}
	}
	return nil
}

// frame judges the header of a frame.
func (g *guard) frame(flags byte, size uint64) error {
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return fault(ReasonProtocol, "frame with reserved flags 0x%02x", flags)
	}
	limit := uint64(maxFrame)
	if flags&flagCommand != 0 {
		limit = maxCommand
		if flags&flagMore != 0 || g.parts > 0 || size == 0 {
			return fault(ReasonProtocol, "command that is empty, in parts or within a message")
		}
	} else if g.parts++; g.parts > maxParts {
		return fault(ReasonTooManyParts, "message of more than %d frames", maxParts)
	}
	if size > limit {
		return fault(ReasonOversized, "frame of %d bytes, at most %d", size, limit)
	}
	g.body, g.more = size, flags&flagMore != 0
	if size == 0 {
		g.frameDone()
	}
	return nil
}

func (g *guard) frameDone() {
	g.progress = g.readAt
	if !g.more {
		g.parts = 0
	}
}

// readReady reads the peer's first command and returns its socket type. The library does not get to see it but one of
// our making: of a malformed one it reads properties beyond the end, and it panics at an unknown socket type or a
// property name in other capitals than it expects.
func (g *guard) readReady() (kind string, err error) {
	head, err := g.in.Peek(2)
	if err != nil {
		return "", err
	}
	start, size := 2, uint64(head[1])
	if head[0]&flagLong != 0 {
		if head, err = g.in.Peek(9); err != nil {
			return "", err
		}
		start, size = 9, binary.BigEndian.Uint64(head[1:])
	}
	if head[0]&^flagLong != flagCommand || size == 0 {
		return "", fault(ReasonHandshake, "the peer sent no command after its greeting")
	}
	if size > maxCommand {
		return "", fault(ReasonOversized, "first command of %d bytes, at most %d", size, maxCommand)
	}
	command, err := g.in.Peek(start + int(size))
	if err != nil {
		return "", err
	}
	properties, err := parseReady(command[start:])
	if err != nil {
		return "", err
	}
	kind = properties[socketType]
	if kind != "PUB" && kind != "XPUB" {
		return "", fault(ReasonSocketType, "the peer is a %.16q socket, not a publisher; does the port belong to another service?", kind)
	}
	_, err = g.in.Discard(start + int(size))
	return kind, err
}

// source is the connection below the guard's buffer: each read has a deadline.
type source struct{ g *guard }

func (s source) Read(p []byte) (int, error) {
	g := s.g
	for {
		limit := g.progress.Add(g.timing.Handshake)
		wait := limit
		if g.phase == phaseTraffic {
			limit = g.progress.Add(g.timing.Idle)
			wait = g.readAt.Add(g.timing.Ping)
			if g.pingedAt.After(g.readAt) {
				wait = g.pingedAt.Add(g.timing.Ping)
			}
			if wait.After(limit) {
				wait = limit
			}
		}
		if !g.readAt.Before(limit) {
			return 0, g.timedOut() // bytes came, too late and still no whole frame
		}
		now := time.Now()
		if soonest := now.Add(minWait); wait.Before(soonest) {
			wait = soonest
		}
		if err := g.SetReadDeadline(wait); err != nil {
			return 0, fault(ReasonClosed, "%w", err)
		}
		n, err := g.Conn.Read(p)
		now = time.Now()
		if n > 0 {
			g.readAt = now
			return n, nil // a fault, if any, comes again with the next read
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return 0, fault(ReasonClosed, "the peer closed the connection: %w", err)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, fault(ReasonRead, "%w", err)
		}
		if !now.Before(limit) {
			return 0, g.timedOut()
		}
		if _, err := g.write([]byte(ping)); err != nil {
			return 0, err
		}
		g.pingedAt = now
	}
}

func (g *guard) timedOut() error {
	if g.phase != phaseTraffic {
		return fault(ReasonHandshakeTimeout, "no ZMTP handshake within %v", g.timing.Handshake)
	}
	return fault(ReasonIdle, "not one whole frame within %v, pings included", g.timing.Idle)
}

func fault(reason Reason, format string, args ...any) *connError {
	return &connError{reason: reason, err: fmt.Errorf(format, args...)}
}
