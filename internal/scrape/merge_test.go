package scrape

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// demandTotals demands that these conflicts and drops were counted, and no others.
func demandTotals(t *testing.T, totals *Totals, conflicts map[Conflict]int64, dropped map[Drop]int64) {
	t.Helper()
	for _, kind := range Conflicts() {
		if got := totals.Conflict(kind); got != conflicts[kind] {
			t.Errorf("%d conflicts of kind %s, want %d", got, kind, conflicts[kind])
		}
	}
	for _, reason := range Drops() {
		if got := totals.Dropped(reason); got != dropped[reason] {
			t.Errorf("%d samples dropped as %s, want %d", got, reason, dropped[reason])
		}
	}
}

// TestFirstTargetInConfigOrderWins merges targets that disagree on everything, the
// first of which answers last.
func TestFirstTargetInConfigOrderWins(t *testing.T) {
	othersAnswered := make(chan struct{})
	var answered atomic.Int64
	other := func(page string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			answer(textType, page)(w, r)
			if answered.Add(1) == 2 {
				close(othersAnswered)
			}
		})
	}
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-othersAnswered
		answer(textType, "# HELP vllm:a First.\n# TYPE vllm:a gauge\nvllm:a{engine=\"0\"} 1\n"+
			"# TYPE vllm:b counter\nvllm:b{engine=\"0\"} 1\n")(w, r)
	})
	second := other("# HELP vllm:a Second.\n# TYPE vllm:a gauge\nvllm:a{engine=\"0\"} 2\nvllm:a{engine=\"1\"} 2\n" +
		"# TYPE vllm:b gauge\nvllm:b{engine=\"2\"} 2\n")
	third := other("# TYPE vllm:a gauge\nvllm:a{engine=\"1\"} 3\nvllm:a{engine=\"3\"} 3\nvllm:b{engine=\"3\"} 3\n")

	p, totals := start(t, flatConfig(first, second, third))
	page, states := look(t, p)
	for _, s := range states {
		demandGood(t, s)
	}
	const want = `# HELP vllm:a First.
# TYPE vllm:a gauge
vllm:a{replica="0",stage="0"} 1
vllm:a{replica="1",stage="0"} 2
vllm:a{replica="3",stage="0"} 3
# TYPE vllm:b counter
vllm:b{replica="0",stage="0"} 1
vllm:b{replica="3",stage="0"} 3
`
	if page != want {
		t.Errorf("page is\n%s\nwant\n%s", page, want)
	}
	demandTotals(t, totals,
		map[Conflict]int64{ConflictHelp: 1, ConflictType: 1, ConflictDuplicate: 2},
		map[Drop]int64{DropDuplicate: 2, DropType: 1})
}

// TestDropsAreCounted scrapes what must not leave.
func TestDropsAreCounted(t *testing.T) {
	const body = `# TYPE up gauge
up 1
scrape_duration_seconds 0.1
ALERTS{alertname="x"} 1
# TYPE vllm:c_total counter
vllm:c_total{engine="0"} 1
vllm:c_total{engine="9"} 1
vllm:c_total{engine="x"} 1
# TYPE vllm:c_created gauge
vllm:c_created{engine="0"} 1.7e+09
vllm:d{engine="0",pipeline="theirs"} 1
`
	yaml := "include: [\"*\"]\n" + strings.Replace(flatConfig(serve(t, answer(textType, body))),
		"stages:", "name: ours\n    on_unmapped: drop\n    stages:", 1)
	p, totals := start(t, yaml)
	page, states := look(t, p)
	demandGood(t, states[0])
	want := []string{
		`vllm:c_total{pipeline="ours",replica="0",stage="0"} 1`,
		`vllm:d{exported_pipeline="theirs",pipeline="ours",replica="0",stage="0"} 1`,
	}
	if got := samples(page); !slices.Equal(got, want) {
		t.Errorf("page holds %q, want %q", got, want)
	}
	demandTotals(t, totals, map[Conflict]int64{ConflictLabel: 1},
		map[Drop]int64{DropReserved: 3, DropCreated: 1, DropUnmapped: 2})
	if got := len(states[0].Outcome.Summary.Unmapped); got != 2 {
		t.Errorf("%d unmapped engines, want 2", got)
	}
}

