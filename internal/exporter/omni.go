package exporter

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/events"
)

// omni are the families that are computed from events, and their intake.
type omni struct {
	handler  *events.Handler
	budget   *collector.SeriesBudget
	requests *collector.RequestTable
	audio    *collector.AudioCollector // nil when off
	logger   *slog.Logger
}

// newOmni returns the families under vLLM-Omni's own prefix, which the page they leave
// on replaces by that of the configuration in force.
func newOmni(c *config.Config, o Options, registry *prometheus.Registry) (*omni, error) {
	requests := collector.NewRequestTable(collector.RequestTableOptions{Timeout: time.Duration(c.Events.RequestTimeout)})
	options := collector.OmniOptions{
		Budget: collector.NewSeriesBudget(c.Events.MaxSeries), Requests: requests,
		ContinuityThresholdsMS: c.Events.ContinuityThresholdsMS,
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
	return &omni{handler: handler, budget: options.Budget, requests: requests, audio: intake.Audio, logger: o.Logger}, nil
}

// apply puts the events section of a configuration to work. Nothing that was counted
// goes.
func (m *omni) apply(c *config.Config) {
	m.handler.SetMaxBodySize(int64(c.Events.MaxBodySize))
	m.budget.SetLimit(c.Events.MaxSeries)
	m.requests.SetTimeout(time.Duration(c.Events.RequestTimeout))
	if m.audio == nil {
		return
	}
	if err := m.audio.SetContinuityThresholds(c.Events.ContinuityThresholdsMS); err != nil {
		m.logger.Error("thresholds of audio continuity stay as they were", "err", err)
	}
}
