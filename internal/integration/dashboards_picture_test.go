//go:build integration

package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/omni-exporter/omni_exporter/dashboards"
)

// Measures of a picture, in pixels, and the time it shows.
const (
	pictureWidth  = 1600
	gridColumn    = pictureWidth / 24.0
	gridRow       = 34.0
	panelPadding  = 8.0
	panelTitle    = 24.0
	pictureRange  = 15 * time.Minute
	pictureStep   = 10 * time.Second
	pictureRating = 40 * time.Second
)

// TestDashboardPictures draws every dashboard, for people to look at, into the folder that OMNI_PICTURES names. The data is
// that of the Prometheus at OMNI_PICTURES_URL, which scrapes a demo as job "omni". Grafana has no part in it: panels, grid, units and
// colours are read from the dashboards' JSON, and Chromium makes the picture.
func TestDashboardPictures(t *testing.T) {
	dir, url := os.Getenv("OMNI_PICTURES"), os.Getenv("OMNI_PICTURES_URL")
	if dir == "" || url == "" {
		t.Skip("draws pictures only when OMNI_PICTURES and OMNI_PICTURES_URL are set")
	}
	client, err := api.NewClient(api.Config{Address: url})
	if err != nil {
		t.Fatal(err)
	}
	server := &prometheus{url: url, api: promv1.NewAPI(client)}
	for _, d := range readDashboards(t, dashboards.Files) {
		page, height := server.drawDashboard(t, &d)
		source := filepath.Join(t.TempDir(), d.UID+".html")
		if err := os.WriteFile(source, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		browser := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("OMNI_CHROMIUM"), "chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
			fmt.Sprintf("--window-size=%d,%.0f", pictureWidth, height), "--screenshot="+filepath.Join(dir, d.UID+".png"), "file://"+source)
		if out, err := browser.CombinedOutput(); err != nil {
			t.Fatalf("chromium: %v\n%s", err, out)
		}
	}
}

const pictureStyle = `<meta charset="utf-8"><style>
body{margin:0;background:#111217;color:#ccccdc;font:13px sans-serif;position:relative}
.panel{position:absolute;background:#181b1f;border:1px solid #2c2f36;box-sizing:border-box;overflow:hidden}
.panel h3{margin:4px 8px;font:600 13px sans-serif;height:16px;overflow:hidden}
.row{position:absolute;left:0;font:600 15px sans-serif;padding:8px;color:#fff}
.stat{text-align:center;font:500 34px sans-serif;padding-top:14px}
.legend{padding:0 8px;height:34px;overflow:hidden;font-size:11px;line-height:15px}.legend span{margin-right:12px;white-space:nowrap}
.legend i{display:inline-block;width:10px;height:4px;margin-right:4px;vertical-align:middle}
.grid{stroke:#2c2f36}.tick{fill:#9a9ba5;font-size:11px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:3px 10px;border-bottom:1px solid #2c2f36;font-size:12px}td.link{color:#8ab8ff}
.empty{padding:20px;text-align:center;color:#8e8e99}
</style>`

// drawDashboard returns a page with every panel at its place, and the page's height.
func (p *prometheus) drawDashboard(t *testing.T, d *grafanaDashboard) (page string, height float64) {
	t.Helper()
	vars, values, err := p.resolve(t.Context(), d, "omni", false)
	if err != nil {
		t.Fatal(err)
	}
	vars = vars.with("__rate_interval", pictureRating.String()).with("__range", pictureRange.String())
	var b strings.Builder
	fmt.Fprintf(&b, `%s<div class="row">%s</div>`, pictureStyle, html.EscapeString(d.Title))
	end := time.Now().Truncate(pictureStep)
	offset := 1 // the title's row, and what repeated rows add
	for i := 0; i < len(d.Panels); {
		// A row with its panels, or the panels before the first row.
		next := i + 1
		for next < len(d.Panels) && d.Panels[next].Type != "row" {
			next++
		}
		section := d.Panels[i:next]
		repeats := []variables{vars}
		if name := section[0].Repeat; name != "" {
			repeats = nil
			for _, value := range values[name] {
				repeats = append(repeats, vars.with(name, value))
			}
		}
		bottom := 0
		for _, panel := range section {
			bottom = max(bottom, panel.GridPos.Y+panel.GridPos.H)
		}
		for n, vars := range repeats {
			if n > 0 {
				offset += bottom - section[0].GridPos.Y
			}
			for j := range section {
				p.drawPanel(t, &b, &section[j], vars, offset, end)
			}
		}
		height = float64(bottom+offset) * gridRow
		i = next
	}
	return b.String(), height + panelPadding
}

