package scrape

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// endpoint is a target as its upstream describes it.
type endpoint struct {
	recipe         *recipe
	address        string
	url            *url.URL
	stage, replica string
	labels         map[string]string // to be added to its series
}

// options returns what a target is made by.
func (e *endpoint) options(c *config.Config, logger *slog.Logger) TargetOptions {
	r := &e.recipe.options
	topology := e.recipe.flat
	if e.stage != "" {
		topology = relabel.TargetTopology(e.stage, e.replica, r.Engines)
	}
	labels := maps.Clone(e.labels)
	if r.Pipeline != "" {
		labels["pipeline"] = r.Pipeline
	}
	return TargetOptions{
		Address: e.address, Pipeline: r.Pipeline, URL: e.url, Client: e.recipe.client,
		Stage: e.stage, Replica: e.replica, Engines: r.Engines,
		Rules: relabel.NewRules(relabel.Options{
			Topology: topology, DropUnmapped: r.DropUnmapped, Labels: labels,
			Include: c.Include.Match, OmniPrefix: r.OmniPrefix, Aliases: r.Aliases, KeepCreated: r.KeepCreated,
			Limits: relabel.Limits{
				Samples: r.Scrape.SampleLimit, Labels: r.Scrape.LabelLimit,
				LabelName: r.Scrape.LabelNameLengthLimit, LabelValue: r.Scrape.LabelValueLengthLimit,
			},
			MetricRelabel: r.MetricRelabel,
		}),
		Timeout: time.Duration(r.Scrape.ScrapeTimeout), MinInterval: time.Duration(r.Scrape.MinScrapeInterval),
		BodySizeLimit: int64(r.Scrape.BodySizeLimit), Compression: r.Compression, Logger: logger,
	}
}

// static returns the targets that the configuration names, relabeled by
// relabel_configs, in the order written. Those that the rules drop are left out.
func static(u *config.Upstream, reject func(address string, reason RejectReason)) []endpoint {
	var out []endpoint
	for _, group := range u.StaticConfigs {
		stage, replica := u.Place(group)
		for _, address := range group.Targets {
			b := labels.NewBuilder(labels.EmptyLabels())
			for name, value := range group.Labels {
				b.Set(name, value)
			}
			b.Set("stage", stage).Set("replica", replica).Set(model.AddressLabel, address)
			if e, ok := newEndpoint(u, b, reject); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// discovered returns the targets that were found, relabeled, by address. Discovery
// has no order to keep.
func discovered(u *config.Upstream, found discovery.Found, reject func(address string, reason RejectReason)) []endpoint {
	var out []endpoint
	for _, c := range u.Configs() {
		for _, group := range found(c) {
			for _, target := range group.Targets {
				b := labels.NewBuilder(labels.EmptyLabels())
				b.Set("stage", u.Stage).Set("replica", u.Replica)
				for name, value := range group.Labels {
					b.Set(string(name), string(value))
				}
				for name, value := range target {
					b.Set(string(name), string(value))
				}
				if e, ok := newEndpoint(u, b, reject); ok {
					out = append(out, e)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b endpoint) int { return cmp.Compare(a.address, b.address) })
	return out
}

// newEndpoint reads a target off its labels after relabeling, as Prometheus does;
// labels that start with two underscores do not leave.
func newEndpoint(u *config.Upstream, b *labels.Builder, reject func(address string, reason RejectReason)) (endpoint, bool) {
	otherwise := func(name, value string) {
		if b.Get(name) == "" {
			b.Set(name, value)
		}
	}
	otherwise(model.SchemeLabel, u.Scheme)
	otherwise(model.MetricsPathLabel, u.MetricsPath)
	for name, values := range u.Params {
		if len(values) > 0 {
			otherwise(model.ParamLabelPrefix+name, values[0])
		}
	}
	if !promrelabel.ProcessBuilder(b, u.RelabelConfigs...) {
		return endpoint{}, false
	}
	scheme, address := b.Get(model.SchemeLabel), b.Get(model.AddressLabel)
	if address == "" { // rules drop a target this way too
		return endpoint{}, false
	}
	if !validAddress(scheme, address) {
		reject(address, RejectAddress)
		return endpoint{}, false
	}
	e := endpoint{
		address: hostPort(address, scheme), stage: b.Get("stage"), replica: b.Get("replica"), labels: map[string]string{},
	}
	params := url.Values{}
	for name, values := range u.Params {
		params[name] = slices.Clone(values)
	}
	good := true
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
			good = good && validLabel(l.Name)
		}
	})
	if !good {
		reject(e.address, RejectLabel)
		return endpoint{}, false
	}
	e.url = &url.URL{
		Scheme: scheme, Host: e.address, Path: "/" + strings.TrimPrefix(b.Get(model.MetricsPathLabel), "/"), RawQuery: params.Encode(),
	}
	return e, true
}

// validAddress reports whether an address is a host with or without a port, and
// nothing else that could stand in a URL.
func validAddress(scheme, address string) bool {
	u, err := url.Parse(scheme + "://" + address)
	return err == nil && !strings.ContainsAny(address, "\"'<>\\^`{|}*,;") && (scheme == "http" || scheme == "https") && u.Host == address && u.Hostname() != ""
}

// validLabel reports whether a target may bring a label: what the configuration
// refuses in static_configs, discovery must not bring either.
func validLabel(name string) bool {
	switch name {
	case model.BucketLabel, model.QuantileLabel, "engine", "pipeline":
		return false
	}
	return model.LegacyValidation.IsValidLabelName(name)
}

// hostPort returns the address with the scheme's port if it has none.
func hostPort(address, scheme string) string {
	if u := (&url.URL{Host: address}); u.Port() != "" {
		return address
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return fmt.Sprint(strings.TrimSuffix(address, ":"), ":", port)
}
