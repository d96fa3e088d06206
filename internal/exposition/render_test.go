package exposition_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func TestCounterNames(t *testing.T) {
	m := merge(textPage(t, `
# HELP a_total words
# TYPE a_total counter
a_total 1
# TYPE bare counter
bare 2
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{le="+Inf"} 3
# TYPE g_total gauge
g_total 4
`))
	want(t, m, text, true, `
		# HELP a_total words
		# TYPE a_total counter
		a_total 1
		# TYPE bare counter
		bare 2
		# TYPE g_total gauge
		g_total 4
		# TYPE vllm:iteration_tokens_total histogram
		vllm:iteration_tokens_total_bucket{le="+Inf"} 3
	`)
	want(t, m, openMetrics, true, `
		# HELP a words
		# TYPE a counter
		a_total 1
		# TYPE bare unknown
		bare 2
		# TYPE g_total gauge
		g_total 4
		# TYPE vllm:iteration_tokens_total histogram
		vllm:iteration_tokens_total_bucket{le="+Inf"} 3
	`)
}

func TestTypesWithoutAWordInText(t *testing.T) {
	m := merge(omPage(t, `# TYPE i info
i_info{v="1"} 1
# TYPE s stateset
s{s="on"} 1
# TYPE u unknown
u 2
nothing_said 3
# TYPE g gaugehistogram
g_bucket{le="1"} 1
g_gsum 2
g_gcount 1
`))
	want(t, m, text, true, `
		# TYPE i_info gauge
		i_info{v="1"} 1
		# TYPE nothing_said untyped
		nothing_said 3
		# TYPE s gauge
		s{s="on"} 1
		# TYPE u untyped
		u 2
	`)
	want(t, m, openMetrics, true, `
		# TYPE g gaugehistogram
		g_bucket{le="1.0"} 1
		g_gsum 2
		g_gcount 1
		# TYPE i info
		i_info{v="1"} 1
		# TYPE nothing_said unknown
		nothing_said 3
		# TYPE s stateset
		s{s="on"} 1
		# TYPE u unknown
		u 2
	`)
	requireLosses(t, m, exposition.Losses{GaugeHistogramSamples: 3})
}

// Two families of the text format must not become one of OpenMetrics.
func TestNameClashes(t *testing.T) {
	m := merge(textPage(t, "# TYPE x gauge\nx 1\n# TYPE x_total counter\nx_total 2\n"))
	want(t, m, openMetrics, true, `
		# TYPE x gauge
		x 1
		# TYPE x_total unknown
		x_total 2
	`)
	want(t, m, text, true, `
		# TYPE x gauge
		x 1
		# TYPE x_total counter
		x_total 2
	`)
	m = merge(
		omPage(t, "# TYPE y info\ny_info 1\n"),
		omPage(t, "# TYPE y counter\ny_total 2\n# TYPE z info\nz_info 1\n"),
		textPage(t, "z 3\n# TYPE w_total_total counter\nw_total_total 4\n# TYPE w_total counter\nw_total 5\n"),
	)
	want(t, m, openMetrics, true, `
		# TYPE w counter
		w_total 5
		# TYPE w_total_total unknown
		w_total_total 4
		# TYPE y info
		y_info 1
		# TYPE y_total unknown
		y_total 2
		# TYPE z unknown
		z 3
		# TYPE z_info gauge
		z_info 1
	`)
}

// Kept creation times stand in text only, whether they came as text or as
// OpenMetrics: there they would be read as the family's own.
func TestCreatedStandsInTextOnly(t *testing.T) {
	for name, m := range map[string]*exposition.Merged{
		"from text":        merge(textPage(t, "# HELP c_total words\n# TYPE c_total counter\nc_total 1\n# HELP c_created words\n# TYPE c_created gauge\nc_created 1.7e+09\n# TYPE g_created gauge\ng_created 2\n")),
		"from OpenMetrics": merge(omPage(t, "# HELP c words\n# TYPE c counter\nc_total 1\nc_created 1.7e+09\n# TYPE g_created gauge\ng_created 2\n")),
	} {
		t.Run(name, func(t *testing.T) {
			want(t, m, text, true, `
				# HELP c_created words
				# TYPE c_created gauge
				c_created 1.7e+09
				# HELP c_total words
				# TYPE c_total counter
				c_total 1
				# TYPE g_created gauge
				g_created 2
			`)
			want(t, m, openMetrics, true, `
				# HELP c words
				# TYPE c counter
				c_total 1
				# TYPE g_created gauge
				g_created 2
			`)
		})
	}
}

