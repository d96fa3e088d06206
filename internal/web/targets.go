package web

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// targetList is the answer of /api/v1/targets.
type targetList struct {
	Targets  []TargetStatus   `json:"targets"`
	Rejected []rejectedTarget `json:"rejected"`
}

// rejectedTarget is a target that was found and is not scraped.
type rejectedTarget struct {
	Target   string `json:"target"` // as found
	Pipeline string `json:"pipeline"`
	Reason   string `json:"reason"`
}

// serveTargets answers with the targets and how their last scrapes went. It scrapes
// nothing.
func (s *Server) serveTargets(w http.ResponseWriter, _ *http.Request) {
	targets := s.pool.Targets()
	states := make([]scrape.State, len(targets))
	for i, t := range targets {
		states[i] = scrape.State{Target: t, Outcome: t.Last(), Counts: t.Counts()}
	}
	s.writeJSON(w, targetList{Targets: targetStatuses(states), Rejected: s.rejected()})
}

func (s *Server) rejected() []rejectedTarget {
	out := []rejectedTarget{}
	for _, r := range s.pool.Rejected() {
		out = append(out, rejectedTarget{r.Address, r.Pipeline, string(r.Reason)})
	}
	return out
}

// serveSD answers with target groups for http_sd_configs of Prometheus: each target
// is scraped at this exporter's /probe, and one more is the exporter's own families.
// The instance is the target's own address, so that dashboards and alerts do not
// depend on who scrapes.
func (s *Server) serveSD(w http.ResponseWriter, r *http.Request) {
	if r.Host == "" {
		http.Error(w, "the Host header is missing: it is the address that targets are scraped at", http.StatusBadRequest)
		return
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	here := []model.LabelSet{{model.AddressLabel: model.LabelValue(r.Host)}}
	groups := []*targetgroup.Group{{Targets: here, Labels: model.LabelSet{
		model.SchemeLabel:                     model.LabelValue(scheme),
		model.MetricsPathLabel:                model.LabelValue(s.options.TelemetryPath),
		model.ParamLabelPrefix + targetsParam: targetsNone,
	}}}
	for _, t := range s.pool.Targets() {
		labels := model.LabelSet{
			model.SchemeLabel:                    model.LabelValue(scheme),
			model.MetricsPathLabel:               probePath,
			model.ParamLabelPrefix + probeTarget: model.LabelValue(t.Address()),
			model.InstanceLabel:                  model.LabelValue(t.Address()),
		}
		set := func(name model.LabelName, value string) {
			if value != "" {
				labels[name] = model.LabelValue(value)
			}
		}
		set(model.ParamLabelPrefix+probePipeline, t.Pipeline())
		set("pipeline", t.Pipeline())
		set("stage", t.Stage())
		set(model.MetaLabelPrefix+"omni_replica", t.Replica())
		groups = append(groups, &targetgroup.Group{Targets: here, Labels: labels})
	}
	s.writeJSON(w, groups)
}

// writeJSON answers with a value as JSON that nobody may keep.
func (s *Server) writeJSON(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "answer cannot be made", http.StatusInternalServerError)
		s.options.Logger.Error("answer cannot be made", "err", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}
