package simulator

import (
	"strconv"
	"time"
)

// ForwardPass is one record of Dynamo's forward pass metrics, version 1. Token counts are of one pass of one
// data-parallel rank; variances are population variances, 0 for fewer than two requests.
type ForwardPass struct {
	Stage, Replica int `json:"-"` // whose record it is; not part of the record
	// Sequence is the number of the message that carries the record, and equals CounterID.
	Sequence uint64 `json:"-"`

	Version   int               `json:"version"`
	WorkerID  string            `json:"worker_id"`
	DPRank    int               `json:"dp_rank"`
	CounterID uint64            `json:"counter_id"`
	WallTime  float64           `json:"wall_time"` // seconds; 0 in a heartbeat
	Scheduled ScheduledRequests `json:"scheduled_requests"`
	Queued    QueuedRequests    `json:"queued_requests"`
}

// ScheduledRequests is what a forward pass ran.
type ScheduledRequests struct {
	NumPrefillRequests int     `json:"num_prefill_requests"`
	SumPrefillTokens   int     `json:"sum_prefill_tokens"`    // computed in this pass
	VarPrefillLength   float64 `json:"var_prefill_length"`    // of the full prompt lengths, in tokens squared
	SumPrefillKVTokens int     `json:"sum_prefill_kv_tokens"` // read: prefix hits and earlier chunks
	NumDecodeRequests  int     `json:"num_decode_requests"`
	SumDecodeKVTokens  int     `json:"sum_decode_kv_tokens"`
	VarDecodeKVTokens  float64 `json:"var_decode_kv_tokens"`
}

// QueuedRequests is what waited while a forward pass ran. Preempted requests wait as decodes.
type QueuedRequests struct {
	NumPrefillRequests int     `json:"num_prefill_requests"`
	SumPrefillTokens   int     `json:"sum_prefill_tokens"` // of the full prompts
	VarPrefillLength   float64 `json:"var_prefill_length"`
	NumDecodeRequests  int     `json:"num_decode_requests"`
	SumDecodeKVTokens  int     `json:"sum_decode_kv_tokens"`
	VarDecodeKVTokens  float64 `json:"var_decode_kv_tokens"`
}

// forwardPasses is the publisher of an engine of the first stage, which is split into data-parallel ranks.
type forwardPasses struct {
	worker string
	ranks  []rank
}

type rank struct {
	sequence   uint64
	lastRecord time.Duration // heartbeats included
	lastOutput time.Duration // of a pass; with idle false it is where the next interval starts
	idle       bool
}

// Heartbeats come when a rank has said nothing for a second.
const (
	heartbeatAfter = time.Second
	heartbeatEvery = 100 * time.Millisecond // how often that is looked at
)

func newForwardPasses(p *Pipeline) forwardPasses {
	f := forwardPasses{worker: strconv.FormatUint(p.rng.Uint64()>>1, 10), ranks: make([]rank, p.options.Ranks)}
	for i := range f.ranks {
		f.ranks[i].idle = true
	}
	return f
}

// publish records the pass that ends now, once for each rank that had a part in it.
func (e *engine) publish() {
	p := e.pipeline
	if p.options.ForwardPasses == nil || e.stage != 0 {
		return
	}
	for i := range e.forward.ranks {
		scheduled, took := e.scheduledOn(i)
		k := &e.forward.ranks[i]
		if !took {
			k.idle = true
			continue
		}
		// The interval between outputs, as a scheduler sees it; after a pause the time since the pass began.
		since := k.lastOutput
		if k.idle {
			since = e.began
		}
		k.idle, k.lastOutput = false, p.now
		e.record(i, (p.now - since).Seconds(), scheduled, e.queuedOn(i))
	}
}

// heartbeat publishes an empty record for each rank that has been silent for a second. It goes on while the engine
// hangs, because the publisher is a thread of its own, and stops when the process is gone.
func (e *engine) heartbeat() {
	p := e.pipeline
	p.after(heartbeatEvery, e.heartbeat)
	if p.options.ForwardPasses == nil || e.dead {
		return
	}
	for i := range e.forward.ranks {
		if p.now-e.forward.ranks[i].lastRecord >= heartbeatAfter {
			e.record(i, 0, ScheduledRequests{}, QueuedRequests{})
		}
	}
}

func (e *engine) record(i int, wall float64, scheduled ScheduledRequests, queued QueuedRequests) {
	p, k := e.pipeline, &e.forward.ranks[i]
	sequence := k.sequence
	k.sequence++
	k.lastRecord = p.now
	if p.faults[LoseFPM] && e.replica == 0 && i == len(e.forward.ranks)-1 && sequence%lostRecordEvery == 0 {
		return
	}
	p.passes = append(p.passes, ForwardPass{
		Stage: e.stage, Replica: e.replica, Sequence: sequence,
		Version: 1, WorkerID: e.forward.worker, DPRank: i, CounterID: sequence, WallTime: wall,
		Scheduled: scheduled, Queued: queued,
	})
}

// scheduledOn sums up a rank's part in the pass, and tells whether it took one.
func (e *engine) scheduledOn(rank int) (s ScheduledRequests, took bool) {
	var prompts, contexts spread
	for _, w := range e.plan {
		j := w.job
		if j.rank != rank {
			continue
		}
		if w.prefill {
			s.NumPrefillRequests++
			s.SumPrefillTokens += w.tokens
			s.SumPrefillKVTokens += j.kv
			prompts.add(float64(j.request.prompt))
		} else {
			s.NumDecodeRequests++
			s.SumDecodeKVTokens += j.kv
			contexts.add(float64(j.kv))
		}
	}
	s.VarPrefillLength, s.VarDecodeKVTokens = prompts.variance(), contexts.variance()
	return s, s.NumPrefillRequests+s.NumDecodeRequests > 0
}

func (e *engine) queuedOn(rank int) (q QueuedRequests) {
	var prompts, contexts spread
	for _, j := range e.waiting {
		switch {
		case j.rank != rank:
		case j.preempted:
			q.NumDecodeRequests++
			q.SumDecodeKVTokens += j.toPrefill
			contexts.add(float64(j.toPrefill))
		default:
			q.NumPrefillRequests++
			q.SumPrefillTokens += j.request.prompt
			prompts.add(float64(j.request.prompt))
		}
	}
	q.VarPrefillLength, q.VarDecodeKVTokens = prompts.variance(), contexts.variance()
	return q
}

// spread accumulates a population variance by Welford's method.
type spread struct{ n, mean, m2 float64 }

func (s *spread) add(x float64) {
	s.n++
	d := x - s.mean
	s.mean += d / s.n
	s.m2 += d * (x - s.mean)
}

func (s *spread) variance() float64 {
	if s.n < 2 {
		return 0
	}
	return s.m2 / s.n
}
