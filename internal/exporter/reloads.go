package exporter

import "github.com/prometheus/client_golang/prometheus"

// reloads shows whether the configuration in force is the one on disk.
type reloads struct {
	successful, timestamp prometheus.Gauge
}

func newReloads() reloads {
	return reloads{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "omni_exporter_config_last_reload_successful",
			Help: "Whether the last attempt to load the configuration succeeded.",
		}),
		timestamp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "omni_exporter_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration was last loaded successfully.",
		}),
	}
}

func (r reloads) register(registry *prometheus.Registry) {
	registry.MustRegister(r.successful, r.timestamp)
}

func (r reloads) succeeded() {
	r.successful.Set(1)
	r.timestamp.SetToCurrentTime()
}

func (r reloads) failed() { r.successful.Set(0) }
