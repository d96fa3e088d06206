//go:build integration

package integration

import (
	"syscall"
	"testing"

	"github.com/prometheus/common/model"
)

// startDemo runs `omnitool demo` and returns it and the host:port of its exporter.
func startDemo(t *testing.T) (demo *process, address string) {
	t.Helper()
	address = freeAddress(t)
	demo = start(t, programs.path(t, "omnitool"), "demo", "--web.listen-address="+address)
	awaitReady(t, demo, "http://"+address)
	return demo, address
}

// TestPrometheusScrapesDemo lets both major versions of Prometheus scrape the demo for a minute: not one sample may be
// refused, and a query by stage and replica must be answered.
func TestPrometheusScrapesDemo(t *testing.T) {
	scrapes := scrapeCount(t)
	demo, address := startDemo(t)
	t.Run("versions", func(t *testing.T) {
		for version, tool := range map[string]string{"v2": "debian", "v3": "prometheus"} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				server := startPrometheus(t, prometheusPath(t, tool), serverSetup{jobs: []scrapeJob{{name: "omni", target: address}}}.yaml())
				server.awaitScrapes(t, scrapes)
				server.demandAllAccepted(t)

				sample, err := server.single(t.Context(), `vllm:num_requests_running{stage="1",replica="1"}`)
				if err != nil {
					t.Fatal(err)
				}
				for _, label := range []model.LabelName{"engine", "exported_stage", "exported_replica", "exported_job"} {
					if text, ok := sample.Metric[label]; ok {
						t.Errorf("%s=%q on %v, want no such label", label, text, sample.Metric)
					}
				}
				engines, err := server.query(t.Context(), `count by (stage, replica) (vllm:num_requests_running{stage!=""})`)
				if err != nil {
					t.Fatal(err)
				}
				if len(engines) != 5 {
					t.Errorf("%d places run requests, want five: %v", len(engines), engines)
				}
				server.endsCleanly(t, syscall.SIGTERM)
			})
		}
	})
	demo.endsCleanly(t, syscall.SIGINT)
}
