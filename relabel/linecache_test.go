package relabel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// base is a page of 6 samples.
const base = `# HELP g a gauge
# TYPE g gauge
g{engine="0"} 1
g{engine="1"} 2.5
# TYPE c_total counter
c_total{engine="0"} 10
c_total{engine="1"} 11
# TYPE h histogram
h_bucket{engine="0",le="1.0"} 1
h_sum{engine="0"} 3
`

// step is one page of a sequence, and what the line cache must know of it.
type step struct {
	page   string
	misses int // of its samples
	format exposition.Format
	fails  bool
}

func flatRules() *Rules {
	return NewRules(Options{Topology: FlatTopology([]Pool{{"0", 1}, {"1", 2}, {"2", 2}})})
}

func TestSequences(t *testing.T) {
	edit := func(part, with string) string {
		if !strings.Contains(base, part) {
			t.Fatalf("base has no %q", part)
		}
		return strings.Replace(base, part, with, 1)
	}
	om := strings.Replace(base, "TYPE c_total", "TYPE c", 1) + "# EOF\n"
	tests := map[string][]step{
		"the same again":            {{page: base}, {page: base}},
		"a value of the same width": {{page: edit("2.5\n", "3.5\n")}, {page: base}},
		"a value grows and shrinks": {{page: edit("} 10\n", "} 1000000.25\n")}, {page: edit("} 10\n", "} 7\n")}, {page: base}},
		"all values change":         {{page: strings.NewReplacer("} 1\n", "} 25\n", "} 2.5\n", "} +Inf\n", "} 10\n", "} 9\n", "} 11\n", "} NaN\n", "} 3\n", "} 1e+09\n").Replace(base)}, {page: base}},
		"first and last value":      {{page: edit("g{engine=\"0\"} 1\n", "g{engine=\"0\"} 12\n")}, {page: edit("} 3\n", "} 33\n")}},
		"a line inserted":           {{page: edit("# TYPE c_", "g{engine=\"2\"} 4\n# TYPE c_"), misses: 1}, {page: base}},
		"a line at the start":       {{page: "first 1\n" + base, misses: 1}, {page: base}},
		"a line at the end":         {{page: base + "last 1\n", misses: 1}, {page: base}},
		"a line removed":            {{page: edit("g{engine=\"1\"} 2.5\n", "")}, {page: base, misses: 1}},
		"lines reordered":           {{page: edit("g{engine=\"0\"} 1\ng{engine=\"1\"} 2.5\n", "g{engine=\"1\"} 2.5\ng{engine=\"0\"} 1\n")}, {page: base}},
		"families reordered":        {{page: "# TYPE h histogram\nh_bucket{engine=\"0\",le=\"1.0\"} 1\n# TYPE g gauge\ng{engine=\"1\"} 2\n"}, {page: base, misses: 4}},
		"labels in another order":   {{page: edit(`engine="0",le="1.0"`, `le="1.0",engine="0"`), misses: 1}, {page: base, misses: 1}},
		"a family appears":          {{page: base + "# TYPE n gauge\nn{engine=\"0\"} 1\n", misses: 1}, {page: base}},
		"a family without samples":  {{page: base + "# TYPE n gauge\n"}, {page: base}},
		"a family vanishes":         {{page: base[:strings.Index(base, "# TYPE h")]}, {page: base, misses: 2}},
		"a family comes back":       {{page: base + "g{engine=\"3\"} 4\n", misses: 1}, {page: edit("2.5\n", "2.25\n") + "g{engine=\"3\"} 4\n"}},
		"TYPE changes":              {{page: edit("g gauge", "g counter")}, {page: base}},
		"TYPE goes":                 {{page: edit("# TYPE g gauge\n", "")}, {page: base}},
		"HELP changes":              {{page: edit("a gauge", "another gauge")}, {page: base}},
		"a comment appears":         {{page: "# hello\n" + base}, {page: base}},
		"a broken page between":     {{page: edit("2.5\n", "x\n"), fails: true}, {page: edit("2.5\n", "5\n")}, {page: edit("2.5\n", "2.5"), fails: true}, {page: base}},
		"a cut off page":            {{page: base[:len(base)-3], fails: true}, {page: base}},
		"cut off in a value":        {{page: base[:len(base)-1], fails: true}, {page: base}},
		"an empty page":             {{page: ""}, {page: base, misses: 6}},
		"an invalid value":          {{page: edit("2.5\n", "2_5\n"), fails: true}, {page: edit("2.5\n", "\n"), fails: true}, {page: base}},
		"a value past all bounds":   {{page: edit("2.5\n", "1e"+strings.Repeat("0", 300)+"1\n"), fails: true}, {page: base}},
		"a timestamp appears":       {{page: edit("2.5\n", "2.5 1764444000000\n"), misses: 1}, {page: edit("2.5\n", "2.5 1764444000001\n"), misses: 1}, {page: base, misses: 1}},
		"values beside timestamps":  {{page: edit("2.5\n", "2.5 1764444000000\n"), misses: 1}, {page: strings.Replace(edit("2.5\n", "2.5 1764444000000\n"), "} 10\n", "} 1234\n", 1)}},
		"OpenMetrics and back":      {{page: om, format: exposition.OpenMetrics, misses: 6}, {page: strings.Replace(om, "2.5\n", "3\n", 1), format: exposition.OpenMetrics}, {page: base, misses: 6}},
		"an exemplar appears": {
			{page: om, format: exposition.OpenMetrics, misses: 6},
			{page: strings.Replace(om, "} 10\n", "} 10 # {a=\"b\"} 1\n", 1), format: exposition.OpenMetrics, misses: 1},
			{page: strings.Replace(om, "} 10\n", "} 10 # {a=\"b\"} 2\n", 1), format: exposition.OpenMetrics, misses: 1},
			{page: om, format: exposition.OpenMetrics, misses: 1},
		},
		"EOF goes": {
			{page: om, format: exposition.OpenMetrics, misses: 6},
			{page: strings.TrimSuffix(om, "\n"), format: exposition.OpenMetrics},
			{page: strings.TrimSuffix(om, "F\n") + "\n", format: exposition.OpenMetrics, fails: true},
			{page: strings.TrimSuffix(om, "# EOF\n"), format: exposition.OpenMetrics, fails: true},
			{page: om, format: exposition.OpenMetrics},
		},
		"a series twice": {{page: edit("g{engine=\"1\"} 2.5\n", "g{engine=\"0\"} 2.5\n")}, {page: base, misses: 1}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWarmth(t, flatRules())
			steps = append([]step{{page: base, misses: 6}}, steps...)
			for i, s := range steps {
				r, err := w.step(s.page, s.format)
				if (err != nil) != s.fails {
					t.Fatalf("page %d: error %v", i, err)
				}
				if err == nil && r.Misses != s.misses {
					t.Errorf("page %d: %d misses, want %d", i, r.Misses, s.misses)
				}
			}
		})
	}
}