func TestUnits(t *testing.T) {
	m := merge(omPage(t, `# TYPE d_seconds gauge
# UNIT d_seconds seconds
# TYPE e_bytes counter
# UNIT e_bytes bytes
e_bytes_total 1
# TYPE f gauge
# UNIT f seconds
`))
	want(t, m, openMetrics, true, `
		# TYPE d_seconds gauge
		# UNIT d_seconds seconds
		# TYPE e_bytes counter
		# UNIT e_bytes bytes
		e_bytes_total 1
		# TYPE f gauge
	`)
	want(t, m, text, true, `
		# TYPE d_seconds gauge
		# TYPE e_bytes_total counter
		e_bytes_total 1
		# TYPE f gauge
	`)
	// Where sources disagree there is no unit.
	m = merge(omPage(t, "# TYPE d_seconds gauge\n# UNIT d_seconds seconds\nd_seconds{s=\"1\"} 1\n"), textPage(t, "# TYPE d_seconds gauge\nd_seconds 1\n"))
	if got := written(t, m, openMetrics, true); strings.Contains(got, "UNIT") {
		t.Errorf("page has a unit:\n%s", got)
	}
}

func TestTimestampsAndExemplars(t *testing.T) {
	m := merge(
		textPage(t, "# TYPE a_total counter\na_total{s=\"1\"} 1 1764444000123\na_total{s=\"2\"} 2\n"),
		omPage(t, "# TYPE a counter\na_total{s=\"3\"} 3 1764444000.1234 # {trace_id=\"x\"}  0.5 1764444000\na_total{s=\"4\"} 4 # {} 1\n"),
	)
	want(t, m, text, true, `
		# TYPE a_total counter
		a_total{s="1"} 1 1764444000123
		a_total{s="2"} 2
		a_total{s="3"} 3 1764444000123
		a_total{s="4"} 4
	`)
	want(t, m, openMetrics, true, `
		# TYPE a counter
		a_total{s="1"} 1 1764444000.123
		a_total{s="2"} 2
		a_total{s="3"} 3 1764444000.1234 # {trace_id="x"} 0.5 1764444000
		a_total{s="4"} 4 # {} 1
	`)
}

// Multi-process Python servers send the children of a histogram interleaved, the
// sum first. OpenMetrics wants each child's lines together.
func TestInterleavedHistograms(t *testing.T) {
	m := merge(textPage(t, `# TYPE h histogram
h_sum{e="1"} 1
h_sum{e="0"} 2
h_bucket{e="1",le="1"} 3
h_bucket{e="1",le="+Inf"} 4
h_bucket{e="0",le="1"} 5
h_count{e="1"} 6
h_bucket{e="0",le="+Inf"} 7 1000
h_count{e="0"} 8
# TYPE s summary
s{quantile="0.50",e="1"} 1
s{quantile="0.50",e="0"} 2
s_sum{e="1"} 3
s_sum{e="0"} 4
`))
	want(t, m, openMetrics, true, `
		# TYPE h histogram
		h_sum{e="1"} 1
		h_bucket{e="1",le="1.0"} 3
		h_bucket{e="1",le="+Inf"} 4
		h_count{e="1"} 6
		h_sum{e="0"} 2
		h_bucket{e="0",le="1.0"} 5
		h_bucket{e="0",le="+Inf"} 7 1.000
		h_count{e="0"} 8
		# TYPE s summary
		s{e="1",quantile="0.5"} 1
		s_sum{e="1"} 3
		s{e="0",quantile="0.5"} 2
		s_sum{e="0"} 4
	`)
	want(t, m, text, true, `
		# TYPE h histogram
		h_sum{e="1"} 1
		h_sum{e="0"} 2
		h_bucket{e="1",le="1"} 3
		h_bucket{e="1",le="+Inf"} 4
		h_bucket{e="0",le="1"} 5
		h_count{e="1"} 6
		h_bucket{e="0",le="+Inf"} 7 1000
		h_count{e="0"} 8
		# TYPE s summary
		s{e="1",quantile="0.50"} 1
		s{e="0",quantile="0.50"} 2
		s_sum{e="1"} 3
		s_sum{e="0"} 4
	`)
}

