package exposition_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

const (
	text        = exposition.Text
	openMetrics = exposition.OpenMetrics
)

func requireLosses(t *testing.T, m *exposition.Merged, want exposition.Losses) {
	t.Helper()
	if diff := cmp.Diff(want, m.Losses()); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

func TestMergeNothing(t *testing.T) {
	for _, m := range []*exposition.Merged{merge(), merge(nil, nil), merge(textPage(t, ""), omPage(t, ""))} {
		want(t, m, text, true, "")
		want(t, m, openMetrics, true, "")
	}
}

// One block a family, families sorted, sources in order.
func TestMergeThreeSources(t *testing.T) {
	m := merge(
		textPage(t, "# HELP b words\n# TYPE b gauge\nb{s=\"1\"} 1\n# TYPE a counter\na{s=\"1\"} 1\nb{s=\"1\",x=\"2\"} 2\n"),
		textPage(t, "# TYPE a counter\na{s=\"2\"} 1\n# HELP b words\n# TYPE b gauge\nb{s=\"2\"} 3\n"),
		textPage(t, "# TYPE c histogram\n# HELP b words\n# TYPE b gauge\nb{s=\"3\"} 4\n"),
	)
	want(t, m, text, true, `
		# TYPE a counter
		a{s="1"} 1
		a{s="2"} 1
		# HELP b words
		# TYPE b gauge
		b{s="1"} 1
		b{s="1",x="2"} 2
		b{s="2"} 3
		b{s="3"} 4
		# TYPE c histogram
	`)
	requireLosses(t, m, exposition.Losses{})
}

func TestMergeHelp(t *testing.T) {
	// The first source that has a HELP wins; one without is no conflict.
	m := merge(
		textPage(t, "# TYPE a gauge\na{s=\"1\"} 1\n"),
		textPage(t, "# HELP a first \\\\ \"words\"\\n\n# TYPE a gauge\na{s=\"2\"} 2\n"),
		textPage(t, "# HELP a others\n# TYPE a gauge\na{s=\"3\"} 3\n"),
		textPage(t, "# HELP a first \\\\ \"words\"\\n\n# TYPE a gauge\na{s=\"4\"} 4\n"),
	)
	want(t, m, text, true, `
		# HELP a first \\ "words"\n
		# TYPE a gauge
		a{s="1"} 1
		a{s="2"} 2
		a{s="3"} 3
		a{s="4"} 4
	`)
	requireLosses(t, m, exposition.Losses{HelpConflicts: 1})
}

// The same words, escaped as each format wants it, are no conflict.
func TestMergeHelpAcrossFormats(t *testing.T) {
	m := merge(
		textPage(t, "# HELP a say \"x\"\n# TYPE a gauge\na{s=\"1\"} 1\n"),
		omPage(t, "# HELP a say \\\"x\\\"\n# TYPE a gauge\na{s=\"2\"} 2\n"),
	)
	requireLosses(t, m, exposition.Losses{})
	want(t, m, openMetrics, true, `
		# HELP a say \"x\"
		# TYPE a gauge
		a{s="1"} 1
		a{s="2"} 2
	`)
}

func TestMergeTypes(t *testing.T) {
	m := merge(
		textPage(t, "# TYPE a gauge\na{s=\"1\"} 1\n# TYPE h histogram\nh_sum{s=\"1\"} 1\nu{s=\"1\"} 1\n"),
		textPage(t, "# TYPE a counter\na{s=\"2\"} 2\na{s=\"2\",x=\"\"} 2\n# TYPE h summary\nh_sum{s=\"2\"} 2\n# TYPE u counter\nu{s=\"2\"} 2\n"),
		textPage(t, "# TYPE a gauge\na{s=\"3\"} 3\nu{s=\"3\"} 3\n"),
	)
	want(t, m, text, true, `
		# TYPE a gauge
		a{s="1"} 1
		a{s="3"} 3
		# TYPE h histogram
		h_sum{s="1"} 1
		# TYPE u counter
		u{s="1"} 1
		u{s="2"} 2
		u{s="3"} 3
	`)
	requireLosses(t, m, exposition.Losses{TypeConflicts: 2, TypeSamples: 3})
}

// A counter `x` of an OpenMetrics page is the counter `x_total` of a text page.
func TestMergeFormats(t *testing.T) {
	m := merge(
		textPage(t, "# HELP x_total words\n# TYPE x_total counter\nx_total{s=\"1\"} 1\n# TYPE i_info gauge\ni_info{s=\"1\"} 1\n"),
		omPage(t, "# HELP x words\n# TYPE x counter\nx_total{s=\"2\"} 2\n# TYPE i info\ni_info{s=\"2\"} 1\n"),
	)
	want(t, m, text, true, `
		# TYPE i_info gauge
		i_info{s="1"} 1
		i_info{s="2"} 1
		# HELP x_total words
		# TYPE x_total counter
		x_total{s="1"} 1
		x_total{s="2"} 2
	`)
	want(t, m, openMetrics, true, `
		# TYPE i_info gauge
		i_info{s="1"} 1
		i_info{s="2"} 1
		# HELP x words
		# TYPE x counter
		x_total{s="1"} 1
		x_total{s="2"} 2
	`)
	requireLosses(t, m, exposition.Losses{})
}

// The first source wins, and only series that are the same to Prometheus count.
func TestMergeDuplicates(t *testing.T) {
	m := merge(
		textPage(t, "# TYPE h histogram\nh_bucket{le=\"1\",s=\"1\"} 1\nh_sum{s=\"1\"} 1\n# TYPE g gauge\ng 1\ng{a=\"\"} 2\ng{a=\"x\"} 3\ng{a=\"x\"} 4\n"),
		textPage(t, "# TYPE h histogram\nh_bucket{le=\"1.0\",s=\"1\"} 2\nh_bucket{le=\"1e0\",s=\"2\"} 2\nh_bucket{le=\"2\",s=\"1\"} 2\n# TYPE g gauge\ng{a=\"x\",b=\"\"} 5\ng{a=\"y\"} 6\n"),
		omPage(t, "# TYPE g gauge\ng{c=\"\",a=\"y\",b=\"\"} 7\n# TYPE h histogram\nh_sum{s=\"1\"} 3\n"),
	)
	want(t, m, text, true, `
		# TYPE g gauge
		g 1
		g{a="x"} 3
		g{a="y"} 6
		# TYPE h histogram
		h_bucket{le="1",s="1"} 1
		h_sum{s="1"} 1
		h_bucket{le="1e0",s="2"} 2
		h_bucket{le="2",s="1"} 2
	`)
	want(t, m, openMetrics, true, `
		# TYPE g gauge
		g 1
		g{a="x"} 3
		g{a="y"} 6
		# TYPE h histogram
		h_bucket{le="1.0",s="1"} 1
		h_sum{s="1"} 1
		h_bucket{le="2.0",s="1"} 2
		h_bucket{le="1.0",s="2"} 2
	`)
	requireLosses(t, m, exposition.Losses{DuplicateSamples: 6})
}

// Creation times that OpenMetrics readers do not get are counted, once for each series
// that the page has.
func TestMergeCountsCreationTimes(t *testing.T) {
	const created = "# TYPE c_created gauge\nc_created{s=\"1\"} 1.7e+09\nc_created{s=\"2\"} 1.7e+09\n"
	counter := "# TYPE c_total counter\nc_total{s=\"1\"} 1\n"
	requireLosses(t, merge(textPage(t, counter+created)), exposition.Losses{CreatedSamples: 2})
	requireLosses(t, merge(textPage(t, counter), textPage(t, created)), exposition.Losses{CreatedSamples: 2})
	requireLosses(t, merge(textPage(t, counter+created), textPage(t, created)), exposition.Losses{DuplicateSamples: 2, CreatedSamples: 2})
	requireLosses(t, merge(textPage(t, created)), exposition.Losses{})
}

// Label values and quoted names may hold what looks like other labels.
func TestMergeLookalikesAreNoDuplicates(t *testing.T) {
	m := merge(
		textPage(t, `g{a="x,le=",b="1"} 1`+"\n"+`g{a="",b="1"} 2`+"\n"+`g{"a,b"="",c="1"} 3`+"\n"),
		textPage(t, `g{a="x,le=",b="2"} 1`+"\n"+`g{a="=\"\"",b="1"} 2`+"\n"+`g{"x,c"="1"} 3`+"\n"),
	)
	requireLosses(t, m, exposition.Losses{})
	m = merge(textPage(t, `g{"a,b"="",c="1"} 3`+"\n"), textPage(t, `g{c="1","{"=""} 4`+"\n"))
	requireLosses(t, m, exposition.Losses{DuplicateSamples: 1})
}

// A line that its family's type shuts out duplicates nothing.
func TestRejectedLinesHoldNoSeries(t *testing.T) {
	m := merge(
		textPage(t, "# TYPE a gauge\n"),
		textPage(t, "# TYPE a counter\na 1\n"),
		textPage(t, "# TYPE a gauge\na 2\n"),
	)
	want(t, m, text, true, `
		# TYPE a gauge
		a 2
	`)
	requireLosses(t, m, exposition.Losses{TypeConflicts: 1, TypeSamples: 1})
}

// A source that fails for one run loses its series for that run alone.
func TestSourcesVanishAndComeBack(t *testing.T) {
	targets := []string{"# TYPE a gauge\na{s=\"1\"} 1\nshared 1\n", "# TYPE a counter\na{s=\"2\"} 2\nshared 2\n", "# TYPE a gauge\na{s=\"3\"} 3\nshared 3\n"}
	merger := exposition.NewMerger(len(targets))
	run := func(up ...bool) *exposition.Merged {
		pages := make([]*exposition.Page, len(targets))
		for i, p := range targets {
			if up[i] {
				pages[i] = textPage(t, p)
			}
		}
		return merger.Merge(pages)
	}
	all := `
		# TYPE a gauge
		a{s="1"} 1
		a{s="3"} 3
		# TYPE shared untyped
		shared 1
	`
	for range 3 {
		m := run(true, true, true)
		want(t, m, text, true, all)
		requireLosses(t, m, exposition.Losses{TypeConflicts: 1, TypeSamples: 1, DuplicateSamples: 2})

		m = run(false, true, true)
		want(t, m, text, true, `
			# TYPE a counter
			a{s="2"} 2
			# TYPE shared untyped
			shared 2
		`)
		requireLosses(t, m, exposition.Losses{TypeConflicts: 1, TypeSamples: 1, DuplicateSamples: 1})

		m = run(false, false, true)
		want(t, m, text, true, `
			# TYPE a gauge
			a{s="3"} 3
			# TYPE shared untyped
			shared 3
		`)
		requireLosses(t, m, exposition.Losses{})
		want(t, run(false, false, false), text, true, "")
	}
}

// A run in which only values changed looks at no line: it has the plan of the one
// before.
func TestPlanIsReused(t *testing.T) {
	a, b := newTarget(), newTarget()
	merger := exposition.NewMerger(2)
	run := func(one, two string) *exposition.Merged {
		return merger.Merge([]*exposition.Page{page(t, a, one, text), page(t, b, two, text)})
	}
	first := run("g{s=\"1\"} 1\n", "g{s=\"2\"} 1\n")
	second := run("g{s=\"1\"} 22.5\n", "g{s=\"2\"} 1\n")
	if !exposition.SamePlan(first, second) {
		t.Error("a run with other values has another plan")
	}
	want(t, second, text, true, `
		# TYPE g untyped
		g{s="1"} 22.5
		g{s="2"} 1
	`)
	third := run("g{s=\"1\"} 22.5\n", "g{s=\"3\"} 1\n")
	if exposition.SamePlan(second, third) {
		t.Error("a run with another series has the plan of the one before")
	}
	// What was merged before is not touched.
	want(t, first, text, true, `
		# TYPE g untyped
		g{s="1"} 1
		g{s="2"} 1
	`)
}
