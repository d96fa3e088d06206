package simulator

import (
	"slices"
	"time"
)

// engine is one replica of one stage: a continuous-batching scheduler over seats, a token budget and KV-cache blocks.
type engine struct {
	pipeline              *Pipeline
	index, stage, replica int
	label                 string // its engine label on its server's page
	server                *server
	vocoder               bool
	seats, blocks         int
	slow                  float64

	waiting, running []*job
	used             int           // blocks held by running jobs
	plan             []work        // of the pass under way
	stepping         bool          // a pass is under way
	began            time.Duration // of the pass under way
	overdue          bool          // the pass under way ended while the engine hung
	hung, dead       bool
	life             int // counts restarts, so that a pass of a former life does not end in this one
	arrived          int
	metrics          *engineMetrics
	forward          forwardPasses
}

// work is one job's part in a pass.
type work struct {
	job     *job
	tokens  int
	prefill bool
}

// maxBatchedTokens is the token budget of a pass.
const maxBatchedTokens = 2048

func newEngine(p *Pipeline, index, stage, replica int) *engine {
	s := p.options.Stages[stage]
	e := &engine{
		pipeline: p, index: index, stage: stage, replica: replica,
		vocoder: stage > 0 && stage == len(p.options.Stages)-1,
		seats:   s.MaxNumSeqs, blocks: s.KVBlocks, slow: 1,
		metrics: newEngineMetrics(p.unix()),
	}
	if stage == 0 {
		e.forward = newForwardPasses(p)
	}
	return e
}

func (e *engine) load() int { return len(e.waiting) + len(e.running) }

// usable is the number of blocks that running jobs may hold. SaturateKV leaves room for the largest request, no more.
func (e *engine) usable() int {
	if e.stage == 0 && e.pipeline.faults[SaturateKV] {
		return minKVBlocks
	}
	return e.blocks
}

// kvUsage is the share of blocks in use, 0 to 1. Under SaturateKV the taken ones are in use as well, and four of five
// that a request has given back.
func (e *engine) kvUsage() float64 {
	free := float64(max(e.usable()-e.used, 0))
	if e.usable() < e.blocks {
		free /= 5
	}
	return 1 - free/float64(e.blocks)
}

// begin starts a pass if there is work and none is under way.
func (e *engine) begin() {
	if e.stepping || e.hung || e.dead {
		return
	}
	e.sweep()
	e.schedule()
	if len(e.plan) == 0 {
		return
	}
	e.stepping = true
	e.began = e.pipeline.now
	life := e.life
	e.pipeline.after(e.passTime(), func() {
		if e.life == life {
			e.end()
		}
	})
}

// schedule plans a pass: first those that run, then as many of those that wait as find a seat, tokens and blocks.
func (e *engine) schedule() {
	e.plan = e.plan[:0]
	budget, preempted := maxBatchedTokens, false
	for i := 0; i < len(e.running); i++ { // grow may shorten e.running from its end
		j := e.running[i]
		n, prefill := j.next(budget)
		if n == 0 {
			continue
		}
		before := len(e.running)
		if !e.grow(j, j.kv+n) {
			preempted = true
			break
		}
		preempted = preempted || len(e.running) < before
		e.plan = append(e.plan, work{j, n, prefill})
		budget -= n
	}
	for len(e.waiting) > 0 && !preempted && budget > 0 && len(e.running) < e.seats {
		j := e.waiting[0]
		need := e.blocksFor(j.kv + j.toPrefill)
		if e.used+need > e.usable() {
			return
		}
		e.waiting = slices.Delete(e.waiting, 0, 1)
		e.running = append(e.running, j)
		j.blocks = need
		e.used += need
		e.start(j)
		if n, prefill := j.next(budget); n > 0 {
			e.plan = append(e.plan, work{j, n, prefill})
			budget -= n
		}
	}
}

// start marks a job as running; the first time only, it ends its queueing and asks the prefix cache.
func (e *engine) start(j *job) {
	j.preempted = false
	if j.started {
		return
	}
	p, r := e.pipeline, j.request
	j.started = true
	j.scheduledAt = p.now
	e.metrics.prefixQueries += float64(j.uncounted)
	e.metrics.prefixHits += float64(j.cached)
	if e.stage == 0 && !r.scheduled {
		r.scheduled = true
		p.emit(Event{Type: RequestScheduled, RequestID: r.id})
	}
}

