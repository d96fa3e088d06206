package fpm

import (
	"fmt"
	"time"
)

// Reason is why a record was refused, from a closed set so that it can be a label value.
type Reason string

// The reasons for refusing a record.
const (
	// ReasonMalformed: the payload is not the MessagePack map that a record is.
	ReasonMalformed Reason = "malformed"
	// ReasonVersion: the schema version is unknown.
	ReasonVersion Reason = "unsupported_version"
	// ReasonValue: a value is negative, not finite, not integral or beyond belief.
	ReasonValue Reason = "invalid_value"
	// ReasonLimit: the payload, a text, a map or the nesting is larger than any record's.
	ReasonLimit Reason = "limit"
	// ReasonFraming: the ZMQ message is not an empty topic, an 8-byte sequence number and a payload.
	ReasonFraming Reason = "framing"
	// ReasonDuplicate: the same message came twice in a row.
	ReasonDuplicate Reason = "duplicate"
	// ReasonIdentityLimit: the record's worker, rank or timing scope would exceed the number of series kept.
	ReasonIdentityLimit Reason = "identity_limit"
)

// Reasons returns every reason, in stable order.
func Reasons() []Reason {
	return []Reason{
		ReasonDuplicate, ReasonFraming, ReasonIdentityLimit, ReasonValue, ReasonLimit, ReasonMalformed, ReasonVersion,
	}
}

// RejectError says why and where a record was refused.
type RejectError struct {
	Reason Reason
	// Field is the dotted name of the offending field, "" when the fault is not in one field.
	Field  string
	Detail string
}

// Error implements error.
func (e *RejectError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("forward-pass record refused (%s): %s", e.Reason, e.Detail)
	}
	return fmt.Sprintf("forward-pass record refused (%s): %s: %s", e.Reason, e.Field, e.Detail)
}

func rejectf(reason Reason, field, format string, args ...any) *RejectError {
	return &RejectError{Reason: reason, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Labels place an origin in the deployment. Empty ones are unknown and not shown.
type Labels struct {
	Namespace string // dynamo_namespace
	Component string // dynamo_component
	Stage     string
	Replica   string
	Pipeline  string
}

// UnknownRank is the rank of an origin that does not tell which data-parallel rank to expect.
const UnknownRank = -1

// Origin is where records come from: a rank's endpoint, or a trace file. It is comparable.
type Origin struct {
	// Name is the endpoint's address or the file's path. It stands in for the worker id of records without one.
	Name string
	// Rank is the data-parallel rank to be expected there, or UnknownRank.
	Rank   int
	Labels Labels
}

// Capture says what of a publisher's records an origin delivers.
type Capture uint8

// The kinds of capture. In a sampled trace most records are left out on purpose: what is missing is no loss, and sums
// are not those of all passes.
const (
	CaptureStream  Capture = iota // the publisher itself
	CaptureFull                   // a trace of every record
	CaptureSampled                // a trace of some
)

// String returns the name of the kind; for traces it is that of the rows' capture_mode.
func (c Capture) String() string {
	switch c {
	case CaptureFull:
		return "full"
	case CaptureSampled:
		return "sampled"
	default:
		return "stream"
	}
}

// Delivery is one message from an origin: a record, or the reason why there is none.
type Delivery struct {
	Origin  *Origin
	Capture Capture
	// Received is when the message arrived, or for traces when it was first observed.
	Received time.Time
	// Record is valid while Rejected is nil.
	Record Record
	// Rejected says why the message holds no usable record; nil when it does.
	Rejected *RejectError
	// Lost counts the records missing between the origin's previous message and this one.
	Lost uint64
	// Restarted: the publisher began to count anew with this message.
	Restarted bool
}

// Sink takes deliveries. It is called from many goroutines, must not block, and must not keep the pointer.
type Sink func(*Delivery)
