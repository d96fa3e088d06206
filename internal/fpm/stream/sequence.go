package stream

import "bytes"

// maxGap is the largest jump of a sequence number that counts as loss. At 200 records a second it is eight months of
// them; beyond, somebody else is counting.
const maxGap = 1 << 32

// sequence follows the numbers of one endpoint's messages. Each publisher counts from 0 and stamps every message, sent
// or dropped, so that a jump is loss and a step back is a new publisher. It outlives connections.
type sequence struct {
	started bool
	last    uint64
	worker  string
	payload []byte // of the last message, to tell a duplicate from a restart
	fresh   bool   // no message yet on this connection
}

// step is what a message's number says.
type step struct {
	lost      uint64
	restarted bool
	duplicate bool
}

// reconnected tells that the next message comes from a new connection, over which nothing is sent twice.
func (s *sequence) reconnected() { s.fresh = true }

// next takes the next message's number, the worker id when its payload gave one, and the payload.
func (s *sequence) next(seq uint64, worker string, payload []byte) step {
	var out step
	// A new worker id is a new process that has counted from 0, even if it is past the old one's number by now.
	otherWorker := worker != "" && s.worker != "" && worker != s.worker
	switch {
	case !s.started:
	case otherWorker:
		out.restarted = true
	case seq > s.last && seq-s.last <= maxGap:
		out.lost = seq - s.last - 1
	case seq == s.last && !s.fresh && bytes.Equal(payload, s.payload):
		out.duplicate = true
	default:
		out.restarted = true
	}
	s.started, s.fresh, s.last = true, false, seq
	if worker != "" {
		s.worker = worker
	}
	s.payload = append(s.payload[:0], payload...)
	return out
}
