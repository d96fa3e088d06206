package exposition

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Losses counts what a merge had to leave out or decide, per run.
type Losses struct {
	TypeConflicts int // families of a source whose type is not the merged one
	HelpConflicts int // families of a source whose HELP is not the merged one

	TypeSamples      int // samples dropped for a type conflict
	DuplicateSamples int // samples dropped because an earlier source has the series too
	// GaugeHistogramSamples are left out of text output, which cannot express them.
	GaugeHistogramSamples int
	// CreatedSamples are creation times, left out of OpenMetrics output.
	CreatedSamples int
	// EscapedSamples are left out for readers without UTF-8 names: the escaped name of
	// their family is that of another one.
	EscapedSamples int
}

// Merger merges the pages of a fixed list of sources, run after run. What it
// learns about the pages' layouts is kept: a run in which only values changed
// looks at no line. A Merger may be used by several goroutines.
type Merger struct {
	mu      sync.Mutex
	seed    maphash.Seed
	sources []source // as of the last run
	plan    *plan
}

// source is what a merger remembers of one source's last page. It keeps no page.
type source struct {
	layout *Layout  // nil if the source had no page
	hashes []uint64 // of the page's lines
}

// NewMerger returns a merger of n sources, in the order of their precedence:
// where sources disagree on HELP or TYPE, or hold the same series, the first one
// wins.
func NewMerger(n int) *Merger {
	return &Merger{seed: maphash.MakeSeed(), sources: make([]source, n)}
}

// Rearranged returns a merger of other sources, which knows of those that stay what
// m knows: source i is m's source from[i], or a new one where that is negative.
func (m *Merger) Rearranged(from []int) *Merger {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &Merger{seed: m.seed, sources: make([]source, len(from))}
	for i, j := range from {
		if j >= 0 {
			out.sources[i] = m.sources[j]
		}
	}
	return out
}

// Merged is the pages of one run as one page. It is immutable.
type Merged struct {
	plan  *plan
	pages []*Page
}

// Losses returns what this page leaves out.
func (m *Merged) Losses() Losses { return m.plan.losses }

// Release gives back the references to the pages. The merged page must not be used
// any more.
func (m *Merged) Release() {
	for _, p := range m.pages {
		if p != nil {
			p.Release()
		}
	}
}

// Merge merges one page a source; nil stands for a source that has none now. The
// merged page takes over the caller's references to them.
func (m *Merger) Merge(pages []*Page) *Merged {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.plan == nil
	for i, p := range pages {
		var layout *Layout
		if p != nil {
			layout = p.layout
		}
		last := &m.sources[i]
		if layout == last.layout {
			continue
		}
		changed = true
		*last = source{layout: layout}
		if p != nil {
			last.hashes = p.hashes(m.seed)
		}
	}
	if changed {
		m.plan = newPlan(pages, shared(m.sources))
	}
	return &Merged{plan: m.plan, pages: pages}
}

// plan says which parts of which pages stand where in a merged page. It depends
// on layouts alone.
type plan struct {
	families []plannedFamily
	losses   Losses
}

// plannedFamily is one family of the merged page.
type plannedFamily struct {
	key     string
	typ     Type
	help    string
	unit    string
	hasHelp bool
	members []member
	quoted  bool // a name in it needs quotes

	headings [2]heading // by Format
	escaped  [2]heading // by Format, for readers without UTF-8 names; if quoted is set
}

// member is a source's part of a family.
type member struct {
	source uint32
	family uint32
	lines  int
	losers []uint32 // lines left out, sorted
}

// newPlan makes a plan. groups are the lines that may be duplicates of each other.
func newPlan(pages []*Page, groups map[uint64][]place) *plan {
	p := &plan{}
	index := map[string]int{}
	rejected := map[[2]uint32]bool{}
	for source, page := range pages {
		if page == nil {
			continue
		}
		for i := range page.layout.Families {
			if !p.join(index, uint32(source), uint32(i), &page.layout.Families[i]) {
				rejected[[2]uint32{uint32(source), uint32(i)}] = true
			}
		}
	}
	p.settleDuplicates(pages, groups, rejected)
	slices.SortFunc(p.families, func(a, b plannedFamily) int { return strings.Compare(a.key, b.key) })
	p.settleHeadings()
	return p
}

