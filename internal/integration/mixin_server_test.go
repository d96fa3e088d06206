//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// scrapeJob is one job of a server's configuration, with one target.
type scrapeJob struct {
	name, target string
	relabel      string // metric_relabel_configs as a YAML list, or nothing
}

// serverSetup is what a server scrapes, computes and notifies.
type serverSetup struct {
	jobs         []scrapeJob
	rules        []string // paths of rule files
	alertmanager string   // host:port, or nothing
}

// yaml writes the configuration of a server that scrapes and evaluates once a second.
func (s serverSetup) yaml() string {
	var b strings.Builder
	b.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n")
	fmt.Fprintf(&b, "rule_files: [%s]\n", strings.Join(s.rules, ", "))
	if s.alertmanager != "" {
		fmt.Fprintf(&b, "alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}\n", s.alertmanager)
	}
	b.WriteString("scrape_configs:\n")
	for _, j := range s.jobs {
		fmt.Fprintf(&b, "  - {job_name: %q, honor_labels: true, static_configs: [{targets: [%q]}]", j.name, j.target)
		if j.relabel != "" {
			fmt.Fprintf(&b, ", metric_relabel_configs: %s", j.relabel)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// demandRulesHealthy demands that the server has evaluated every rule, and without an error. It returns how many there are.
func (p *prometheus) demandRulesHealthy(t *testing.T) int {
	t.Helper()
	result, err := p.api.Rules(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, group := range result.Groups {
		for _, rule := range group.Rules {
			count++
			switch r := rule.(type) {
			case promv1.AlertingRule:
				if r.Health != promv1.RuleHealthGood {
					t.Errorf("alert %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			case promv1.RecordingRule:
				if r.Health != promv1.RuleHealthGood {
					t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
	}
	return count
}

// mixinRules are the rule files of the mixin as they are shipped.
func mixinRules(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, name := range []string{"prometheus_alerts.yaml", "prometheus_rules.yaml"} {
		path, err := filepath.Abs(filepath.Join("..", "..", "mixins", "omni-mixin", name))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}
