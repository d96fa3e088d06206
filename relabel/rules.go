package relabel

import (
	"bytes"
	"slices"
	"strconv"

	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Limits are what one page may hold; 0 is no limit. They mean what Prometheus's
// options of the same names mean: a page past a limit is refused whole.
type Limits struct {
	Samples    int // kept samples a page
	Labels     int // labels of a series, the metric name among them
	LabelName  int // bytes of a label name
	LabelValue int // bytes of a label value, or of the metric name
}

// Options say what becomes of a target's pages.
type Options struct {
	Topology     Topology
	DropUnmapped bool                     // drop series of engines outside the topology instead of keeping `engine`
	Labels       map[string]string        // added to every series: pipeline, labels of the target
	Include      func(family string) bool // which families are let through; nil: all
	OmniPrefix   string                   // prefix of omni families; KeepPrefix or "": as they came
	Aliases      bool                     // old engine names get their current name
	KeepCreated  bool                     // keep `_created` families, in text output
	Limits       Limits

	// MetricRelabel are Prometheus's rules, applied to series as they leave. Each must
	// have passed its Validate.
	MetricRelabel []*promrelabel.Config
}

// Rules are Options made ready. They are immutable and may be shared.
type Rules struct {
	options Options
	labels  []exposition.Label // sorted, values escaped
}

// NewRules compiles options. Labels without a value are left out, as Prometheus
// leaves them out.
func NewRules(o Options) *Rules {
	r := &Rules{options: o}
	for name, value := range o.Labels {
		if value != "" {
			r.labels = append(r.labels, exposition.Label{Name: []byte(name), Value: labelBytes(value)})
		}
	}
	slices.SortFunc(r.labels, func(a, b exposition.Label) int { return bytes.Compare(a.Name, b.Name) })
	return r
}

// includes reports whether a family is let through, by the name it came with or
// the one it leaves with.
func (r *Rules) includes(name, outName string) bool {
	include := r.options.Include
	return include == nil || include(name) || include(outName)
}

// outputName returns a family's name as it leaves.
func (r *Rules) outputName(name string) string {
	return normalizePrefix(name, r.options.OmniPrefix)
}

// Place returns where the target's i-th engine stands, counted from 0, and false for
// one outside the map.
func (r *Rules) Place(engine int) (Place, bool) {
	return r.options.Topology.Place(strconv.AppendInt(nil, int64(engine), 10))
}

// boundIsInert reports whether the value of a bucket's `le` decides nothing but
// itself.
func (r *Rules) boundIsInert() bool {
	return len(r.options.MetricRelabel) == 0 && r.options.Labels["le"] == ""
}