func (p *prometheus) drawPanel(t *testing.T, b *strings.Builder, panel *grafanaPanel, vars variables, offset int, end time.Time) {
	t.Helper()
	g := panel.GridPos
	title := html.EscapeString(vars.interpolate(panel.Title))
	if panel.Type == "row" {
		fmt.Fprintf(b, `<div class="row" style="top:%.0fpx">&#9662; %s</div>`, float64(g.Y+offset)*gridRow, title)
		return
	}
	width, height := float64(g.W)*gridColumn-panelPadding, float64(g.H)*gridRow-panelPadding
	fmt.Fprintf(b, `<div class="panel" style="left:%.0fpx;top:%.0fpx;width:%.0fpx;height:%.0fpx"><h3>%s</h3>`,
		float64(g.X)*gridColumn+panelPadding/2, float64(g.Y+offset)*gridRow+panelPadding/2, width, height, title)
	defer b.WriteString("</div>")
	if panel.Type == "text" {
		fmt.Fprintf(b, `<div style="padding:0 10px">%s</div>`, html.EscapeString(panel.Options.Content))
		return
	}
	answers, err := p.run(t.Context(), panel, vars, end, pictureRange, pictureStep)
	if err != nil {
		t.Errorf("%s: %v", title, err)
		return
	}
	var curves []curve
	for _, answer := range answers {
		for _, series := range answer.matrix {
			text, err := legend(answer.target.LegendFormat, series.Metric)
			if err != nil {
				t.Errorf("%s: %v", title, err)
			}
			curves = append(curves, curve{text, series.Values})
		}
	}
	body := height - panelTitle
	switch {
	case len(curves) == 0:
		text := panel.FieldConfig.Defaults.NoValue
		if text == "" {
			text = "No data"
		}
		fmt.Fprintf(b, `<div class="empty">%s</div>`, text)
	case panel.Type == "stat":
		b.WriteString(drawStat(float64(curves[0].values[0].Value), panel))
	case panel.Type == "heatmap":
		b.WriteString(drawHeatmap(answers[0].matrix, panel.Options.YAxis.Unit, width, body, end.Add(-pictureRange), end, pictureStep))
	case panel.Type == "table":
		b.WriteString(drawTable(answers, panel))
	default:
		slices.SortStableFunc(curves, func(a, b curve) int { return strings.Compare(a.name, b.name) })
		b.WriteString(drawCurves(curves, panel, width, body, end.Add(-pictureRange), end, pictureStep))
	}
}

func drawStat(value float64, panel *grafanaPanel) string {
	hue, text := "", number(value, panel.FieldConfig.Defaults.Unit)
	for _, step := range panel.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			hue = colour(step.Color)
		}
	}
	for _, m := range panel.FieldConfig.Defaults.Mappings {
		if mapped, ok := m.Options[fmt.Sprint(value)]; ok {
			text = mapped.Text
		}
	}
	return fmt.Sprintf(`<div class="stat" style="color:%s">%s</div>`, hue, html.EscapeString(text))
}

// drawTable merges the answers by their labels and orders the columns, as the panel's transformations say.
func drawTable(answers []panelSeries, panel *grafanaPanel) string {
	organize := panel.Transformations[1].Options
	units, linked := map[string]string{}, map[string]bool{}
	for _, o := range panel.FieldConfig.Overrides {
		for _, p := range o.Properties {
			switch p.ID {
			case "unit":
				var unit string
				_ = json.Unmarshal(p.Value, &unit) // checked by the strict decoding
				units[o.Matcher.Options] = unit
			case "links":
				linked[o.Matcher.Options] = true
			}
		}
	}
	columns := make([]string, len(organize.IndexByName))
	for name, i := range organize.IndexByName {
		columns[i] = name
	}
	// The key is that of the labels that every answer has; others, such as a name, are filled in.
	rows, order := map[string]map[string]string{}, []string{}
	shared := answers[len(answers)-1].matrix[0].Metric
	for i, answer := range answers {
		value := fmt.Sprintf("Value #%c", 'A'+i)
		for _, s := range answer.matrix {
			var key strings.Builder
			for _, column := range columns {
				for label := range shared {
					if string(label) == column {
						key.WriteString(string(s.Metric[label]) + "\x00")
					}
				}
			}
			row := rows[key.String()]
			if row == nil {
				row = map[string]string{}
				rows[key.String()] = row
				order = append(order, key.String())
			}
			for label, text := range s.Metric {
				row[string(label)] = string(text)
			}
			row[value] = number(float64(s.Values[0].Value), units[organize.RenameByName[value]])
		}
	}
	slices.Sort(order)
	var b strings.Builder
	b.WriteString("<table><tr>")
	for _, column := range columns {
		name := column
		if renamed := organize.RenameByName[column]; renamed != "" {
			name = renamed
		}
		fmt.Fprintf(&b, "<th>%s</th>", html.EscapeString(name))
	}
	for _, key := range order {
		b.WriteString("</tr><tr>")
		for _, column := range columns {
			class := ""
			if linked[column] {
				class = ` class="link"`
			}
			fmt.Fprintf(&b, "<td%s>%s</td>", class, html.EscapeString(rows[key][column]))
		}
	}
	b.WriteString("</tr></table>")
	return b.String()
}
