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

	compressors *compressors

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
	lineup  *lineup
	flights []*flight
	callers int64 // that wait for it; guarded by the pool's mutex
	done    chan struct{}
	page    *Page // set before done is closed
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
		page := p.assemble(r)
		page.readers.Store(1)
		p.leave(r)
		return page, nil
	}
}

// join makes the caller one of those that wait for the run under way, or for a new
// one. One on an earlier lineup is left to those who wait for it: its scrapes are
// shared anyway.
func (p *Pool) join(deadline time.Time, hops string) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.lineup != p.lineup {
		r := &run{lineup: p.lineup, done: make(chan struct{}), flights: make([]*flight, len(p.lineup.targets))}
		for i, t := range p.lineup.targets {
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
	page := p.assemble(r)
	p.options.Totals.add(page)
	p.mu.Lock()
	if p.run == r {
		p.run = nil
	}
	page.readers.Store(r.callers)
	unwanted := r.callers == 0
	r.page = page
	p.mu.Unlock()
	if unwanted {
		page.Merged.Release()
	}
	close(r.done)
}

// assemble merges what the run's flights have brought so far.
func (p *Pool) assemble(r *run) *Page {
	page := &Page{States: make([]State, len(r.flights)), compressors: &p.compressors}
	pages := make([]*exposition.Page, 1+len(r.flights))
	for i, f := range r.flights {
		s := State{Target: r.lineup.targets[i]}
		select {
		case <-f.done:
			s.Outcome = s.Target.retain(f.outcome)
			pages[i+1] = s.Outcome.Page
		default:
		}
		s.Counts = s.Target.Counts()
		page.States[i] = s
	}
	pages[0] = p.own.page(r.lineup.own, page.States)
	page.Merged = r.lineup.merger.Merge(pages)
	return page
}
