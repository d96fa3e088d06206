package scrape

import (
	"net/url"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

// endpoints returns the targets of an upstream, relabeled by its relabel_configs,
// in the order written. Targets that those drop are left out. Other kinds of
// discovery yield the same groups of addresses with labels.
func endpoints(u *config.Upstream) []endpoint {
	var out []endpoint
	for _, group := range u.StaticConfigs {
		stage, replica := u.Place(group)
		for _, address := range group.Targets {
			b := labels.NewBuilder(labels.EmptyLabels())
			for name, value := range group.Labels {
				b.Set(name, value)
			}
			b.Set("stage", stage).Set("replica", replica)
			b.Set(model.AddressLabel, address)
			b.Set(model.SchemeLabel, u.Scheme).Set(model.MetricsPathLabel, u.MetricsPath)
			for name, values := range u.Params {
				if len(values) > 0 {
					b.Set(model.ParamLabelPrefix+name, values[0])
				}
			}
			if !promrelabel.ProcessBuilder(b, u.RelabelConfigs...) {
				continue
			}
			if e, ok := newEndpoint(u, b); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// newEndpoint reads a target off its labels, as Prometheus does; labels that start
// with two underscores do not leave.
func newEndpoint(u *config.Upstream, b *labels.Builder) (endpoint, bool) {
	scheme := b.Get(model.SchemeLabel)
	address := b.Get(model.AddressLabel)
	if address == "" {
		return endpoint{}, false
	}
	e := endpoint{
		address: hostPort(address, scheme), stage: b.Get("stage"), replica: b.Get("replica"), labels: map[string]string{},
	}
	params := url.Values{}
	for name, values := range u.Params {
		params[name] = append([]string(nil), values...)
	}
	b.Range(func(l labels.Label) {
		if name, ok := strings.CutPrefix(l.Name, model.ParamLabelPrefix); ok {
			if len(params[name]) > 0 {
				params[name][0] = l.Value
			} else {
				params[name] = []string{l.Value}
			}
		}
		if !strings.HasPrefix(l.Name, model.ReservedLabelPrefix) && l.Name != "stage" && l.Name != "replica" {
			e.labels[l.Name] = l.Value
		}
	})
	e.url = &url.URL{
		Scheme: scheme, Host: e.address, Path: b.Get(model.MetricsPathLabel), RawQuery: params.Encode(),
	}
	return e, true
}
