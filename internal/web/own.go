package web

import (
	"bytes"

	"github.com/prometheus/common/expfmt"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// renderOwn appends the exporter's own families as a text page: those that are
// registered, and the health of the targets whose states the same answer holds.
func (s *Server) renderOwn(dst []byte, c *config.Config, states []scrape.State) []byte {
	return s.upstream(c, states).AppendText(s.renderRegistered(dst))
}

// renderAlone appends the same without what is said of single targets: with a page
// that holds none of them, that comes from /probe.
func (s *Server) renderAlone(dst []byte, c *config.Config, states []scrape.State) []byte {
	return s.upstream(c, states).AppendSums(s.renderRegistered(dst))
}

func (s *Server) upstream(c *config.Config, states []scrape.State) *collector.Upstream {
	return collector.NewUpstream(func() collector.UpstreamState {
		state := upstreamState(c, states, s.totals, s.sharded())
		state.Rejected = rejectedTargets(c, s.pool.Rejected())
		return state
	})
}

// sharded reports whether other exporters have a share of the targets.
func (s *Server) sharded() bool { return s.options.Shard != nil }

func (s *Server) renderRegistered(dst []byte) []byte {
	families, err := s.options.Gatherer.Gather()
	if err != nil {
		// What could be gathered is served; the rest is a fault of the exporter.
		s.options.Logger.Error("own metrics are not complete", "err", err)
	}
	page := bytes.NewBuffer(dst)
	encoder := expfmt.NewEncoder(page, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			s.options.Logger.Error("own family left out", "family", f.GetName(), "err", err)
		}
	}
	return page.Bytes()
}

func upstreamState(c *config.Config, states []scrape.State, totals *scrape.Totals, sharded bool) collector.UpstreamState {
	out := collector.UpstreamState{
		Targets: make([]collector.UpstreamTarget, 0, len(states)),
		Stages:  stages(c, states, sharded),
	}
	for i := range states {
		out.Targets = append(out.Targets, targetState(&states[i]))
	}
	for _, kind := range scrape.Conflicts() {
		out.Conflicts = append(out.Conflicts, collector.UpstreamLoss{Label: string(kind), Count: totals.Conflict(kind)})
	}
	for _, reason := range scrape.Drops() {
		out.Dropped = append(out.Dropped, collector.UpstreamLoss{Label: string(reason), Count: totals.Dropped(reason)})
	}
	out.LineHits, out.LineMisses = totals.Lines()
	return out
}

// renderHealth appends what there is to say of the targets whose states these are.
func (s *Server) renderHealth(dst []byte, states []scrape.State) []byte {
	state := collector.UpstreamState{}
	for i := range states {
		state.Targets = append(state.Targets, targetState(&states[i]))
	}
	return collector.NewUpstream(func() collector.UpstreamState { return state }).AppendTargets(dst)
}

// rejectedTargets counts the targets that were found and are not scraped, with a zero
// for each reason that does not occur.
func rejectedTargets(c *config.Config, rejected []scrape.Rejected) []collector.UpstreamRejected {
	type key struct {
		pipeline string
		reason   scrape.RejectReason
	}
	counts := map[key]int{}
	for _, r := range rejected {
		counts[key{r.Pipeline, r.Reason}]++
	}
	var out []collector.UpstreamRejected
	for i := range c.Pipelines {
		for _, reason := range scrape.RejectReasons() {
			name := c.Pipelines[i].Name
			out = append(out, collector.UpstreamRejected{Pipeline: name, Reason: string(reason), Count: counts[key{name, reason}]})
		}
	}
	return out
}

func targetState(s *scrape.State) collector.UpstreamTarget {
	t := collector.UpstreamTarget{
		Target: s.Target.Address(), Pipeline: s.Target.Pipeline(),
		LastSuccess: s.Counts.LastSuccess, Scrapes: s.Counts.Scrapes,
	}
	for _, reason := range scrape.Reasons() {
		t.Failures = append(t.Failures, collector.UpstreamLoss{Label: string(reason), Count: s.Counts.Failures[reason]})
	}
	if o := s.Outcome; o != nil {
		t.Up, t.Duration, t.BodySize = o.Failure == nil, o.Duration, o.BodySize
		if o.Summary != nil {
			t.Samples, t.Unmapped = o.Summary.Samples, len(o.Summary.Unmapped)
		}
	}
	return t
}

// stages says of each stage how many engines the configuration describes, and how
// many stand on the pages. A stage whose servers are targets of their own is as
// large as they make it. An exporter that has a share of the targets expects what
// these bring, and of a server with all stages, everything.
func stages(c *config.Config, states []scrape.State, sharded bool) []collector.UpstreamStage {
	type key struct{ pipeline, stage string }
	seen := map[key]map[relabel.Place]bool{}
	targets := map[key]int{}
	flat := map[string]bool{} // pipelines with a target whose engines the flat map places
	for i := range states {
		t := states[i].Target
		if stage := t.Stage(); stage != "" {
			targets[key{t.Pipeline(), stage}] += t.Engines()
		} else {
			flat[t.Pipeline()] = true
		}
		if o := states[i].Outcome; o != nil && o.Summary != nil {
			for place := range o.Summary.Places {
				k := key{t.Pipeline(), place.Stage}
				if seen[k] == nil {
					seen[k] = map[relabel.Place]bool{}
				}
				seen[k][place] = true
			}
		}
	}
	var out []collector.UpstreamStage
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		for j := range p.Stages {
			k := key{p.Name, p.StageLabel(j)}
			expected := targets[k]
			if !sharded || flat[p.Name] {
				expected = max(expected, p.Stages[j].Replicas)
			}
			out = append(out, collector.UpstreamStage{
				Pipeline: p.Name, Stage: k.stage, Name: p.StageName(j),
				Expected: expected, Seen: len(seen[k]),
			})
		}
	}
	return out
}