// What an old family becomes depends on whether the page has the current one, also
// for lines that are remembered.
func TestSequenceOfAliases(t *testing.T) {
	w := newWarmth(t, NewRules(Options{Aliases: true, OmniPrefix: "vllm:omni_"}))
	old := "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{engine=\"0\"} 1\nvllm_omni:x 2\n"
	for i, page := range []string{
		old,
		strings.Replace(old, " 1\n", " 0.25\n", 1),
		old + "vllm:kv_cache_usage_perc{engine=\"0\"} 2\n",
		old,
		strings.Replace(old, "gauge", "counter", 1),
	} {
		if _, err := w.step(page, exposition.Text); err != nil {
			t.Fatal(err)
		}
		has := strings.Contains(string(w.written[exposition.Text]), "vllm:gpu_cache_usage_perc")
		if want := i == 2 || i == 4; has != want {
			t.Errorf("page %d has the old name: %t\n%s", i, has, w.written[exposition.Text])
		}
	}
}

// A page that fails leaves the last good one as it was.
func TestLastGoodPageStays(t *testing.T) {
	target := NewTarget(flatRules(), nil)
	first, spare, err := target.Rewrite([]byte(base), exposition.Text)
	if err != nil || spare != nil {
		t.Fatalf("spare %q, error %v", spare, err)
	}
	layout, text := first.Page.Layout(), string(first.Page.Text())
	for _, bad := range []string{"x", "g 1 2 3\n", base + "g{\n", "# TYPE g nonsense\n"} {
		body := []byte(bad)
		_, spare, err := target.Rewrite(body, exposition.Text)
		if err == nil || string(spare) != bad {
			t.Errorf("%q: error %v, spare %q", bad, err, spare)
		}
	}
	second, _, err := target.Rewrite([]byte(base), exposition.Text)
	if err != nil || second.Hits != 6 || second.Page.Layout() != layout {
		t.Errorf("after broken pages: %d hits, %d misses, error %v", second.Hits, second.Misses, err)
	}
	if string(first.Page.Text()) != text || string(second.Page.Text()) != text {
		t.Error("the page's text changed")
	}
}

// The layout is shared exactly as long as only values change.
func TestLayoutIsShared(t *testing.T) {
	target := NewTarget(flatRules(), nil)
	layouts := map[*exposition.Layout]int{}
	for _, page := range []string{
		base, base, strings.Replace(base, "2.5", "12345", 1), // one layout
		base + "n 1\n", base + "n 2\n", // another
	} {
		r, _, err := target.Rewrite([]byte(page), exposition.Text)
		if err != nil {
			t.Fatal(err)
		}
		layouts[r.Page.Layout()]++
	}
	if len(layouts) != 2 {
		t.Errorf("%d layouts, want 2", len(layouts))
	}
}

