//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// What these tests need of Grafana: the dashboard model, and how it turns variables into text.
type (
	grafanaDashboard struct {
		Title, UID string
		Panels     []grafanaPanel
		Templating struct {
			List []grafanaVariable
		}
	}
	grafanaVariable struct {
		Name, Type, AllValue, Definition string
	}
	grafanaPanel struct {
		Type, Title, Description, Repeat string
		GridPos                          struct{ X, Y, W, H int }
		Targets                          []grafanaTarget
		Transformations                  []struct {
			ID      string
			Options struct {
				ExcludeByName map[string]bool
				IndexByName   map[string]int
				RenameByName  map[string]string
			}
		}
		FieldConfig struct {
			Defaults struct {
				Unit, NoValue string
				Min, Max      *float64
				Decimals      *int
				Thresholds    struct {
					Steps []struct {
						Value *float64
						Color string
					}
				}
				Mappings []struct {
					Options map[string]struct{ Text string }
				}
				Custom struct {
					Stacking struct{ Mode string }
				}
			}
			Overrides []struct {
				Matcher    struct{ Options string }
				Properties []struct {
					ID    string
					Value json.RawMessage
				}
			}
		}
		Options struct {
			Content string
			YAxis   struct{ Unit string }
		}
	}
	grafanaTarget struct {
		Expr, LegendFormat, RefID, Format string
		Instant                           bool
	}
)

// readDashboards decodes every *.json of a file system.
func readDashboards(t *testing.T, files fs.FS) []grafanaDashboard {
	t.Helper()
	names, err := fs.Glob(files, "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	var out []grafanaDashboard
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		var d grafanaDashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, d)
	}
	return out
}

// variables hold the text that each variable is replaced by.
type variables map[string]string

var (
	variableUse   = regexp.MustCompile(`\$(\w+)|\$\{(\w+)\}`)
	labelValues   = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	legendLabel   = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	metacharacter = regexp.MustCompile(`[$^*{}\[\]'+?.()|\\]`)
)

// interpolate replaces variables as Grafana does; an unknown one stays, and fails in Prometheus.
func (v variables) interpolate(text string) string {
	return variableUse.ReplaceAllStringFunc(text, func(use string) string {
		if value, ok := v[strings.Trim(use, "${}")]; ok {
			return value
		}
		return use
	})
}

// with returns the variables and one more.
func (v variables) with(name, value string) variables {
	out := variables{name: value}
	for n, value := range v {
		if n != name {
			out[n] = value
		}
	}
	return out
}

// selected is how Grafana writes chosen values into a regular expression inside PromQL's quotes.
func selected(values []string) string {
	var escaped []string
	for _, value := range values {
		escaped = append(escaped, metacharacter.ReplaceAllStringFunc(value, func(c string) string { return `\\` + c }))
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

// The ranges that stand for a dashboard's time range.
const (
	panelRange   = 20 * time.Second
	panelStep    = time.Second
	rateInterval = 15 * time.Second
)

// resolve asks the server for the values of a dashboard's variables, in their order: `job` is set, the others are "all",
// or with explicit their values one by one. It returns the values of each, too.
func (p *prometheus) resolve(ctx context.Context, d *grafanaDashboard, job string, explicit bool) (variables, map[string][]string, error) {
	vars := variables{"__rate_interval": rateInterval.String(), "__range": panelRange.String()}
	values := map[string][]string{}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		match := labelValues.FindStringSubmatch(v.Definition)
		if match == nil {
			// Without a selector, as for the first variable, there is a family alone.
			return nil, nil, fmt.Errorf("variable %s: query %q", v.Name, v.Definition)
		}
		found, warnings, _, err := p.api.LabelValues(ctx, match[2], []string{vars.interpolate(match[1])}, time.Now().Add(-time.Minute), time.Now())
		if err := unclean(err, warnings, nil); err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		for _, value := range found {
			values[v.Name] = append(values[v.Name], string(value))
		}
		vars[v.Name] = v.AllValue
		switch {
		case v.Name == "job":
			vars[v.Name] = job
		case explicit && len(found) > 0:
			vars[v.Name] = selected(values[v.Name])
		}
	}
	return vars, values, nil
}

// panelSeries is what one target answered.
type panelSeries struct {
	target grafanaTarget
	matrix model.Matrix
}

// run executes the targets of a panel as Grafana does, at one time for all.
func (p *prometheus) run(ctx context.Context, panel *grafanaPanel, vars variables, at time.Time, back, step time.Duration) ([]panelSeries, error) {
	var out []panelSeries
	for _, target := range panel.Targets {
		expression := vars.interpolate(target.Expr)
		s := panelSeries{target: target}
		var result model.Value
		var warnings promv1.Warnings
		var infos promv1.Infos // such as "might not be a counter"
		var err error
		if target.Instant {
			result, warnings, infos, err = p.api.Query(ctx, expression, at)
		} else {
			result, warnings, infos, err = p.api.QueryRange(ctx, expression, promv1.Range{Start: at.Add(-back), End: at, Step: step})
		}
		if err := unclean(err, warnings, infos); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", target.RefID, expression, err)
		}
		switch r := result.(type) {
		case model.Matrix:
			s.matrix = r
		case model.Vector:
			for _, sample := range r {
				s.matrix = append(s.matrix, &model.SampleStream{Metric: sample.Metric, Values: []model.SamplePair{{Timestamp: sample.Timestamp, Value: sample.Value}}})
			}
		default:
			return nil, fmt.Errorf("%s: a %s: %s", target.RefID, result.Type(), expression)
		}
		out = append(out, s)
	}
	return out, nil
}

// unclean is the error of an answer, or one made of what the server remarks.
func unclean(err error, warnings promv1.Warnings, infos promv1.Infos) error {
	if err == nil && len(warnings)+len(infos) > 0 {
		err = fmt.Errorf("warnings %q, infos %q", warnings, infos)
	}
	return err
}

// legend is what Grafana writes beside a series. It fails on labels that the series lacks, except for the pipeline's: one
// pipeline needs no name.
func legend(format string, metric model.Metric) (string, error) {
	var err error
	text := legendLabel.ReplaceAllStringFunc(format, func(use string) string {
		name := legendLabel.FindStringSubmatch(use)[1]
		value, ok := metric[model.LabelName(name)]
		if !ok && name != "pipeline" {
			err = fmt.Errorf("no label %q on %s", name, metric)
		}
		return string(value)
	})
	return strings.TrimSpace(text), err
}
