package stream

import "time"

// What a peer may send. A forward-pass record is 411 to some 500 bytes in three frames, 10 to 200 times a second.
const (
	// maxFrame bounds one ZMTP frame in bytes. The library allocates what a frame's header announces, up to 2^63.
	maxFrame = 64 << 10
	// maxParts bounds the frames of one message; a record has three.
	maxParts = 8
	// maxCommand bounds a ZMTP command: READY with a few properties, PING, PONG.
	maxCommand = 4 << 10
	// maxJunk is how many commands and refused messages a connection may carry within a second, fifty times what the
	// fastest scheduler publishes. A peer beyond it floods, and goes to the back of the queue: see Timing.BackoffMax.
	maxJunk = 10_000
	// readBuffer holds over a hundred records, so that a burst costs few system calls. libzmq drops what a subscriber
	// is too slow to take after a thousand messages.
	readBuffer = 64 << 10
)

// Timing holds every wait of a connection.
type Timing struct {
	// Dial and Handshake bound the time to connect and to agree on ZMTP. The library's own handshake waits for ever.
	Dial, Handshake time.Duration
	// Write bounds one write; the subscriber only ever writes a few bytes.
	Write time.Duration
	// Ping is the silence after which the peer is pinged. Publishers send heartbeats every second, but are paused
	// while they benchmark themselves, and a peer that lost power sends nothing at all: only an answer tells.
	Ping time.Duration
	// Idle is the time without one whole frame after which the connection is given up.
	Idle time.Duration
	// BackoffMin is the wait before the first new attempt. It grows by half up to BackoffMax with each failure, is
	// shortened by up to half at random, and starts over once a record came. What a publisher sends in that time
	// after a restart is missed, so it grows slowly and not far; an attempt that is refused costs two packets.
	BackoffMin, BackoffMax time.Duration
}

// DefaultTiming returns the waits for publishers on a network.
func DefaultTiming() Timing {
	return Timing{
		Dial: 3 * time.Second, Handshake: 3 * time.Second, Write: 3 * time.Second,
		Ping: 5 * time.Second, Idle: 15 * time.Second,
		BackoffMin: 250 * time.Millisecond, BackoffMax: 5 * time.Second,
	}
}
