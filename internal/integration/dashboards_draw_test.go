//go:build integration

package integration

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// palette are the colours of series, in order.
func palette() []string {
	return []string{"#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d", "#fade2a", "#96d98d", "#ffa6b0"}
}

// colours of thresholds, by Grafana's names.
func colour(name string) string {
	return map[string]string{"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#8ab8ff"}[name]
}

// number writes a value with its unit, as Grafana would about.
func number(v float64, unit string) string {
	short := func(v, base float64, suffixes ...string) string {
		i := 0
		for math.Abs(v) >= base && i < len(suffixes)-1 {
			v, i = v/base, i+1
		}
		return strings.TrimSpace(trimmed(v) + " " + suffixes[i])
	}
	switch {
	case unit == "s" && math.Abs(v) >= 120:
		return (time.Duration(v) * time.Second).String()
	case unit == "s" && math.Abs(v) < 1 && v != 0:
		return trimmed(v*1000) + " ms"
	case unit == "s":
		return trimmed(v) + " s"
	case unit == "percentunit":
		return trimmed(v*100) + "%"
	case unit == "bytes":
		return short(v, 1024, "B", "KiB", "MiB", "GiB")
	case unit == "Bps":
		return short(v, 1000, "B/s", "kB/s", "MB/s", "GB/s")
	case unit == "reqps":
		return trimmed(v) + " req/s"
	case unit == "ops":
		return trimmed(v) + " ops/s"
	case unit == "none":
		return trimmed(v)
	case strings.HasPrefix(unit, "suffix:"):
		return trimmed(v) + strings.TrimPrefix(unit, "suffix:")
	}
	return short(v, 1000, "", "K", "Mil")
}

// trimmed writes three significant digits.
func trimmed(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		return strconv.FormatFloat(v, 'f', -1, 32)
	}
	return text
}

// plotArea is where curves go within a panel, in pixels, and which values it spans.
type plotArea struct {
	left, top, width, height float64
	start, end               time.Time
	low, high                float64
}

func (a plotArea) x(t model.Time) float64 {
	return a.left + a.width*float64(t.Time().Sub(a.start))/float64(a.end.Sub(a.start))
}

func (a plotArea) y(v float64) float64 {
	return a.top + a.height*(1-(v-a.low)/(a.high-a.low))
}

// axes draws the grid with its labels.
func (a plotArea) axes(b *strings.Builder, unit string) {
	const lines = 4
	for i := range lines + 1 {
		v := a.low + (a.high-a.low)*float64(i)/lines
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, a.left, a.left+a.width, a.y(v), a.y(v))
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%.1f" y="%.1f">%s</text>`, a.left-6, a.y(v)+4, html.EscapeString(number(v, unit)))
	}
	a.times(b)
}

func (a plotArea) times(b *strings.Builder) {
	const ticks = 4
	for i := range ticks {
		at := a.start.Add(a.end.Sub(a.start) * time.Duration(i) / ticks)
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.1f">%s</text>`, a.x(model.TimeFromUnixNano(at.UnixNano())), a.top+a.height+16, at.UTC().Format("15:04:05"))
	}
}

// ceiling rounds up to one of 1, 2, 2.5, 5 times a power of ten.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 2.5, 5, 10} {
		if v <= step*power*1.0001 {
			return step * power
		}
	}
	return v
}

// curve is one series with its legend.
type curve struct {
	name   string
	values []model.SamplePair
}

