package relabel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// This file is the slow reference that the differential tests compare with: pages
// are read by Prometheus's own parser and mapped on label sets, one series at a
// time. It shares no code with the package.

// series is one sample as Prometheus understands it.
type series struct {
	labels   labels.Labels // without empty values, `le` and `quantile` in canonical form
	value    float64
	ts       int64 // in milliseconds
	hasTS    bool
	exemplar string
	typ      string // of the family by whose TYPE line it stands; "" before any
}

// parsedFamily is the metadata of one name.
type parsedFamily struct {
	name, typ, help string
}

// parsedPage is a page as Prometheus's parser reads it.
type parsedPage struct {
	series   []series
	families []parsedFamily // in order of appearance; the first TYPE and the first HELP with text

	// multiline says that a quoted string of the page spans lines.
	multiline bool
}

var errBadPage = errors.New("refused by Prometheus's parser")

func unescaped(s string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n").Replace(s)
}

func newParser(page []byte, f exposition.Format) textparse.Parser {
	if f == exposition.OpenMetrics {
		return textparse.NewOpenMetricsParser(page, labels.NewSymbolTable())
	}
	return textparse.NewPromParser(page, labels.NewSymbolTable(), false)
}

// parsePage reads a page with Prometheus's parser. The parser may be given bytes
// that it panics on; that counts as a refusal.
func parsePage(page []byte, f exposition.Format) (out *parsedPage, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%w: panic: %v", errBadPage, r)
		}
	}()
	out = &parsedPage{}
	p := newParser(slices.Clone(page), f)
	current := ""
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBadPage, err)
		}
		switch entry {
		case textparse.EntryType:
			name, typ := p.Type()
			current = string(typ)
			out.multiline = out.multiline || bytes.IndexByte(name, '\n') >= 0
			if fam := out.family(unescaped(string(name))); fam.typ == "" {
				fam.typ = current
			}
		case textparse.EntryHelp:
			name, help := p.Help()
			out.multiline = out.multiline || bytes.IndexByte(name, '\n') >= 0
			if fam := out.family(unescaped(string(name))); fam.help == "" {
				fam.help = strings.TrimLeft(string(help), " \t")
			}
		case textparse.EntryUnit:
			name, _ := p.Unit()
			out.multiline = out.multiline || bytes.IndexByte(name, '\n') >= 0
			out.family(unescaped(string(name)))
		case textparse.EntrySeries:
			s := series{typ: current}
			text, ts, value := p.Series()
			s.value = value
			out.multiline = out.multiline || bytes.IndexByte(text, '\n') >= 0
			if ts != nil {
				s.ts, s.hasTS = *ts, true
			}
			var l labels.Labels
			p.Labels(&l)
			// The parser takes blanks before a bare name for a part of it.
			if name := l.Get(model.MetricNameLabel); !bytes.HasPrefix(bytes.TrimLeft(text, " \t"), []byte("{")) {
				l = labels.NewBuilder(l).Set(model.MetricNameLabel, strings.TrimLeft(name, " \t")).Labels()
			}
			s.labels = canonicalLabels(l)
			var e exemplar.Exemplar
			if p.Exemplar(&e) {
				// The parser leaves escapes in an exemplar's labels.
				e.Labels.Range(func(l labels.Label) {
					s.exemplar += fmt.Sprintf("%q=%q ", unescaped(l.Name), unescaped(l.Value))
				})
				s.exemplar += fmt.Sprint(e.Value, e.HasTs, e.Ts)
			}
			out.series = append(out.series, s)
		}
	}
}

func (p *parsedPage) family(name string) *parsedFamily {
	for i := range p.families {
		if p.families[i].name == name {
			return &p.families[i]
		}
	}
	p.families = append(p.families, parsedFamily{name: name})
	return &p.families[len(p.families)-1]
}

// canonicalLabels brings two spellings of one series together: Prometheus knows no
// empty labels, and stores bounds in one spelling.
func canonicalLabels(l labels.Labels) labels.Labels {
	b := labels.NewScratchBuilder(l.Len())
	l.Range(func(l labels.Label) {
		if l.Value == "" {
			return
		}
		if l.Name == "le" || l.Name == "quantile" {
			if f, err := strconv.ParseFloat(l.Value, 64); err == nil {
				l.Value = labels.FormatOpenMetricsFloat(f)
			}
		}
		b.Add(l.Name, l.Value)
	})
	b.Sort()
	return b.Labels()
}

