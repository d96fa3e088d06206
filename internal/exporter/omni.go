package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/events"
)

// omni are the families that are computed from events, and their intake.
type omni struct {
	handler *events.Handler
}

func newOmni(c *config.Config, o Options, registry *prometheus.Registry) (*omni, error) {
	requests := collector.NewRequestTable(collector.RequestTableOptions{Timeout: time.Duration(c.Events.RequestTimeout)})
	options := collector.OmniOptions{
		Budget: collector.NewSeriesBudget(c.Events.MaxSeries), Requests: requests,
		ContinuityThresholdsMS: c.Events.ContinuityThresholdsMS,
	}
	if c.OmniPrefix != config.OmniPrefixKeep {
		options.Prefix = c.OmniPrefix
	}
	intake := events.Options{Budget: options.Budget, MaxBodySize: int64(c.Events.MaxBodySize), Logger: o.Logger}
	var err error
	if o.Pipeline {
		if intake.Pipeline, err = collector.NewPipelineCollector(options); err != nil {
			return nil, err
		}
		registry.MustRegister(intake.Pipeline)
	}
	if o.Audio {
		if intake.Audio, err = collector.NewAudioCollector(options); err != nil {
			return nil, err
		}
		registry.MustRegister(intake.Audio)
	}
	if o.Transfer {
		if intake.Transfer, err = collector.NewTransferCollector(options); err != nil {
			return nil, err
		}
		registry.MustRegister(intake.Transfer)
	}
	handler := events.NewHandler(intake)
	registry.MustRegister(requests, handler)
	return &omni{handler: handler}, nil
}
