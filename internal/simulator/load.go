package simulator

import (
	"fmt"
	"math"
	"time"
)

// Shape of the traffic. The sizes are small for a language model so that a demo shows whole requests within seconds.
const (
	waveAmplitude = 0.4 // of the sinusoid, as a share of the mean rate
	burstFactor   = 1.7 // how much a burst lifts the rate
	burstGap      = 75 * time.Second
	shortestBurst = 6 * time.Second
	longestBurst  = 14 * time.Second

	promptMean, promptMax = 330, 640 // tokens
	outputMean, outputMax = 60, 160  // tokens
	sharedPrefix          = 160      // tokens of the system prompt that most requests begin with
	speechPerToken        = 0.11     // seconds of audio per text token
	codecRate             = 12.5     // codec tokens per second of audio
	sampleRate            = 24000    // Hz

	nonStreamingShare = 0.1   // of audio requests: no first packet, no continuity
	disconnectShare   = 0.015 // clients that leave early
	hiccupShare       = 0.003 // streams with one late chunk that the listener hears
	silentShare       = 0.002 // code2wav answers without audio
	toolShare         = 0.1   // requests with tools

	// maxQueue bounds an engine's waiting queue; past it the front end turns requests away.
	maxQueue = 512
	// maxInFlight bounds the requests under way whatever the rate.
	maxInFlight = 4096
)

// request is one user's request on its way through the stages.
type request struct {
	id          string
	arrival     time.Duration
	prompt      int // tokens
	cached      int // tokens of the prompt that a prefix cache can know
	output      int // text tokens to be generated
	maxTokens   int
	media       bool // carries an image or sound,
	mediaCached bool // seen before
	audio       bool // wants speech
	streaming   bool
	codec       int // codec tokens of the speech
	hiccup      int // number of the audio chunk that comes late; -1: none

	scheduled bool
	done      bool // finished or failed
	silent    bool
	route     []*engine // by stage, bound when the stage is first needed
	jobs      []*job    // by stage
	arrivals  []float64 // of audio chunks at the client, seconds since arrival
	bytes     []int     // of audio chunks
}

// currentRate is the arrival rate in requests per second at this moment.
func (p *Pipeline) currentRate() float64 {
	phase := 2 * math.Pi * p.now.Seconds() / p.options.WavePeriod.Seconds()
	rate := p.rate * (1 + waveAmplitude*math.Sin(phase))
	if p.now < p.burstEnd {
		rate *= burstFactor
	}
	return rate
}

// nextArrival draws from a Poisson process whose rate follows currentRate, by thinning the process of the peak rate.
func (p *Pipeline) nextArrival() {
	peak := p.rate * (1 + waveAmplitude) * burstFactor
	if peak == 0 {
		p.after(100*time.Millisecond, p.nextArrival)
		return
	}
	if p.chance(p.currentRate() / peak) {
		p.arrive()
	}
	gap := min(p.rng.ExpFloat64()/peak, 1) // a rate that is raised takes effect within a second
	p.after(seconds(gap), p.nextArrival)
}

func (p *Pipeline) nextBurst() {
	length := shortestBurst + time.Duration(p.rng.Int64N(int64(longestBurst-shortestBurst)))
	p.burstEnd = p.now + length
	p.after(length+time.Duration(float64(burstGap)*p.jitter(0.5)), p.nextBurst)
}

// arrive lets one request in, or turns it away when the pipeline is full.
func (p *Pipeline) arrive() {
	r := p.newRequest()
	first := p.pick(0)
	if first == nil || p.inFlight >= maxInFlight || len(first.waiting) >= maxQueue {
		p.answered(p.servers[0], r, 503, 0)
		return
	}
	p.inFlight++
	p.emit(Event{Type: RequestStarted, RequestID: r.id, ModelName: p.options.Model})
	r.route[0] = first
	first.accept(r, 1)
	patience := 45 + 30*p.rng.Float64()
	if p.chance(disconnectShare) {
		patience = 0.2 + 4*p.rng.Float64()
	}
	p.after(seconds(patience), func() { p.fail(r) })
}

func (p *Pipeline) newRequest() *request {
	p.requests++
	r := &request{
		id:        fmt.Sprintf("chatcmpl-%08x%08x", p.rng.Uint32(), uint32(p.requests)),
		arrival:   p.now,
		prompt:    p.logNormal(promptMean, 0.5, 32, promptMax),
		output:    p.logNormal(outputMean, 0.5, 8, outputMax),
		maxTokens: 128 << p.rng.IntN(2),
		media:     p.chance(0.4),
		audio:     len(p.stages) > 1 && !p.chance(p.options.TextShare),
		streaming: !p.chance(nonStreamingShare),
		hiccup:    -1,
		route:     make([]*engine, len(p.stages)),
		jobs:      make([]*job, len(p.stages)),
	}
	r.mediaCached = r.media && p.chance(0.2)
	r.output = min(r.output, r.maxTokens)
	if p.chance(0.6) {
		r.cached = min(sharedPrefix, (r.prompt-1)/blockSize*blockSize) // a whole number of blocks, never the whole prompt
	}
	r.codec = max(int(float64(r.output)*speechPerToken*codecRate*p.jitter(0.2)), 8)
	if p.chance(hiccupShare) {
		r.hiccup = 1 + p.rng.IntN(2)
	}
	return r
}

// logNormal draws a whole number with the given median and spread, clipped.
func (p *Pipeline) logNormal(median, sigma float64, low, high int) int {
	return min(max(int(median*math.Exp(sigma*p.rng.NormFloat64())), low), high)
}

// pick returns the live replica of a stage with the fewest requests, or nil when none lives.
func (p *Pipeline) pick(stage int) *engine {
	var best *engine
	for _, e := range p.stages[stage] {
		if e.dead {
			continue
		}
		if best == nil || e.load() < best.load() {
			best = e
		}
	}
	return best
}

// fail ends a request without an answer: its client left, or an engine that it needed is gone. A request that is over
// stays as it is.
func (p *Pipeline) fail(r *request) {
	if r.done {
		return
	}
	p.end(r)
	p.emit(Event{Type: RequestFailed, RequestID: r.id})
	for _, j := range r.jobs {
		if j != nil {
			j.aborted = true
			j.engine.begin() // an idle engine lets go of it at once, a busy one after its pass, a hung one never
		}
	}
	if p.options.Layout == Shared {
		p.answered(p.servers[0], r, 200, p.now-r.arrival) // the status line of a stream was sent long before
	}
}

// finish ends a request with its last stage's answer.
func (p *Pipeline) finish(r *request) {
	p.end(r)
	p.emit(Event{
		Type: RequestFinished, RequestID: r.id, FinishedReason: r.finishedReason(),
		E2ESeconds: (p.now - r.arrival).Seconds(),
	})
	if p.options.Layout == Shared {
		p.answered(p.servers[0], r, 200, p.now-r.arrival)
	}
}

func (p *Pipeline) end(r *request) {
	r.done = true
	p.inFlight--
}

func (r *request) finishedReason() string {
	if r.output == r.maxTokens {
		return reasonLength
	}
	return reasonStop
}