// A warm page costs the same few allocations whatever its length: nothing is
// allocated for a line, whether its value changed or not.
func TestWarmPagesAllocateNothingPerLine(t *testing.T) {
	measure := func(lines int, change bool) float64 {
		var pages [2]bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&pages[0], "g{engine=\"%d\",n=\"%d\"} %d\n", i%5, i, i)
			fmt.Fprintf(&pages[1], "g{engine=\"%d\",n=\"%d\"} %d\n", i%5, i, i+len(pages)*7)
		}
		buffers := &exposition.Buffers{}
		target := NewTarget(flatRules(), buffers)
		body := make([]byte, 0, 2*pages[1].Len())
		var last *exposition.Page
		n := 0
		scrape := func() {
			page := pages[0].Bytes()
			if change && n%2 == 1 {
				page = pages[1].Bytes()
			}
			n++
			r, spare, err := target.Rewrite(append(body[:0], page...), exposition.Text)
			if err != nil || n > 1 && r.Misses > 0 {
				t.Fatalf("page %d: %d misses, error %v", n, r.Misses, err)
			}
			if last != nil {
				last.Release()
			}
			last = r.Page
			if body = spare; body == nil {
				body = make([]byte, 0, 2*pages[1].Len())
			}
		}
		for range 4 {
			scrape()
		}
		return testing.AllocsPerRun(20, scrape)
	}
	for _, change := range []bool{false, true} {
		few, many := measure(10, change), measure(5000, change)
		if few != many || many > 8 {
			t.Errorf("values change: %t: %v allocations for 10 lines, %v for 5000", change, few, many)
		}
	}
}

func TestCommonPrefix(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 127, 128, 129, 511, 512, 513, 640, 641, 1151, 1152, 1153, 4096} {
		a := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		if got := commonPrefix(a, slices.Clone(a)); got != n {
			t.Errorf("equal, %d bytes: %d", n, got)
		}
		if got := commonPrefix(a, append(slices.Clone(a), 'x')); got != n {
			t.Errorf("one is longer than %d bytes: %d", n, got)
		}
		for _, at := range []int{0, 1, 7, 8, 127, 128, 135, 136, 639, 640, n - 1} {
			if at < 0 || at >= n {
				continue
			}
			b := slices.Clone(a)
			b[at] ^= 0x80
			if got := commonPrefix(a, b); got != at {
				t.Errorf("%d bytes differ at %d: %d", n, at, got)
			}
		}
	}
}

func FuzzCommonPrefix(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"), uint16(0))
	f.Add([]byte("x"), []byte(""), uint16(700))
	f.Fuzz(func(t *testing.T, a, b []byte, same uint16) {
		start := bytes.Repeat([]byte{'='}, int(same%2048))
		a, b = append(slices.Clone(start), a...), append(slices.Clone(start), b...)
		want := 0
		for want < len(a) && want < len(b) && a[want] == b[want] {
			want++
		}
		if got := commonPrefix(a, b); got != want {
			t.Errorf("%d, want %d of %q and %q", got, want, a, b)
		}
	})
}

// A long sequence over a real page: values move as traffic would move them, and now
// and then a line goes or comes.
func TestLongSequence(t *testing.T) {
	page, err := os.ReadFile("testdata/server.prom")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	w := newWarmth(t, NewRules(Options{Topology: FlatTopology([]Pool{{"0", 1}, {"1", 2}}), Aliases: true, OmniPrefix: "vllm_omni:"}))
	all := strings.SplitAfter(strings.TrimSuffix(string(page), "\n"), "\n")
	all[len(all)-1] += "\n"
	hits, samples := 0, 0
	for range 150 {
		lines := slices.Clone(all)
		for i, l := range lines {
			if at := strings.LastIndexByte(l, ' '); !strings.HasPrefix(l, "#") && rnd.IntN(4) == 0 {
				lines[i] = fmt.Sprintf("%s %.*f\n", l[:at], rnd.IntN(5), rnd.Float64()*1000)
			}
		}
		if rnd.IntN(8) == 0 {
			i := rnd.IntN(len(lines))
			lines = slices.Delete(lines, i, i+1)
		}
		r, err := w.step(strings.Join(lines, ""), exposition.Text)
		if err != nil {
			t.Fatal(err)
		}
		hits, samples = hits+r.Hits, samples+r.Summary.Samples
	}
	if hits < samples*9/10 {
		t.Errorf("%d hits of %d samples: the cache does not carry a changing page", hits, samples)
	}
}
