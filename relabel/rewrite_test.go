package relabel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

func TestLimits(t *testing.T) {
	page := "aa{b=\"12345\",cc=\"1\",engine=\"0\"} 1\naa 2\n"
	topology := FlatTopology([]Pool{{"0", 1}})
	tests := []struct {
		limits Limits
		kind   error // nil: accepted
		want   string
	}{
		{Limits{}, nil, ""},
		{Limits{Samples: 2, Labels: 5, LabelName: 7, LabelValue: 5}, nil, ""},
		{Limits{Samples: 1}, exposition.ErrSampleLimit, "line 2: more than 1 samples: raise sample_limit or let fewer families through"},
		{Limits{Labels: 4}, exposition.ErrLabelLimit, `line 1: label count of 5 exceeds label_limit 4: "aa"`},
		{Limits{LabelName: 6}, exposition.ErrLabelLimit, `line 1: label name length of 7 exceeds label_name_length_limit 6: "replica"`},
		{Limits{LabelValue: 4}, exposition.ErrLabelLimit, `line 1: label value length of 5 exceeds label_value_length_limit 4: "b"`},
		{Limits{LabelValue: 1}, exposition.ErrLabelLimit, `line 1: metric name length of 2 exceeds label_value_length_limit 1: "aa"`},
	}
	for _, tt := range tests {
		_, _, err := NewTarget(NewRules(Options{Topology: topology, Limits: tt.limits}), nil).Rewrite([]byte(page), exposition.Text)
		if !errors.Is(err, tt.kind) || err != nil && err.Error() != tt.want {
			t.Errorf("%+v: error %v, want %q", tt.limits, err, tt.want)
		}
		var parse *exposition.ParseError
		if err != nil && !errors.As(err, &parse) {
			t.Errorf("%+v: error is a %T", tt.limits, err)
		}
	}
}

// What does not leave does not count.
func TestSampleLimitCountsWhatLeaves(t *testing.T) {
	o := Options{
		Topology: FlatTopology([]Pool{{"0", 1}}), DropUnmapped: true, Limits: Limits{Samples: 1},
		Include: func(name string) bool { return name == "g" },
	}
	page := "other 1\ng{engine=\"7\"} 1\ng{engine=\"0\"} 1\nup 1\n"
	if got, _ := rewriteText(t, o, page, exposition.Text); !strings.Contains(got, "\ng{replica=\"0\",stage=\"0\"} 1\n") {
		t.Errorf("page:\n%s", got)
	}
}

func TestInclude(t *testing.T) {
	page := "# TYPE vllm_omni:a gauge\nvllm_omni:a 1\n# TYPE vllm:b histogram\nvllm:b_sum 2\n# TYPE python_info gauge\npython_info 3\nprocess_x 4\n"
	tests := []struct {
		name    string
		include func(string) bool
		want    string
	}{
		{"by the name with which it leaves", func(n string) bool { return n == "vllm:omni_a" }, "# TYPE vllm:omni_a gauge\nvllm:omni_a 1\n"},
		{"by the name with which it came", func(n string) bool { return n == "vllm_omni:a" }, "# TYPE vllm:omni_a gauge\nvllm:omni_a 1\n"},
		{"by family, not by sample", func(n string) bool { return n == "vllm:b" }, "# TYPE vllm:b histogram\nvllm:b_sum 2\n"},
		{"nothing", func(string) bool { return false }, ""},
	}
	for _, tt := range tests {
		got, summary := rewriteText(t, Options{Include: tt.include, OmniPrefix: "vllm:omni_"}, page, exposition.Text)
		if got != tt.want || summary.Samples != 4 {
			t.Errorf("%s: %d samples, page:\n%s", tt.name, summary.Samples, got)
		}
	}
}

func TestReservedNames(t *testing.T) {
	page := "# TYPE up gauge\nup 1\nscrape_duration_seconds{a=\"1\"} 2\nALERTS_FOR_STATE 3\nupper 4\n"
	got, summary := rewriteText(t, Options{}, page, exposition.Text)
	if got != "# TYPE upper untyped\nupper 4\n" || summary.ReservedSamples != 3 {
		t.Errorf("%d reserved, page:\n%s", summary.ReservedSamples, got)
	}
}

