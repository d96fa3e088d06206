package trace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// OffReason is why tracing is off, from a closed set.
type OffReason string

// The reasons for tracing to be off.
const (
	OffNone      OffReason = ""                // it is on, or nobody asked for it
	OffSettings  OffReason = "invalid_setting" // of the environment
	OffPath      OffReason = "unwritable_path" // at the start
	OffFull      OffReason = "no_space"
	OffReadOnly  OffReason = "read_only"
	OffWriteFail OffReason = "write_error"
)

// OffReasons returns every reason but OffNone, in stable order.
func OffReasons() []OffReason {
	return []OffReason{OffSettings, OffFull, OffReadOnly, OffPath, OffWriteFail}
}

// DropReason is why a record did not reach a trace file, from a closed set.
type DropReason string

// The reasons for dropping records.
const (
	DropQueue  DropReason = "queue_full" // the disk is slower than the streams
	DropOff    DropReason = "off"        // tracing ended with an error, buffered records included
	DropLimit  DropReason = "limit"      // too many producers or ranks
	DropClosed DropReason = "closed"     // came during the shutdown
)

// DropReasons returns every reason, in stable order.
func DropReasons() []DropReason { return []DropReason{DropClosed, DropLimit, DropOff, DropQueue} }

// Captured counts what writers did. It outlives them, and is safe for concurrent use.
type Captured struct {
	rows, rowBytes, fileBytes, members, removed, replaced atomic.Uint64
	dropped                                               map[DropReason]*atomic.Uint64
}

// NewCaptured returns counts of zero.
func NewCaptured() *Captured {
	c := &Captured{dropped: make(map[DropReason]*atomic.Uint64)}
	for _, reason := range DropReasons() {
		c.dropped[reason] = new(atomic.Uint64)
	}
	return c
}

// Rows returns how many rows are in files.
func (c *Captured) Rows() uint64 { return c.rows.Load() }

// RowBytes returns how many bytes these rows have, uncompressed.
func (c *Captured) RowBytes() uint64 { return c.rowBytes.Load() }

// FileBytes returns how many bytes the files grew by.
func (c *Captured) FileBytes() uint64 { return c.fileBytes.Load() }

// Removed returns how many segments were deleted because there were too many.
func (c *Captured) Removed() uint64 { return c.removed.Load() }

// Replaced returns how many records gave way to a later one of the same rank, which is what sampling means.
func (c *Captured) Replaced() uint64 { return c.replaced.Load() }

// Dropped returns how many records were dropped for a reason of DropReasons.
func (c *Captured) Dropped(reason DropReason) uint64 { return c.dropped[reason].Load() }

const (
	// queueLength is how many records wait for the writer: a third of a second of 256 ranks at 100 records a second.
	queueLength = 8192
	// flushInterval is how often a member is ended that holds anything ("Capture Modes" of Dynamo's FPM reference).
	flushInterval = time.Second
	// maxProducers bounds the series of files that are written at a time, and maxSampled the ranks that are sampled.
	maxProducers = 4096
	maxSampled   = 16_384
	// forgetAfter is how long a silent producer's place is kept. Its files stay.
	forgetAfter = 10 * time.Minute
)

// WriterOptions configure a Writer.
type WriterOptions struct {
	Settings
	// Captured counts what is written; nil for counts of the writer's own.
	Captured *Captured
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Writer writes records to trace files, one series of segments for each producer: the record's worker id, or where it
// has none the name of its origin. Recording never waits.
type Writer struct {
	settings Settings
	prefix   string
	captured *Captured
	log      *slog.Logger
	queue    chan entry
	stop     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	off      atomic.Pointer[OffReason]

	// Owned by the goroutine.
	started   time.Time
	zip       *compressor
	producers map[string]*segments
	sampled   map[sampleKey]*sample
	row       []byte
	pruneFail bool // whether the last attempt to delete old segments failed
	limited   bool // whether it was logged that there are too many producers or ranks
}

// entry is a record in the queue.
type entry struct {
	record   fpm.Record
	received time.Time
	labels   fpm.Labels
	producer string
}

type sampleKey struct {
	namespace, component, producer, worker string
	rank                                   uint64
}

// sample is what is known of a rank in mode sampled.
type sample struct {
	latest  entry
	pending bool
	written uint64 // counter of the last row
	ever    bool
	used    time.Time
}

// NewWriter starts a writer, once it has made sure that files can be made. A *StartError says why there is none.
func NewWriter(o WriterOptions) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, &StartError{Reason: OffSettings, Err: err}
	}
	w := &Writer{
		settings: o.Settings, prefix: TrimOutputPath(o.OutputPath), captured: o.Captured, log: o.Logger,
		queue: make(chan entry, queueLength), stop: make(chan struct{}), done: make(chan struct{}),
		started: time.Now(), zip: newCompressor(), producers: make(map[string]*segments), sampled: make(map[sampleKey]*sample),
	}
	if w.captured == nil {
		w.captured = NewCaptured()
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	if err := probe(w.prefix); err != nil {
		return nil, &StartError{Reason: OffPath, Err: err}
	}
	go w.run()
	return w, nil
}

