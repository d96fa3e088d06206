package scrape

import (
	"context"
	"sync"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// solo makes the page of one target alone, or of none, with what the exporter itself
// says about it. What it learns is kept from one page to the next.
type solo struct {
	own         *ownPage
	compressors *compressors

	mu     sync.Mutex
	merger *exposition.Merger
}

func (p *Pool) newSolo() *solo {
	return &solo{own: newOwnPage(p.options.Logger, p.buffers), compressors: &p.compressors, merger: exposition.NewMerger(2)}
}

// page takes over the reference to the state's page.
func (s *solo) page(render Own, states []State) *Page {
	pages := make([]*exposition.Page, 2)
	pages[0] = s.own.page(render, states)
	page := &Page{compressors: s.compressors}
	if len(states) == 1 && states[0].Outcome != nil {
		pages[1] = states[0].Outcome.Page
		page.States = states
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	page.Merged = s.merger.Merge(pages)
	page.readers.Store(1)
	return page
}

// Probe returns the page of one target, with what health renders about it, to be
// given back with Release. It is scraped as in Scrape: never twice at a time, and
// not within its interval. The error is the caller's own: its context has ended.
func (p *Pool) Probe(ctx context.Context, t *Target, deadline time.Time, hops string, health Own) (*Page, error) {
	f := t.start(p.ctx, deadline, hops)
	left := time.Until(deadline)
	timer := time.NewTimer(left + min(left/10, lastWords))
	defer timer.Stop()
	state := State{Target: t}
	select {
	case <-f.done:
		state.Outcome = t.retain(f.outcome)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
	}
	state.Counts = t.Counts()
	t.soloOnce.Do(func() { t.solo = p.newSolo() })
	page := t.solo.page(health, []State{state})
	p.options.Totals.add(page)
	return page, nil
}

// Alone returns the page without any target, to be given back with Release: what
// render says, given how the targets were when they were last scraped.
func (p *Pool) Alone(render Own) *Page {
	lineup := p.now()
	states := make([]State, len(lineup.targets))
	for i, t := range lineup.targets {
		states[i] = State{Target: t, Outcome: t.Last(), Counts: t.Counts()}
	}
	p.soloOnce.Do(func() { p.solo = p.newSolo() })
	p.solo.own.rewriteBy(lineup.prefix)
	return p.solo.page(func(dst []byte, _ []State) []byte { return render(dst, states) }, nil)
}
