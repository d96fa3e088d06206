package scrape

import (
	"sync"
	"sync/atomic"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// Conflict is a kind of disagreement between pages that are merged. The set is
// closed: it is a label of omni_exporter_merge_conflicts_total.
type Conflict string

// The kinds of conflicts.
const (
	ConflictType      Conflict = "type"
	ConflictHelp      Conflict = "help"
	ConflictDuplicate Conflict = "duplicate"
	ConflictLabel     Conflict = "label"
)

// Conflicts returns every kind, in a fixed order.
func Conflicts() []Conflict {
	return []Conflict{ConflictType, ConflictHelp, ConflictDuplicate, ConflictLabel}
}

// Drop is a reason why a sample of a good page is left out. The set is closed: it
// is a label of omni_exporter_merge_dropped_samples_total.
type Drop string

// The reasons.
const (
	DropType      Drop = "type_conflict"
	DropDuplicate Drop = "duplicate"
	DropReserved  Drop = "reserved_name"
	DropCreated   Drop = "created"
	DropUnmapped  Drop = "unmapped_engine"
	DropFormat    Drop = "gauge_histogram" // for readers of the text format
	DropEscaped   Drop = "escaped_name"    // for readers without UTF-8 names: another family has the escaped name
)

// Drops returns every reason, in a fixed order.
func Drops() []Drop {
	return []Drop{DropType, DropDuplicate, DropReserved, DropCreated, DropUnmapped, DropFormat, DropEscaped}
}

// Totals add up what merging has cost, and the lines that were read. They outlive a Pool, so that a reload
// loses no count. The zero value is ready.
type Totals struct {
	mu        sync.Mutex
	conflicts map[Conflict]int64
	dropped   map[Drop]int64

	hits, misses atomic.Int64
}

// Lines returns how many lines of all pages were taken from line caches, and how
// many were taken apart: also those of targets that have gone.
func (t *Totals) Lines() (hits, misses int64) { return t.hits.Load(), t.misses.Load() }

func (t *Totals) read(r relabel.Result) {
	t.hits.Add(int64(r.Hits))
	t.misses.Add(int64(r.Misses))
}

// Conflict returns how many conflicts of a kind were met.
func (t *Totals) Conflict(kind Conflict) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conflicts[kind]
}

// Dropped returns how many samples were left out for a reason.
func (t *Totals) Dropped(reason Drop) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped[reason]
}

// add counts one merged page.
func (t *Totals) add(p *Page) {
	losses := p.Merged.Losses()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conflicts == nil {
		t.conflicts, t.dropped = map[Conflict]int64{}, map[Drop]int64{}
	}
	t.merged(&losses)
	for i := range p.States {
		outcome := p.States[i].Outcome
		if outcome == nil || outcome.Summary == nil {
			continue
		}
		s := outcome.Summary
		t.conflicts[ConflictLabel] += int64(s.LabelCollisions)
		t.conflicts[ConflictType] += int64(s.RetypedFamilies)
		t.dropped[DropReserved] += int64(s.ReservedSamples)
		t.dropped[DropCreated] += int64(s.CreatedSamples)
		t.dropped[DropUnmapped] += int64(s.UnmappedSamples)
	}
}

func (t *Totals) merged(l *exposition.Losses) {
	t.conflicts[ConflictType] += int64(l.TypeConflicts)
	t.conflicts[ConflictHelp] += int64(l.HelpConflicts)
	t.conflicts[ConflictDuplicate] += int64(l.DuplicateSamples)
	t.dropped[DropType] += int64(l.TypeSamples)
	t.dropped[DropDuplicate] += int64(l.DuplicateSamples)
	t.dropped[DropCreated] += int64(l.CreatedSamples)
	t.dropped[DropFormat] += int64(l.GaugeHistogramSamples)
	t.dropped[DropEscaped] += int64(l.EscapedSamples)
}
