package exposition

import (
	"strings"

	"github.com/prometheus/common/model"
)

// heading is what stands before a family's lines in one format and naming scheme.
type heading struct {
	text   []byte // HELP, TYPE and UNIT
	absent bool   // the family cannot be expressed and is left out
}

// settleHeadings writes the headings of each family. A gauge `x_created` beside a
// counter, histogram or summary `x` would be read as that family's creation time
// in OpenMetrics, so it stands in text only.
func (p *plan) settleHeadings() {
	n := familyNames{types: make(map[string]Type, len(p.families)), openMetrics: map[string]bool{}}
	quoted := false
	for i := range p.families {
		f := &p.families[i]
		f.quoted = f.quoted || !IsLegacyName([]byte(f.key), true)
		quoted = quoted || f.quoted
		n.types[f.key] = f.typ
	}
	for i := range p.families {
		f := &p.families[i]
		f.headings = f.settle(f.key, &n)
		if f.headings[OpenMetrics].absent {
			for _, m := range f.members {
				p.losses.CreatedSamples += m.lines - len(m.losers)
			}
		}
	}
	if quoted {
		p.settleEscaped(&n)
	}
}

// settleEscaped writes the headings for readers without UTF-8 names. A family
// whose escaped name another family has is left out: its samples would be read as
// the other's. Of two escaped families, the first one stays.
func (p *plan) settleEscaped(n *familyNames) {
	for i := range p.families {
		f := &p.families[i]
		if !f.quoted {
			continue
		}
		key := escapeName(f.key)
		if key == f.key {
			f.escaped = f.headings // only labels need quotes
			continue
		}
		if _, taken := n.types[key]; taken || n.openMetrics[key] {
			f.escaped = [2]heading{{absent: true}, {absent: true}}
			for _, m := range f.members {
				p.losses.EscapedSamples += m.lines - len(m.losers)
			}
			continue
		}
		n.types[key] = f.typ
		f.escaped = f.settle(key, n)
	}
}

// settle returns the family's headings under the given key.
func (f *plannedFamily) settle(key string, n *familyNames) (h [2]heading) {
	h[Text] = heading{
		text:   f.metadata(key, f.typ.names().text, "", Text),
		absent: f.typ == GaugeHistogram,
	}
	name, t := n.claim(key, f.typ)
	unit := f.unit
	if !IsLegacyName([]byte(name), true) || !strings.HasSuffix(name, "_"+unit) {
		unit = ""
	}
	h[OpenMetrics] = heading{
		text:   f.metadata(name, t.String(), unit, OpenMetrics),
		absent: IsCreated(key, n.lookup),
	}
	return h
}

// metadata returns the HELP, TYPE and, with a unit, UNIT lines.
func (f *plannedFamily) metadata(name, typeWord, unit string, format Format) []byte {
	quoted := []byte(name)
	if !IsLegacyName(quoted, true) {
		quoted = appendQuotedName(nil, quoted)
	}
	var b []byte
	if f.hasHelp {
		b = append(b, "# HELP "...)
		b = append(append(b, quoted...), ' ')
		b = append(appendEscaped(b, []byte(f.help), format == OpenMetrics), '\n')
	}
	b = append(b, "# TYPE "...)
	b = append(append(b, quoted...), ' ')
	b = append(append(b, typeWord...), '\n')
	if unit != "" {
		b = append(b, "# UNIT "...)
		b = append(append(b, quoted...), ' ')
		b = append(append(b, unit...), '\n')
	}
	return b
}

// familyNames are the names that the families of a merged page have.
type familyNames struct {
	types       map[string]Type // by key
	openMetrics map[string]bool // given to a family in OpenMetrics
}

func (n *familyNames) lookup(key string) (Type, bool) {
	t, ok := n.types[key]
	return t, ok
}

// claim returns the name and type that a family has in OpenMetrics. A counter
// `x_total` is the family `x`; where that is another family of the page, it stays
// `x_total` and becomes unknown. Likewise an info family becomes a gauge.
func (n *familyNames) claim(key string, t Type) (string, Type) {
	name, omType := openMetricsName(key, t)
	if _, taken := n.types[name]; name != key && (taken || n.openMetrics[name]) {
		name, omType = key, Unknown
		if t == Info {
			omType = Gauge
		}
	}
	n.openMetrics[name] = true
	return name, omType
}

// IsCreated reports whether a text family of this name holds the creation times
// of another family, which the Python client exposes as a gauge of its own.
// lookup returns the type of a family by its name in text.
func IsCreated(key string, lookup func(string) (Type, bool)) bool {
	base, ok := cutSuffix(key, SuffixCreated)
	if !ok {
		return false
	}
	if t, ok := lookup(base); ok && (t == Histogram || t == Summary || t == Counter) {
		return true
	}
	t, ok := lookup(base + SuffixTotal)
	return ok && t == Counter
}

// escapeName returns a metric name as readers without UTF-8 names get it.
func escapeName(name string) string { return model.EscapeName(name, model.UnderscoreEscaping) }

// escapeLabel returns a label name as readers without UTF-8 names get it; in such
// a name a colon is no letter.
func escapeLabel(name string) string { return strings.ReplaceAll(escapeName(name), ":", "_") }

// encodeLabel returns a label name in an encoding that no two names share.
func encodeLabel(name string) string {
	return strings.ReplaceAll(model.EscapeName(name, model.ValueEncodingEscaping), ":", "_3a_")
}