// StartError is why tracing cannot start.
type StartError struct {
	Reason OffReason
	Err    error
}

// Error implements error.
func (e *StartError) Error() string { return fmt.Sprintf("forward-pass tracing: %v", e.Err) }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Record writes a record, now or at the next sample. It is an fpm.Sink that never blocks; deliveries without a record
// are passed over.
func (w *Writer) Record(d *fpm.Delivery) {
	if d.Rejected != nil {
		return
	}
	if off := w.off.Load(); off != nil {
		w.drop(dropReasonOf(*off), 1)
		return
	}
	e := entry{record: d.Record, received: d.Received, labels: d.Origin.Labels, producer: d.Record.WorkerID}
	if e.producer == "" {
		e.producer = d.Origin.Name
	}
	select {
	case w.queue <- e:
	default:
		w.drop(DropQueue, 1)
	}
}

// Off returns why tracing ended, OffNone while it goes on.
func (w *Writer) Off() OffReason {
	if reason := w.off.Load(); reason != nil {
		return *reason
	}
	return OffNone
}

// Queued returns how many records wait for the writer.
func (w *Writer) Queued() int { return len(w.queue) }

// Close writes what was recorded before and ends the writer, or gives up waiting for the disk when ctx ends. What is
// recorded afterwards is dropped.
func (w *Writer) Close(ctx context.Context) error {
	w.stopOnce.Do(func() { close(w.stop) })
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write the rest of the trace: %w", ctx.Err())
	}
}

func (w *Writer) drop(reason DropReason, n int) { w.captured.dropped[reason].Add(uint64(n)) }

func (w *Writer) run() {
	defer close(w.done)
	flush := time.NewTicker(flushInterval)
	defer flush.Stop()
	var samples <-chan time.Time
	if w.settings.Mode == fpm.CaptureSampled {
		ticker := time.NewTicker(w.settings.SampleInterval)
		defer ticker.Stop()
		samples = ticker.C
	}
	for {
		select {
		case e := <-w.queue:
			w.take(e)
		case <-samples:
			w.writeSamples()
		case <-flush.C:
			w.flushAll()
			w.forget()
		case <-w.stop:
			w.finish()
			return
		}
	}
}

// finish writes what is queued, sampled and buffered.
func (w *Writer) finish() {
	for {
		select {
		case e := <-w.queue:
			w.take(e)
			continue
		default:
		}
		break
	}
	w.writeSamples()
	w.flushAll()
	w.off.CompareAndSwap(nil, new(OffNone)) // records that still come are dropped
	w.drop(DropClosed, len(w.queue))
}

// dropReasonOf returns why records are dropped once the writer has ended for a reason.
func dropReasonOf(off OffReason) DropReason {
	if off == OffNone {
		return DropClosed
	}
	return DropOff
}

// fail ends tracing for good, with the one warning that there is.
func (w *Writer) fail(err error) {
	reason := OffWriteFail
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		reason = OffFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		reason = OffReadOnly
	}
	if !w.off.CompareAndSwap(nil, &reason) {
		return
	}
	for _, s := range w.producers {
		w.drop(DropOff, s.rows)
		s.buffer, s.rows = nil, 0
	}
	for _, s := range w.sampled {
		if s.pending {
			w.drop(DropOff, 1)
			s.pending = false
		}
	}
	w.log.Warn("Forward-pass tracing is off until the next start or reload, all else goes on", "reason", string(reason), "output_path", w.prefix, "err", err)
}
