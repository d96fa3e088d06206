package relabel

import (
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// verdict says what becomes of a family.
type verdict uint8

const (
	keep     verdict = iota
	excluded         // not asked for
	created          // creation times, which are no samples
	reserved         // a name that Prometheus writes itself
)

// family is one family of the page at hand, under the name it came with.
type family struct {
	name    string
	typ     exposition.Type
	help    string
	unit    string
	typed   bool // a TYPE line was read
	verdict verdict
	out     string // the name it leaves with
	index   int    // in the page being built; -1 if it leaves with no family
}

// pageFamilies is the table of a page's families. Metadata is collected before the first
// sample is read, so that nothing depends on the order in which a server sends
// them.
type pageFamilies struct {
	rules    *Rules
	format   exposition.Format
	body     []byte
	declared map[string]*family
	samples  map[string]*family // by sample name
	order    []*family
	room     []family           // for the next families
	retyped  int                // TYPE lines that contradict an earlier one
	leaving  map[string]*family // by the name that a rule gives a series; made when first asked for
	present  map[string]bool    // the names of the page's samples; made when first asked for
}

func newPageFamilies(r *Rules, f exposition.Format, body []byte) pageFamilies {
	return pageFamilies{
		rules: r, format: f, body: body,
		declared: make(map[string]*family, 64), samples: make(map[string]*family, 128),
	}
}

// collect reads the metadata lines and checks the page's frame.
func (p *pageFamilies) collect() error {
	s := exposition.NewScanner(p.body, p.format)
	for s.Next() {
		line := s.Line()
		switch line.Kind {
		case exposition.KindHelp:
			if f := p.declare(line.Name); f.help == "" {
				f.help = exposition.UnescapeHelp(line.Text, p.format)
			}
		case exposition.KindUnit:
			if f := p.declare(line.Name); f.unit == "" {
				f.unit = string(line.Text)
			}
		case exposition.KindType:
			word := strings.TrimRight(string(line.Text), " \t")
			t, ok := exposition.ParseType([]byte(word), p.format)
			if !ok {
				return &exposition.ParseError{Line: s.Number(), Reason: "unknown metric type", Token: shorten(word)}
			}
			f := p.declare(line.Name)
			if f.typed && f.typ != t {
				p.retyped++
				continue
			}
			f.typ, f.typed = t, true
		}
	}
	return s.Err()
}

func (p *pageFamilies) declare(name []byte) *family {
	if f, ok := p.declared[string(name)]; ok {
		return f
	}
	return p.add(string(name))
}

// familiesAtOnce is how many families are made room for at a time; a page has about
// a hundred.
const familiesAtOnce = 32

func (p *pageFamilies) add(name string) *family {
	if len(p.room) == 0 {
		p.room = make([]family, familiesAtOnce)
	}
	f := &p.room[0]
	p.room = p.room[1:]
	f.name, f.index = name, -1
	p.declared[name] = f
	p.order = append(p.order, f)
	return f
}

// settle decides what becomes of each declared family and gives those that stay
// their place in the page, samples or not: an empty family is normal.
func (p *pageFamilies) settle(b *exposition.Builder) {
	for _, f := range p.order {
		p.decide(f, b)
	}
}

func (p *pageFamilies) decide(f *family, b *exposition.Builder) {
	f.out = p.rules.outputName(f.name)
	if p.rules.options.Aliases {
		f.out = p.currentName(f)
	}
	key := exposition.FamilyKey(f.out, f.typ, p.format)
	switch {
	case !p.rules.includes(f.name, f.out):
		f.verdict = excluded
	case exposition.Reserved([]byte(key)):
		f.verdict = reserved
	case !p.rules.options.KeepCreated && p.holdsCreated(f):
		f.verdict = created
	default:
		f.index = b.Family(exposition.Family{Key: key, Type: f.typ, Help: f.help, Unit: f.unit})
	}
}

// holdsCreated reports whether a family of a text page holds the creation times of
// another one. It is a gauge, or has no TYPE line.
func (p *pageFamilies) holdsCreated(f *family) bool {
	return p.format == exposition.Text && (f.typ == exposition.Gauge || f.typ == exposition.Unknown) &&
		exposition.IsCreated(f.name, p.textType)
}

func (p *pageFamilies) textType(name string) (exposition.Type, bool) {
	f, ok := p.declared[name]
	if !ok {
		return exposition.Unknown, false
	}
	return f.typ, true
}

// currentName returns the name with which an old engine family leaves: the
// current one, if the page has no samples of that.
func (p *pageFamilies) currentName(f *family) string {
	base, suffix := f.out, ""
	if f.typ == exposition.Counter && p.format == exposition.Text {
		var ok bool
		if base, ok = strings.CutSuffix(base, "_total"); !ok {
			return f.out
		}
		suffix = "_total"
	}
	current, ok := currentName(base, f.typ)
	if !ok || p.hasSamples(current, f.typ) {
		return f.out
	}
	return current + suffix
}

// hasSamples reports whether the page holds a sample of this family, by the family's
// current name without `_total`.
func (p *pageFamilies) hasSamples(family string, t exposition.Type) bool {
	switch t {
	case exposition.Counter:
		family += exposition.SuffixTotal
	case exposition.Histogram:
		family += exposition.SuffixBucket
	}
	if p.present == nil {
		p.present = map[string]bool{}
		var sample exposition.Sample
		for s := exposition.NewScanner(p.body, p.format); s.Next(); {
			line := s.Line()
			if line.Kind == exposition.KindSample && exposition.ParseSample(line.Raw, s.Number(), p.format, &sample) == nil {
				p.present[string(sample.Name)] = true
			}
		}
	}
	return p.present[family]
}

// resolve returns the family of a sample name and whether the name carries a
// creation time, or a reason why the page is broken.
func (p *pageFamilies) resolve(name []byte, b *exposition.Builder) (*family, string) {
	if f, ok := p.samples[string(name)]; ok {
		return f, ""
	}
	s := string(name)
	f, reason := p.find(s, b)
	if reason == "" {
		p.samples[s] = f
	}
	return f, reason
}

func (p *pageFamilies) find(name string, b *exposition.Builder) (*family, string) {
	if f, ok := p.declared[name]; ok {
		if !f.typ.Allows("", p.format) {
			return nil, "a " + f.typ.String() + " has no sample of its bare name"
		}
		return f, ""
	}
	for suffix := range exposition.SampleSuffixes {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		f, ok := p.declared[base]
		if !ok || !f.typ.Allows(suffix, p.format) {
			continue
		}
		if suffix == exposition.SuffixCreated {
			return p.createdOf(f, b), ""
		}
		return f, ""
	}
	f := p.add(name)
	p.decide(f, b)
	return f, ""
}

// createdOf returns the family that the creation times of an OpenMetrics family
// leave as: none, or the gauge that the text format has for them.
func (p *pageFamilies) createdOf(parent *family, b *exposition.Builder) *family {
	f := &family{
		name: parent.name + exposition.SuffixCreated, out: parent.out + exposition.SuffixCreated,
		typ: exposition.Gauge, help: parent.help, verdict: parent.verdict, index: -1,
	}
	if f.verdict == keep {
		f.verdict = created
		if p.rules.options.KeepCreated {
			f.verdict = keep
			f.index = b.Family(exposition.Family{Key: f.out, Type: f.typ, Help: f.help})
		}
	}
	return f
}

func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
