package relabel

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// fiveEngines returns a page of five engines, and one in which the last digit but
// two of share percent of the lines' values differs.
func fiveEngines(b *testing.B, share int) (page, other []byte) {
	page, err := os.ReadFile("testdata/five-engines.prom")
	if err != nil {
		b.Fatal(err)
	}
	other = bytes.Clone(page)
	n := 0
	for line := range bytes.Lines(other) {
		if n++; line[0] == '#' || n%100 >= share {
			continue
		}
		if c := &line[len(line)-4]; *c >= '0' && *c <= '8' {
			*c++
		} else if *c == '9' {
			*c = '0'
		}
	}
	return page, other
}

func benchmarkRules() *Rules {
	return NewRules(Options{
		Topology:   FlatTopology([]Pool{{"0", 1}, {"1", 2}, {"2", 2}}),
		OmniPrefix: "vllm:omni_", Aliases: true, Include: vllmOnly,
	})
}

// BenchmarkCold is the first page of a target.
func BenchmarkCold(b *testing.B) {
	page, _ := fiveEngines(b, 0)
	rules, buffers := benchmarkRules(), &exposition.Buffers{}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		r, _, err := NewTarget(rules, buffers).Rewrite(page, exposition.Text)
		if err != nil {
			b.Fatal(err)
		}
		r.Page.Release()
	}
}

// BenchmarkWarm is a later page, of whose lines the given percentage changed.
func BenchmarkWarm(b *testing.B) {
	for _, share := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("changed=%d%%", share), func(b *testing.B) {
			page, other := fiveEngines(b, share)
			target := NewTarget(benchmarkRules(), &exposition.Buffers{})
			r, _, err := target.Rewrite(bytes.Clone(page), exposition.Text)
			if err != nil {
				b.Fatal(err)
			}
			last := r.Page
			pages := [][]byte{other, page, bytes.Clone(other), bytes.Clone(page)}
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				r, _, err := target.Rewrite(pages[n%len(pages)], exposition.Text)
				if err != nil || r.Misses > 0 {
					b.Fatal(err, r.Misses)
				}
				last.Release()
				last = r.Page
			}
		})
	}
}

// BenchmarkMergeAndWrite is what ten targets of which only values changed cost the
// merge and the renderer, in each format.
func BenchmarkMergeAndWrite(b *testing.B) {
	page, _ := fiveEngines(b, 0)
	var pages []*exposition.Page
	for i := range 10 {
		o := benchmarkRules().options
		o.Topology = TargetTopology("0", fmt.Sprint(i), 0)
		r, _, err := NewTarget(NewRules(o), nil).Rewrite(page, exposition.Text)
		if err != nil {
			b.Fatal(err)
		}
		pages = append(pages, r.Page)
	}
	for _, f := range []exposition.Format{exposition.Text, exposition.OpenMetrics} {
		b.Run(f.String(), func(b *testing.B) {
			merger := exposition.NewMerger(len(pages))
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range pages {
					p.Retain()
				}
				m := merger.Merge(append([]*exposition.Page(nil), pages...))
				n, err := m.View(f, true).WriteTo(io.Discard)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
				m.Release()
			}
		})
	}
}
