package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of a picture.
const (
	pictureWidth  = 30 * vg.Centimeter
	pictureHeight = 27 * vg.Centimeter
	legendHeight  = 1.6 * vg.Centimeter
)

// Formats that can be written, as extensions of file names.
const (
	FormatSVG = "svg"
	FormatPNG = "png"
)

// FormatOf returns the format of a file by its name.
func FormatOf(path string) (string, error) {
	switch format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."); format {
	case FormatSVG, FormatPNG:
		return format, nil
	default:
		return "", fmt.Errorf("%q is neither an .svg nor a .png file", path)
	}
}

// palette holds colours that people with colour-blindness tell apart, too (Okabe and Ito), and grey for others.
func palette(i int) color.Color {
	colors := [maxRanks]color.RGBA{
		{0x00, 0x72, 0xb2, 0xff},
		{0xd5, 0x5e, 0x00, 0xff},
		{0x00, 0x9e, 0x73, 0xff},
		{0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff},
		{0x56, 0xb4, 0xe9, 0xff},
		{0x00, 0x00, 0x00, 0xff},
		{0xb8, 0xa9, 0x00, 0xff},
	}
	if i < len(colors) {
		return colors[i]
	}
	return color.RGBA{0x99, 0x99, 0x99, 0xff}
}

// panel is one plot over time.
type panel struct {
	title, unit string
	value       func(b *bucket, seconds float64) float64
	// full: sampled rows cannot tell.
	full bool
}

func (d *Data) panels() []panel {
	return []panel{
		{"Prefill throughput", "tokens/s", func(b *bucket, seconds float64) float64 { return b.prefill / seconds }, true},
		{"Decode throughput", "tokens/s", func(b *bucket, seconds float64) float64 { return b.decode / seconds }, true},
		{"Batch, mean", "requests per pass", func(b *bucket, _ float64) float64 { return mean(b.batch, b.passes) }, false},
		{"Queue, mean", "requests waiting", func(b *bucket, _ float64) float64 { return mean(b.queue, b.rows) }, false},
		{"Wall time, mean and longest (log scale)", milliseconds, func(b *bucket, _ float64) float64 { return mean(b.wall*1e3, b.timed) }, false},
	}
}

// milliseconds is the unit of the panel that shows the longest passes, too.
const milliseconds = "ms"

// Write draws the data as a picture. The format is FormatSVG or FormatPNG.
func (d *Data) Write(w io.Writer, format, title string) error {
	var plots []*plot.Plot
	for _, p := range d.panels() {
		one, err := d.overTime(p)
		if err != nil {
			return fmt.Errorf("plot %s: %w", p.title, err)
		}
		plots = append(plots, one)
	}
	against, err := d.wallAgainstTokens()
	if err != nil {
		return fmt.Errorf("plot wall time: %w", err)
	}
	plots = append(plots, against)

	canvas, err := draw.NewFormattedCanvas(pictureWidth, pictureHeight, format)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	d.legend(draw.Crop(whole, 0, 0, whole.Max.Y-whole.Min.Y-legendHeight, 0), title)
	const columns = 2
	tiles := draw.Tiles{
		Rows: len(plots) / columns, Cols: columns, PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter,
		PadTop: 2 * vg.Millimeter, PadBottom: 3 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 8 * vg.Millimeter,
	}
	grid := make([][]*plot.Plot, tiles.Rows)
	for i := range grid {
		grid[i] = plots[i*columns : (i+1)*columns]
	}
	places := plot.Align(grid, tiles, draw.Crop(whole, 0, 0, 0, -legendHeight))
	for i := range grid {
		for j := range grid[i] {
			grid[i][j].Draw(places[i][j])
		}
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	return nil
}

// legend writes the title and the names of the ranks, several in a row.
func (d *Data) legend(c draw.Canvas, title string) {
	style := plot.New().Legend.TextStyle
	style.Font.Size = vg.Points(9)
	heading := style
	heading.Font.Size = vg.Points(12)
	margin := 4 * vg.Millimeter
	line := style.Height("X") * 1.6
	y := c.Max.Y - margin - heading.Height("X")
	c.FillText(heading, vg.Point{X: c.Min.X + margin, Y: y}, title)
	y -= line
	x := c.Min.X + margin
	for i, r := range d.all() {
		needed := 6*vg.Millimeter + style.Width(r.name) + 6*vg.Millimeter
		if x+needed > c.Max.X && x > c.Min.X+margin {
			x, y = c.Min.X+margin, y-line
		}
		mark := draw.LineStyle{Color: palette(i), Width: vg.Points(2)}
		middle := y + style.Height("x")/2
		c.StrokeLine2(mark, x, middle, x+5*vg.Millimeter, middle)
		c.FillText(style, vg.Point{X: x + 6*vg.Millimeter, Y: y}, r.name)
		x += needed
	}
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.Y.Min = 0
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(numberTicks), plot.TickerFunc(numberTicks)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd8}, color.Gray{0xd8}
	p.Add(grid)
	return p
}

