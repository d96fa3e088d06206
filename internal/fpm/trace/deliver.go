package trace

import (
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// maxSequences bounds the ranks whose counters are compared from row to row. Of ranks that come beyond it the longest
// silent are forgotten, and with them what would have shown as a gap.
const maxSequences = 16_384

// Deliverer turns the rows of traces into deliveries. It must not be used by two goroutines at once.
type Deliverer struct {
	sink      fpm.Sink
	now       func() time.Time
	sequences map[sequenceKey]*sequence
	delivery  fpm.Delivery
}

// sequenceKey is what numbers its records by itself.
type sequenceKey struct {
	series, namespace, component, worker string
	rank                                 uint64
	capture                              fpm.Capture
}

type sequence struct {
	origin fpm.Origin
	last   fpm.Record
	used   time.Time
}

// NewDeliverer returns one that hands deliveries to sink.
func NewDeliverer(sink fpm.Sink) *Deliverer {
	return &Deliverer{sink: sink, now: time.Now, sequences: make(map[sequenceKey]*sequence)}
}

// Row is a RowFunc. It refuses a row that repeats the one before. A counter that skips numbers tells of loss in a full
// trace; in a sampled one it is what sampling means ("Record Schema" of Dynamo's FPM reference).
func (d *Deliverer) Row(r *Row) *fpm.RejectError {
	now := d.now()
	key := sequenceKey{r.Series, r.Namespace, r.Component, r.Record.WorkerID, r.Record.DPRank, r.Capture}
	s := d.sequences[key]
	first := s == nil
	if first {
		d.makeRoom()
		s = &sequence{origin: fpm.Origin{
			// One origin for each rank: what is lost is told by a rank's own counter.
			Name: r.Series, Rank: int(r.Record.DPRank), Labels: fpm.Labels{Namespace: r.Namespace, Component: r.Component},
		}}
		d.sequences[key] = s
	}
	out := &d.delivery
	*out = fpm.Delivery{Origin: &s.origin, Capture: r.Capture, Received: r.Observed, Record: r.Record}
	if out.Received.After(now) { // by another clock; it must not keep the rank up after its end
		out.Received = now
	}
	if !first {
		switch last, next := s.last.CounterID, r.Record.CounterID; {
		case next == last && s.last == r.Record:
			return reject(fpm.ReasonDuplicate, "counter_id", "%d comes twice", next)
		case next <= last:
			out.Restarted = true
		case r.Capture == fpm.CaptureFull:
			out.Lost = next - last - 1
		}
	}
	s.last, s.used = r.Record, now
	d.sink(out)
	return nil
}

// makeRoom forgets the longest silent half when there are too many.
func (d *Deliverer) makeRoom() {
	if len(d.sequences) < maxSequences {
		return
	}
	var oldest, newest time.Time
	for _, s := range d.sequences {
		if oldest.IsZero() || s.used.Before(oldest) {
			oldest = s.used
		}
		if s.used.After(newest) {
			newest = s.used
		}
	}
	middle := oldest.Add(newest.Sub(oldest) / 2)
	for key, s := range d.sequences {
		if !s.used.After(middle) {
			delete(d.sequences, key)
		}
	}
}