// setup is one choice of options, for the package and for the reference.
type setup struct {
	options  Options
	place    func(engine string) (Place, bool)
	own      *Place
	included func(name string) bool
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// newSetup returns the setup of the given number; each bit or two choose an
// option.
func newSetup(n uint16) setup {
	s := setup{included: func(string) bool { return true }}
	switch n & 3 {
	case 0:
		s.place = func(string) (Place, bool) { return Place{}, false }
	case 1:
		s.options.Topology = FlatTopology([]Pool{{"0", 1}, {"1", 2}, {"2", 2}})
		flat := map[string]Place{"0": {"0", "0"}, "1": {"1", "0"}, "2": {"1", "1"}, "3": {"2", "0"}, "4": {"2", "1"}}
		s.place = func(e string) (Place, bool) { p, ok := flat[e]; return p, ok }
	case 2:
		s.options.Topology = TargetTopology("decode", "h:1", 0)
		s.own = &Place{"decode", "h:1"}
		s.place = func(e string) (Place, bool) {
			switch {
			case e == "0":
				return *s.own, true
			case decimal.MatchString(e):
				return Place{"decode", "h:1." + e}, true
			}
			return Place{}, false
		}
	case 3:
		s.options.Topology = TargetTopology("1", "3", 2)
		s.own = &Place{"1", "6"}
		s.place = func(e string) (Place, bool) {
			p, ok := map[string]Place{"0": {"1", "6"}, "1": {"1", "7"}}[e]
			return p, ok
		}
	}
	s.options.DropUnmapped = n&4 != 0
	s.options.Aliases = n&8 != 0
	s.options.KeepCreated = n&16 != 0
	if n&32 != 0 {
		s.options.Labels = map[string]string{"pipeline": "qwen", "a": `q"\`}
	}
	if n&64 != 0 {
		s.options.OmniPrefix = "vllm:omni_"
	}
	if n&128 != 0 {
		s.included = func(name string) bool { return strings.HasPrefix(name, "vllm") }
		s.options.Include = s.included
	}
	return s
}

// relabeled returns the labels of a series as they leave, and false if it does
// not. name is the metric name with which it leaves.
func (s *setup) relabeled(in labels.Labels, name string) (labels.Labels, bool) {
	m := in.Map()
	delete(m, model.MetricNameLabel)
	put := func(name, value string) {
		old, taken := m[name]
		m[name] = value
		if taken && old != value {
			for ; taken; _, taken = m[name] {
				name = "exported_" + name
			}
			m[name] = old
		}
	}
	_, stage := m["stage"]
	_, replica := m["replica"]
	engine, hasEngine := m["engine"]
	switch {
	case stage && replica:
	case hasEngine:
		p, ok := s.place(engine)
		if !ok && s.options.DropUnmapped {
			return labels.EmptyLabels(), false
		}
		if ok {
			delete(m, "engine")
			put("replica", p.Replica)
			put("stage", p.Stage)
		}
	case !stage && !replica && s.own != nil:
		put("replica", s.own.Replica)
		put("stage", s.own.Stage)
	}
	for _, l := range []string{"a", "pipeline"} {
		if v, ok := s.options.Labels[l]; ok {
			put(l, v)
		}
	}
	m[model.MetricNameLabel] = name
	return canonicalLabels(labels.FromMap(m)), true
}

// difference describes how two lists of series differ as multisets, or returns "".
// Timestamps may differ by slack milliseconds, and by what a float64 of seconds
// cannot tell apart.
func difference(got, want []series, slack int64) string {
	bySeries := func(a, b series) int {
		return strings.Compare(a.labels.String(), b.labels.String())
	}
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortStableFunc(got, bySeries)
	slices.SortStableFunc(want, bySeries)
	var out strings.Builder
	for len(got) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(got) > 0 && bySeries(got[0], want[0]) < 0:
			fmt.Fprintf(&out, "unexpected %+v\n", got[0])
			got = got[1:]
			continue
		case len(got) == 0 || bySeries(got[0], want[0]) > 0:
			fmt.Fprintf(&out, "missing %+v\n", want[0])
			want = want[1:]
			continue
		}
		g, w := got[0], want[0]
		apart := math.Abs(float64(g.ts) - float64(w.ts))
		if math.Float64bits(g.value) != math.Float64bits(w.value) || g.hasTS != w.hasTS || g.typ != w.typ ||
			g.exemplar != w.exemplar || apart > float64(slack)*(1+math.Abs(float64(w.ts))*0x1p-50) {
			fmt.Fprintf(&out, "got %+v, want %+v\n", g, w)
		}
		got, want = got[1:], want[1:]
	}
	return out.String()
}

// views returns the merged page of one source in both formats.
func views(t *testing.T, page *exposition.Page, utf8 bool) [2][]byte {
	t.Helper()
	merged := exposition.NewMerger(1).Merge([]*exposition.Page{page})
	var out [2][]byte
	for _, f := range []exposition.Format{exposition.Text, exposition.OpenMetrics} {
		var b bytes.Buffer
		v := merged.View(f, utf8)
		n, err := v.WriteTo(&b)
		if err != nil || n != int64(b.Len()) || v.Size() != b.Len() {
			t.Fatalf("%v view: wrote %d bytes of %d, size %d, error %v", f, n, b.Len(), v.Size(), err)
		}
		out[f] = b.Bytes()
	}
	return out
}
