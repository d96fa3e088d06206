package exporter

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/discovery"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// maxEndpoints bounds what discovery may bring. Each is a connection.
const maxEndpoints = 10_000

// publisher is an engine that publishes forward passes, on one or more ranks.
type publisher struct {
	address string
	labels  fpm.Labels
}

// endpointSource makes the endpoints of publishers.
type endpointSource struct {
	found    discovery.Found
	shard    func(pipeline, address string) bool // nil: all are this exporter's
	logger   *slog.Logger
	rejected *prometheus.GaugeVec // by reason

	logged map[string]bool // addresses whose rejection was logged
}

func newEndpointSource(o Options, found discovery.Found) *endpointSource {
	return &endpointSource{
		found: found, shard: o.Shard.has(), logger: o.Logger, logged: map[string]bool{},
		rejected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "omni_exporter_fpm_rejected_publishers",
			Help: "Publishers of forward passes that were found and are not subscribed to, by reason.",
		}, []string{"reason"}),
	}
}

// static returns the endpoints that a configuration names; the error is of those
// that cannot be connected to.
func (s *endpointSource) static(c *config.Config) ([]stream.Endpoint, error) {
	var out []stream.Endpoint
	var errs []error
	for i := range c.ForwardPassMetrics.Streams {
		st := &c.ForwardPassMetrics.Streams[i]
		for _, p := range named(st) {
			ranks, err := s.expand(p, st)
			errs = append(errs, err)
			out = append(out, ranks...)
		}
	}
	return out, errors.Join(errs...)
}

// all returns those, and after them the endpoints that were found. Of what was found,
// what cannot be connected to is left out, counted and logged.
func (s *endpointSource) all(c *config.Config) []stream.Endpoint {
	out, _ := s.static(c)
	taken := map[string]bool{}
	for _, e := range out {
		taken[e.Address] = true
	}
	counts := map[string]int{"address": 0, "duplicate": 0, "limit": 0}
	rejected := map[string]bool{}
	for i := range c.ForwardPassMetrics.Streams {
		st := &c.ForwardPassMetrics.Streams[i]
		for _, p := range s.discovered(st) {
			ranks, err := s.expand(p, st)
			reason := ""
			switch {
			case err != nil:
				reason = "address"
			case slices.ContainsFunc(ranks, func(e stream.Endpoint) bool { return taken[e.Address] }):
				reason = "duplicate"
			case len(out)+len(ranks) > maxEndpoints:
				reason = "limit"
			}
			if reason != "" {
				counts[reason]++
				rejected[p.address] = true
				s.logRejected(p.address, reason)
				continue
			}
			for _, e := range ranks {
				taken[e.Address] = true
			}
			out = append(out, ranks...)
		}
	}
	s.logged = rejected
	for reason, n := range counts {
		s.rejected.WithLabelValues(reason).Set(float64(n))
	}
	return out
}

func (s *endpointSource) logRejected(address, reason string) {
	const most = 100
	if !s.logged[address] && len(s.logged) < most {
		s.logger.Warn("publisher of forward passes is not subscribed to", "address", address[:min(len(address), most)], "reason", reason)
	}
}

// expand returns the endpoints of a publisher's ranks, none if it is another
// exporter's.
func (s *endpointSource) expand(p publisher, st *config.Stream) ([]stream.Endpoint, error) {
	if s.shard != nil && !s.shard(p.labels.Pipeline, p.address) {
		return nil, nil
	}
	return stream.ExpandRanks(stream.Endpoint{Address: p.address, Labels: p.labels}, st.DataParallelSize)
}

// named returns the publishers that the configuration names, in the order written.
func named(st *config.Stream) []publisher {
	var out []publisher
	for _, group := range st.StaticConfigs {
		for _, address := range group.Targets {
			b := labels.NewBuilder(labels.EmptyLabels())
			for name, value := range group.Labels {
				b.Set(name, value)
			}
			b.Set(model.AddressLabel, address)
			if p, ok := newPublisher(st, b); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// discovered returns the publishers that were found, by address.
func (s *endpointSource) discovered(st *config.Stream) []publisher {
	var out []publisher
	for _, c := range st.Configs() {
		for _, group := range s.found(c) {
			for _, target := range group.Targets {
				b := labels.NewBuilder(labels.EmptyLabels())
				for name, value := range group.Labels {
					b.Set(string(name), string(value))
				}
				for name, value := range target {
					b.Set(string(name), string(value))
				}
				if p, ok := newPublisher(st, b); ok {
					out = append(out, p)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b publisher) int { return cmp.Compare(a.address, b.address) })
	return out
}

// newPublisher reads a publisher off its labels after relabeling. Rules drop one by
// an empty address too.
func newPublisher(st *config.Stream, b *labels.Builder) (publisher, bool) {
	if !promrelabel.ProcessBuilder(b, st.RelabelConfigs...) {
		return publisher{}, false
	}
	address := b.Get(model.AddressLabel)
	if address == "" {
		return publisher{}, false
	}
	if !strings.Contains(address, "://") {
		address = "tcp://" + address
	}
	return publisher{address: address, labels: fpm.Labels{
		Namespace: b.Get("dynamo_namespace"), Component: b.Get("dynamo_component"),
		Stage: b.Get("stage"), Replica: b.Get("replica"), Pipeline: b.Get("pipeline"),
	}}, true
}