// join adds a source's family to the family of the same key, and returns false
// if their types contradict each other.
func (p *plan) join(index map[string]int, source, family uint32, f *Family) bool {
	i, ok := index[f.Key]
	if !ok {
		i = len(p.families)
		index[f.Key] = i
		p.families = append(p.families, plannedFamily{
			key: f.Key, typ: f.Type, help: f.Help, unit: f.Unit, hasHelp: f.Help != "",
		})
	}
	merged := &p.families[i]
	t, ok := commonType(merged.typ, f.Type)
	if !ok {
		p.losses.TypeConflicts++
		p.losses.TypeSamples += f.lines
		return false
	}
	merged.typ = t
	if t == GaugeHistogram {
		p.losses.GaugeHistogramSamples += f.lines
	}
	switch {
	case f.Help == "":
	case !merged.hasHelp:
		merged.help, merged.hasHelp = f.Help, true
	case merged.help != f.Help:
		p.losses.HelpConflicts++
	}
	if merged.unit != f.Unit {
		merged.unit = ""
	}
	merged.quoted = merged.quoted || f.quoted
	if f.lines > 0 {
		merged.members = append(merged.members, member{source: source, family: family, lines: f.lines})
	}
	return true
}

// commonType returns the type of a family that one source calls a and another b,
// and false if they contradict each other. A source without a TYPE line
// contradicts nobody whose samples carry the family's bare name.
func commonType(a, b Type) (Type, bool) {
	bare := func(t Type) bool { return t == Counter || t.InText() == Gauge }
	switch {
	case a == b:
		return a, true
	case a == Unknown && bare(b):
		return b, true
	case b == Unknown && bare(a):
		return a, true
	case a.InText() == b.InText():
		return a.InText(), true
	}
	return a, false
}

// settleDuplicates tells the members which of their lines an earlier source has.
func (p *plan) settleDuplicates(pages []*Page, groups map[uint64][]place, rejected map[[2]uint32]bool) {
	if len(groups) == 0 {
		return
	}
	lines := newLineIndex(pages)
	losers := losers(groups,
		func(at place) bool { return !rejected[[2]uint32{at.source, lines.family(at)}] },
		lines.series,
	)
	if len(losers) == 0 {
		return
	}
	members := map[[2]uint32]*member{}
	for i := range p.families {
		for j := range p.families[i].members {
			m := &p.families[i].members[j]
			members[[2]uint32{m.source, m.family}] = m
		}
	}
	for source, list := range losers {
		for _, line := range list {
			m := members[[2]uint32{source, lines.family(place{source, line})}]
			m.losers = append(m.losers, line)
		}
		p.losses.DuplicateSamples += len(list)
	}
}

// lineIndex finds the family and the series of a line.
type lineIndex struct {
	pages []*Page
	lines map[uint32][][]byte // by source: the series part of each line
}

func newLineIndex(pages []*Page) *lineIndex {
	return &lineIndex{pages: pages, lines: map[uint32][][]byte{}}
}

func (x *lineIndex) family(at place) uint32 {
	segments := x.pages[at.source].layout.segments
	i, _ := slices.BinarySearchFunc(segments, at.line, func(s segment, line uint32) int {
		switch {
		case line < s.first:
			return 1
		case line >= s.end:
			return -1
		}
		return 0
	})
	return segments[i].family
}

func (x *lineIndex) series(at place) []byte {
	lines, ok := x.lines[at.source]
	if !ok {
		p := x.pages[at.source]
		lines = make([][]byte, 0, len(p.layout.prefix))
		p.eachLine(func(line, _ uint32, text []byte) { lines = append(lines, text[:p.layout.prefix[line]]) })
		x.lines[at.source] = lines
	}
	return lines[at.line]
}