func TestUnmappedEnginesAreKeptByDefault(t *testing.T) {
	p, totals := start(t, flatConfig(serve(t, answer(textType, "vllm:x{engine=\"4\"} 1\nvllm:x{engine=\"3\"} 1\n"))))
	page, states := look(t, p)
	want := []string{`vllm:x{engine="4"} 1`, `vllm:x{replica="3",stage="0"} 1`}
	if got := samples(page); !slices.Equal(got, want) {
		t.Errorf("page holds %q, want %q", got, want)
	}
	if got := states[0].Outcome.Summary.Unmapped; len(got) != 1 || !got["4"] {
		t.Errorf("unmapped engines %v, want 4", got)
	}
	demandTotals(t, totals, nil, nil)
}

// TestFlappingTarget demands that the series of a target go with it at once and come
// back with it.
func TestFlappingTarget(t *testing.T) {
	var down atomic.Bool
	flapping := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, badPage, http.StatusBadGateway)
			return
		}
		answer(textType, "# HELP vllm:x X.\n# TYPE vllm:x gauge\nvllm:x{engine=\"0\"} 1\n")(w, r)
	})
	p, _ := start(t, flatConfig(flapping, serve(t, answer(textType, goodPage))))
	var lastSuccess time.Time
	for round := range 6 {
		isDown := round%2 == 1
		down.Store(isDown)
		page, states := look(t, p)
		want := []string{goodLine, `vllm:x{replica="0",stage="0"} 1`}
		if isDown {
			want = want[:1]
		}
		if got := samples(page); !slices.Equal(got, want) {
			t.Errorf("round %d: page holds %q, want %q", round, got, want)
		}
		if strings.Contains(page, "# HELP vllm:x") == isDown {
			t.Errorf("round %d, down %t: page is\n%s", round, isDown, page)
		}
		counts := states[0].Counts
		if counts.Scrapes != int64(round+1) || counts.Failures[ReasonStatus] != int64(round+1)/2 {
			t.Errorf("round %d: counts %+v", round, counts)
		}
		if isDown && counts.LastSuccess != lastSuccess {
			t.Errorf("round %d: a failure moved the last success from %v to %v", round, lastSuccess, counts.LastSuccess)
		}
		lastSuccess = counts.LastSuccess
	}
}

