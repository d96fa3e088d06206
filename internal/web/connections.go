package web

import (
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections bounds how many connections are open at a time. One too many is closed
// at once rather than kept waiting: who holds all of them open on purpose would keep
// the others waiting for ever. It is a prometheus.Collector of both numbers.
type Connections struct {
	most int // 0: no limit

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	refused int

	openDesc, refusedDesc *prometheus.Desc
}

// NewConnections returns a bound of most connections, or none if that is 0.
func NewConnections(most int) *Connections {
	return &Connections{
		most: most, open: map[net.Conn]struct{}{},
		openDesc: prometheus.NewDesc("omni_exporter_open_connections", "Connections of clients that are open.", nil, nil),
		refusedDesc: prometheus.NewDesc("omni_exporter_refused_connections_total",
			"Connections of clients that were closed at once because too many were open.", nil, nil),
	}
}

// ConnState is the http.Server's.
func (c *Connections) ConnState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.most > 0 && len(c.open) >= c.most {
			c.refused++
			_ = conn.Close()
			return
		}
		c.open[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

// Describe implements prometheus.Collector.
func (c *Connections) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.openDesc
	ch <- c.refusedDesc
}

// Collect implements prometheus.Collector.
func (c *Connections) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	open, refused := len(c.open), c.refused
	c.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(c.openDesc, prometheus.GaugeValue, float64(open))
	ch <- prometheus.MustNewConstMetric(c.refusedDesc, prometheus.CounterValue, float64(refused))
}
