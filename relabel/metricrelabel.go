package relabel

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// metricRelabel applies Prometheus's own relabel rules to a series that is ready
// to leave, and returns false if they drop it. It runs once for each new line, so
// it may take its time.
func metricRelabel(rules []*promrelabel.Config, name []byte, in []exposition.Label) ([]byte, []exposition.Label, bool) {
	b := labels.NewBuilder(labels.EmptyLabels())
	b.Set(model.MetricNameLabel, string(name))
	for _, l := range in {
		b.Set(string(l.Name), string(exposition.Unescape(l.Value)))
	}
	if !promrelabel.ProcessBuilder(b, rules...) {
		return nil, nil, false
	}
	after := b.Labels()
	var outName []byte
	out := make([]exposition.Label, 0, after.Len())
	after.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			outName = []byte(l.Value)
			return
		}
		out = append(out, exposition.Label{Name: []byte(l.Name), Value: labelBytes(l.Value)})
	})
	return outName, out, len(outName) > 0
}

// renamed returns the family of a series that a rule has given another name: the
// declared one of that name, or one without metadata.
func (p *pageFamilies) renamed(name []byte, b *exposition.Builder) *family {
	if p.leaving == nil {
		p.leaving = map[string]*family{}
		for _, f := range p.order {
			if f.verdict == keep && f.typ.Allows("", p.format) && p.leaving[f.out] == nil {
				p.leaving[f.out] = f
			}
		}
	}
	if f, ok := p.leaving[string(name)]; ok {
		return f
	}
	f := &family{name: string(name), out: string(name), index: -1}
	if exposition.Reserved(name) {
		f.verdict = reserved
	} else {
		f.index = b.Family(exposition.Family{Key: f.out})
	}
	p.leaving[f.out] = f
	return f
}