func (e *engine) blocksFor(tokens int) int {
	if e.vocoder {
		tokens = min(tokens, audioWindow)
	}
	return (tokens + blockSize - 1) / blockSize
}

// grow gives a running job the blocks for so many tokens. For want of blocks it preempts the job that was admitted last,
// and reports false when that was the job itself.
func (e *engine) grow(j *job, tokens int) bool {
	need := max(e.blocksFor(tokens)-j.blocks, 0)
	for need > 0 && e.used+need > e.usable() {
		victim := e.running[len(e.running)-1]
		e.preempt(victim)
		if victim == j {
			return false
		}
	}
	j.blocks += need
	e.used += need
	return true
}

// preempt takes the last running job off its seat; all that it had computed is to be computed again.
func (e *engine) preempt(j *job) {
	e.running = e.running[:len(e.running)-1]
	e.used -= j.blocks
	j.toPrefill, j.kv, j.blocks = j.toPrefill+j.kv, 0, 0
	if j.uncounted > 0 {
		j.cached = 0 // the prompt is computed in full now
	}
	j.preempted = true
	e.waiting = slices.Insert(e.waiting, 0, j)
	e.metrics.preemptions++
}

// passTime is how long the planned pass takes: a fixed part, a part per sequence and a part per token.
func (e *engine) passTime() time.Duration {
	tokens := 0
	for _, w := range e.plan {
		tokens += w.tokens
	}
	var ms float64
	switch batch := float64(len(e.plan)); {
	case e.vocoder:
		ms = 10 + 0.08*float64(tokens)
	case e.stage == 0:
		ms = 12 + 0.25*batch + 0.02*float64(tokens)
	default:
		ms = 16 + 0.3*batch + 0.01*float64(tokens)
	}
	return seconds(ms / 1000 * e.slow * e.pipeline.jitter(0.1))
}

// end applies the planned pass and begins the next.
func (e *engine) end() {
	if e.hung {
		e.overdue = true
		return
	}
	e.publish()
	tokens := 0
	for _, w := range e.plan {
		if !w.job.aborted {
			tokens += w.job.apply(w.tokens, w.prefill)
		}
	}
	e.metrics.pass(tokens, len(e.plan))
	e.stepping, e.overdue = false, false
	e.begin()
}

// complete takes a job whose work is done off the engine.
func (e *engine) complete(j *job) {
	e.remove(j)
	e.metrics.completed(j)
	if e.pipeline.options.Layout != Shared {
		e.pipeline.answered(e.server, j.request, 200, e.pipeline.now-j.arrival)
	}
}

func (e *engine) remove(j *job) {
	if i := slices.Index(e.running, j); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
		e.used -= j.blocks
		j.blocks = 0
	}
}

// sweep lets go of aborted jobs. A hung engine does not come here, so its gauges stay as they were.
func (e *engine) sweep() {
	e.running = slices.DeleteFunc(e.running, func(j *job) bool {
		if j.aborted {
			e.used -= j.blocks
		}
		return j.aborted
	})
	e.waiting = slices.DeleteFunc(e.waiting, func(j *job) bool { return j.aborted })
}

// kill ends the engine's process: every request that it holds fails.
func (e *engine) kill() {
	e.dead = true
	e.life++
	held := append(slices.Clone(e.running), e.waiting...)
	e.running, e.waiting, e.plan = nil, nil, nil
	e.used, e.stepping, e.overdue = 0, false, false
	for _, j := range held {
		e.pipeline.fail(j.request)
	}
}

// revive starts the engine's process again, with all counters at zero.
func (e *engine) revive() {
	e.dead = false
	e.metrics = newEngineMetrics(e.pipeline.unix())
	if e.pipeline.options.Layout != Shared {
		e.server.start()
	}
}

// hang stops the engine's loop, or lets it go on.
func (e *engine) hang(on bool) {
	e.hung = on
	if !on && e.overdue {
		e.end()
	} else {
		e.begin()
	}
}