func (d *Data) overTime(panel panel) (*plot.Plot, error) {
	p := newPlot(panel.title, "time (UTC)", panel.unit)
	p.X.Tick.Marker = plot.TickerFunc(timeTicks)
	p.X.Min, p.X.Max = unix(d.origin), unix(d.last)
	if panel.unit == milliseconds {
		p.Y.Min = math.Inf(1)
	}
	drawn := false
	for i, r := range d.all() {
		if panel.full && r.sampled {
			continue
		}
		if panel.unit == milliseconds {
			longest := d.samples(r, func(b *bucket, _ float64) float64 {
				if b.timed == 0 {
					return math.NaN()
				}
				return b.longest * 1e3
			})
			if err := addLine(p, longest, d.gap(), faint(palette(i))); err != nil {
				return nil, err
			}
		}
		drawn = true
		if err := addLine(p, d.samples(r, panel.value), d.gap(), palette(i)); err != nil {
			return nil, err
		}
	}
	if panel.full && !drawn {
		p.Title.Text += " (sampled rows cannot tell)"
	}
	if panel.unit == milliseconds {
		logarithmic(p)
	}
	if !(p.Y.Max > 0) {
		p.Y.Max = 1
	}
	return p, nil
}

// logarithmic lets a few long passes not press all others to the ground.
func logarithmic(p *plot.Plot) {
	if !(p.Y.Min > 0 && p.Y.Min <= p.Y.Max) {
		p.Y.Min, p.Y.Max = 1, 10 // no pass was timed
	}
	p.Y.Min = math.Pow10(int(math.Floor(math.Log10(p.Y.Min))))
	p.Y.Max = max(math.Pow10(int(math.Ceil(math.Log10(p.Y.Max)))), 10*p.Y.Min)
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
}

// numberTicks returns the library's marks with shorter labels.
func numberTicks(from, to float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(from, to)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 6, 64)
		}
	}
	return ticks
}

// timeTicks returns up to eight marks at round times of the clock.
func timeTicks(from, to float64) []plot.Tick {
	steps := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	}
	const most = 6
	step := 24 * time.Hour
	for _, s := range steps {
		if (to-from)/s.Seconds() <= most {
			step = s
			break
		}
	}
	for (to-from)/step.Seconds() > most {
		step *= 2
	}
	format := "15:04:05"
	switch {
	case to-from > 24*3600:
		format = "01-02 15:04"
	case step >= time.Minute:
		format = "15:04"
	}
	var ticks []plot.Tick
	seconds := step.Seconds()
	for at := math.Ceil(from/seconds) * seconds; at <= to; at += seconds {
		ticks = append(ticks, plot.Tick{Value: at, Label: time.Unix(int64(at), 0).UTC().Format(format)})
	}
	return ticks
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// faint is a colour that lets what is behind shine through.
func faint(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x50}
}

// gap is the time without rows across which no line is drawn, in seconds: two of the usual sampling intervals.
func (d *Data) gap() float64 { return max(5*d.width.Seconds(), 12) }

// addLine draws samples, with a break where there are none for long.
func addLine(p *plot.Plot, samples []sample, gap float64, c color.Color) error {
	var part plotter.XYs
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		if len(part) == 1 { // a line of one point would not be seen
			part = append(part, part[0])
			part[1].X += gap / 20
		}
		line, err := plotter.NewLine(part)
		if err != nil {
			return err
		}
		line.Color, line.Width = c, vg.Points(1)
		p.Add(line)
		part = nil
		return nil
	}
	for _, s := range samples {
		if math.IsNaN(s.value) {
			continue
		}
		if len(part) > 0 && s.at-part[len(part)-1].X > gap {
			if err := flush(); err != nil {
				return err
			}
		}
		part = append(part, plotter.XY{X: s.at, Y: s.value})
	}
	return flush()
}

func (d *Data) wallAgainstTokens() (*plot.Plot, error) {
	p := newPlot("Wall time against tokens", "tokens computed in the pass: prefill and decode", milliseconds)
	p.X.Min = 0
	for i, r := range d.all() {
		if len(r.points) == 0 {
			continue
		}
		points := make(plotter.XYs, len(r.points))
		for j, point := range r.points {
			points[j] = plotter.XY{X: point.tokens, Y: point.wall * 1e3}
		}
		scatter, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		scatter.Color, scatter.Shape, scatter.Radius = faint(palette(i)), draw.CircleGlyph{}, vg.Points(1.3)
		p.Add(scatter)
	}
	if !(p.X.Max > 0) {
		p.X.Max = 1
	}
	if !(p.Y.Max > 0) {
		p.Y.Max = 1
	}
	return p, nil
}
