package relabel

import (
	"bytes"
	"slices"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// The labels that this package is about.
const (
	labelEngine  = "engine"
	labelStage   = "stage"
	labelReplica = "replica"

	// exportedPrefix is what Prometheus puts before a source's label that is in
	// the way of one it sets.
	exportedPrefix = "exported_"
)

// note is what one series adds to a page's Summary. Few notes serve all series of
// a page, so a remembered line keeps only its note's number.
type note struct {
	place      Place
	placed     bool   // place is set
	unmapped   string // the engine, if it is outside the topology
	dropped    bool   // left out for being unmapped
	collisions int    // source labels that had to make way
}

// mapped is what the topology says of one engine.
type mapped struct {
	place  Place
	ok     bool
	labels [2]exposition.Label // replica and stage
}

func newMapped(p Place, ok bool) *mapped {
	return &mapped{place: p, ok: ok, labels: [2]exposition.Label{
		{Name: []byte(labelReplica), Value: labelBytes(p.Replica)},
		{Name: []byte(labelStage), Value: labelBytes(p.Stage)},
	}}
}

// labeler relabels the series of one page.
type labeler struct {
	rules   *Rules
	engines map[string]*mapped // by the label's value
	own     *mapped            // the target itself, if it is one replica
}

func newLabeler(r *Rules) labeler {
	l := labeler{rules: r, engines: map[string]*mapped{}}
	if own, ok := r.options.Topology.Own(); ok {
		l.own = newMapped(own, true)
	}
	return l
}

func (l *labeler) engine(value []byte) *mapped {
	m, ok := l.engines[string(value)]
	if !ok {
		m = newMapped(l.rules.options.Topology.Place(value))
		l.engines[string(value)] = m
	}
	return m
}

// relabel returns a series' labels as they leave, sorted by name, given sorted. It
// changes and may extend the slice given.
func (l *labeler) relabel(labels []exposition.Label) ([]exposition.Label, note) {
	var n note
	engine, stage, replica := -1, -1, -1
	for i := range labels {
		if len(labels[i].Value) == 0 {
			continue // the same as no label
		}
		switch string(labels[i].Name) {
		case labelEngine:
			engine = i
		case labelStage:
			stage = i
		case labelReplica:
			replica = i
		}
	}
	added := 0
	switch {
	case stage >= 0 && replica >= 0:
		// A vLLM-Omni server, or another exporter, has placed it already.
		n.place, n.placed = Place{Stage: string(labels[stage].Value), Replica: string(labels[replica].Value)}, true
	case engine >= 0:
		m := l.engine(labels[engine].Value)
		if !m.ok {
			n.unmapped, n.dropped = string(labels[engine].Value), l.rules.options.DropUnmapped
			break
		}
		n.place, n.placed = m.place, true
		labels = slices.Delete(labels, engine, engine+1)
		labels = add(labels, m.labels[:], &n)
		added += 2
	case stage < 0 && replica < 0 && l.own != nil:
		n.place, n.placed = l.own.place, true
		labels = add(labels, l.own.labels[:], &n)
		added += 2
	}
	labels = add(labels, l.rules.labels, &n)
	if added+len(l.rules.labels) > 0 {
		sortLabels(labels)
	}
	return labels, n
}

// add adds labels. A source label of the same name is never overwritten: it moves
// to `exported_<name>`, as with Prometheus's honor_labels off. One without a value
// is no label and gives way.
func add(labels, more []exposition.Label, n *note) []exposition.Label {
	for _, l := range more {
		i := index(labels, l.Name)
		if i < 0 {
			labels = append(labels, l)
			continue
		}
		source := labels[i]
		labels[i].Value = l.Value
		if len(source.Value) > 0 && !bytes.Equal(source.Value, l.Value) {
			n.collisions++
			labels = move(labels, source)
		}
	}
	return labels
}

// move adds a source label under the first `exported_` name that is free.
func move(labels []exposition.Label, l exposition.Label) []exposition.Label {
	for {
		l.Name = append([]byte(exportedPrefix), l.Name...)
		i := index(labels, l.Name)
		if i < 0 {
			return append(labels, l)
		}
		if len(labels[i].Value) == 0 {
			labels[i].Value = l.Value
			return labels
		}
	}
}

func index(labels []exposition.Label, name []byte) int {
	for i := range labels {
		if bytes.Equal(labels[i].Name, name) {
			return i
		}
	}
	return -1
}

// manyLabels is from where on labels are sorted by an algorithm that no order of
// them can make slow.
const manyLabels = 32

// sortLabels sorts in place; pages come almost sorted, so insertion is quickest.
func sortLabels(labels []exposition.Label) {
	if len(labels) > manyLabels {
		slices.SortFunc(labels, func(a, b exposition.Label) int { return bytes.Compare(a.Name, b.Name) })
		return
	}
	for i := 1; i < len(labels); i++ {
		for j := i; j > 0 && bytes.Compare(labels[j].Name, labels[j-1].Name) < 0; j-- {
			labels[j], labels[j-1] = labels[j-1], labels[j]
		}
	}
}
