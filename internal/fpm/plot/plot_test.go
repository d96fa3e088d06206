package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace/tracetest"
)

//go:generate go test -run ^TestDocumentedPicture$ -count=1 . -args update

const documentedPicture = "../../../docs/images/fpm-plot.png"

func gather(rows []trace.Row) *Data {
	d := New()
	for i := range rows {
		d.Add(&rows[i])
	}
	return d
}

// The picture in the manual is of a simulated engine.
func TestDocumentedPicture(t *testing.T) {
	length, update := 2*time.Minute, flag.Arg(0) == "update"
	if update {
		length = 12 * time.Minute
	}
	rows, err := tracetest.Simulate(length)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := gather(rows).Write(&out, FormatPNG, "Two ranks of a simulated engine"); err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.WriteFile(documentedPicture, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	colors := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			colors[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff}]++
		}
	}
	for _, c := range []color.Color{palette(0), palette(1), color.RGBA{0xff, 0xff, 0xff, 0xff}} { // of the ranks and the ground
		if n := colors[c.(color.RGBA)]; n < 300 {
			t.Errorf("%d pixels are %v", n, c)
		}
	}
}

// The means and rates that are drawn are those of the rows, however many buckets became one.
func TestBuckets(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, 9 * time.Minute, 3 * time.Hour} {
		var rows []trace.Row
		for at := time.Duration(0); at < length; at += 100 * time.Millisecond {
			row := tracetest.Row("4192", uint64(len(rows)), tracetest.Start.Add(at))
			row.Record.Scheduled.SumPrefillTokens, row.Record.Queued.NumPrefillRequests = 50, 3
			rows = append(rows, row)
			row.Record = fpm.Record{Version: 1, WorkerID: "4192"} // heartbeats tell nothing of the queue
			rows = append(rows, row)
		}
		d := gather(rows)
		if len(d.ranks) != 1 || len(d.ranks[0].buckets) > maxBuckets || len(d.ranks[0].buckets) < int(min(length/time.Second, maxBuckets/2)) {
			t.Fatalf("%v: %d ranks, %d buckets", length, len(d.ranks), len(d.ranks[0].buckets))
		}
		want := []float64{500, 40, 4, 3, 20} // in the order of panels
		for i, p := range d.panels() {
			for _, s := range d.samples(d.ranks[0], p.value) {
				if math.Abs(s.value-want[i]) > want[i]*0.03 {
					t.Errorf("%v: %s is %v, want %v", length, p.title, s.value, want[i])
				}
			}
		}
		if n := len(d.ranks[0].points); n > maxPoints || n < int(min(length/(100*time.Millisecond), maxPoints)) {
			t.Errorf("%v: %d points", length, n)
		}
	}
}

// Both formats are written of any rows: many ranks, one row, no pass, sampled rows, odd names.
func TestWrite(t *testing.T) {
	one := []trace.Row{tracetest.Row("4192", 1, tracetest.Start)}
	idle := tracetest.Row("4192", 1, tracetest.Start)
	idle.Record = fpm.Record{Version: 1}
	var many []trace.Row
	for i := range 20 {
		many = append(many, tracetest.Row(fmt.Sprintf("<&\"worker\x00 %d %s", i, strings.Repeat("x", i)), 1, tracetest.Start.Add(time.Duration(i)*time.Hour)))
	}
	sampled := []trace.Row{one[0], one[0]}
	for i := range sampled {
		sampled[i].Capture, sampled[i].Observed = fpm.CaptureSampled, tracetest.Start.Add(time.Duration(i)*5*time.Second)
	}
	for name, rows := range map[string][]trace.Row{"one": one, "idle": {idle}, "many": many, "sampled": sampled} {
		var picture, vector bytes.Buffer
		d := gather(rows)
		if err := d.Write(&picture, FormatPNG, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := png.Decode(&picture); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Write(&vector, FormatSVG, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for decoder := xml.NewDecoder(&vector); ; {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		if len(d.all()) > maxRanks+1 {
			t.Errorf("%s: %d ranks drawn", name, len(d.all()))
		}
	}
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]string{"a.svg": FormatSVG, "b.PNG": FormatPNG, "c.pdf": "", "svg": ""} {
		if got, err := FormatOf(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
