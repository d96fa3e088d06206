package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

// fpmStreams exposes the state of the connections to publishers.
type fpmStreams struct {
	state                             func() []stream.EndpointState
	connected, reconnects, disconnect *prometheus.Desc
}

// NewFPMStreams returns a collector of each endpoint's connection, by (*stream.Supervisor).State or the like.
func NewFPMStreams(state func() []stream.EndpointState) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"endpoint"}, labels...), nil)
	}
	return &fpmStreams{
		state:      state,
		connected:  desc("omni_exporter_fpm_connected", "Whether a subscription to the endpoint stands."),
		reconnects: desc("omni_exporter_fpm_reconnects_total", "Connections made to the endpoint after the first."),
		disconnect: desc("omni_exporter_fpm_last_disconnect_info", "Always 1; reason says why the last connection or attempt failed.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *fpmStreams) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.connected
	ch <- c.reconnects
	ch <- c.disconnect
}

// Collect implements prometheus.Collector.
func (c *fpmStreams) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.state() {
		endpoint, up := valid(s.Endpoint.Address), 0.0
		if s.Connected() {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(c.connected, prometheus.GaugeValue, up, endpoint)
		ch <- prometheus.MustNewConstMetric(c.reconnects, prometheus.CounterValue, float64(s.Reconnects), endpoint)
		if s.LastReason != stream.ReasonNone {
			ch <- prometheus.MustNewConstMetric(c.disconnect, prometheus.GaugeValue, 1, endpoint, string(s.LastReason))
		}
	}
}
