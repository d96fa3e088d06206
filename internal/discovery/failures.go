package discovery

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Failures is a collector of how often discovery went wrong. Prometheus's own families of discovery, some thirty, stay
// off the page: they are a Prometheus server's.
type Failures struct {
	source prometheus.Gatherer
}

// failureFamilies are Prometheus's counters of failures, and the way of discovery that each is of.
func failureFamilies() map[string]string {
	return map[string]string{
		"prometheus_sd_file_read_errors_total":    "file",
		"prometheus_sd_file_watcher_errors_total": "file",
		"prometheus_sd_http_failures_total":       "http",
		"prometheus_sd_dns_lookup_failures_total": "dns",
		"prometheus_sd_kubernetes_failures_total": "kubernetes",
	}
}

func failuresDesc() *prometheus.Desc {
	return prometheus.NewDesc("omni_exporter_discovery_failures_total",
		"Attempts to discover targets that failed, by way of discovery. What was found before stays.", []string{"mechanism"}, nil)
}

// Describe sends the description of the only family.
func (f *Failures) Describe(ch chan<- *prometheus.Desc) { ch <- failuresDesc() }

// Collect sends one counter for each way of discovery.
func (f *Failures) Collect(ch chan<- prometheus.Metric) {
	families := failureFamilies()
	counts := map[string]float64{}
	for _, mechanism := range families {
		counts[mechanism] = 0
	}
	gathered, err := f.source.Gather()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(failuresDesc(), err)
		return
	}
	for _, family := range gathered {
		if mechanism, ok := families[family.GetName()]; ok {
			counts[mechanism] += sum(family)
		}
	}
	for mechanism, n := range counts {
		ch <- prometheus.MustNewConstMetric(failuresDesc(), prometheus.CounterValue, n, mechanism)
	}
}

func sum(f *dto.MetricFamily) (n float64) {
	for _, m := range f.GetMetric() {
		n += m.GetCounter().GetValue()
	}
	return n
}
