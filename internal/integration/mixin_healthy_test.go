//go:build integration

package integration

import (
	"syscall"
	"testing"

	"github.com/omni-exporter/omni_exporter/dashboards"
)

// TestHealthyDemoIsQuiet lets a fresh Prometheus of both major versions evaluate the mixin, as it is shipped, over a demo that
// is well: no alert may fire, every rule must be healthy and no panel empty. INTEGRATION_SCRAPE_SECONDS sets for how long.
func TestHealthyDemoIsQuiet(t *testing.T) {
	scrapes := max(scrapeCount(t), panelScrapes)
	_, address := startDemo(t)
	t.Run("versions", func(t *testing.T) {
		for version, tool := range map[string]string{"v2": "debian", "v3": "prometheus"} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				server := startPrometheus(t, prometheusPath(t, tool), serverSetup{
					jobs: []scrapeJob{{name: "omni", target: address}}, rules: mixinRules(t),
				}.yaml())
				server.awaitScrapes(t, scrapes)
				fired, err := server.query(t.Context(), `count_over_time(ALERTS{alertstate="firing"}[1d])`)
				if err != nil {
					t.Fatal(err)
				}
				for _, alert := range fired {
					t.Errorf("fired on a healthy demo: %s", alert.Metric)
				}
				rules := server.demandRulesHealthy(t)

				check := panelCheck{server: server, job: "omni"}
				all := readDashboards(t, dashboards.Files)
				for i := range all {
					check.dashboard(t, &all[i])
				}
				for _, problem := range check.problems {
					t.Error(problem)
				}
				t.Logf("%d scrapes, %d rules, %d panels, %d queries", scrapes, rules, check.panels, check.queries)
				server.endsCleanly(t, syscall.SIGTERM)
			})
		}
	})
}
