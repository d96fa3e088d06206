package stream

import (
	"errors"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// Reason is why a connection ended or could not be made, from a closed set.
type Reason string

// The reasons.
const (
	ReasonNone             Reason = ""
	ReasonDial             Reason = "dial"              // refused, unreachable, no such host or path
	ReasonDialTimeout      Reason = "dial_timeout"      // no answer to the attempt
	ReasonHandshake        Reason = "handshake"         // the peer does not speak ZMTP 3 with the NULL mechanism
	ReasonHandshakeTimeout Reason = "handshake_timeout" // the peer accepts and says nothing
	ReasonSocketType       Reason = "wrong_socket_type" // the peer is no PUB or XPUB
	ReasonOversized        Reason = "oversized_frame"
	ReasonTooManyParts     Reason = "too_many_parts"
	ReasonProtocol         Reason = "protocol" // ZMTP broken after the handshake
	ReasonFlood            Reason = "flood"    // more commands and refused messages than any publisher sends
	ReasonIdle             Reason = "idle"     // silent, and pings go unanswered
	ReasonClosed           Reason = "closed"   // the peer ended the connection
	ReasonWrite            Reason = "write"
	ReasonRead             Reason = "read"
	ReasonPanic            Reason = "panic" // a fault of ours or of the ZMTP library
)

// Phase is what an endpoint's connection is doing.
type Phase string

// The phases.
const (
	PhaseConnecting Phase = "connecting"
	PhaseConnected  Phase = "connected"
	PhaseWaiting    Phase = "waiting" // for the next attempt
)

// EndpointState is a snapshot of one endpoint.
type EndpointState struct {
	Endpoint Endpoint
	Phase    Phase
	// Since is when the phase began.
	Since time.Time
	// Reconnects counts the connections made after the first.
	Reconnects uint64
	// Failures counts the attempts and connections that ended, other than by our own wish.
	Failures uint64
	// LastReason and LastError say how the last of them ended; ReasonNone and "" before that.
	LastReason Reason
	LastError  string
	// Messages counts what arrived, refused or not; LastMessage is when the last one did.
	Messages    uint64
	LastMessage time.Time
	// WorkerID and Rank are what the last record said, "" and fpm.UnknownRank before that.
	WorkerID string
	Rank     int
}

// Connected reports whether a subscribed connection stands.
func (s *EndpointState) Connected() bool { return s.Phase == PhaseConnected }

// connError is an error with a reason from the closed set.
type connError struct {
	reason Reason
	err    error
}

func (e *connError) Error() string { return e.err.Error() }

func (e *connError) Unwrap() error { return e.err }

// reasonOf sorts an error of a connection.
func reasonOf(err error) Reason {
	if ce, ok := errors.AsType[*connError](err); ok {
		return ce.reason
	}
	return ReasonProtocol
}

// origin returns what deliveries of the endpoint carry.
func (e Endpoint) origin() *fpm.Origin {
	return &fpm.Origin{Name: e.Address, Rank: e.Rank, Labels: e.Labels}
}
