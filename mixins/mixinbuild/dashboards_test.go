package mixinbuild

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/model/labels"
	promql "github.com/prometheus/prometheus/promql/parser"
)

type (
	board struct {
		Title, UID string
		Panels     []boardPanel
		Editable   bool
		Tags       []string
		Links      []struct {
			IncludeVars, KeepTime bool
			Tags                  []string
		}
		Templating struct {
			List []struct {
				Name, Label, Type, AllValue string
				Refresh                     int
				IncludeAll, Multi           bool
				Query                       json.RawMessage
				Datasource                  struct{ UID string }
			}
		}
	}
	boardPanel struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			Expr, LegendFormat, RefID string
			Datasource                struct{ UID string }
		}
		FieldConfig struct {
			Defaults struct{ Unit string }
		}
		Options struct {
			YAxis struct{ Unit string }
		}
	}
)

// boards decodes every dashboard, strictly: an option in a place where Grafana does not look for it is an error.
func boards(t *testing.T) map[string]board {
	t.Helper()
	plugins.RegisterDefaultPlugins()
	out := map[string]board{}
	for name, text := range build(t, "{}").Dashboards {
		//nolint:staticcheck // The mixin ships classic dashboards, which is what this type is of.
		var strict dashboard.Dashboard
		// It returns an empty list, rather than nil, when all is well.
		var list cog.BuildErrors
		if err := strict.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &list) || len(list) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		var b board
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = b
	}
	return out
}

// TestDashboardConventions holds the rules of Grafana's dashboard linter, so far as they apply.
func TestDashboardConventions(t *testing.T) {
	known := units(t)
	uids := map[string]bool{}
	for name, b := range boards(t) {
		if b.UID+".json" != name || len(b.UID) > 40 || uids[b.UID] || b.Editable || len(b.Tags) == 0 {
			t.Errorf("%s: uid %q, editable %v, tags %q", name, b.UID, b.Editable, b.Tags)
		}
		uids[b.UID] = true
		if len(b.Links) != 1 || !b.Links[0].IncludeVars || !b.Links[0].KeepTime || !slices.Equal(b.Links[0].Tags, b.Tags) {
			t.Errorf("%s: links %+v", name, b.Links)
		}
		checkVariables(t, name, b)
		checkLayout(t, name, b)
		for _, p := range b.Panels {
			if p.Type == "row" || p.Type == "text" {
				continue
			}
			where := name + ", " + p.Title
			if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s: title, description %q, data source %q or targets missing", where, p.Description, p.Datasource.UID)
			}
			unit := p.FieldConfig.Defaults.Unit
			if p.Type == "heatmap" {
				unit = p.Options.YAxis.Unit
			}
			if !known[unit] && !regexp.MustCompile(`^(count|suffix|prefix|time|si|currency):`).MatchString(unit) {
				t.Errorf("%s: unit %q", where, unit)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" {
					t.Errorf("%s %s: data source %q", where, target.RefID, target.Datasource.UID)
				}
				if target.LegendFormat == "" && p.Type == "timeseries" {
					t.Errorf("%s %s: no legend", where, target.RefID)
				}
				checkExpression(t, where+" "+target.RefID, b, target.Expr)
			}
		}
	}
}

func checkVariables(t *testing.T, name string, b board) {
	t.Helper()
	for i, v := range b.Templating.List {
		if i == 0 {
			if v.Type != "datasource" || v.Name != "datasource" || v.Label != "Data source" {
				t.Errorf("%s: the first variable is %+v, want the data source", name, v)
			}
			continue
		}
		if v.Type != "query" || v.Refresh != 2 || v.Label == "" || !v.Multi || !v.IncludeAll || v.Datasource.UID != "${datasource}" {
			t.Errorf("%s: variable %+v", name, v)
		}
		if want := map[string]string{"pipeline": ".*"}[v.Name]; v.AllValue != cmp.Or(want, ".+") {
			t.Errorf("%s: variable %s stands for %q when all are selected", name, v.Name, v.AllValue)
		}
	}
}

// checkLayout demands that no panel overlaps another or leaves the grid.
func checkLayout(t *testing.T, name string, b board) {
	t.Helper()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s, %s: id %d is used twice", name, p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s, %s: %+v is outside the grid", name, p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s: %q lies over %q", name, p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

var variable = regexp.MustCompile(`\$(?:\{)?([a-z_]+)`)

// checkExpression parses an expression with the variables replaced, and demands job selectors everywhere, counters only
// inside a rate, and ranges that follow the dashboard's resolution.
func checkExpression(t *testing.T, where string, b board, expression string) {
	t.Helper()
	defined := map[string]bool{"__rate_interval": true, "__range": true}
	for _, v := range b.Templating.List {
		defined[v.Name] = true
	}
	for _, match := range variable.FindAllStringSubmatch(expression, -1) {
		if !defined[match[1]] {
			t.Errorf("%s: $%s is no variable of the dashboard", where, match[1])
		}
	}
	text := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1m").Replace(expression)
	parsed, err := promql.NewParser(promql.Options{}).ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	promql.Inspect(parsed, func(node promql.Node, path []promql.Node) error {
		selector, ok := node.(*promql.VectorSelector)
		if !ok {
			return nil
		}
		if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "job" }) {
			t.Errorf("%s: %s does not select by job", where, selector)
		}
		counter := strings.HasSuffix(selector.Name, "_total") || strings.HasSuffix(selector.Name, "_count") ||
			strings.HasSuffix(selector.Name, "_sum") || strings.HasSuffix(selector.Name, "_bucket")
		ranged := false
		if len(path) > 0 {
			_, ranged = path[len(path)-1].(*promql.MatrixSelector)
		}
		if counter != ranged {
			t.Errorf("%s: %s is a counter %v, and in a range %v", where, selector, counter, ranged)
		}
		return nil
	})
}

// units returns the names of Grafana's units, from the constants of its foundation SDK.
func units(t *testing.T) map[string]bool {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/grafana/grafana-foundation-sdk/go/units").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "types_gen.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				out[value] = true
			}
		}
		return true
	})
	if len(out) < 100 {
		t.Fatalf("%d units found", len(out))
	}
	return out
}