// TestTextBesideOpenMetrics merges a server of each format into one page that is
// valid in both, by Prometheus's own parsers.
func TestTextBesideOpenMetrics(t *testing.T) {
	text := serve(t, answer(textType, `# HELP vllm:c_total C.
# TYPE vllm:c_total counter
vllm:c_total{engine="0"} 1.0
# HELP vllm:iteration_tokens_total I.
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="1"} 1.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 2.0
vllm:iteration_tokens_total_count{engine="0"} 2.0
vllm:iteration_tokens_total_sum{engine="0"} 9.0
# TYPE vllm:c_created gauge
vllm:c_created{engine="0"} 1.7e+09
`))
	openMetrics := serve(t, answer(openMetricsType, `# HELP vllm:c C.
# TYPE vllm:c counter
vllm:c_total{engine="1"} 2 # {trace="t"} 1
vllm:c_created{engine="1"} 1.7e9
# HELP vllm:iteration_tokens_total I.
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="1",le="1.0"} 3
vllm:iteration_tokens_total_bucket{engine="1",le="+Inf"} 4
vllm:iteration_tokens_total_count{engine="1"} 4
vllm:iteration_tokens_total_sum{engine="1"} 8
# EOF
`))
	p, totals := start(t, flatConfig(text, openMetrics))
	page, err := p.Scrape(t.Context(), time.Now().Add(patience), "")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Release()

	want := []string{
		`vllm:c_total{replica="0",stage="0"} 1`, `vllm:c_total{replica="1",stage="0"} 2`,
		`vllm:iteration_tokens_total_bucket{le="1.0",replica="0",stage="0"} 1`,
		`vllm:iteration_tokens_total_bucket{le="+Inf",replica="0",stage="0"} 2`,
		`vllm:iteration_tokens_total_count{replica="0",stage="0"} 2`,
		`vllm:iteration_tokens_total_sum{replica="0",stage="0"} 9`,
		`vllm:iteration_tokens_total_bucket{le="1.0",replica="1",stage="0"} 3`,
		`vllm:iteration_tokens_total_bucket{le="+Inf",replica="1",stage="0"} 4`,
		`vllm:iteration_tokens_total_count{replica="1",stage="0"} 4`,
		`vllm:iteration_tokens_total_sum{replica="1",stage="0"} 8`,
	}
	for _, format := range []exposition.Format{exposition.Text, exposition.OpenMetrics} {
		body := render(t, page, format)
		if got := parsed(t, body, format); !slices.Equal(got, want) {
			t.Errorf("%s page holds\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := strings.Count(body, "# TYPE"); n != 2 {
			t.Errorf("%d TYPE lines in %s, want 2:\n%s", n, format, body)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(render(t, page, exposition.Text))); err != nil {
		t.Error(err)
	}
	demandTotals(t, totals, nil, map[Drop]int64{DropCreated: 2})
}

// parsed returns the series and values of a page as Prometheus reads them.
func parsed(t *testing.T, page string, f exposition.Format) []string {
	t.Helper()
	parser := textparse.NewPromParser([]byte(page), labels.NewSymbolTable(), false)
	if f == exposition.OpenMetrics {
		parser = textparse.NewOpenMetricsParser([]byte(page), labels.NewSymbolTable())
	}
	var out []string
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var l labels.Labels
		parser.Labels(&l)
		b := labels.NewBuilder(l).Del(model.MetricNameLabel)
		out = append(out, fmt.Sprintf("%s%s %v", l.Get(model.MetricNameLabel), strings.ReplaceAll(b.Labels().String(), ", ", ","), value))
	}
}

// Own families go through the same merge, before every target. Own families that
// are no page cost nobody else's.
func TestOwnFamiliesAreMergedFirst(t *testing.T) {
	const theirs = "# HELP own Theirs.\n# TYPE own gauge\nown 2\nown{x=\"1\"} 2\n"
	for name, test := range map[string]struct {
		own  string
		want string
	}{
		"good": {own: "# HELP own Ours.\n# TYPE own gauge\nown 1\n", want: "# HELP own Ours.\n# TYPE own gauge\nown 1\nown{x=\"1\"} 2\n"},
		"a NUL": {
			own:  "# TYPE own gauge\nown{x=\"\x00\"} 1\n",
			want: "# HELP own Theirs.\n# TYPE own gauge\nown{x=\"\uFFFD\"} 1\nown 2\nown{x=\"1\"} 2\n",
		},
		"broken": {own: "own one\n", want: theirs},
		"none":   {want: theirs},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseConfig(t, "include: [\"*\"]\n"+flatConfig(serve(t, answer(textType, theirs))))
			p, err := NewPool(c, PoolOptions{Totals: &Totals{}, Own: func(dst []byte, states []State) []byte {
				if len(states) != 1 || states[0].Outcome == nil || states[0].Counts.Scrapes == 0 {
					t.Errorf("own families are made of the states %+v, want those of the page", states)
				}
				return append(dst, test.own...)
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			for range 3 { // the second and third are compared with the first
				if page, _ := look(t, p); page != test.want {
					t.Errorf("page is\n%s\nwant\n%s", page, test.want)
				}
			}
		})
	}
}
