package exporter

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// forwardPasses are the families of forward-pass metrics and the streams that feed
// them. A nil one is off.
type forwardPasses struct {
	streams *stream.Supervisor
}

func newForwardPasses(c *config.Config, logger *slog.Logger, registry *prometheus.Registry) *forwardPasses {
	families := collector.NewFPM(collector.FPMOptions{
		StaleAfter:  time.Duration(c.ForwardPassMetrics.StaleAfter),
		ForgetAfter: time.Duration(c.ForwardPassMetrics.ForgetAfter),
		Logger:      logger,
	})
	streams := stream.NewSupervisor(stream.Options{Sink: families.Deliver, Logger: logger})
	registry.MustRegister(families, collector.NewFPMStreams(streams.State))
	return &forwardPasses{streams: streams}
}

// apply subscribes to the streams of a configuration. Those that did not change
// are not touched.
func (f *forwardPasses) apply(c *config.Config) error {
	if f == nil {
		return nil
	}
	endpoints, err := endpoints(c)
	if err != nil {
		return err
	}
	if err := f.streams.Apply(endpoints); err != nil {
		return fmt.Errorf("forward_pass_metrics: %w", err)
	}
	return nil
}

func (f *forwardPasses) close() {
	if f != nil {
		f.streams.Close()
	}
}

// endpoints returns one endpoint for each rank of the configured streams.
func endpoints(c *config.Config) ([]stream.Endpoint, error) {
	var out []stream.Endpoint
	var errs []error
	for i := range c.ForwardPassMetrics.Streams {
		s := &c.ForwardPassMetrics.Streams[i]
		for _, group := range s.StaticConfigs {
			labels := fpm.Labels{
				Namespace: group.Labels["dynamo_namespace"], Component: group.Labels["dynamo_component"],
				Stage: group.Labels["stage"], Replica: group.Labels["replica"], Pipeline: group.Labels["pipeline"],
			}
			for _, address := range group.Targets {
				ranks, err := stream.ExpandRanks(stream.Endpoint{Address: address, Labels: labels}, s.DataParallelSize)
				errs = append(errs, err)
				out = append(out, ranks...)
			}
		}
	}
	return out, errors.Join(errs...)
}
