package web

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxRateAge is how old an earlier look may be to tell what grows now.
const maxRateAge = 5 * time.Minute

// minRateAge is how long counters are watched before a rate is told.
const minRateAge = time.Second

// maxQuiet is longer than any usual scrape interval: the exporter scrapes only when it
// is scraped itself.
const maxQuiet = 5 * time.Minute

// rates remembers the counters of earlier looks at the status, to tell how fast they
// grow. It holds as much as two looks.
type rates struct {
	older, newer look
}

// look is the counters at a time.
type look struct {
	at       time.Time
	counters map[string]float64
}

// look fills in the rates of a status by the one before, and remembers its counters.
func (r *rates) look(now time.Time, s *Status) {
	counters := map[string]float64{}
	for kind, n := range s.Merge.Conflicts {
		counters["conflict "+kind] = float64(n)
	}
	for i := range s.ForwardPasses {
		counters[s.ForwardPasses[i].key()] = s.ForwardPasses[i].Records
	}
	base := r.older
	if now.Sub(base.at) > maxRateAge {
		base = r.newer
	}
	if age := now.Sub(base.at); age >= minRateAge && age <= maxRateAge {
		for i := range s.ForwardPasses {
			rank := &s.ForwardPasses[i]
			if before, ok := base.counters[rank.key()]; ok && before <= rank.Records {
				rate := (rank.Records - before) / age.Seconds()
				rank.Rate = &rate
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(s.Merge.Conflicts)) {
			if before, ok := base.counters["conflict "+kind]; ok && before < float64(s.Merge.Conflicts[kind]) {
				s.Merge.Growing = append(s.Merge.Growing, kind)
			}
		}
	}
	// Many may look at once: a look that is hardly older than this one says little.
	if now.Sub(r.newer.at) >= 2*time.Second {
		r.older, r.newer = r.newer, look{now, counters}
	}
}

func (r *RankStatus) key() string {
	return fmt.Sprintf("rank %q %q %q %q %q %q", r.Endpoint, r.Pipeline, r.Stage, r.Replica, r.WorkerID, r.Rank)
}

// problems says what is wrong, the worst first.
func problems(s *Status) []Problem {
	out := []Problem{}
	add := func(section, format string, args ...any) {
		out = append(out, Problem{Section: section, Text: fmt.Sprintf(format, args...)})
	}
	if !s.Config.ReloadOK {
		add("configuration", "The last attempt to load the configuration failed: the one before is in force. The log says why.")
	}
	down, unmapped := 0, 0
	for i := range s.Targets {
		if s.Targets[i].State == StateDown {
			down++
		}
		unmapped += len(s.Targets[i].Unmapped)
	}
	if down > 0 {
		add("targets", "%d of %d targets failed at the last scrape: their series are absent.", down, len(s.Targets))
	}
	if n := len(s.Rejected); n > 0 {
		add("targets", "%s found and cannot be scraped.", are(n, "target was", "targets were"))
	}
	if age := lookAge(s); age > maxQuiet {
		add("targets", "Nobody has asked for the targets' metrics for %.0f minutes: what is shown is as old.", age.Minutes())
	}
	for _, p := range s.Pipelines {
		for _, stage := range p.Stages {
			if stage.Seen < stage.Expected && scraped(stage.Engines) {
				add("pipelines", "%s: %d of %d engines are on the last pages.", stageName(p.Name, stage.Name), stage.Seen, stage.Expected)
			}
		}
	}
	if unmapped > 0 {
		add("targets", "%s outside the map of the pipeline: is a stage configured with too few replicas?", are(unmapped, "engine stands", "engines stand"))
	}
	for _, kind := range s.Merge.Growing {
		add("merging", "Targets disagree, and what loses is left out: conflicts of the kind %q grow.", kind)
	}
	unconnected, silent := 0, 0
	for i := range s.ForwardPasses {
		switch r := &s.ForwardPasses[i]; {
		case r.Endpoint != "" && r.Phase != connected:
			unconnected++
		case r.Silent():
			silent++
		}
	}
	if unconnected > 0 {
		add("forward-passes", "%s not connected.", are(unconnected, "endpoint of forward passes is", "endpoints of forward passes are"))
	}
	if silent > 0 {
		add("forward-passes", "%s silent for longer than stale_after.", are(silent, "rank has been", "ranks have been"))
	}
	if e := s.Events; e.SeriesLimit > 0 && e.Series >= e.SeriesLimit {
		add("events", "Events have made %.0f label sets, which is all that events.max_series allows: those that need more are refused.", e.Series)
	}
	return out
}

// lookAge returns how long ago the last scrape of any target began, 0 if there was none.
func lookAge(s *Status) time.Duration {
	var last time.Time
	for i := range s.Targets {
		if at := s.Targets[i].LastScrape; at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return 0
	}
	return s.Time.Sub(last)
}

// scraped reports whether some engine's target has been scraped: before that,
// nothing is missing.
func scraped(engines []EngineStatus) bool {
	return slices.ContainsFunc(engines, func(e EngineStatus) bool { return e.State != StateUnknown })
}

func stageName(pipeline, stage string) string {
	if pipeline == "" {
		return fmt.Sprintf("Stage %q", stage)
	}
	return fmt.Sprintf("Stage %q of %q", stage, pipeline)
}

func are(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
