package trace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

const (
	// maxGateRanks bounds the ranks that a Gate knows, more than the collector has series for.
	maxGateRanks = 16_384
	// overlap is how long after a row of a trace the stream's record of the same number may still come. Writers hold
	// rows back for a second, streams do not.
	overlap = 5 * time.Second
)

// Gate lets each record through once when a rank is both streamed and traced. The stream has the first word: what it
// delivered, or is about to, is taken from no trace. Traces fill in what was before the stream's first record, and
// what comes while the stream is silent.
//
// A rank is told by worker id and data-parallel rank; a worker id is never used twice in Dynamo. Records without a
// worker id cannot be told apart and all pass.
type Gate struct {
	next fpm.Sink

	mu    sync.Mutex
	stale time.Duration
	swept time.Time // when silent ranks were forgotten last
	ranks map[gateKey]*gateRank

	skippedRows, skippedRecords atomic.Uint64
}

type gateKey struct {
	worker string
	rank   uint64
}

type gateRank struct {
	// The numbers that the stream's present run covers, and when it delivered last; zero before the first.
	first, last uint64
	streamed    time.Time
	// The number of the last row let through, and when; zero before the first.
	row   uint64
	rowed time.Time
}

// NewGate returns a gate in front of next. A stream that delivered nothing for stale is silent.
func NewGate(next fpm.Sink, stale time.Duration) *Gate {
	return &Gate{next: next, stale: stale, ranks: make(map[gateKey]*gateRank)}
}

// SetStale changes after which time a stream that delivered nothing is silent.
func (g *Gate) SetStale(stale time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stale = stale
}

// Stream takes what streams deliver. It is an fpm.Sink.
func (g *Gate) Stream(d *fpm.Delivery) {
	if d.Rejected != nil || d.Record.WorkerID == "" {
		g.next(d)
		return
	}
	admitted, told := g.admitRecord(d)
	switch {
	case !admitted:
		g.skippedRecords.Add(1)
	case told > 0 && d.Lost > 0:
		own := *d
		own.Lost -= min(told, own.Lost)
		g.next(&own)
	default:
		g.next(d)
	}
}

// Trace takes what traces deliver. It is an fpm.Sink.
func (g *Gate) Trace(d *fpm.Delivery) {
	if d.Rejected != nil || d.Record.WorkerID == "" || g.admitRow(d) {
		g.next(d)
		return
	}
	g.skippedRows.Add(1)
}

// SkippedRows counts rows of traces that streams had told already.
func (g *Gate) SkippedRows() uint64 { return g.skippedRows.Load() }

// SkippedRecords counts records of streams that traces had told already.
func (g *Gate) SkippedRecords() uint64 { return g.skippedRecords.Load() }

// admitRecord reports whether a stream's record passes, and how many records before it traces told of while the
// stream was silent.
func (g *Gate) admitRecord(d *fpm.Delivery) (admitted bool, told uint64) {
	now, number := time.Now(), d.Record.CounterID
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.rank(&d.Record, now)
	if r == nil {
		return true, 0
	}
	if !d.Restarted && number <= r.row && now.Sub(r.rowed) < overlap {
		return false, 0
	}
	if r.streamed.IsZero() || d.Restarted || number < r.last {
		r.first = number
	} else if r.row > r.last && r.row < number {
		told = r.row - r.last
	}
	r.last, r.streamed = number, now
	return true, told
}

func (g *Gate) admitRow(d *fpm.Delivery) bool {
	now, number := time.Now(), d.Record.CounterID
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.rank(&d.Record, now)
	if r == nil {
		return true
	}
	if !r.streamed.IsZero() {
		streaming := now.Sub(r.streamed) < g.stale
		if number >= r.first && (streaming || number <= r.last) {
			return false
		}
	}
	if d.Capture == fpm.CaptureFull {
		r.row, r.rowed = number, now
	}
	return true
}

// rank returns what is known of a record's rank, nil when there are too many to know.
func (g *Gate) rank(record *fpm.Record, now time.Time) *gateRank {
	key := gateKey{record.WorkerID, record.DPRank}
	r := g.ranks[key]
	if r != nil {
		return r
	}
	if len(g.ranks) >= maxGateRanks && now.Sub(g.swept) > time.Minute {
		g.swept = now
		for key, r := range g.ranks {
			if now.Sub(r.streamed) > time.Hour && now.Sub(r.rowed) > time.Hour {
				delete(g.ranks, key)
			}
		}
	}
	if len(g.ranks) >= maxGateRanks {
		return nil
	}
	r = &gateRank{}
	g.ranks[key] = r
	return r
}
