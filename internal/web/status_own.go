package web

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// ownFamilies are the exporter's own families by name: what is counted for
// Prometheus is not counted a second time for the status page.
type ownFamilies map[string]*dto.MetricFamily

func (s *Server) gatherOwn() ownFamilies {
	families, err := s.options.Gatherer.Gather()
	if err != nil {
		s.options.Logger.Error("own metrics are not complete", "err", err)
	}
	out := make(ownFamilies, len(families))
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// one returns the value of a family without labels, 0 if it is not there.
func (f ownFamilies) one(name string) float64 {
	for _, m := range f[name].GetMetric() {
		return valueOf(m)
	}
	return 0
}

// by returns a family's values by one label.
func (f ownFamilies) by(name, label string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range f[name].GetMetric() {
		out[labelOf(m, label)] += valueOf(m)
	}
	return out
}

func valueOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func eventsStatus(own ownFamilies) EventsStatus {
	return EventsStatus{
		Accepted: own.by("omni_exporter_events_received_total", "type"),
		Refused:  own.by("omni_exporter_events_rejected_total", "reason"),
		Ignored:  own.by("omni_exporter_events_ignored_total", "reason"),
		Series:   own.one("omni_exporter_events_series"), SeriesLimit: own.one("omni_exporter_events_series_limit"),
	}
}

func configStatus(c *config.Config, own ownFamilies) ConfigStatus {
	status := ConfigStatus{YAML: withoutParams(c).String(), ReloadOK: true}
	if f := own["omni_exporter_config_last_reload_successful"]; f != nil {
		status.ReloadOK = own.one("omni_exporter_config_last_reload_successful") == 1
	}
	if seconds := own.one("omni_exporter_config_last_reload_success_timestamp_seconds"); seconds > 0 {
		status.LastSuccess = time.Unix(int64(seconds), 0)
	}
	return status
}

// withoutParams returns the configuration with the values of query parameters hidden:
// servers take tokens in them, and their type does not say that they are secret.
func withoutParams(c *config.Config) *config.Config {
	out := *c
	out.Pipelines = slices.Clone(c.Pipelines)
	for i := range out.Pipelines {
		p := &out.Pipelines[i]
		p.Upstreams = slices.Clone(p.Upstreams)
		for j := range p.Upstreams {
			u := &p.Upstreams[j]
			if len(u.Params) == 0 {
				continue
			}
			hidden := make(map[string][]string, len(u.Params))
			for name := range u.Params {
				hidden[name] = []string{"<secret>"}
			}
			u.Params = hidden
		}
	}
	return &out
}

// connected is the phase of an endpoint's connection that is no problem.
const connected = string(stream.PhaseConnected)

// rankKey is what tells one rank's series from another's.
type rankKey struct{ pipeline, stage, replica, worker, rank, mode string }

func rankKeyOf(m *dto.Metric) rankKey {
	return rankKey{
		labelOf(m, "pipeline"), labelOf(m, "stage"), labelOf(m, "replica"),
		labelOf(m, "worker_id"), labelOf(m, "dp_rank"), labelOf(m, "capture_mode"),
	}
}

// ranks joins what is known of endpoints with what is counted of the ranks behind
// them. Ranks without an endpoint are those of traces, and those whose publisher has
// started anew under another worker id.
func ranks(endpoints []stream.EndpointState, own ownFamilies) []RankStatus {
	counted := map[rankKey]*RankStatus{}
	at := func(m *dto.Metric) *RankStatus {
		k := rankKeyOf(m)
		r := counted[k]
		if r == nil {
			r = &RankStatus{Pipeline: k.pipeline, Stage: k.stage, Replica: k.replica, WorkerID: k.worker, Rank: k.rank}
			counted[k] = r
		}
		return r
	}
	sums := map[string]func(r *RankStatus, v float64){
		"records_total":          func(r *RankStatus, v float64) { r.Records += v },
		"records_lost_total":     func(r *RankStatus, v float64) { r.Lost += v },
		"records_rejected_total": func(r *RankStatus, v float64) { r.Rejected += v },
	}
	for name, add := range sums {
		for _, prefix := range []string{"dynamo_fpm_", "dynamo_fpm_sampled_"} {
			for _, m := range own[prefix+name].GetMetric() {
				add(at(m), valueOf(m))
			}
		}
	}
	for _, m := range own["dynamo_fpm_up"].GetMetric() {
		up := valueOf(m) == 1
		at(m).Up = &up
	}
	for _, m := range own["dynamo_fpm_last_record_timestamp_seconds"].GetMetric() {
		at(m).LastMessage = time.UnixMilli(int64(valueOf(m) * 1e3))
	}

	out := make([]RankStatus, 0, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		k := endpointKey(e)
		r := RankStatus{Pipeline: k.pipeline, Stage: k.stage, Replica: k.replica}
		if known := counted[k]; known != nil {
			r = *known
			delete(counted, k)
		}
		r.Endpoint, r.Phase, r.Reconnects = e.Endpoint.Address, string(e.Phase), e.Reconnects
		r.Reason, r.Error = string(e.LastReason), e.LastError
		if !e.LastMessage.IsZero() {
			r.LastMessage = e.LastMessage
		}
		out = append(out, r)
	}
	from := len(out)
	for _, r := range counted {
		if r.Up != nil {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out[from:], func(a, b RankStatus) int {
		return cmp.Or(cmp.Compare(a.Pipeline, b.Pipeline), natural(a.Stage, b.Stage), natural(a.Replica, b.Replica),
			cmp.Compare(a.WorkerID, b.WorkerID), natural(a.Rank, b.Rank))
	})
	return out
}

// endpointKey returns the rank that an endpoint's last record was of. A record
// without a worker id is counted under the endpoint's address.
func endpointKey(e *stream.EndpointState) rankKey {
	labels := e.Endpoint.Labels
	k := rankKey{pipeline: labels.Pipeline, stage: labels.Stage, replica: labels.Replica, worker: cmp.Or(e.WorkerID, e.Endpoint.Address)}
	rank := e.Rank
	if rank == fpm.UnknownRank {
		rank = max(e.Endpoint.Rank, 0)
	}
	k.rank = strconv.Itoa(rank)
	return k
}
