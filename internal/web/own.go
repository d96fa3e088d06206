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
	upstream := collector.NewUpstream(func() collector.UpstreamState { return upstreamState(c, states, s.totals) })
	return upstream.AppendText(page.Bytes())
}

func upstreamState(c *config.Config, states []scrape.State, totals *scrape.Totals) collector.UpstreamState {
	out := collector.UpstreamState{
		Targets: make([]collector.UpstreamTarget, 0, len(states)),
		Stages:  stages(c, states),
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
	return out
}

func targetState(s *scrape.State) collector.UpstreamTarget {
	t := collector.UpstreamTarget{
		Target: s.Target.Address(), Pipeline: s.Target.Pipeline(),
		LastSuccess: s.Counts.LastSuccess, Scrapes: s.Counts.Scrapes,
		LineHits: s.Counts.LineHits, LineMisses: s.Counts.LineMisses,
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
// large as they make it.
func stages(c *config.Config, states []scrape.State) []collector.UpstreamStage {
	type key struct{ pipeline, stage string }
	seen := map[key]map[relabel.Place]bool{}
	targets := map[key]int{}
	for i := range states {
		t := states[i].Target
		if stage := t.Stage(); stage != "" {
			targets[key{t.Pipeline(), stage}] += t.Engines()
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
			out = append(out, collector.UpstreamStage{
				Pipeline: p.Name, Stage: k.stage, Name: p.StageName(j),
				Expected: max(p.Stages[j].Replicas, targets[k]), Seen: len(seen[k]),
			})
		}
	}
	return out
}
