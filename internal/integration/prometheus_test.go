//go:build integration

package integration

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// prometheus is a real server with a TSDB of its own, scraping what its configuration says.
type prometheus struct {
	*process
	url string
	api promv1.API
}

// prometheusPath asks tools/install.sh for one of the pinned servers ("debian": v2, "prometheus": v3), which it gets if
// need be. OMNI_PROMETHEUS_DEBIAN or OMNI_PROMETHEUS_PROMETHEUS name another binary to use.
func prometheusPath(t *testing.T, tool string) string {
	t.Helper()
	if path := os.Getenv("OMNI_PROMETHEUS_" + strings.ToUpper(tool)); path != "" {
		return path
	}
	install := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "install.sh"), tool)
	install.Stderr = t.Output()
	dir, err := install.Output()
	if err != nil {
		t.Fatalf("tools/install.sh %s: %v", tool, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "prometheus")
}

// startPrometheus runs the server at path with a configuration file of that content, and returns when it is ready.
func startPrometheus(t *testing.T, path, yaml string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	p := &prometheus{
		process: start(t, path,
			"--config.file="+config,
			"--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+address),
		url: "http://" + address,
	}
	awaitReady(t, p.process, p.url)
	client, err := api.NewClient(api.Config{Address: p.url})
	if err != nil {
		t.Fatal(err)
	}
	p.api = promv1.NewAPI(client)
	return p
}

// query evaluates an instant query that gives a vector.
func (p *prometheus) query(ctx context.Context, expression string) (model.Vector, error) {
	result, warnings, _, err := p.api.Query(ctx, expression, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	if len(warnings) > 0 {
		return nil, fmt.Errorf("%s: %v", expression, warnings)
	}
	vector, ok := result.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s: %s, want a vector", expression, result.Type())
	}
	return vector, nil
}

// single evaluates a query that must give one sample.
func (p *prometheus) single(ctx context.Context, expression string) (*model.Sample, error) {
	vector, err := p.query(ctx, expression)
	if err != nil {
		return nil, err
	}
	if len(vector) != 1 {
		return nil, fmt.Errorf("%s: %d samples, want one", expression, len(vector))
	}
	return vector[0], nil
}

// awaitScrapes awaits that the server has scraped its target so many times since it started.
func (p *prometheus) awaitScrapes(t *testing.T, scrapes int) {
	t.Helper()
	within := time.Duration(scrapes)*2*time.Second + readyTimeout
	await(t, fmt.Sprint(scrapes, " scrapes"), within, p.process, func(ctx context.Context) error {
		done, err := p.single(ctx, `count_over_time(up{job="omni"}[1d])`)
		if err == nil && int(done.Value) < scrapes {
			err = fmt.Errorf("%v so far", done.Value)
		}
		return err
	})
}

// demandAllAccepted demands that no scrape failed and that no sample of one was refused.
func (p *prometheus) demandAllAccepted(t *testing.T) {
	t.Helper()
	lowest, err := p.single(t.Context(), `min_over_time(up{job="omni"}[1d])`)
	if err != nil {
		t.Fatal(err)
	}
	if lowest.Value != 1 {
		t.Errorf("up was %v at some scrape, want 1 at each", lowest.Value)
	}
	targets, err := p.api.Targets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets.Active {
		if target.Health != promv1.HealthGood || target.LastError != "" {
			t.Errorf("target %s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
		}
	}

	const scrapes, exceeded = "prometheus_target_scrapes_", "prometheus_target_scrapes_exceeded_"
	counters := []string{
		scrapes + "sample_duplicate_timestamp_total",
		scrapes + "sample_out_of_order_total",
		scrapes + "sample_out_of_bounds_total",
		exceeded + "sample_limit_total",
	}
	own := families(t, get(t, p.url+"/metrics", acceptText))
	for name := range own {
		if strings.HasPrefix(name, exceeded) && name != exceeded+"sample_limit_total" {
			counters = append(counters, name) // those that this version has
		}
	}
	for _, name := range counters {
		if n := value(t, own, name, nil); n != 0 {
			t.Errorf("%s is %v, want 0", name, n)
		}
	}
}

// scrapeCount is how many scrapes, a second apart, the tests demand: INTEGRATION_SCRAPE_SECONDS or a minute's.
func scrapeCount(t *testing.T) int {
	t.Helper()
	var count int
	text := cmp.Or(os.Getenv("INTEGRATION_SCRAPE_SECONDS"), "60")
	if _, err := fmt.Sscan(text, &count); err != nil || count < 1 {
		t.Fatalf("INTEGRATION_SCRAPE_SECONDS=%q: want a number of seconds from 1", text)
	}
	return count
}
