package scrape

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// State is what is known of a target when a page is put together.
type State struct {
	Target  *Target
	Outcome *Outcome // nil if the target did not answer in time for this page
	Counts  Counts
}

// Page is one answer to one or more callers: every target's page, merged. Each
// caller gives it back with Release.
type Page struct {
	Merged *exposition.Merged
	States []State // in the order of the configuration

	readers atomic.Int64 // callers that have not given it back

	mu      sync.Mutex
	encoded map[encodingKey][]byte
}

// Release gives the page back. It must not be used afterwards.
func (p *Page) Release() {
	if p.readers.Add(-1) == 0 {
		p.Merged.Release()
	}
}

// Own appends the exporter's own families, as a text page, given the states of the
// targets that the same answer holds.
type Own func(dst []byte, states []State) []byte

// run is one round of scrapes that callers share.
type run struct {
	flights []*flight
	callers int64 // that wait for it; guarded by the pool's mutex
	done    chan struct{}
	page    *Page // set before done is closed
}

// Pool holds the targets of one version of the configuration.
type Pool struct {
	targets []*Target
	own     *ownPage
	merger  *exposition.Merger
	ctx     context.Context
	cancel  context.CancelFunc
	buffers *exposition.Buffers
	totals  *Totals
	closers []func()

	mu  sync.Mutex
	run *run // under way, or nil
}

// Targets returns the pool's targets in the order of the configuration.
func (p *Pool) Targets() []*Target { return p.targets }

// Close ends all scrapes under way and the idle connections.
func (p *Pool) Close() {
	p.cancel()
	for _, c := range p.closers {
		c()
	}
}

// lastWords is how long after its deadline a page waits for targets that end with
// it to say so: else the page that they are missing from could not count why.
const lastWords = 100 * time.Millisecond

// Scrape returns the page of all targets, to be given back with Release. Callers
// that overlap share one run; one that leaves does not end it for the others, and
// one whose deadline comes before the run's end gets the targets that have answered
// until then. hops is what HopHeader is sent with. The error is the caller's own:
// its context has ended.
func (p *Pool) Scrape(ctx context.Context, deadline time.Time, hops string) (*Page, error) {
	r := p.join(deadline, hops)
	left := time.Until(deadline)
	timer := time.NewTimer(left + min(left/10, lastWords))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.page, nil
	case <-ctx.Done():
		p.leave(r)
		return nil, ctx.Err()
	case <-timer.C:
		page := p.assemble(r.flights)
		page.readers.Store(1)
		p.leave(r)
		return page, nil
	}
}

// join makes the caller one of those that wait for the run under way, or for a new
// one.
func (p *Pool) join(deadline time.Time, hops string) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		r := &run{done: make(chan struct{}), flights: make([]*flight, len(p.targets))}
		for i, t := range p.targets {
			r.flights[i] = t.start(p.ctx, deadline, hops)
		}
		p.run = r
		go p.finish(r)
	} else {
		for _, f := range p.run.flights {
			f.extend(deadline)
		}
	}
	p.run.callers++
	return p.run
}

// leave ends the caller's waiting for a run. Its page, if there is one by now, was
// made for one caller too many.
func (p *Pool) leave(r *run) {
	p.mu.Lock()
	r.callers--
	page := r.page
	p.mu.Unlock()
	if page != nil {
		page.Release()
	}
}

// finish waits for the run's targets, each of which ends by its own deadline, and
// makes the page for those who wait.
func (p *Pool) finish(r *run) {
	for _, f := range r.flights {
		<-f.done
	}
	page := p.assemble(r.flights)
	p.totals.add(page)
	p.mu.Lock()
	p.run = nil
	page.readers.Store(r.callers)
	unwanted := r.callers == 0
	r.page = page
	p.mu.Unlock()
	if unwanted {
		page.Merged.Release()
	}
	close(r.done)
}

// assemble merges what the flights have brought so far.
func (p *Pool) assemble(flights []*flight) *Page {
	page := &Page{States: make([]State, len(flights))}
	pages := make([]*exposition.Page, 1+len(flights))
	for i, f := range flights {
		s := State{Target: p.targets[i]}
		select {
		case <-f.done:
			s.Outcome = s.Target.retain(f.outcome)
			pages[i+1] = s.Outcome.Page
		default:
		}
		s.Counts = s.Target.Counts()
		page.States[i] = s
	}
	pages[0] = p.own.page(page.States)
	page.Merged = p.merger.Merge(pages)
	return page
}
