package relabel

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// stricter are the reasons for which pages are refused that Prometheus's parser
// accepts, each with why. The function tells whether the page has what the reason speaks
// of. Not in the list, because they can end in any error: the parser takes NUL for
// the end of the page in most places, and lets a quoted string span lines, which no
// format allows.
var stricter = map[string]func(page []byte) bool{
	// A page whose end is missing must not pass for a whole one; the parser adds the newline.
	"last line has no newline": func(p []byte) bool { return !bytes.HasSuffix(p, []byte("\n")) },
	// The parser checks values and HELP only.
	"line is not UTF-8 text": func(p []byte) bool { return strings.ToValidUTF8(string(p), "") != string(p) },
	// The parser takes the byte behind the name for a blank, and lets a quoted name be
	// empty.
	"metadata line without a valid metric name": func(p []byte) bool { return bytes.IndexByte(p, '#') >= 0 },
	// Prometheus refuses the series later, in the scrape loop, and the page with it.
	"label occurs twice":                           func([]byte) bool { return true },
	"label __name__ in a label set":                func(p []byte) bool { return bytes.Contains(p, []byte("__name__")) },
	"labels not separated by ','":                  func([]byte) bool { return true },                              // text only: the parser needs no comma
	"invalid label name":                           func(p []byte) bool { return bytes.Contains(p, []byte(`""`)) }, // an empty one
	"quoted metric name must stand first and once": func([]byte) bool { return true },
	// Longer than anything that formats a float64 writes.
	"value is no number": func(p []byte) bool { return len(p) > 255 },
	// A time that the other format's readers refuse: signs, and past the int64 milliseconds.
	"invalid timestamp": func([]byte) bool { return true },
	// Past 128 characters, a label twice, or a timestamp of the kind above.
	"invalid exemplar": func(p []byte) bool { return bytes.Contains(p, []byte(" # {")) },
	// The formats define which samples a type has; the parser does not look.
	"a counter has no sample of its bare name":        func(p []byte) bool { return bytes.Contains(p, []byte("counter")) },
	"a histogram has no sample of its bare name":      func(p []byte) bool { return bytes.Contains(p, []byte("histogram")) },
	"a gaugehistogram has no sample of its bare name": func(p []byte) bool { return bytes.Contains(p, []byte("gaugehistogram")) },
	"a info has no sample of its bare name":           func(p []byte) bool { return bytes.Contains(p, []byte("info")) },
}

func FuzzText(f *testing.F) {
	seedPages(f, "*.prom")
	for i, page := range oddText() {
		f.Add([]byte(page), uint16(i))
		f.Add([]byte(page), uint16(i*37))
	}
	f.Fuzz(func(t *testing.T, page []byte, options uint16) {
		checkPage(t, page, exposition.Text, options)
	})
}

func FuzzOpenMetrics(f *testing.F) {
	seedPages(f, "*.om")
	for i, page := range oddOpenMetrics() {
		f.Add([]byte(page), uint16(i))
		f.Add([]byte(page), uint16(i*37))
	}
	f.Fuzz(func(t *testing.T, page []byte, options uint16) {
		checkPage(t, page, exposition.OpenMetrics, options)
	})
}

// oddText returns pages with one unusual thing each, for the fuzzer to combine.
func oddText() []string {
	return []string{
		"",
		"# a comment\n\n   \n#no blank\n# HELP a  spaces \\\\ \\n \\x \"q\"\n# TYPE a gauge\n \ta \t{ x = \"1\" , } \t2\t\n",
		"# TYPE h histogram\nh_sum{a=\"1\"} 1\nh_bucket{a=\"1\",le=\"1\"} 1\nh_bucket{a=\"2\",le=\"1.0\"} 2\nh_bucket{a=\"1\",le=\"+Inf\"} 3\nh_count{a=\"1\"} 3\nh_sum{a=\"2\"} 4\n",
		"# TYPE h histogram\nh_bucket{a=\"x,le=\",b=\"0\"} 1\nh_bucket{a=\"x,le=\",engine=\"0\"} 2\nh_bucket{a=\"x{le=\",le=\"1\"} 3\nh_bucket{a=\"x{le=\",le=\"2\"} 3\n",
		"# TYPE s summary\ns{quantile=\"0.50\"} NaN\ns{quantile=\"5e-1\"} 2\ns_sum 1\ns_count 1\n# TYPE s_created gauge\ns_created 1.7e+09\n",
		"# TYPE x gauge\nx 1\n# TYPE x_total counter\nx_total 2 1764444000001\n# TYPE y counter\ny 3\n# TYPE y_created gauge\ny_created 4\n",
		"# HELP \"a.b\" dots\n# TYPE \"a.b\" gauge\n{\"a.b\",\"l.m\"=\"1\",\"l-m\"=\"2\",l_m=\"3\"} 1\na_b 2\n{\"a-b\"} 3\n",
		"g{a=\"x,le=\",le=\"1\"} 1\ng{a=\"\\\\\\\"\\n\\x{},=\"} 2\ng{empty=\"\"} 3\ng 4\n",
		"g{engine=\"0\",stage=\"9\"} 1\ng{engine=\"1\",stage=\"1\",replica=\"0\"} 2\ng{engine=\"01\"} 3\ng{engine=\"7\",exported_stage=\"e\",stage=\"s\"} 4\ng{pipeline=\"p\"} 5\n",
		"vllm_omni:a 1\nv_llm_omni:b 2\nvllm:omni_c 3\nup 1\nALERTS{x=\"y\"} 1\nscrape_duration_seconds 1\n",
		"v +Inf\nv{a=\"1\"} -inf\nv{a=\"2\"} nan\nv{a=\"3\"} 2.894350336e+010\nv{a=\"4\"} +.5e-300\nv{a=\"5\"} infinity\nv{a=\"6\"} 1.\n",
		"# TYPE a counter\na 1\n# TYPE a gauge\na{b=\"1\"} 2\nb 1\na{b=\"2\"} 3\n# TYPE b histogram\nb_bucket{le=\"1\"} 1\n",
		"# TYPE vllm:gpu_prefix_cache_hits_total counter\nvllm:gpu_prefix_cache_hits_total 1\n# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 2\n vllm:kv_cache_usage_perc\t3\n",
	}
}

