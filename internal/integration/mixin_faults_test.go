//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// shortening divides every window and waiting time of the rules: an hour becomes three minutes.
const shortening = 20

// faultTimeout is how long the alerts of a fault may take to fire, with the shortened windows.
const faultTimeout = 5 * time.Minute

// faultCase is a fault of the demo with the alerts that it must raise, and those of page severity that it may raise, too,
// because they follow from it.
type faultCase struct {
	fault      string
	must, page []string
}

func faultCases() []faultCase {
	return []faultCase{
		{fault: "kill-replica", must: []string{"OmniReplicaMissing"}},
		{fault: "hang-stage", must: []string{"OmniReplicaStalled", "OmniTransferStalled"}},
		{fault: "slow-edge", must: []string{"OmniTransferSlow", "OmniTransferInFlightShare"}, page: []string{"OmniAudioTtfpBudgetBurn", "OmniAudioUnderrunBudgetBurn"}},
		{fault: "silent-audio", must: []string{"OmniAudioSilentLoss"}},
		{fault: "lose-fpm", must: []string{"DynamoFpmRecordsLost"}},
		{fault: "saturate-kv", must: []string{"OmniKvCachePressure"}, page: []string{"OmniTtftBudgetBurn", "OmniAudioTtfpBudgetBurn", "OmniE2eBudgetBurn", "OmniItlBudgetBurn"}},
	}
}

// TestFaultsRaiseAlerts breaks one demo in each way that it knows, beside one that is well, and lets a real Prometheus
// evaluate the shipped alerts, with shorter windows: each fault must raise its alerts, none may raise another of page
// severity, and the healthy demo none at all. A real Alertmanager must hear of it.
func TestFaultsRaiseAlerts(t *testing.T) {
	const healthy = "healthy"
	alertmanager := startAlertmanager(t)
	_, address := startDemo(t)
	jobs := []scrapeJob{{name: healthy, target: address}}
	for _, c := range faultCases() {
		address := startFaultyDemo(t, c.fault)
		jobs = append(jobs, scrapeJob{name: c.fault, target: address})
	}
	server := startPrometheus(t, prometheusPath(t, "prometheus"), serverSetup{jobs: jobs, rules: shortenedRules(t), alertmanager: alertmanager}.yaml())

	// Alerts that ever fired, by job.
	fired := map[string]map[string]promv1.Alert{}
	await(t, "alerts of every fault", faultTimeout, server.process, func(ctx context.Context) error {
		result, err := server.api.Alerts(ctx)
		if err != nil {
			return err
		}
		for _, a := range result.Alerts {
			job := string(a.Labels["job"])
			if a.State != promv1.AlertStateFiring {
				continue
			}
			if fired[job] == nil {
				fired[job] = map[string]promv1.Alert{}
			}
			fired[job][string(a.Labels[model.AlertNameLabel])] = a
		}
		var missing []string
		for _, c := range faultCases() {
			for _, name := range c.must {
				if _, ok := fired[c.fault][name]; !ok {
					missing = append(missing, c.fault+": "+name)
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("not yet firing: %s", strings.Join(missing, ", "))
		}
		return nil
	})
	server.demandRulesHealthy(t)

	for name := range fired[healthy] {
		t.Errorf("%s fires on the healthy demo: %s", name, fired[healthy][name].Annotations["description"])
	}
	for _, c := range faultCases() {
		var names []string
		for name, a := range fired[c.fault] {
			names = append(names, fmt.Sprintf("%s (%s)", name, a.Labels["severity"]))
			if a.Labels["severity"] == "critical" && !slices.Contains(c.must, name) && !slices.Contains(c.page, name) {
				t.Errorf("%s raises %s, which is of page severity: %s", c.fault, name, a.Annotations["description"])
			}
			for key, text := range a.Annotations {
				if strings.Contains(string(text), "<no value>") || strings.Contains(string(text), "error expanding") {
					t.Errorf("%s, %s is %q", name, key, text)
				}
			}
		}
		slices.Sort(names)
		t.Logf("%s: %s", c.fault, strings.Join(names, ", "))
		for _, name := range c.must {
			t.Logf("  %s", fired[c.fault][name].Annotations["description"])
		}
	}
	awaitNotified(t, server, alertmanager, "OmniReplicaMissing")
}

// startFaultyDemo runs a demo that breaks once it is ready, and returns its exporter's host:port.
func startFaultyDemo(t *testing.T, fault string) string {
	t.Helper()
	address := freeAddress(t)
	demo := start(t, programs.path(t, "omnitool"), "demo", "--web.listen-address="+address, "--fault="+fault)
	awaitReady(t, demo, "http://"+address)
	return address
}

// shortenedRules writes the shipped rules with every window and waiting time divided.
func shortenedRules(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, path := range mixinRules(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Groups []map[string]any `yaml:"groups"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Groups {
			for _, item := range group["rules"].([]any) {
				rule := item.(map[string]any)
				rule["expr"] = shortenedExpression(t, rule["expr"].(string))
				if waits, ok := rule["for"].(string); ok {
					rule["for"] = shortened(t, waits)
				}
			}
		}
		short, err := yaml.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(path, short, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func shortened(t *testing.T, text string) string {
	t.Helper()
	d, err := model.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return (d / shortening).String()
}

func shortenedExpression(t *testing.T, text string) string {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if m, ok := node.(*parser.MatrixSelector); ok {
			m.Range /= shortening
		}
		return nil
	})
	return expression.String()
}

// startAlertmanager runs Debian's Alertmanager with a receiver that does nothing, and returns its host:port.
func startAlertmanager(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Fatalf("%v: install Debian's package of that name", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: nobody, group_wait: 1s}\nreceivers: [{name: nobody}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	p := start(t, path, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=")
	awaitReady(t, p, "http://"+address)
	return address
}

// awaitNotified awaits that the Alertmanager holds an alert, and demands that it has what a person needs.
func awaitNotified(t *testing.T, server *prometheus, alertmanager, name string) {
	t.Helper()
	await(t, "notification", readyTimeout, server.process, func(ctx context.Context) error {
		text, err := fetch(ctx, "http://"+alertmanager+"/api/v2/alerts", "")
		if err != nil {
			return err
		}
		var alerts []struct{ Labels, Annotations map[string]string }
		if err := json.Unmarshal([]byte(text), &alerts); err != nil {
			return err
		}
		for _, a := range alerts {
			if a.Labels["alertname"] == name {
				if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Annotations["runbook_url"] == "" || a.Labels["severity"] == "" {
					return fmt.Errorf("%s lacks something: %+v", name, a)
				}
				return nil
			}
		}
		return fmt.Errorf("%d alerts, and %s is not among them", len(alerts), name)
	})
}
