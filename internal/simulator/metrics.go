package simulator

import (
	"sort"
	"time"
)

// histogram counts observations by bucket, each in the first bucket whose bound is not below it.
type histogram struct {
	bounds []float64
	counts []uint64 // one more than bounds: the last is above them all
	count  uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)]++
	h.count++
	h.sum += v
}

// The finished_reason values that vLLM creates beforehand. Client aborts are in none of them (vllm#31503).
const (
	reasonStop   = "stop"
	reasonLength = "length"
)

// engineMetrics is what one engine counts, as vLLM does (vLLM's production metrics). Counters are floats because the
// Python client's are.
type engineMetrics struct {
	created float64 // unix seconds

	promptTokens, localCompute, localCacheHit float64
	generationTokens                          float64
	preemptions                               float64
	prefixQueries, prefixHits                 float64
	mediaQueries, mediaHits                   float64
	flops, readBytes, writeBytes              float64
	success                                   map[string]float64

	ttft, itl, timePerToken                 *histogram // seconds
	e2e, queue, inference, prefill, decode  *histogram // seconds
	promptLength, generationLength          *histogram // tokens
	maxGeneration, paramsMax, prefillTokens *histogram // tokens
	iteration                               *histogram // tokens per pass
	paramsN                                 *histogram
}

// bucketBounds are the bucket lists of vLLM's histograms.
type bucketBounds struct{ ttft, token, latency, tokens, iteration, n []float64 }

func vllmBuckets() bucketBounds {
	b := bucketBounds{
		ttft:      []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560},
		token:     []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80},
		latency:   []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680},
		iteration: []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384},
		n:         []float64{1, 2, 5, 10, 20},
	}
	// 1, 2, 5 times powers of ten up to the model's longest context, here 2^20 tokens.
	for power := 1.0; power <= 1e6; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * power; v <= 1<<20 {
				b.tokens = append(b.tokens, v)
			}
		}
	}
	return b
}

func newEngineMetrics(created float64) *engineMetrics {
	b := vllmBuckets()
	return &engineMetrics{
		created: created,
		success: make(map[string]float64),
		ttft:    newHistogram(b.ttft), itl: newHistogram(b.token), timePerToken: newHistogram(b.token),
		e2e: newHistogram(b.latency), queue: newHistogram(b.latency), inference: newHistogram(b.latency),
		prefill: newHistogram(b.latency), decode: newHistogram(b.latency),
		promptLength: newHistogram(b.tokens), generationLength: newHistogram(b.tokens),
		maxGeneration: newHistogram(b.tokens), paramsMax: newHistogram(b.tokens), prefillTokens: newHistogram(b.tokens),
		iteration: newHistogram(b.iteration), paramsN: newHistogram(b.n),
	}
}

// arrived counts what a request brings to the engine that takes it in.
func (m *engineMetrics) arrived(r *request) {
	if r.media {
		m.mediaQueries++
	}
	if r.mediaCached {
		m.mediaHits++
	}
}

// pass counts one forward pass. The estimates are those of a dense model of 30 billion parameters in 16 bits.
func (m *engineMetrics) pass(tokens, sequences int) {
	const parameters = 30e9
	m.iteration.observe(float64(tokens))
	m.flops += 2 * parameters * float64(tokens)
	m.readBytes += 2 * parameters
	m.writeBytes += 4096 * float64(sequences)
}

// completed observes a job once in every per-request histogram and counts its reason.
func (m *engineMetrics) completed(j *job) {
	r, now := j.request, j.engine.pipeline.now
	between := func(from, to time.Duration) float64 { return (to - from).Seconds() }
	m.e2e.observe(between(j.arrival, now))
	m.queue.observe(between(j.arrival, j.scheduledAt))
	m.inference.observe(between(j.scheduledAt, j.lastToken))
	m.prefill.observe(between(j.scheduledAt, j.firstToken))
	decode := between(j.firstToken, j.lastToken)
	m.decode.observe(decode)
	m.timePerToken.observe(decode / float64(max(j.generated-1, 1)))
	m.promptLength.observe(float64(j.prompt))
	m.generationLength.observe(float64(j.generated))
	m.maxGeneration.observe(float64(j.generated))
	m.paramsN.observe(1)
	m.paramsMax.observe(float64(r.maxTokens))
	m.prefillTokens.observe(float64(j.computed))
	if j.engine.stage == 0 {
		m.success[r.finishedReason()]++
	} else {
		m.success[reasonStop]++
	}
}