func oddOpenMetrics() []string {
	return []string{
		"# EOF",
		"# TYPE c counter\n# UNIT c seconds\nc_total 1 1764444000.5 # {trace_id=\"x\"} 0.5 1764444000.123\nc_created 1764444000\n# EOF\n",
		"# TYPE d_seconds gauge\n# UNIT d_seconds seconds\n# HELP d_seconds \\\"q\\\" \\\\ \\n\nd_seconds{a=\"\\x\"} 1\n# EOF\n",
		"# TYPE i info\ni_info{v=\"1\"} 1\n# TYPE i_total gauge\ni_total 1\n# TYPE s stateset\ns{s=\"a\"} 1\n# TYPE u unknown\nu 3\n# EOF\n",
		"# TYPE g gaugehistogram\ng_bucket{le=\"1\"} 1\ng_bucket{le=\"+Inf\"} 2\ng_gsum 1\ng_gcount 2\n# EOF\n",
		"# TYPE x info\nx_info 1\n# TYPE x counter\nx_total 1\n# TYPE x_total unknown\nx_total{a=\"1\"} 1\n# EOF\n",
		"# TYPE vllm:a_total counter\nvllm:a_total_total{engine=\"1\"} 1\n# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 2\n# EOF\n",
		"# TYPE \"h.x\" histogram\n{\"h.x_bucket\",le=\"1\",a=\"1\"} 1 # {\"t.x\"=\"\\\\\"} 1\n{\"h.x_bucket\",le=\"1\",a=\"2\"} 1\n{\"h.x_sum\",a=\"1\"} 2\n# EOF\n",
		"a 1 0.0005\na{b=\"1\"} 1 1e3\na{b=\"2\"} 1 9e15\n# EOF\n",
		"  # TYPE q  summary \n\n# free comment\nq { quantile = \"1\" } 1  2 # { a = \"b\" }  3\n# EOF\n",
	}
}

// seedPages adds the committed pages that are short enough to be mutated usefully.
func seedPages(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		f.Fatalf("no pages for %s: %v", pattern, err)
	}
	for i, name := range files {
		page, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(page) > 16<<10 {
			continue
		}
		f.Add(page, uint16(i))
		f.Add(page, uint16(0xff-i))
	}
}

// checkPage holds what a target makes of a page against the reference. What the
// package accepts must leave as pages that Prometheus accepts, in both formats and
// both naming schemes. What both accept must mean the same.
func checkPage(t *testing.T, page []byte, in exposition.Format, options uint16) {
	s := newSetup(options)
	want, wantErr := parsePage(page, in)
	result, _, err := NewTarget(NewRules(s.options), nil).Rewrite(bytes.Clone(page), in)
	if err != nil {
		if wantErr == nil && !want.multiline && bytes.IndexByte(page, 0) < 0 && !listed(err, page) {
			t.Errorf("Prometheus accepts what is refused here: %v", err)
		}
		return
	}
	escaped := views(t, result.Page, false)
	got := views(t, result.Page, true)
	for _, out := range []exposition.Format{exposition.Text, exposition.OpenMetrics} {
		legacy, err := parsePage(escaped[out], out)
		if err != nil {
			t.Fatalf("escaped %v page: %v\n%s", out, err, escaped[out])
		}
		requireLegacyNames(t, legacy)
		parsed, err := parsePage(got[out], out)
		if err != nil {
			t.Fatalf("%v page: %v\n%s", out, err, got[out])
		}
		requireOneBlock(t, got[out], out)
		if wantErr != nil {
			continue
		}
		// Between the formats a time is converted, and Prometheus cuts off the fraction of a
		// millisecond that a float64 of seconds has, where this package rounds.
		slack := int64(1)
		if in == out {
			slack = 0
		}
		if diff := difference(parsed.series, expected(s, want, in, out), slack); diff != "" {
			t.Errorf("%v page of %v page:\n%s", out, in, diff)
		}
	}
}

func listed(err error, page []byte) bool {
	var p *exposition.ParseError
	if !errors.As(err, &p) {
		return false
	}
	has, ok := stricter[p.Reason]
	return ok && has(page)
}

// requireOneBlock checks that each family has one TYPE line, and that its samples
// stand behind that.
func requireOneBlock(t *testing.T, page []byte, f exposition.Format) {
	t.Helper()
	seen := map[string]bool{}
	for line := range bytes.Lines(page) {
		if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
			name := string(rest[:bytes.LastIndexByte(rest, ' ')])
			if seen[name] {
				t.Errorf("%v page has two blocks of %s:\n%s", f, name, page)
			}
			seen[name] = true
		}
	}
}

func requireLegacyNames(t *testing.T, p *parsedPage) {
	t.Helper()
	for _, f := range p.families {
		if !exposition.IsLegacyName([]byte(f.name), true) {
			t.Errorf("family name %q is not escaped", f.name)
		}
	}
	for _, s := range p.series {
		for name := range s.labels.Map() {
			if !exposition.IsLegacyName([]byte(name), false) {
				t.Errorf("label name %q is not escaped", name)
			}
		}
		if !exposition.IsLegacyName([]byte(s.labels.Get("__name__")), true) {
			t.Errorf("name of %v is not escaped", s.labels)
		}
	}
}