func TestCreated(t *testing.T) {
	text := `# TYPE c_total counter
c_total 1
# TYPE c_created gauge
c_created 1.7e+09
# TYPE h histogram
h_sum 1
h_created 1.7e+09
# TYPE tool_created gauge
tool_created 5
# TYPE i_created histogram
i_created_sum 6
`
	om := "# TYPE c counter\nc_total 1\nc_created 1.7e+09\n# TYPE g gauge\ng 1\ng_created 5\n# EOF\n"
	tests := []struct {
		page    string
		format  exposition.Format
		keep    bool
		created int
		gone    []string
		there   []string
	}{
		{text, exposition.Text, false, 2, []string{"c_created", "h_created"}, []string{"tool_created 5", "i_created_sum 6", "c_total 1"}},
		{text, exposition.Text, true, 0, nil, []string{"c_created 1.7e+09", "h_created 1.7e+09", "tool_created 5", "i_created_sum 6"}},
		{om, exposition.OpenMetrics, false, 1, []string{"c_created"}, []string{"c_total 1", "g_created 5"}},
		{om, exposition.OpenMetrics, true, 0, nil, []string{"# TYPE c_created gauge\nc_created 1.7e+09", "g_created 5"}},
	}
	for _, tt := range tests {
		got, summary := rewriteText(t, Options{KeepCreated: tt.keep}, tt.page, tt.format)
		if summary.CreatedSamples != tt.created {
			t.Errorf("%v, kept %t: %d counted", tt.format, tt.keep, summary.CreatedSamples)
		}
		for _, s := range tt.gone {
			if strings.Contains(got, s) {
				t.Errorf("%v, kept %t: %q is there:\n%s", tt.format, tt.keep, s, got)
			}
		}
		for _, s := range tt.there {
			if !strings.Contains(got, s) {
				t.Errorf("%v, kept %t: %q is not there:\n%s", tt.format, tt.keep, s, got)
			}
		}
	}
}

// Buckets that follow each other are written in one go where only their bounds
// differ; what looks like a bound is none.
func TestBuckets(t *testing.T) {
	topology := FlatTopology([]Pool{{"0", 1}, {"1", 1}})
	tests := []struct{ name, in, want string }{
		{
			"bounds", `h_bucket{engine="0",le="1.0"} 1
h_bucket{engine="0",le="2.5"} 12
h_bucket{engine="0",le="+Inf"} 12
h_bucket{engine="1",le="1.0"} 5
h_bucket{engine="1",le="\\n"} 6
h_bucket{engine="1",le=""} 7
h_bucket{engine="1",le="2.0"} 8 1000
h_bucket{engine="1",le="3.0"} 9
`, `h_bucket{le="1.0",replica="0",stage="0"} 1
h_bucket{le="2.5",replica="0",stage="0"} 12
h_bucket{le="+Inf",replica="0",stage="0"} 12
h_bucket{le="1.0",replica="0",stage="1"} 5
h_bucket{le="\\n",replica="0",stage="1"} 6
h_bucket{le="",replica="0",stage="1"} 7
h_bucket{le="2.0",replica="0",stage="1"} 8 1000
h_bucket{le="3.0",replica="0",stage="1"} 9
`,
		},
		{
			"a value that ends like a bound begins", `h_bucket{a="x,le=",b="0"} 1
h_bucket{a="x,le=",engine="0"} 2
h_bucket{a="{le=",le="1"} 3
h_bucket{a="{le=",le="2"} 4
`, `h_bucket{a="x,le=",b="0"} 1
h_bucket{a="x,le=",replica="0",stage="0"} 2
h_bucket{a="{le=",le="1"} 3
h_bucket{a="{le=",le="2"} 4
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := rewriteText(t, Options{Topology: topology}, "# TYPE h histogram\n"+tt.in, exposition.Text)
			if diff := cmp.Diff("# TYPE h histogram\n"+tt.want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

// Broken pages say where, and why.
func TestPageErrors(t *testing.T) {
	tests := []struct {
		page   string
		format exposition.Format
		want   string
	}{
		{"# TYPE a nonsense\n", exposition.Text, `line 1: unknown metric type: "nonsense"`},
		{"# TYPE a unknown\n", exposition.Text, `line 1: unknown metric type: "unknown"`},
		{"# TYPE a untyped\n# EOF\n", exposition.OpenMetrics, `line 1: unknown metric type: "untyped"`},
		{"# TYPE a histogram\na 1\n", exposition.Text, `line 2: a histogram has no sample of its bare name: "a"`},
		{"# TYPE a counter\na 1\n# EOF\n", exposition.OpenMetrics, `line 2: a counter has no sample of its bare name: "a"`},
		{"b 1\na{x=\"1\",y=\"2\",x=\"3\"} 1\n", exposition.Text, `line 2: label occurs twice: "x"`},
		{"a 1\n<html>\n", exposition.Text, `line 2: line does not start with a metric name: "<html>"`},
		{"{\"error\": \"not found\"}\n", exposition.Text, `line 1: labels not separated by ',': "{\"error\": \"not found\"}"`},
		{"# TYPE h histogram\nh_bucket{a=\"x,le=\",b=\"0\"} 1\nh_bucket{a=\"x,le=\" junk\"0\"} 1\n", exposition.Text, `line 3: labels not separated by ',': "h_bucket{a=\"x,le=\" junk\"0\"} 1"`},
		{"a 1\n", exposition.OpenMetrics, `line 2: page ends without # EOF`},
	}
	for _, tt := range tests {
		_, _, err := NewTarget(flatRules(), nil).Rewrite([]byte(tt.page), tt.format)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: error %v, want %s", tt.page, err, tt.want)
		}
	}
}