// drawCurves draws the time series of a panel; a gap of several steps interrupts a line.
func drawCurves(curves []curve, panel *grafanaPanel, width, height float64, start, end time.Time, step time.Duration) string {
	var b strings.Builder
	defaults := panel.FieldConfig.Defaults
	stacked := defaults.Custom.Stacking.Mode == "normal"
	if stacked {
		curves = stack(curves)
	}
	high := 0.0
	for _, c := range curves {
		for _, p := range c.values {
			high = max(high, float64(p.Value))
		}
	}
	area := plotArea{left: 70, top: 8, width: width - 84, height: height - 62, start: start, end: end, high: ceiling(high)}
	if defaults.Max != nil {
		area.high = *defaults.Max
	}
	area.axes(&b, defaults.Unit)
	colours := palette()
	for i, c := range slices.Backward(curves) {
		hue := colours[i%len(colours)]
		for _, line := range segments(c.values, step) {
			var points strings.Builder
			for _, p := range line {
				fmt.Fprintf(&points, "%.1f,%.1f ", area.x(p.Timestamp), area.y(float64(p.Value)))
			}
			if stacked {
				fmt.Fprintf(&b, `<polygon fill="%s" stroke="none" points="%.1f,%.1f %s %.1f,%.1f"/>`, hue,
					area.x(line[0].Timestamp), area.y(0), points.String(), area.x(line[len(line)-1].Timestamp), area.y(0))
				continue
			}
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`, hue, points.String())
		}
	}
	return fmt.Sprintf(`<svg width="%.0f" height="%.0f">%s</svg>%s`, width, height-36, b.String(), legendLine(curves))
}

func legendLine(curves []curve) string {
	var b strings.Builder
	colours := palette()
	b.WriteString(`<div class="legend">`)
	for i, c := range curves {
		fmt.Fprintf(&b, `<span><i style="background:%s"></i>%s</span>`, colours[i%len(colours)], html.EscapeString(c.name))
	}
	b.WriteString(`</div>`)
	return b.String()
}

// stack adds each curve to those before it.
func stack(curves []curve) []curve {
	sums := map[model.Time]model.SampleValue{}
	var out []curve
	for _, c := range curves {
		next := curve{name: c.name}
		for _, p := range c.values {
			sums[p.Timestamp] += p.Value
			next.values = append(next.values, model.SamplePair{Timestamp: p.Timestamp, Value: sums[p.Timestamp]})
		}
		out = append(out, next)
	}
	return out
}

func segments(values []model.SamplePair, step time.Duration) [][]model.SamplePair {
	var out [][]model.SamplePair
	for i, p := range values {
		if i == 0 || p.Timestamp.Sub(values[i-1].Timestamp) > step*3/2 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// drawHeatmap draws a classic histogram: a row for each bucket, a cell for each step.
func drawHeatmap(matrix model.Matrix, unit string, width, height float64, start, end time.Time, step time.Duration) string {
	bound := func(s *model.SampleStream) float64 {
		v, err := strconv.ParseFloat(string(s.Metric["le"]), 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	slices.SortFunc(matrix, func(a, b *model.SampleStream) int { return cmp.Compare(bound(a), bound(b)) })
	cells := make([]map[model.Time]float64, len(matrix))
	highest, first, last := 0.0, len(matrix), 0
	below := map[model.Time]float64{}
	for i, s := range matrix {
		cells[i] = map[model.Time]float64{}
		for _, p := range s.Values {
			n := max(float64(p.Value)-below[p.Timestamp], 0)
			below[p.Timestamp] = float64(p.Value)
			cells[i][p.Timestamp] = n
			highest = max(highest, n)
			if n > 1e-9 {
				first, last = min(first, i), max(last, i)
			}
		}
	}
	first, last = max(first-1, 0), min(last+1, len(matrix)-1)
	var b strings.Builder
	area := plotArea{left: 70, top: 8, width: width - 84, height: height - 40, start: start, end: end}
	rows := float64(last - first + 1)
	for i := first; i <= last; i++ {
		y := area.top + area.height*(1-float64(i-first+1)/rows)
		label := "+Inf"
		if !math.IsInf(bound(matrix[i]), 1) {
			label = number(bound(matrix[i]), unit)
		}
		fmt.Fprintf(&b, `<text class="tick" text-anchor="end" x="%.1f" y="%.1f">%s</text>`, area.left-6, y+8, html.EscapeString(label))
		for at, n := range cells[i] {
			if n <= 1e-9 {
				continue
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#5794f2" fill-opacity="%.2f"/>`,
				area.x(at), y, area.width*float64(step)/float64(end.Sub(start))-0.5, area.height/rows-1, 0.15+0.85*math.Sqrt(n/highest))
		}
	}
	area.times(&b)
	return fmt.Sprintf(`<svg width="%.0f" height="%.0f">%s</svg>`, width, height, b.String())
}
