package trace

import (
	"slices"
	"time"
)

// Filter chooses rows. Its zero value chooses all.
type Filter struct {
	// Workers and Ranks are those to choose, any if empty.
	Workers []string
	Ranks   []uint64
	// Since and Until bound the time of observation, Until exclusively; zero is no bound.
	Since, Until time.Time
}

// Match reports whether a row is chosen.
func (f *Filter) Match(r *Row) bool {
	return (len(f.Workers) == 0 || slices.Contains(f.Workers, r.Record.WorkerID)) &&
		(len(f.Ranks) == 0 || slices.Contains(f.Ranks, r.Record.DPRank)) &&
		(f.Since.IsZero() || !r.Observed.Before(f.Since)) &&
		(f.Until.IsZero() || r.Observed.Before(f.Until))
}
