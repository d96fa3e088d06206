package watch

import (
	"slices"
	"sync"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// maxSamples bounds what is kept of one endpoint: ten times what a fast scheduler publishes within the window.
const maxSamples = 10_000

// monitor keeps the last records of each endpoint.
type monitor struct {
	mu        sync.Mutex
	endpoints map[string]*endpoint
}

type endpoint struct {
	samples  []sample // oldest first
	last     fpm.Record
	seen     time.Time // of the last record, heartbeats included
	first    time.Time
	lost     uint64
	rejected uint64
	restarts uint64
}

// sample is one forward pass.
type sample struct {
	at      time.Time
	prefill uint64  // tokens
	decode  uint64  // requests, which without speculation are tokens
	wall    float64 // seconds, 0 if unknown
}

func newMonitor(endpoints []stream.Endpoint) *monitor {
	m := &monitor{endpoints: make(map[string]*endpoint, len(endpoints))}
	for _, e := range endpoints {
		m.endpoints[e.Address] = &endpoint{}
	}
	return m
}

// deliver is an fpm.Sink.
func (m *monitor) deliver(d *fpm.Delivery) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoints[d.Origin.Name]
	e.lost += d.Lost
	if d.Restarted {
		e.restarts++
	}
	if d.Rejected != nil {
		e.rejected++
		return
	}
	e.seen = d.Received
	if e.first.IsZero() {
		e.first = d.Received
	}
	e.last = d.Record
	if d.Record.Kind() == fpm.KindNone {
		return
	}
	if len(e.samples) == maxSamples {
		e.samples = slices.Delete(e.samples, 0, maxSamples/10)
	}
	s := &d.Record.Scheduled
	e.samples = append(e.samples, sample{d.Received, s.SumPrefillTokens, s.NumDecodeRequests, d.Record.WallTime})
}

// row is what is shown of an endpoint.
type row struct {
	endpoint, worker, state  string
	rank                     int // fpm.UnknownRank before the first record
	passes, prefill, decode  float64
	batch, queue             uint64
	p50, p99                 time.Duration // 0 if nothing was timed
	lost, rejected, restarts uint64
	age                      time.Duration // of the last record; negative before the first
}

// rows returns one row per endpoint as of now.
func (m *monitor) rows(states []stream.EndpointState, now time.Time) []row {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]row, 0, len(states))
	for i := range states {
		s := &states[i]
		r := m.endpoints[s.Endpoint.Address].row(now)
		r.endpoint, r.state = s.Endpoint.Address, string(s.Phase)
		if !s.Connected() && s.LastReason != stream.ReasonNone {
			r.state = string(s.LastReason)
		}
		out = append(out, r)
	}
	return out
}

func (e *endpoint) row(now time.Time) row {
	old := 0
	for old < len(e.samples) && now.Sub(e.samples[old].at) > window {
		old++
	}
	e.samples = slices.Delete(e.samples, 0, old)
	r := row{rank: fpm.UnknownRank, age: -1, lost: e.lost, rejected: e.rejected, restarts: e.restarts}
	if e.seen.IsZero() {
		return r
	}
	r.rank, r.worker, r.age = int(e.last.DPRank), e.last.WorkerID, max(now.Sub(e.seen), 0)
	r.batch = e.last.Scheduled.NumPrefillRequests + e.last.Scheduled.NumDecodeRequests
	r.queue = e.last.Queued.NumPrefillRequests + e.last.Queued.NumDecodeRequests
	seconds := min(now.Sub(e.first), window).Seconds()
	if seconds <= 0 {
		return r
	}
	var walls []float64
	for _, s := range e.samples {
		r.passes++
		r.prefill += float64(s.prefill)
		r.decode += float64(s.decode)
		if s.wall > 0 {
			walls = append(walls, s.wall)
		}
	}
	r.passes, r.prefill, r.decode = r.passes/seconds, r.prefill/seconds, r.decode/seconds
	slices.Sort(walls)
	r.p50, r.p99 = quantile(walls, 50), quantile(walls, 99)
	return r
}

// quantile returns the nearest-rank percentile of sorted seconds, 0 of none.
func quantile(sorted []float64, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := (len(sorted)*percent + 99) / 100
	return time.Duration(sorted[max(i, 1)-1] * float64(time.Second))
}