func TestInterleavedHistogramWithAQuotedName(t *testing.T) {
	m := merge(textPage(t, "# TYPE \"h.x\" histogram\n"+`{"h.x_sum",e="1"} 1
{"h.x_sum",e="0"} 2
{"h.x_bucket",e="1",le="1"} 3
{"h.x_bucket",e="0",le="1"} 4
`))
	want(t, m, openMetrics, true, `
		# TYPE "h.x" histogram
		{"h.x_sum",e="1"} 1
		{"h.x_bucket",e="1",le="1.0"} 3
		{"h.x_sum",e="0"} 2
		{"h.x_bucket",e="0",le="1.0"} 4
	`)
}

// Only the bounds of histograms and summaries have a spelling, and only in
// OpenMetrics; values keep theirs.
func TestBoundsAreCanonicalInOpenMetrics(t *testing.T) {
	m := merge(textPage(t, `# TYPE g gauge
g{le="1",quantile="1"} 1e6
# TYPE h histogram
h_bucket{a="x,le=",le="1000000"} 2.894350336e+010
h_bucket{a="x,le=",le="inf"} 1
h_bucket{a="x,le=",le="words"} NaN
`))
	want(t, m, openMetrics, true, `
		# TYPE g gauge
		g{le="1",quantile="1"} 1e6
		# TYPE h histogram
		h_bucket{a="x,le=",le="1e+06"} 2.894350336e+010
		h_bucket{a="x,le=",le="+Inf"} 1
		h_bucket{a="x,le=",le="words"} NaN
	`)
}

func TestFamiliesThatComeBack(t *testing.T) {
	m := merge(textPage(t, "# TYPE a gauge\na{n=\"1\"} 1\nb 1\n# TYPE c gauge\na{n=\"2\"} 2\nb{n=\"2\"} 2\na{n=\"3\"} 3\n"))
	want(t, m, text, true, `
		# TYPE a gauge
		a{n="1"} 1
		a{n="2"} 2
		a{n="3"} 3
		# TYPE b untyped
		b 1
		b{n="2"} 2
		# TYPE c gauge
	`)
}

// The error of a writer that gives up is its own.
func TestWriteToStopsAtTheWritersError(t *testing.T) {
	m := merge(textPage(t, "# HELP a "+strings.Repeat("x", 1<<17)+"\n"), textPage(t, utf8Page))
	gone := errors.New("client is gone")
	for _, limit := range []int{0, 100, 1 << 16} {
		w := &brokenWriter{room: limit, err: gone}
		if _, err := m.View(text, false).WriteTo(w); !errors.Is(err, gone) {
			t.Errorf("after %d bytes: error %v", limit, err)
		}
	}
}

type brokenWriter struct {
	room int
	err  error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, w.err
	}
	return len(b), nil
}

// One merged page may be read by several callers at once, in all views.
func TestViewsInParallel(t *testing.T) {
	target := newTarget()
	for _, value := range []string{"1", "2"} { // the second page shares the first one's layout
		p := page(t, target, "# TYPE h histogram\nh_bucket{le=\"1\"} "+value+"\nh_bucket{\"a.b\"=\"1\",le=\"1\"} 1 5\n", text)
		m := merge(p, textPage(t, utf8Page))
		done := make(chan [2]string)
		for range 4 {
			go func() {
				var out [2]string
				for f := range out {
					for _, utf8 := range []bool{true, false} {
						var b bytes.Buffer
						if _, err := m.View(exposition.Format(f), utf8).WriteTo(&b); err != nil && !errors.Is(err, io.EOF) {
							t.Error(err)
						}
						out[f] += b.String()
					}
				}
				done <- out
			}()
		}
		first := <-done
		for range 3 {
			if other := <-done; other != first {
				t.Error("callers got different pages")
			}
		}
	}
}
