//go:build integration

package integration

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/omni-exporter/omni_exporter/dashboards"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
	"github.com/omni-exporter/omni_exporter/mixins/mixinbuild"
)

// notEverywhere is what a panel of a repeated row says that has data for some of the repeated only.
const notEverywhere = "not measured here"

// panelScrapes is how many scrapes, a second apart, the panels need behind them.
const panelScrapes = int((panelRange+rateInterval)/time.Second) + 5

// TestDashboards executes every query of every panel on both major versions of Prometheus, over pipelines of different
// shape and load: each must succeed, have data, finite values, and legends that tell its series apart.
func TestDashboards(t *testing.T) {
	_, demo := startDemo(t)
	one := []simulator.Stage{{Name: "thinker", Replicas: 1}, {Name: "talker", Replicas: 1}, {Name: "code2wav", Replicas: 1}}
	setup := serverSetup{rules: mixinRules(t), jobs: []scrapeJob{
		{name: "demo", target: demo},
		{name: "idle", target: rig{idle: true, pipelines: []simulator.Options{{Pipeline: "p"}}}.start(t)},
		{name: "single", target: rig{pipelines: []simulator.Options{{Stages: one}}}.start(t)},
		{name: "two", target: rig{pipelines: []simulator.Options{{Pipeline: "a", Seed: 1}, {Pipeline: "b", Seed: 2}}}.start(t)},
		{name: "prefix", target: rig{omniPrefix: "vllm_omni:", pipelines: []simulator.Options{{Pipeline: "p"}}}.start(t)},
		{name: "renamed", target: demo, relabel: `[{source_labels: [__name__], regex: "vllm:kv_cache_usage_perc", target_label: __name__, replacement: "vllm:gpu_cache_usage_perc"}]`},
	}}
	shipped := readDashboards(t, dashboards.Files)
	otherPrefix := readDashboards(t, builtDashboards(t, `{ omniPrefix: 'vllm_omni:', enableSlo: false }`))

	for version, tool := range map[string]string{"v2": "debian", "v3": "prometheus"} {
		t.Run(version, func(t *testing.T) {
			server := startPrometheus(t, prometheusPath(t, tool), setup.yaml())
			server.awaitJobs(t, setup.jobs, panelScrapes)
			t.Logf("%d rules are healthy", server.demandRulesHealthy(t))
			for _, c := range []struct {
				job        string
				dashboards []grafanaDashboard
				explicit   bool // choose every value of each variable, rather than all
				lull       bool // panels that need traffic may be empty
			}{
				{job: "demo", dashboards: shipped},
				{job: "demo", dashboards: shipped, explicit: true},
				{job: "idle", dashboards: shipped, lull: true},
				{job: "single", dashboards: shipped},
				{job: "two", dashboards: shipped},
				{job: "prefix", dashboards: otherPrefix},
			} {
				t.Run(fmt.Sprintf("%s explicit=%v", c.job, c.explicit), func(t *testing.T) {
					check := panelCheck{server: server, job: c.job, explicit: c.explicit, lull: c.lull}
					for i := range c.dashboards {
						check.dashboard(t, &c.dashboards[i])
					}
					for _, problem := range check.problems {
						t.Error(problem)
					}
					t.Logf("%d panels, %d queries executed", check.panels, check.queries)
				})
			}
			t.Run("renamed", func(t *testing.T) { server.demandRenameIsSeen(t, shipped) })
		})
	}
}

// demandRenameIsSeen demands that the check fails, on the panels that query it and on no other, for a family whose name
// has changed.
func (p *prometheus) demandRenameIsSeen(t *testing.T, all []grafanaDashboard) {
	t.Helper()
	check := panelCheck{server: p, job: "renamed"}
	want := 0
	for i := range all {
		for _, panel := range all[i].Panels {
			for _, target := range panel.Targets {
				if strings.Contains(target.Expr, "vllm:kv_cache_usage_perc") {
					want++
				}
			}
		}
		check.dashboard(t, &all[i])
	}
	for _, problem := range check.problems {
		if !strings.Contains(problem, "vllm:kv_cache_usage_perc") || !strings.Contains(problem, "no data") {
			t.Error(problem)
		}
	}
	// The one in a repeated row fails for each of the three stages.
	if want == 0 || len(check.problems) != want+2 {
		t.Errorf("%d queries of a family that is gone were noticed, want %d", len(check.problems), want+2)
	}
}

// panelCheck runs dashboards and collects what is wrong with them.
type panelCheck struct {
	server         *prometheus
	job            string
	explicit, lull bool

	panels, queries int
	problems        []string
}

