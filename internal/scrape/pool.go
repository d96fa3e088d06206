package scrape

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// PoolOptions are what a pool needs beside its configuration.
type PoolOptions struct {
	Own    Own     // renders the exporter's own families; nil: none
	Totals *Totals // counts what merging costs
	Logger *slog.Logger

	Found discovery.Found                     // what discovery has found; nil: nothing
	Shard func(pipeline, address string) bool // whether a target is one of this exporter's; nil: all are
	Self  func(address string) (listens bool) // whether this exporter listens at an address; nil: nowhere
}

// Pool holds the targets of the configuration in force, and of what is discovered.
type Pool struct {
	options PoolOptions
	own     *ownPage
	buffers *exposition.Buffers
	ctx     context.Context
	cancel  context.CancelFunc

	updating sync.Mutex // held by Update
	recipes  []*recipe  // of the lineup

	mu     sync.Mutex
	lineup *lineup
	run    *run // under way on the lineup, or nil

	compressors compressors

	soloOnce sync.Once
	solo     *solo // the page without targets
}

// lineup is a list of targets. It does not change: a run ends on the one that it
// has started with.
type lineup struct {
	targets  []*Target
	merger   *exposition.Merger
	own      Own
	prefix   string // of omni families
	rejected []Rejected
}

// NewPool returns the pool of a configuration's targets. The error names the
// pipeline, and the target or file that cannot be used.
func NewPool(c *config.Config, o PoolOptions) (*Pool, error) {
	if o.Found == nil {
		o.Found = discovery.Nothing
	}
	if o.Totals == nil {
		o.Totals = &Totals{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		options: o, buffers: &exposition.Buffers{}, ctx: ctx, cancel: cancel,
		lineup: &lineup{merger: exposition.NewMerger(1)},
	}
	p.own = newOwnPage(o.Logger, p.buffers)
	if err := p.Update(c, o.Own); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Update gives the pool the targets of a configuration and of what is discovered by
// now. Targets of which nothing has changed stay the same, with their line cache,
// their connection, their counts and a scrape under way; of those that are scraped in
// another way from now on, the counts stay. On an error nothing changes.
func (p *Pool) Update(c *config.Config, own Own) error {
	p.updating.Lock()
	defer p.updating.Unlock()
	made, err := p.plan(c)
	if err != nil {
		return err
	}
	before := p.now()
	next := &lineup{own: own, prefix: c.OmniPrefix, rejected: made.rejected}
	known := map[targetKey]int{}
	counted := map[[2]string]*tally{}
	for i, t := range before.targets {
		known[t.key] = i
		counted[[2]string{t.Pipeline(), t.Address()}] = t.tally
	}
	from := []int{0} // by source of the merger: the own page comes first
	for _, e := range made.endpoints {
		key := e.key()
		if i, ok := known[key]; ok {
			next.targets, from = append(next.targets, before.targets[i]), append(from, 1+i)
			continue
		}
		t := newTarget(e.options(c, p.options.Logger), p.buffers)
		t.key, t.totals = key, p.options.Totals
		if tally, ok := counted[[2]string{t.Pipeline(), t.Address()}]; ok {
			t.tally = tally
		}
		next.targets, from = append(next.targets, t), append(from, -1)
	}
	next.merger = before.merger
	if !slices.Equal(before.targets, next.targets) {
		next.merger = before.merger.Rearranged(from)
	}
	p.recipes = made.recipes
	p.own.rewriteBy(c.OmniPrefix)
	p.mu.Lock()
	p.lineup = next
	p.mu.Unlock()
	retire(before, next)
	logRejected(p.options.Logger, before.rejected, next.rejected)
	return nil
}

// retire ends the connections to targets that are not in the next lineup.
func retire(before, next *lineup) {
	type place struct {
		connections *openConnections
		address     string
	}
	stays := make(map[place]bool, len(next.targets))
	for _, t := range next.targets {
		stays[place{t.key.recipe.connections, t.Address()}] = true
	}
	for _, t := range before.targets {
		if !stays[place{t.key.recipe.connections, t.Address()}] {
			t.retire()
		}
	}
}

// now returns the lineup in force.
func (p *Pool) now() *lineup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lineup
}

// Targets returns the pool's targets in the order of the configuration; those that
// are discovered follow the others of their upstream, by address.
func (p *Pool) Targets() []*Target { return p.now().targets }

// Rejected returns the targets that were found and cannot be scraped.
func (p *Pool) Rejected() []Rejected { return p.now().rejected }

// Find returns the targets with an address, of one pipeline or, if that is nil, of
// any.
func (p *Pool) Find(address string, pipeline *string) []*Target {
	var out []*Target
	for _, t := range p.Targets() {
		if t.Address() == address && (pipeline == nil || *pipeline == t.Pipeline()) {
			out = append(out, t)
		}
	}
	return out
}

// Close ends all scrapes under way and the idle connections.
func (p *Pool) Close() {
	p.cancel()
	for _, t := range p.Targets() {
		t.retire()
	}
}
