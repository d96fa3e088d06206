package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
)

// ErrNothingToPlot is what Plot returns for a run without measured points.
var ErrNothingToPlot = errors.New("no measured points to plot")

const (
	panelWidth  = 16 * vg.Centimeter
	panelHeight = 11 * vg.Centimeter
	// maxLines is how many lines a panel has; with more of them the lines of the middle are left out, evenly.
	maxLines = 8
)

// axis is what a panel has along x, and what its lines stand for.
type axis struct {
	phase, x, line string
	xOf, lineOf    func(benchmark.PointResult) int64
}

func axes() []axis {
	prefill := func(p benchmark.PointResult) int64 { return p.PrefillTokens }
	kv := func(p benchmark.PointResult) int64 { return p.KVReadTokens }
	batch := func(p benchmark.PointResult) int64 { return p.BatchSize }
	return []axis{
		{benchmark.PhasePrefill, "prefill tokens", "batch", prefill, batch},
		{benchmark.PhasePrefill, "batch size", "tokens", batch, prefill},
		{benchmark.PhaseDecode, "KV tokens read", "batch", kv, batch},
		{benchmark.PhaseDecode, "batch size", "KV tokens", batch, kv},
	}
}

// Plot draws the wall time of each point, per phase, against tokens and against the batch, with a bar from the fastest to the
// slowest rank. The name of output decides the format: .svg or .png.
func Plot(w io.Writer, output, path string, o Options) (int, error) {
	format := strings.ToLower(filepath.Ext(output))
	if format != ".svg" && format != ".png" {
		return statusBad, fmt.Errorf("%s: a plot is written as .svg or .png, by the name of the file", output)
	}
	_, _, run, err := loadRun(path, o.Limits)
	if err != nil {
		return statusBad, err
	}
	panels, err := panelsOf(run)
	if err != nil {
		return statusBad, fmt.Errorf("%s: %w", path, err)
	}
	t, err := renameio.NewPendingFile(output, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return statusBad, err
	}
	defer t.Cleanup() //nolint:errcheck // after CloseAtomicallyReplace there is nothing left to clean up
	if err := drawPanels(t, panels, format); err != nil {
		return statusBad, err
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return statusBad, err
	}
	p := &page{w: w}
	p.printf("PLOTTED: %s into %s\n", plural(len(run.Points), "point"), output)
	return statusGood, p.err
}

// panelsOf makes a row of panels for each phase that has points.
func panelsOf(run benchmark.Run) ([][]*plot.Plot, error) {
	var rows [][]*plot.Plot
	for pair := range slices.Chunk(axes(), 2) {
		points := slices.DeleteFunc(slices.Clone(run.Points), func(p benchmark.PointResult) bool { return p.Phase != pair[0].phase })
		if len(points) == 0 {
			continue
		}
		var row []*plot.Plot
		for _, a := range pair {
			p, err := panel(run, a, points)
			if err != nil {
				return nil, err
			}
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, ErrNothingToPlot
	}
	return rows, nil
}

func panel(run benchmark.Run, a axis, points []benchmark.PointResult) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = a.phase
	if run.Engine.Model != "" {
		p.Title.Text += ", " + quoteOdd(run.Engine.Model)
	}
	p.X.Label.Text, p.Y.Label.Text = a.x, "wall time (ms)"
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	lines := map[int64][]benchmark.PointResult{}
	for _, pt := range points {
		lines[a.lineOf(pt)] = append(lines[a.lineOf(pt)], pt)
	}
	keys := thin(slices.Sorted(maps.Keys(lines)), maxLines)
	if len(keys) < len(lines) {
		p.Title.Text += fmt.Sprintf(" (%d of %d lines)", len(keys), len(lines))
	}
	for i, key := range keys {
		s := spread{points: lines[key], x: a.xOf}
		slices.SortStableFunc(s.points, func(x, y benchmark.PointResult) int { return cmp.Compare(a.xOf(x), a.xOf(y)) })
		line, marks, err := plotter.NewLinePoints(s)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color, bars.Color = plotutil.Color(i), plotutil.Color(i), plotutil.Color(i)
		marks.Shape = plotutil.Shape(i)
		p.Add(line, marks, bars)
		p.Legend.Add(fmt.Sprintf("%s %d", a.line, key), line, marks)
	}
	p.X.Min, p.Y.Min = 0, 0
	return p, nil
}

// thin keeps at most n of the keys, evenly, with both ends.
func thin(keys []int64, n int) []int64 {
	if len(keys) <= n {
		return keys
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = keys[i*(len(keys)-1)/(n-1)]
	}
	return out
}

// spread gives the points of a line to the plotter: the slowest rank's time, which is the group's, with a bar down to the
// fastest.
type spread struct {
	points []benchmark.PointResult
	x      func(benchmark.PointResult) int64
}

func (s spread) Len() int { return len(s.points) }

func (s spread) XY(i int) (x, y float64) {
	_, slowest := s.points[i].Spread()
	return float64(s.x(s.points[i])), 1000 * slowest
}

func (s spread) YError(i int) (low, high float64) {
	fastest, slowest := s.points[i].Spread()
	return 1000 * (slowest - fastest), 0
}

func drawPanels(w io.Writer, rows [][]*plot.Plot, format string) error {
	columns := len(rows[0])
	width, height := vg.Length(columns)*panelWidth, vg.Length(len(rows))*panelHeight
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == ".png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.New(width, height)}
	} else {
		canvas = vgsvg.New(width, height)
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: columns, PadX: vg.Centimeter, PadY: vg.Centimeter, PadTop: 5, PadBottom: 5, PadLeft: 5, PadRight: 5}
	canvases := plot.Align(rows, tiles, draw.New(canvas))
	for i, row := range rows {
		for j, p := range row {
			p.Draw(canvases[i][j])
		}
	}
	_, err := canvas.WriteTo(w)
	return err
}
