package simulator

import "time"

// blockSize is the number of tokens of a KV-cache block.
const blockSize = 16

// audioWindow is how many codec tokens the last stage keeps in its cache.
const audioWindow = 96

// job is the part of a request that one engine works on. Tokens are counted as vLLM counts them: a prompt counts when
// its prefill is complete, and the pass that completes it also yields a token.
type job struct {
	engine  *engine
	request *request
	rank    int // data-parallel rank that holds it, in forward pass records

	arrival, scheduledAt, firstToken, lastToken time.Duration

	toPrefill int // tokens not yet computed
	uncounted int // prompt tokens not yet on the engine's counters
	cached    int // of those, found in the prefix cache
	kv        int // tokens computed or found
	blocks    int // KV-cache blocks held
	generated int
	granted   int // tokens that may be generated with what has come from the stage before
	target    int // tokens to generate; 0 in the last of several stages, which answers chunk by chunk
	prompt    int // prompt tokens counted so far
	computed  int // of those, computed here
	sent      int // generated tokens already passed on

	started, preempted, aborted bool
}

// accept takes a share of a request's input, from the stage before or, for the first stage, from the client. Shares are
// cumulative, so that chunks may overtake each other.
func (e *engine) accept(r *request, share float64) {
	j := r.jobs[e.stage]
	if j == nil {
		j = e.enqueue(r)
	}
	if e.vocoder {
		fresh := int(float64(r.codec)*share+0.5) - j.prompt - j.uncounted
		if fresh > 0 {
			j.toPrefill += fresh
			j.uncounted += fresh
		}
	} else {
		j.granted = max(j.granted, int(float64(j.target)*share+0.5))
	}
	e.begin()
}

func (e *engine) enqueue(r *request) *job {
	p := e.pipeline
	j := &job{engine: e, request: r, arrival: p.now, rank: e.arrived % p.options.Ranks}
	e.arrived++
	switch {
	case e.vocoder: // its input comes in chunks
		r.silent = p.chance(silentShare) || p.faults[SilentAudio] && e == p.silentReplica() && p.chance(silentAudioShare)
	case e.stage == 0:
		j.uncounted, j.cached, j.target = r.prompt, r.cached, r.output
	default:
		j.uncounted, j.target = r.prompt, r.codec
	}
	j.toPrefill = j.uncounted - j.cached
	j.kv = j.cached
	r.jobs[e.stage] = j
	e.waiting = append(e.waiting, j)
	if e.stage == 0 {
		e.metrics.arrived(r)
	}
	return j
}

// next is the number of tokens that the job would compute in a pass with the given budget, and whether they are prefill.
func (j *job) next(budget int) (tokens int, prefill bool) {
	switch {
	case budget <= 0 || j.aborted:
		return 0, false
	case j.toPrefill > 0:
		return min(budget, j.toPrefill), true
	case j.generated < j.granted:
		return 1, false
	default:
		return 0, false
	}
}

// apply takes one pass's work into account and returns the tokens that count for the pass: generated ones, and the
// prompt when its prefill is complete. A stage that answers with audio generates no tokens but the one that stands for
// its first answer, so that it has a time to first token and no inter-token latency.
func (j *job) apply(tokens int, prefill bool) int {
	j.kv += tokens
	if j.engine.vocoder {
		j.kv = min(j.kv, audioWindow)
	}
	counted := 0
	if prefill {
		if j.toPrefill -= tokens; j.toPrefill > 0 {
			return 0
		}
		counted = j.countPrompt()
	}
	if !j.engine.vocoder || j.generated == 0 {
		j.generated++
		j.engine.metrics.generationTokens++
		j.tokenTimes()
		counted++
	}
	j.output()
	return counted
}

// countPrompt moves the prompt to the counters and returns the tokens of it that were computed. A prompt that is
// computed again after a preemption counts once.
func (j *job) countPrompt() int {
	m := j.engine.metrics
	computed := j.uncounted - j.cached
	j.prompt += j.uncounted
	j.computed += computed
	m.promptTokens += float64(j.uncounted)
	m.localCompute += float64(computed)
	m.localCacheHit += float64(j.cached)
	j.uncounted, j.cached = 0, 0
	return computed
}

func (j *job) tokenTimes() {
	now, m := j.engine.pipeline.now, j.engine.metrics
	if j.generated == 1 {
		j.firstToken = now
		m.ttft.observe((now - j.arrival).Seconds())
	} else {
		m.itl.observe((now - j.lastToken).Seconds())
	}
	j.lastToken = now
}

// output passes on what is due: a chunk to the next stage, a chunk of audio to the client, or the end.
func (j *job) output() {
	e, r := j.engine, j.request
	p := e.pipeline
	if e.vocoder {
		p.playChunk(j)
		if j.prompt >= r.codec {
			e.complete(j)
			p.finishAudio(j)
		}
		return
	}
	if r.audio && (j.generated == j.target || j.generated == nextChunk(e.stage, j.sent)) {
		p.send(j, j.generated-j.sent, float64(j.generated)/float64(j.target))
		j.sent = j.generated
	}
	if j.generated == j.target {
		e.complete(j)
		if !r.audio && !r.done {
			p.finish(r)
		}
	}
}

// nextChunk is the number of tokens at which a stage sends again after it has sent so many. The first chunks are short,
// for an early first sound; later ones grow as fast as the player's buffer lets them.
func nextChunk(stage, sent int) int {
	if stage == 0 {
		switch {
		case sent < 4:
			return 4
		case sent < 18:
			return sent + 7
		default:
			return sent + 16
		}
	}
	switch {
	case sent < 6:
		return 6
	case sent < 14:
		return 14
	default:
		return sent + 22
	}
}
