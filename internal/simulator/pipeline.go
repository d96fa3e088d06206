package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Pipeline is a simulated pipeline. Its methods may be called from any goroutine, but not Step or Run from within a
// hook.
type Pipeline struct {
	options Options

	stepping sync.Mutex // one Step at a time, hooks included, so that hooks see events in order

	mu        sync.Mutex // guards everything below
	rng       *rand.Rand
	now       time.Duration // simulated time since options.Start
	planned   uint64
	agenda    agenda
	stages    [][]*engine // by stage, then replica
	engines   []*engine   // by flat index: stages in order, replicas within each
	servers   []*server
	faults    map[Fault]bool
	rate      float64 // requests per second, mean of a wave
	burstEnd  time.Duration
	requests  uint64 // ever arrived
	inFlight  int    // arrived and not yet finished or failed
	events    []Event
	passes    []ForwardPass
	listeners []net.Listener
}

const (
	// slice bounds how much simulated time passes between two deliveries to the hooks, and with it what is held for
	// them.
	slice = time.Second
	// tick is how often Run steps.
	tick = 50 * time.Millisecond
	// catchUp is how much real time Run makes up for after the process stood still.
	catchUp = 5 * time.Second
	// slowFactor is how much longer a forward pass of the slow replica takes. The last replica of the second stage is
	// the slow one, or of the only stage.
	slowFactor = 1.4
)

// New builds a pipeline at rest at simulated time zero. It fails on options out of range and names the option.
func New(o Options) (*Pipeline, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("simulated pipeline: %w", err)
	}
	p := &Pipeline{
		options: o,
		rng:     rand.New(rand.NewPCG(o.Seed, o.Seed^0x9e3779b97f4a7c15)),
		faults:  make(map[Fault]bool),
		rate:    o.ArrivalRate,
	}
	p.stages = make([][]*engine, len(o.Stages))
	for s, stage := range o.Stages {
		for r := range stage.Replicas {
			e := newEngine(p, len(p.engines), s, r)
			p.stages[s] = append(p.stages[s], e)
			p.engines = append(p.engines, e)
		}
	}
	slow := p.stages[min(1, len(p.stages)-1)]
	slow[len(slow)-1].slow = slowFactor
	p.addServers()
	p.after(0, p.nextArrival)
	p.after(burstGap, p.nextBurst)
	for _, e := range p.stages[0] {
		p.after(heartbeatEvery, e.heartbeat)
	}
	return p, nil
}

func (p *Pipeline) addServers() {
	for i := range p.options.servers(len(p.engines)) {
		engines := p.engines
		if p.options.Layout != Shared {
			engines = p.engines[i : i+1]
		}
		s := &server{pipeline: p, engines: engines}
		s.start()
		p.servers = append(p.servers, s)
		for _, e := range engines {
			e.server = s
			e.label = strconv.Itoa(e.index)
			if p.options.Layout == PerEngine {
				e.label = "0"
			}
		}
	}
	for _, i := range p.options.OpenMetrics {
		p.servers[i].openMetrics = true
	}
}

// Stages returns the stages with every default filled in, in the order in which flat engine indices count them.
func (p *Pipeline) Stages() []Stage { return slices.Clone(p.options.Stages) }

// Run lets simulated time follow real time, times Options.TimeScale, until ctx ends. It returns nil then.
func (p *Pipeline) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			elapsed := min(now.Sub(last), catchUp)
			last = now
			p.Step(time.Duration(float64(elapsed) * p.options.TimeScale))
		}
	}
}

// Step lets simulated time pass and calls the hooks, in order, with what happened.
func (p *Pipeline) Step(d time.Duration) {
	p.stepping.Lock()
	defer p.stepping.Unlock()
	for d > 0 {
		part := min(d, slice)
		d -= part
		events, passes := p.stepSlice(part)
		if len(events) > 0 {
			p.options.Events(events)
		}
		for _, pass := range passes {
			p.options.ForwardPasses(pass)
		}
	}
}

func (p *Pipeline) stepSlice(d time.Duration) ([]Event, []ForwardPass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(p.now + d)
	events, passes := p.events, p.passes
	p.events, p.passes = nil, nil
	return events, passes
}

// SetArrivalRate changes the average number of requests per second; 0 stops the load and what is under way runs out.
// Values below 0 or absurdly high are brought into range.
func (p *Pipeline) SetArrivalRate(perSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = min(max(perSecond, 0), maxArrivalRate)
}

// Now returns the wall clock of the simulation.
func (p *Pipeline) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock()
}

func (p *Pipeline) clock() time.Time { return p.options.Start.Add(p.now) }

// unix returns the simulated wall clock in seconds since 1970, as `_created` samples have it.
func (p *Pipeline) unix() float64 { return float64(p.clock().UnixMicro()) / 1e6 }

// jitter returns a factor around 1, between 1-spread and 1+spread.
func (p *Pipeline) jitter(spread float64) float64 { return 1 + spread*(2*p.rng.Float64()-1) }

// chance reports true with the given probability.
func (p *Pipeline) chance(probability float64) bool { return p.rng.Float64() < probability }
