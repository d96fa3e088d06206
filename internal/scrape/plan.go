package scrape

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

// maxTargets bounds what discovery may bring: nobody runs so many, and a list that
// long is a fault of whoever made it.
const maxTargets = 20_000

// maxLoggedRejections bounds what one change writes to the log.
const maxLoggedRejections = 10

// RejectReason says why a target that was found is not scraped. The set is closed: it
// is a label of omni_exporter_rejected_targets.
type RejectReason string

// The reasons.
const (
	RejectAddress   RejectReason = "address"   // no host and port, or neither http nor https
	RejectDuplicate RejectReason = "duplicate" // another target of the pipeline has the address
	RejectLabel     RejectReason = "label"     // brings a label that series must not get
	RejectLimit     RejectReason = "limit"     // more targets than anyone runs
	RejectSelf      RejectReason = "self"      // the exporter's own address
)

// RejectReasons returns every reason, in a fixed order.
func RejectReasons() []RejectReason {
	return []RejectReason{RejectAddress, RejectDuplicate, RejectLabel, RejectLimit, RejectSelf}
}

// Rejected is a target that was found and is not scraped.
type Rejected struct {
	Pipeline string
	Address  string // as found: foreign text
	Reason   RejectReason
}

// plan is what a lineup is made by.
type plan struct {
	recipes   []*recipe
	endpoints []endpoint
	rejected  []Rejected
}

// plan returns the endpoints of a configuration and of what was found. The error
// is about what the configuration itself names.
func (p *Pool) plan(c *config.Config) (*plan, error) {
	out := &plan{}
	for i := range c.Pipelines {
		if err := p.planPipeline(out, c, &c.Pipelines[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *Pool) planPipeline(out *plan, c *config.Config, pipeline *config.Pipeline) error {
	reject := func(address string, reason RejectReason) {
		out.rejected = append(out.rejected, Rejected{pipeline.Name, address, reason})
	}
	// What the configuration names goes before what is found, wherever it stands.
	named := make([][]endpoint, len(pipeline.Upstreams))
	taken := map[string]bool{}
	for i := range pipeline.Upstreams {
		named[i] = static(&pipeline.Upstreams[i], reject)
		for j := range named[i] {
			address := named[i][j].address
			if taken[address] {
				return fmt.Errorf("pipeline %q: target %q occurs twice after relabeling: give it to one upstream", pipeline.Name, address)
			}
			if p.options.Self != nil && p.options.Self(address) {
				return fmt.Errorf("pipeline %q: target %q is where this exporter itself listens: remove it, its own families are on the page anyway", pipeline.Name, address)
			}
			taken[address] = true
		}
	}
	numbering := newNumbering(pipeline)
	for i := range pipeline.Upstreams {
		u := &pipeline.Upstreams[i]
		r, err := newRecipe(c, pipeline, u, slices.Concat(p.recipes, out.recipes))
		if err != nil {
			return fmt.Errorf("pipeline %q: upstreams[%d]: %w", pipeline.Name, i, err)
		}
		out.recipes = append(out.recipes, r)
		all := named[i]
		for _, e := range discovered(u, p.options.Found, reject) {
			switch {
			case taken[e.address]:
				reject(e.address, RejectDuplicate)
			case p.options.Self != nil && p.options.Self(e.address):
				reject(e.address, RejectSelf)
			case len(taken) >= maxTargets:
				reject(e.address, RejectLimit)
			default:
				taken[e.address] = true
				all = append(all, e)
			}
		}
		for _, e := range all {
			e.recipe = r
			numbering.number(&e)
			if p.options.Shard == nil || p.options.Shard(pipeline.Name, e.address) {
				out.endpoints = append(out.endpoints, e)
			}
		}
	}
	return nil
}

// numbering gives a replica to the targets of a stage that have none: their running
// number where the configuration names all of the stage's targets, else their
// address, because what is found comes in no order and goes again.
type numbering struct {
	next    map[string]int
	found   map[string]bool // stages some of whose targets are discovered
	foundIn bool            // discovery may put targets into any stage
}

func newNumbering(p *config.Pipeline) *numbering {
	n := &numbering{next: map[string]int{}, found: map[string]bool{}}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		switch {
		case !u.Discovers():
		case u.Stage == "" || len(u.RelabelConfigs) > 0:
			n.foundIn = true
		default:
			n.found[u.Stage] = true
		}
	}
	return n
}

func (n *numbering) number(e *endpoint) {
	if e.stage == "" {
		return
	}
	if e.replica == "" {
		e.replica = strconv.Itoa(n.next[e.stage])
		if n.foundIn || n.found[e.stage] {
			e.replica = e.address
		}
	}
	n.next[e.stage]++
}

// logRejected says which targets are rejected that were not before.
func logRejected(logger *slog.Logger, before, now []Rejected) {
	if logger == nil {
		return
	}
	known := make(map[Rejected]bool, len(before))
	for _, r := range before {
		known[r] = true
	}
	logged := 0
	for _, r := range now {
		if known[r] {
			continue
		}
		if logged++; logged > maxLoggedRejections {
			logger.Warn("more targets were rejected, see omni_exporter_rejected_targets")
			return
		}
		logger.Warn("target is not scraped", "pipeline", r.Pipeline, "target", shortened(r.Address), "reason", string(r.Reason))
	}
}

// shortened bounds foreign text for a log.
func shortened(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", s)
}
