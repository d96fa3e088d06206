package web

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// stateOf returns the state of a target by its last scrape.
func stateOf(s *scrape.State) State {
	switch {
	case s.Outcome == nil:
		return StateUnknown
	case s.Outcome.Failure != nil:
		return StateDown
	}
	return StateUp
}

// pipelines lays out what is expected and what the last pages hold as pipelines of
// stages of engines.
func pipelines(c *config.Config, states []scrape.State, counts []collector.UpstreamStage) []PipelineStatus {
	out := make([]PipelineStatus, 0, len(c.Pipelines))
	for i := range c.Pipelines {
		p := &c.Pipelines[i]
		var own []*scrape.State
		for j := range states {
			if states[j].Target.Pipeline() == p.Name {
				own = append(own, &states[j])
			}
		}
		grid := newGrid()
		grid.expect(p, own)
		for _, s := range own {
			grid.see(s)
		}
		status := PipelineStatus{Name: p.Name}
		for j := range p.Stages {
			stage := StageStatus{Stage: p.StageLabel(j), Name: p.StageName(j), Configured: true}
			for _, n := range counts {
				if n.Pipeline == p.Name && n.Stage == stage.Stage {
					stage.Expected, stage.Seen = n.Expected, n.Seen
				}
			}
			stage.Engines = grid.take(stage.Stage)
			status.Stages = append(status.Stages, stage)
		}
		for _, label := range slices.SortedFunc(maps.Keys(grid.engines), natural) {
			engines := grid.take(label)
			status.Stages = append(status.Stages, StageStatus{Stage: label, Name: label, Seen: len(engines), Engines: engines})
		}
		out = append(out, status)
	}
	return out
}

// grid is the engines of one pipeline, by stage and replica.
type grid struct {
	engines map[string]map[string]*EngineStatus
}

func newGrid() grid { return grid{engines: map[string]map[string]*EngineStatus{}} }

func (g grid) at(p relabel.Place) *EngineStatus {
	stage := g.engines[p.Stage]
	if stage == nil {
		stage = map[string]*EngineStatus{}
		g.engines[p.Stage] = stage
	}
	e := stage[p.Replica]
	if e == nil {
		e = &EngineStatus{Replica: p.Replica, State: StateMissing}
		stage[p.Replica] = e
	}
	return e
}

// take returns the engines of a stage in the order of their numbers, and forgets
// them.
func (g grid) take(stage string) []EngineStatus {
	out := []EngineStatus{}
	for _, replica := range slices.SortedFunc(maps.Keys(g.engines[stage]), natural) {
		out = append(out, *g.engines[stage][replica])
	}
	delete(g.engines, stage)
	return out
}

// expect enters the engines that the configuration describes: those of targets that
// are replicas of a stage themselves, and those of the flat map.
func (g grid) expect(p *config.Pipeline, targets []*scrape.State) {
	flat := StateUp // the worst state of a target that the flat map stands for
	mapped := false
	for _, s := range targets {
		if s.Target.Stage() == "" {
			mapped = true
			flat = worse(flat, stateOf(s))
			continue
		}
		for i := range s.Target.Engines() {
			if place, ok := s.Target.Rules().Place(i); ok {
				e := g.at(place)
				e.Expected = true
				e.Targets = append(e.Targets, s.Target.Address())
				e.State = stateOr(stateOf(s), StateMissing)
			}
		}
	}
	for i := range p.Stages {
		stage := p.StageLabel(i)
		for r := 0; len(g.engines[stage]) < p.Stages[i].Replicas && (mapped || len(targets) > 0); r++ {
			e := g.at(relabel.Place{Stage: stage, Replica: strconv.Itoa(r)})
			if e.Expected {
				continue
			}
			e.Expected = true
			e.State = stateOr(flat, StateMissing)
		}
	}
}

// stateOr returns what an engine is that is not on the last page of a target of this
// state.
func stateOr(target, engine State) State {
	if target == StateUp {
		return engine
	}
	return target
}

// worse returns the state that explains better why an engine is not there.
func worse(a, b State) State {
	for _, s := range []State{StateDown, StateUnknown} {
		if a == s || b == s {
			return s
		}
	}
	return StateUp
}

// see enters the engines that a target's last page holds, with their numbers.
func (g grid) see(s *scrape.State) {
	o := s.Outcome
	if o == nil || o.Summary == nil {
		return
	}
	for place := range o.Summary.Places {
		e := g.at(place)
		e.State = StateUp
		if address := s.Target.Address(); !slices.Contains(e.Targets, address) {
			e.Targets = append(e.Targets, address)
		}
	}
	if o.Page == nil {
		return
	}
	add := func(a, b float64) float64 { return a + b }
	g.read(o.Page, "vllm:num_requests_running", add, func(e *EngineStatus) **float64 { return &e.Running })
	g.read(o.Page, "vllm:num_requests_waiting", add, func(e *EngineStatus) **float64 { return &e.Waiting })
	// Engines of before vLLM 0.10 have the other name, which normalize_names may leave.
	for _, family := range []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"} {
		g.read(o.Page, family, math.Max, func(e *EngineStatus) **float64 { return &e.KVUsage })
	}
}

// read puts a family's values into a number of the engines that they are of. An
// engine may have several series, one a model name.
func (g grid) read(p *exposition.Page, family string, join func(a, b float64) float64, number func(*EngineStatus) **float64) {
	p.Values(family, func(series, value []byte) {
		stage, _ := exposition.LabelValue(series, "stage")
		replica, _ := exposition.LabelValue(series, "replica")
		e := g.engines[stage][replica]
		v, err := strconv.ParseFloat(string(value), 64)
		if e == nil || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		if n := number(e); *n == nil {
			*n = &v
		} else if sum := join(**n, v); !math.IsInf(sum, 0) {
			*n = &sum
		}
	})
}

// unmapped returns the engines of a page that stand outside the map, for people.
func unmapped(s *relabel.Summary) []string {
	out := make([]string, 0, len(s.Unmapped))
	for engine := range s.Unmapped {
		out = append(out, string(exposition.Unescape([]byte(engine))))
	}
	slices.SortFunc(out, natural)
	return out
}

// natural orders the parts between dots, numbers by size and before everything else:
// replicas are numbers, numbers with a rank, or addresses.
func natural(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		switch {
		case errX == nil && errY == nil && x != y:
			return cmp.Compare(x, y)
		case (errX == nil) != (errY == nil):
			if errX == nil {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
}