func (c *panelCheck) problem(format string, arguments ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, arguments...))
}

func (c *panelCheck) dashboard(t *testing.T, d *grafanaDashboard) {
	t.Helper()
	vars, values, err := c.server.resolve(t.Context(), d, c.job, c.explicit)
	if err != nil {
		c.problem("%s: %v", d.UID, err)
		return
	}
	for _, v := range d.Templating.List {
		unnamed := v.Name == "pipeline" && c.job == "single"
		if v.Type == "query" && len(values[v.Name]) == 0 && !unnamed {
			c.problem("%s: variable %s has no value", d.UID, v.Name)
		}
	}
	at := time.Now()
	repeats := []variables{vars}
	for i := range d.Panels {
		panel := &d.Panels[i]
		if panel.Type == "row" {
			repeats = []variables{vars}
			if panel.Repeat != "" {
				repeats = nil
				for _, value := range values[panel.Repeat] {
					repeats = append(repeats, vars.with(panel.Repeat, selected([]string{value})))
				}
			}
			continue
		}
		c.panels += len(repeats)
		empty := 0
		for _, vars := range repeats {
			if c.panel(t, d.UID+", "+vars.interpolate(panel.Title), panel, vars, at) {
				empty++
			}
		}
		if panel.FieldConfig.Defaults.NoValue == notEverywhere && empty == len(repeats) && !c.lull {
			c.problem("%s, %s (%s): no data anywhere", d.UID, panel.Title, panel.Targets[0].Expr)
		}
	}
}

// panel executes a panel's queries, and reports whether one of them is empty that may be.
func (c *panelCheck) panel(t *testing.T, where string, panel *grafanaPanel, vars variables, at time.Time) (empty bool) {
	t.Helper()
	answers, err := c.server.run(t.Context(), panel, vars, at, panelRange, panelStep)
	if err != nil {
		c.problem("%s: %v", where, err)
		return false
	}
	legends := map[string]string{}
	for _, answer := range answers {
		c.queries++
		where := fmt.Sprintf("%s %s (%s)", where, answer.target.RefID, answer.target.Expr)
		noValue := panel.FieldConfig.Defaults.NoValue
		mayBeEmpty := noValue == notEverywhere || c.lull && (noValue != "" || panel.Type == "table")
		if len(answer.matrix) == 0 {
			empty = true
			if !mayBeEmpty {
				c.problem("%s: no data", where)
			}
		}
		positive := false
		for _, series := range answer.matrix {
			for _, pair := range series.Values {
				if v := float64(pair.Value); math.IsNaN(v) || math.IsInf(v, 0) {
					c.problem("%s: %v in %s", where, v, series.Metric)
					break
				}
				positive = positive || pair.Value > 0
			}
			if answer.target.LegendFormat == "" {
				continue
			}
			text, err := legend(answer.target.LegendFormat, series.Metric)
			if err != nil {
				c.problem("%s: %v", where, err)
			}
			if other, ok := legends[text]; ok {
				c.problem("%s: two series are called %q: %s and %s", where, text, other, series.Metric)
			}
			legends[text] = series.Metric.String()
		}
		if panel.Type == "heatmap" && !positive && !c.lull {
			c.problem("%s: no cell of the heatmap has a value", where)
		}
		if panel.Type == "stat" && len(answer.matrix) > 1 && c.job != "two" {
			c.problem("%s: %d values in a panel for one", where, len(answer.matrix))
		}
	}
	return empty
}

// awaitJobs awaits that the server has scraped each job so many times.
func (p *prometheus) awaitJobs(t *testing.T, jobs []scrapeJob, scrapes int) {
	t.Helper()
	within := time.Duration(scrapes)*3*time.Second + readyTimeout
	await(t, fmt.Sprint(scrapes, " scrapes of each job"), within, p.process, func(ctx context.Context) error {
		done, err := p.query(ctx, `sum_over_time(up[1d])`)
		if err != nil {
			return err
		}
		ready := 0
		for _, sample := range done {
			if int(sample.Value) >= scrapes {
				ready++
			}
		}
		if ready < len(jobs) {
			return fmt.Errorf("%d of %d jobs: %v", ready, len(jobs), done)
		}
		return nil
	})
}

// builtDashboards returns the dashboards of the mixin under a configuration.
func builtDashboards(t *testing.T, config string) fs.FS {
	t.Helper()
	out, err := mixinbuild.Build(os.DirFS(filepath.Join("..", "..", "mixins", "omni-mixin")), config)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for name, text := range out.Dashboards {
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}
