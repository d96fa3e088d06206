package collector

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultRequestTimeout is how long after its last event a request that never
// finished is given up, and how long one that finished is remembered.
const DefaultRequestTimeout = time.Hour

// DefaultMaxRequests bounds the requests held at a time. One takes about half a
// kilobyte with an id of ordinary length.
const DefaultMaxRequests = 100_000

// RequestTableOptions configures a RequestTable.
type RequestTableOptions struct {
	// Timeout is DefaultRequestTimeout if zero.
	Timeout time.Duration
	// MaxRequests is DefaultMaxRequests if zero.
	MaxRequests int
	// Clock is time.Now if nil.
	Clock func() time.Time
}

// RequestTable remembers requests, so that each is counted once however often
// and in whatever order its events arrive, and so that running and waiting can
// be told. It is bounded in number and in time: at the bound the requests that
// finished longest ago are forgotten, then those heard of longest ago expire.
// It is safe for concurrent use, and a prometheus.Collector of its own state.
type RequestTable struct {
	clock       func() time.Time
	maxRequests int

	mu       sync.Mutex
	timeout  time.Duration
	requests map[requestKey]*request
	// Both lists hold *request, the one heard of longest ago in front.
	active     *list.List // started, not finished: what running and waiting count
	remembered *list.List // all others

	expired prometheus.Counter
	tracked *prometheus.Desc
}

type requestKey struct{ pipeline, id string }

type requestState uint8

const (
	requestSeen    requestState = iota // only by the audio collector
	requestWaiting                     // started, not scheduled
	requestRunning                     // scheduled, not finished
	requestExpired                     // never finished within the timeout
	requestDone                        // finished or failed
)

type firstPacket uint8

const (
	firstPacketNone    firstPacket = iota
	firstPacketPending             // its time is known, its replica is not
	firstPacketCounted
)

// request is what is remembered of a request; the table's mutex guards it.
type request struct {
	key     requestKey
	model   string
	state   requestState
	aborted bool
	load    *pipelineSeries // whose gauges it counts in; nil before it started

	firstPacket firstPacket
	ttfp        float64 // seconds, of the first packet while it is pending
	stages      []stageGuard

	heard   time.Time
	element *list.Element
}

// stageGuard says what audio one stage has reported for a request.
type stageGuard struct {
	stage              string
	finished, streamed bool
}

// NewRequestTable returns an empty table.
func NewRequestTable(o RequestTableOptions) *RequestTable {
	if o.Timeout <= 0 {
		o.Timeout = DefaultRequestTimeout
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = DefaultMaxRequests
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &RequestTable{
		clock:       o.Clock,
		maxRequests: o.MaxRequests,
		timeout:     o.Timeout,
		requests:    make(map[requestKey]*request),
		active:      list.New(),
		remembered:  list.New(),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "omni_exporter_events_expired_requests_total",
			Help: "Requests given up because no event told of their end within the timeout, or for want of room.",
		}),
		tracked: prometheus.NewDesc("omni_exporter_events_tracked_requests",
			"Requests remembered, by whether their end is known.", []string{"state"}, nil),
	}
}

// SetTimeout changes the timeout; 0 or less is DefaultRequestTimeout.
func (t *RequestTable) SetTimeout(timeout time.Duration) {
	if timeout <= 0 {
		timeout = DefaultRequestTimeout
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timeout = timeout
}

// Len returns how many requests are remembered.
func (t *RequestTable) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests)
}

// Describe implements prometheus.Collector.
func (t *RequestTable) Describe(out chan<- *prometheus.Desc) {
	out <- t.expired.Desc()
	out <- t.tracked
}

// Collect implements prometheus.Collector.
func (t *RequestTable) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	t.expire()
	active, remembered := t.active.Len(), t.remembered.Len()
	t.mu.Unlock()
	out <- t.expired
	out <- prometheus.MustNewConstMetric(t.tracked, prometheus.GaugeValue, float64(active), "active")
	out <- prometheus.MustNewConstMetric(t.tracked, prometheus.GaugeValue, float64(remembered), "remembered")
}

// What follows is called with the mutex held.

func (t *RequestTable) find(ref RequestRef) *request {
	return t.requests[requestKey{ref.Pipeline, ref.ID}]
}

// modelOf gives the model a request is counted under: the first one named.
func modelOf(r *request, ref RequestRef) (string, error) {
	switch {
	case r != nil && r.model != "":
		return r.model, nil
	case ref.Model != "":
		return ref.Model, nil
	default:
		return "", ErrUnknownRequest
	}
}

// keep makes r the request heard of last, adding it if it is nil. It is called
// only once an observation is sure to be recorded, so that refused ones cannot
// push others out.
func (t *RequestTable) keep(r *request, ref RequestRef, now time.Time) *request {
	if r == nil {
		for len(t.requests) >= t.maxRequests {
			t.evict()
		}
		r = &request{key: requestKey{ref.Pipeline, ref.ID}}
		r.element = t.remembered.PushBack(r)
		t.requests[r.key] = r
	} else {
		t.listOf(r).MoveToBack(r.element)
	}
	r.heard = now
	return r
}

func (t *RequestTable) listOf(r *request) *list.List {
	if r.state == requestWaiting || r.state == requestRunning {
		return t.active
	}
	return t.remembered
}

// setState moves a request between states, and the gauges with it.
func (t *RequestTable) setState(r *request, state requestState) {
	from := t.listOf(r)
	r.load.add(r.state, -1)
	r.state = state
	r.load.add(r.state, 1)
	if to := t.listOf(r); to != from {
		from.Remove(r.element)
		r.element = to.PushBack(r)
	}
}

// expire gives up what was not heard of for the timeout and returns the time.
func (t *RequestTable) expire() time.Time {
	now := t.clock()
	for r := front(t.active); r != nil && now.Sub(r.heard) >= t.timeout; r = front(t.active) {
		t.giveUp(r)
		r.heard = now // remembered from here, should its end come late
	}
	for r := front(t.remembered); r != nil && now.Sub(r.heard) >= t.timeout; r = front(t.remembered) {
		t.forget(r)
	}
	return now
}

// evict makes room for one request.
func (t *RequestTable) evict() {
	r := front(t.remembered)
	if r == nil {
		r = front(t.active)
		t.giveUp(r)
	}
	t.forget(r)
}

func (t *RequestTable) giveUp(r *request) {
	t.setState(r, requestExpired)
	t.expired.Inc()
}

func (t *RequestTable) forget(r *request) {
	t.listOf(r).Remove(r.element)
	delete(t.requests, r.key)
}

func front(l *list.List) *request {
	if e := l.Front(); e != nil {
		return e.Value.(*request)
	}
	return nil
}

// stage returns the guard of a stage, or a new one that is not yet kept.
func (r *request) stage(stage string) (stageGuard, error) {
	if r == nil {
		return stageGuard{stage: stage}, nil
	}
	for _, g := range r.stages {
		if g.stage == stage {
			return g, nil
		}
	}
	if len(r.stages) >= MaxStagesPerRequest {
		return stageGuard{}, badField("stage", "the request has audio of %d stages already", len(r.stages))
	}
	return stageGuard{stage: stage}, nil
}

func (r *request) setStage(guard stageGuard) {
	for i := range r.stages {
		if r.stages[i].stage == guard.stage {
			r.stages[i] = guard
			return
		}
	}
	r.stages = append(r.stages, guard)
}
