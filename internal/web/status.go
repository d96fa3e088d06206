package web

import (
	"runtime"
	"time"

	"github.com/prometheus/common/version"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// Status is what the exporter knows of what it scrapes and of itself, as the status
// page shows it and /api/v1/status gives it. It is put together when somebody looks;
// nothing is scraped for it.
type Status struct {
	Time          time.Time        `json:"time"`
	Problems      []Problem        `json:"problems"`
	Pipelines     []PipelineStatus `json:"pipelines"`
	Targets       []TargetStatus   `json:"targets"`
	Rejected      []rejectedTarget `json:"rejected_targets"`
	Merge         MergeStatus      `json:"merge"`
	ForwardPasses []RankStatus     `json:"forward_passes"`
	Events        EventsStatus     `json:"events"`
	Config        ConfigStatus     `json:"config"`
	Build         BuildStatus      `json:"build"`
}

// Problem is one thing that is wrong now.
type Problem struct {
	Section string `json:"section"` // of the page that tells more
	Text    string `json:"text"`
}

// State is the state of a target or of an engine.
type State string

// The states.
const (
	StateUp      State = "up"      // on the last page
	StateDown    State = "down"    // the target's last scrape failed
	StateMissing State = "missing" // the page came without the engine
	StateUnknown State = "unknown" // not scraped yet
)

// PipelineStatus is a pipeline as stages by replicas.
type PipelineStatus struct {
	Name   string        `json:"name"` // "" for the unnamed one
	Stages []StageStatus `json:"stages"`
}

// StageStatus is one stage of a pipeline.
type StageStatus struct {
	Stage      string         `json:"stage"` // the label's value
	Name       string         `json:"name"`  // for people
	Expected   int            `json:"expected"`
	Seen       int            `json:"seen"`
	Configured bool           `json:"configured"` // false for a stage that only pages speak of
	Engines    []EngineStatus `json:"engines"`
	More       int            `json:"-"` // engines that the page leaves out
}

// EngineStatus is one replica of a stage. Its numbers are those of the last pages;
// they are nil if no series tells them.
type EngineStatus struct {
	Replica  string   `json:"replica"`
	State    State    `json:"state"`
	Expected bool     `json:"expected"` // the configuration has it
	Targets  []string `json:"targets"`  // whose last pages hold its series, or that should
	Running  *float64 `json:"running"`  // requests
	Waiting  *float64 `json:"waiting"`  // requests
	KVUsage  *float64 `json:"kv_usage"` // share of the KV cache in use, 0 to 1
}

// TargetStatus is the last scrape of one target, and what it has added up.
type TargetStatus struct {
	Target      string           `json:"target"` // host:port, as discovered
	Pipeline    string           `json:"pipeline"`
	Stage       string           `json:"stage"` // of a target that is one replica of a stage
	State       State            `json:"state"`
	LastScrape  time.Time        `json:"last_scrape,omitzero"`
	LastSuccess time.Time        `json:"last_success,omitzero"`
	Duration    float64          `json:"duration_seconds"`
	BodySize    int              `json:"body_size_bytes"`
	Samples     int              `json:"samples"`
	Reason      string           `json:"reason,omitempty"` // why the last scrape failed
	Error       string           `json:"error,omitempty"`
	Scrapes     int64            `json:"scrapes"`
	Failures    map[string]int64 `json:"failures"`         // by reason
	Unmapped    []string         `json:"unmapped_engines"` // of the last page
}

// Failed returns how many scrapes failed since the start.
func (t *TargetStatus) Failed() (sum int64) {
	for _, n := range t.Failures {
		sum += n
	}
	return sum
}

// MergeStatus is what merging has cost since the start.
type MergeStatus struct {
	Conflicts map[string]int64 `json:"conflicts"`       // by kind
	Dropped   map[string]int64 `json:"dropped_samples"` // by reason
	Growing   []string         `json:"growing"`         // kinds that grow while the page is looked at
}

// RankStatus is one rank that publishes forward passes, over an endpoint or a trace.
type RankStatus struct {
	Endpoint    string    `json:"endpoint,omitempty"` // "" for a rank known from traces
	Pipeline    string    `json:"pipeline,omitempty"`
	Stage       string    `json:"stage,omitempty"`
	Replica     string    `json:"replica,omitempty"`
	WorkerID    string    `json:"worker_id,omitempty"`
	Rank        string    `json:"dp_rank,omitempty"`
	Phase       string    `json:"phase,omitempty"` // of the endpoint's connection
	Up          *bool     `json:"up"`              // nil if the rank never sent a record
	Reason      string    `json:"reason,omitempty"`
	Error       string    `json:"error,omitempty"`
	Reconnects  uint64    `json:"reconnects"`
	Records     float64   `json:"records"`
	Lost        float64   `json:"records_lost"`
	Rejected    float64   `json:"records_rejected"`
	Rate        *float64  `json:"records_per_second"` // while the page is looked at
	LastMessage time.Time `json:"last_message,omitzero"`
}

// Silent reports whether the rank has sent records, but none for stale_after.
func (r *RankStatus) Silent() bool { return r.Up != nil && !*r.Up }

// EventsStatus is what was posted since the start.
type EventsStatus struct {
	Accepted    map[string]float64 `json:"accepted"` // by type
	Refused     map[string]float64 `json:"refused"`  // by reason
	Ignored     map[string]float64 `json:"ignored"`  // by reason
	Series      float64            `json:"series"`
	SeriesLimit float64            `json:"series_limit"` // 0: none
}

// ConfigStatus is the configuration in force. Why a reload failed is not part of it:
// the error may repeat what stands in the file, and the log is the place for that.
type ConfigStatus struct {
	YAML        string    `json:"yaml"` // secrets hidden
	ReloadOK    bool      `json:"last_reload_successful"`
	LastSuccess time.Time `json:"last_reload_success,omitzero"`
}

// BuildStatus says which program runs, and since when.
type BuildStatus struct {
	Version   string    `json:"version"`
	Revision  string    `json:"revision"`
	GoVersion string    `json:"go_version"`
	Started   time.Time `json:"started"`
}

// status puts the status together. Only one is made at a time: looking at the page
// must not cost more the more people look.
func (s *Server) status(now time.Time) *Status {
	s.page.mu.Lock()
	defer s.page.mu.Unlock()
	g := s.current.Load()
	targets := s.pool.Targets()
	states := make([]scrape.State, len(targets))
	for i, t := range targets {
		states[i] = scrape.State{Target: t, Outcome: t.Retain(), Counts: t.Counts()}
	}
	defer release(states)
	own := s.gatherOwn()
	upstream := upstreamState(g.config, states, s.totals, s.sharded())
	out := &Status{
		Time:      now,
		Pipelines: pipelines(g.config, states, upstream.Stages),
		Targets:   targetStatuses(states),
		Rejected:  s.rejected(),
		Merge:     MergeStatus{Conflicts: losses(upstream.Conflicts), Dropped: losses(upstream.Dropped)},
		Events:    eventsStatus(own),
		Config:    configStatus(g.config, own),
		Build: BuildStatus{
			Version: version.Version, Revision: version.Revision, GoVersion: runtime.Version(), Started: s.page.started,
		},
	}
	if s.options.Streams != nil {
		out.ForwardPasses = ranks(s.options.Streams(), own)
	}
	s.page.rates.look(now, out)
	out.Problems = problems(out)
	return out
}

func release(states []scrape.State) {
	for i := range states {
		if o := states[i].Outcome; o != nil && o.Page != nil {
			o.Page.Release()
		}
	}
}

func losses(list []collector.UpstreamLoss) map[string]int64 {
	out := make(map[string]int64, len(list))
	for _, l := range list {
		out[l.Label] = l.Count
	}
	return out
}

func targetStatuses(states []scrape.State) []TargetStatus {
	out := make([]TargetStatus, len(states))
	for i := range states {
		s := &states[i]
		t := TargetStatus{
			Target: s.Target.Address(), Pipeline: s.Target.Pipeline(), Stage: s.Target.Stage(), State: stateOf(s),
			LastSuccess: s.Counts.LastSuccess, Scrapes: s.Counts.Scrapes, Failures: map[string]int64{},
		}
		for reason, n := range s.Counts.Failures {
			t.Failures[string(reason)] = n
		}
		if o := s.Outcome; o != nil {
			t.LastScrape, t.Duration, t.BodySize = o.Started, o.Duration.Seconds(), o.BodySize
			if o.Failure != nil {
				t.Reason, t.Error = string(o.Failure.Reason), o.Failure.Error()
			}
			if o.Summary != nil {
				t.Samples, t.Unmapped = o.Summary.Samples, unmapped(o.Summary)
			}
		}
		out[i] = t
	}
	return out
}
