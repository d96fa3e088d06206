package trace

import (
	"slices"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// take handles a record from the queue.
func (w *Writer) take(e entry) {
	if off := w.off.Load(); off != nil {
		w.drop(dropReasonOf(*off), 1)
		return
	}
	if w.settings.Mode == fpm.CaptureFull {
		w.write(&e)
		return
	}
	key := sampleKey{e.labels.Namespace, e.labels.Component, e.producer, e.record.WorkerID, e.record.DPRank}
	s := w.sampled[key]
	if s == nil {
		if len(w.sampled) >= maxSampled {
			w.limit()
			return
		}
		s = &sample{}
		w.sampled[key] = s
	}
	if s.pending {
		w.captured.replaced.Add(1)
	}
	s.latest, s.used = e, time.Now()
	s.pending = !s.ever || s.written != e.record.CounterID
}

// limit drops a record of one producer or rank too many.
func (w *Writer) limit() {
	w.drop(DropLimit, 1)
	if !w.limited {
		w.limited = true
		w.log.Warn("More producers or ranks than are traced, records of the others are dropped", "producers", maxProducers, "sampled_ranks", maxSampled)
	}
}

// writeSamples writes each rank whose counter changed, in a stable order.
func (w *Writer) writeSamples() {
	var pending []*sample
	for _, s := range w.sampled {
		if s.pending {
			pending = append(pending, s)
		}
	}
	slices.SortFunc(pending, func(a, b *sample) int { return a.latest.received.Compare(b.latest.received) })
	for _, s := range pending {
		if !s.pending {
			continue // an earlier one ended tracing
		}
		s.pending, s.ever, s.written = false, true, s.latest.record.CounterID
		w.write(&s.latest)
	}
}

// write adds a record to its producer's buffer, and rolls and flushes as it takes.
func (w *Writer) write(e *entry) {
	name := Sanitize(e.producer) // raw ids that share a name share its files
	s := w.producers[name]
	if s == nil {
		if len(w.producers) >= maxProducers {
			w.limit()
			return
		}
		var err error
		if s, err = openSegments(w.prefix, e.producer); err != nil {
			w.drop(DropOff, 1)
			w.fail(err)
			return
		}
		w.producers[name] = s
	}
	row := Row{
		Elapsed: time.Since(w.started), Namespace: e.labels.Namespace, Component: e.labels.Component,
		Producer: e.producer, Capture: w.settings.Mode, Observed: e.received, Record: e.record,
	}
	w.row = row.AppendJSON(w.row[:0])
	if s.rollsBefore(len(w.row), w.settings.RollBytes) {
		if !w.flush(s) {
			w.drop(DropOff, 1)
			return
		}
		s.roll()
	}
	s.buffer = append(s.buffer, w.row...)
	s.rows++
	s.lastUsed = time.Now()
	if len(s.buffer) >= flushBytes {
		w.flush(s)
	}
}

// flush writes a producer's buffer to its segment, and deletes segments beyond those kept. It reports whether tracing
// goes on.
func (w *Writer) flush(s *segments) bool {
	rows, size := s.rows, len(s.buffer)
	created, grown, err := s.flush(w.zip)
	if err != nil {
		w.fail(err)
		return false
	}
	if rows > 0 {
		w.captured.rows.Add(uint64(rows))
		w.captured.rowBytes.Add(uint64(size))
		w.captured.fileBytes.Add(uint64(grown))
		w.captured.members.Add(1)
	}
	if created {
		w.prune(s)
	}
	return true
}

func (w *Writer) prune(s *segments) {
	removed, err := s.prune(w.settings.MaxSegments)
	w.captured.removed.Add(uint64(removed))
	if err != nil && !w.pruneFail {
		w.log.Warn("Old segments of a forward-pass trace cannot be deleted", "output_path", w.prefix, "err", err)
	}
	w.pruneFail = err != nil
}

// flushAll ends a member of every producer that has anything buffered.
func (w *Writer) flushAll() {
	for _, s := range w.producers {
		if len(s.buffer) > 0 && !w.flush(s) {
			return
		}
	}
}

// forget drops what is kept of producers and ranks that have been silent for long.
func (w *Writer) forget() {
	limit := time.Now().Add(-forgetAfter)
	for name, s := range w.producers {
		if len(s.buffer) == 0 && s.lastUsed.Before(limit) {
			delete(w.producers, name)
		}
	}
	for key, s := range w.sampled {
		if !s.pending && s.used.Before(limit) {
			delete(w.sampled, key)
		}
	}
}