// The first TYPE and the first HELP with words count; a TYPE line may come late.
func TestMetadata(t *testing.T) {
	got, summary := rewriteText(t, Options{}, `a 1
# HELP a
# TYPE a gauge
# HELP a words
# HELP a other words
# TYPE a counter
# TYPE a gauge
`, exposition.Text)
	if want := "# HELP a words\n# TYPE a gauge\na 1\n"; got != want || summary.RetypedFamilies != 1 {
		t.Errorf("%d retyped, page:\n%s", summary.RetypedFamilies, got)
	}
}

// A second exporter behind the first changes nothing, whatever it thinks the
// topology is.
func TestSecondExporterChangesNothing(t *testing.T) {
	files, err := filepath.Glob("testdata/*.[po]*m")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	o := Options{
		Topology: FlatTopology([]Pool{{"0", 1}, {"1", 2}, {"2", 2}}), Labels: map[string]string{"pipeline": "qwen"},
		OmniPrefix: "vllm:omni_", Aliases: true,
	}
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in := exposition.Text
		if filepath.Ext(file) == ".om" {
			in = exposition.OpenMetrics
		}
		first, _, err := NewTarget(NewRules(o), nil).Rewrite(page, in)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		once := views(t, first.Page, true)
		for f, body := range once {
			second, _, err := NewTarget(NewRules(o), nil).Rewrite(append([]byte(nil), body...), exposition.Format(f))
			if err != nil {
				t.Fatalf("%s through %v: %v", file, exposition.Format(f), err)
			}
			if second.Summary.LabelCollisions != 0 || len(second.Summary.Unmapped) != 0 {
				t.Errorf("%s: second summary %+v", file, second.Summary)
			}
			if diff := cmp.Diff(string(body), string(views(t, second.Page, true)[f])); diff != "" {
				t.Errorf("%s through %v (-first +second):\n%s", file, exposition.Format(f), diff)
			}
		}
	}
}

// One merged page of real pages in both formats, as it leaves. `go test -run
// TestGolden -update` writes it anew.
func TestGolden(t *testing.T) {
	place := func(stage, replica string) Options {
		return Options{Topology: TargetTopology(stage, replica, 0), OmniPrefix: "vllm:omni_", Aliases: true, Include: vllmOnly}
	}
	flat := Options{
		Topology: FlatTopology([]Pool{{"0", 1}, {"1", 1}, {"2", 1}}), OmniPrefix: "vllm:omni_", Aliases: true, Include: vllmOnly,
		Labels: map[string]string{"pipeline": "qwen3-omni"},
	}
	tests := map[string][]struct {
		file    string
		options Options
	}{
		"server":        {{"server.prom", flat}},
		"server-om":     {{"server.om", flat}},
		"old-engine":    {{"old-engine.prom", place("0", "0")}},
		"disaggregated": {{"rust-frontend.om", place("0", "0")}, {"multiprocess.prom", place("1", "0")}, {"current-omni-prefix.om", place("2", "0")}},
		"same-twice":    {{"multiprocess.prom", flat}, {"multiprocess.prom", flat}},
	}
	for name, sources := range tests {
		t.Run(name, func(t *testing.T) {
			var pages []*exposition.Page
			for _, s := range sources {
				body, err := os.ReadFile(filepath.Join("testdata", s.file))
				if err != nil {
					t.Fatal(err)
				}
				in := exposition.Text
				if filepath.Ext(s.file) == ".om" {
					in = exposition.OpenMetrics
				}
				r, _, err := NewTarget(NewRules(s.options), nil).Rewrite(body, in)
				if err != nil {
					t.Fatal(err)
				}
				pages = append(pages, r.Page)
			}
			merged := exposition.NewMerger(len(pages)).Merge(pages)
			for _, f := range []exposition.Format{exposition.Text, exposition.OpenMetrics} {
				var b strings.Builder
				if _, err := merged.View(f, true).WriteTo(&b); err != nil {
					t.Fatal(err)
				}
				if _, err := parsePage([]byte(b.String()), f); err != nil {
					t.Errorf("%v page: %v", f, err)
				}
				golden(t, fmt.Sprintf("%s.%s.golden", name, strings.ToLower(f.String())), b.String())
			}
			golden(t, name+".losses.golden", fmt.Sprintf("%+v\n", merged.Losses()))
		})
	}
}

func vllmOnly(name string) bool { return strings.HasPrefix(name, "vllm") }

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
