package simulator

import (
	"strconv"
	"time"
)

// Sizes and speeds of the edges between stages.
const (
	hiddenStateBytes = 8192 // a text token's hidden state, which is what the first stage passes on
	codecTokenBytes  = 64   // a codec token's code books
	edgeBandwidth    = 2e9  // bytes per second
	hungRetry        = 250 * time.Millisecond
)

// transfer is one chunk on its way from one engine to another.
type transfer struct {
	request  *request
	from, to *engine
	bytes    int
	share    float64 // of the request's input that has been sent with it and before it
	sentAt   time.Duration
}

// send starts a transfer of so many tokens to the next stage, to the replica that the request is bound to.
func (p *Pipeline) send(j *job, tokens int, share float64) {
	r, from := j.request, j.engine
	if r.done {
		return
	}
	to := r.route[from.stage+1]
	if to == nil {
		to = p.pick(from.stage + 1)
		r.route[from.stage+1] = to
	}
	if to == nil || to.dead {
		p.fail(r)
		return
	}
	t := transfer{request: r, from: from, to: to, bytes: tokens * codecTokenBytes, share: share}
	if from.stage == 0 {
		t.bytes = tokens * hiddenStateBytes
		if j.sent == 0 {
			t.bytes += r.prompt * hiddenStateBytes
		}
	}
	tx := seconds((0.0006 + float64(t.bytes)/edgeBandwidth) * p.jitter(0.4))
	p.after(tx, func() { p.sent(t, tx) })
}

func (p *Pipeline) sent(t transfer, tx time.Duration) {
	if t.request.done {
		return
	}
	t.sentAt = p.now
	p.emit(t.event(Event{Type: TransferTx, SizeBytes: t.bytes, TxMillis: millis(tx)}, p.options.Model))
	flight := 0.0008 * p.jitter(0.8)
	if p.faults[SlowEdge] && p.slowEdge(t.from, t.to) {
		flight += slowEdgeDelay * p.jitter(0.4)
	}
	p.after(seconds(flight), func() { p.receive(t) })
}

func (p *Pipeline) receive(t transfer) {
	switch {
	case t.request.done:
	case t.to.dead:
		p.fail(t.request)
	case t.to.hung: // nobody picks it up
		p.after(hungRetry, func() { p.receive(t) })
	default:
		flight := p.now - t.sentAt
		rx := seconds((0.0004 + float64(t.bytes)/edgeBandwidth) * p.jitter(0.4))
		p.after(rx, func() { p.received(t, rx, flight) })
	}
}

func (p *Pipeline) received(t transfer, rx, flight time.Duration) {
	if t.request.done {
		return
	}
	if t.to.dead {
		p.fail(t.request)
		return
	}
	p.emit(t.event(Event{Type: TransferRx, RxMillis: millis(rx), InFlightMillis: millis(flight)}, p.options.Model))
	t.to.accept(t.request, t.share)
}

// event adds the edge to an event of the transfer.
func (t transfer) event(e Event, model string) Event {
	e.ModelName = model
	e.FromStage, e.FromReplica = strconv.Itoa(t.from.stage), strconv.Itoa(t.from.replica)
	e.ToStage, e.ToReplica = strconv.Itoa(t.to.stage), strconv.Itoa(t.to.replica)
	return e
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
