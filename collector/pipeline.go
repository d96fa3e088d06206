package collector

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// FinishedReasonStop and FinishedReasonAbort are the values of the label
// finished_reason that have a meaning of their own: the default, and the one a
// failed request is counted under, which adds no latency.
const (
	FinishedReasonStop  = "stop"
	FinishedReasonAbort = "abort"
)

// PipelineCollector holds the four families of requests across all stages of a
// pipeline: num_requests_running, num_requests_waiting, requests_success_total
// and e2e_request_latency_s (vLLM-Omni's metrics design, "Pipeline"). It is
// safe for concurrent use.
type PipelineCollector struct {
	metricSet
	requests *RequestTable
	families pipelineFamilies
	series   map[pipelineKey]*pipelineSeries
}

type pipelineFamilies struct{ running, waiting, success, e2e omniFamily }

type pipelineKey struct{ pipeline, model string }

// pipelineSeries are the children of one model of one pipeline.
type pipelineSeries struct {
	pipelineKey
	running, waiting prometheus.Gauge
	e2e              prometheus.Histogram
	success          map[string]prometheus.Counter // by finished_reason
}

// add counts a request in or out of the gauge that its state belongs to.
func (s *pipelineSeries) add(state requestState, n float64) {
	switch state {
	case requestWaiting:
		s.waiting.Add(n)
	case requestRunning:
		s.running.Add(n)
	}
}

// NewPipelineCollector returns a collector without series. The error is of a
// prefix that cannot begin a metric name.
func NewPipelineCollector(o OmniOptions) (*PipelineCollector, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &PipelineCollector{
		metricSet: metricSet{prefix: o.Prefix, budget: o.Budget},
		requests:  o.Requests,
		series:    make(map[pipelineKey]*pipelineSeries),
		families: pipelineFamilies{
			running: omniFamily{name: "num_requests_running", help: "Requests scheduled and not finished, across all stages."},
			waiting: omniFamily{name: "num_requests_waiting", help: "Requests started and not yet scheduled."},
			success: omniFamily{name: "requests_success_total", help: "Requests that ended, by finished_reason; abort covers failure, cancellation and disconnect."},
			e2e: omniFamily{
				name: "e2e_request_latency_s", help: "Seconds from request arrival to the end of its last stage; aborted requests are left out.",
				buckets: SecondsBuckets(),
			},
		},
	}, nil
}

// Collect implements prometheus.Collector. It lets requests expire first, so
// that the gauges fall even when no event arrives.
func (c *PipelineCollector) Collect(out chan<- prometheus.Metric) {
	c.requests.mu.Lock()
	c.requests.expire()
	c.requests.mu.Unlock()
	c.metricSet.Collect(out)
}

// RequestStarted records that a request arrived; it waits until it is scheduled.
// The model must be named. Errors: ErrDuplicate, ErrSeriesLimit, *FieldError.
func (c *PipelineCollector) RequestStarted(ref RequestRef) error {
	if ref.Model == "" {
		return missingField("model_name")
	}
	return c.enter(ref, requestWaiting)
}

// RequestScheduled records that a request runs. One that was not seen starting
// counts as started now if its model is named. Errors: ErrDuplicate,
// ErrUnknownRequest, ErrSeriesLimit, *FieldError.
func (c *PipelineCollector) RequestScheduled(ref RequestRef) error {
	return c.enter(ref, requestRunning)
}

// enter makes a request waiting or running; it only ever moves forward.
func (c *PipelineCollector) enter(ref RequestRef, state requestState) error {
	if err := ref.check(); err != nil {
		return err
	}
	t := c.requests
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.expire()
	r := t.find(ref)
	if r != nil && r.state != requestSeen {
		forward := state == requestRunning && (r.state == requestWaiting || r.state == requestExpired)
		if !forward {
			return ErrDuplicate
		}
	}
	model, err := modelOf(r, ref)
	if err != nil {
		return err
	}
	s, err := c.load(pipelineKey{ref.Pipeline, model})
	if err != nil {
		return err
	}
	r = t.keep(r, ref, now)
	r.model, r.load = s.model, s
	t.setState(r, state)
	return nil
}

// load returns the series of a model with both its gauges.
func (c *PipelineCollector) load(key pipelineKey) (*pipelineSeries, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	if err := c.budget.take(missing(s.running, s.waiting)); err != nil {
		return nil, err
	}
	if s.running == nil {
		s.running = c.gauge(c.families.running, key.labels())
		s.waiting = c.gauge(c.families.waiting, key.labels())
	}
	c.series[key] = s
	return s, nil
}

func (c *PipelineCollector) find(key pipelineKey) *pipelineSeries {
	if s := c.series[key]; s != nil {
		return s
	}
	return &pipelineSeries{pipelineKey: key, success: make(map[string]prometheus.Counter)}
}

func (k pipelineKey) labels(pairs ...string) prometheus.Labels {
	return labels(k.pipeline, append(pairs, "model_name", k.model)...)
}

// RequestSucceeded records that a request finished at its last stage, e2e
// seconds after it arrived. An empty reason is "stop"; with "abort" it is the
// same as RequestFailed and e2e is not looked at. The first end of a request
// counts, later ones are ErrDuplicate. Errors also: ErrUnknownRequest,
// ErrSeriesLimit, *FieldError.
func (c *PipelineCollector) RequestSucceeded(ref RequestRef, e2e float64, finishedReason string) error {
	if finishedReason == "" {
		finishedReason = FinishedReasonStop
	}
	if finishedReason == FinishedReasonAbort {
		return c.RequestFailed(ref)
	}
	if err := checkLabel("finished_reason", finishedReason, MaxLabelLength); err != nil {
		return err
	}
	if err := checkSeconds("e2e_s", e2e); err != nil {
		return err
	}
	return c.end(ref, finishedReason, e2e)
}

// RequestFailed records that a request ended without completing. It counts once
// under finished_reason "abort" and adds no latency. Errors: ErrDuplicate,
// ErrUnknownRequest, ErrSeriesLimit, *FieldError.
func (c *PipelineCollector) RequestFailed(ref RequestRef) error {
	return c.end(ref, FinishedReasonAbort, math.NaN())
}

// end records the end of a request; a latency of NaN is not observed.
func (c *PipelineCollector) end(ref RequestRef, reason string, e2e float64) error {
	if err := ref.check(); err != nil {
		return err
	}
	t := c.requests
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.expire()
	r := t.find(ref)
	if r != nil && r.state == requestDone {
		return ErrDuplicate
	}
	model, err := modelOf(r, ref)
	if err != nil {
		return err
	}
	s, err := c.count(pipelineKey{ref.Pipeline, model}, reason, e2e)
	if err != nil {
		return err
	}
	r = t.keep(r, ref, now)
	r.model, r.aborted = s.model, reason == FinishedReasonAbort
	t.setState(r, requestDone)
	return nil
}

func (c *PipelineCollector) count(key pipelineKey, reason string, e2e float64) (*pipelineSeries, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	timed := !math.IsNaN(e2e)
	need := missing(s.success[reason])
	if timed {
		need += missing(s.e2e)
	}
	if err := c.budget.take(need); err != nil {
		return nil, err
	}
	c.series[key] = s
	if s.success[reason] == nil {
		s.success[reason] = c.counter(c.families.success, key.labels("finished_reason", reason))
	}
	s.success[reason].Inc()
	if timed {
		if s.e2e == nil {
			s.e2e = c.histogram(c.families.e2e, key.labels())
		}
		s.e2e.Observe(e2e)
	}
	return s, nil
}
