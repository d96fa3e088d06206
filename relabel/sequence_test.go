package relabel

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	promrelabel "github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// warmth follows one target through a sequence of pages and compares each with what
// a fresh target makes of it.
type warmth struct {
	t       *testing.T
	rules   *Rules
	buffers *exposition.Buffers
	warm    *Target
	merger  *exposition.Merger

	spare   []byte           // handed back by the last page
	page    *exposition.Page // the last good page
	live    *exposition.Merged
	written [2][]byte // what live was when it was made
}

func newWarmth(t *testing.T, rules *Rules) *warmth {
	buffers := &exposition.Buffers{}
	return &warmth{t: t, rules: rules, buffers: buffers, warm: NewTarget(rules, buffers), merger: exposition.NewMerger(1)}
}

// step gives a page to the target. The page is read into the buffer that the target
// handed back for the one before, as a scrape would do.
func (w *warmth) step(page string, f exposition.Format) (Result, error) {
	w.t.Helper()
	w.poison()
	body := append(w.spare[:0], page...)
	got, spare, err := w.warm.Rewrite(body, f)
	want, _, wantErr := NewTarget(w.rules, nil).Rewrite([]byte(page), f)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		w.t.Fatalf("warm error %v, cold error %v for %v page\n%s", err, wantErr, f, page)
	}
	if err != nil && len(body) > 0 && (len(spare) == 0 || &spare[0] != &body[0]) {
		w.t.Fatal("a refused body is not handed back")
	}
	w.spare = spare
	w.poison()
	if w.live != nil && !reflect.DeepEqual(w.render(w.live), w.written) {
		w.t.Fatalf("the page before changed:\n%s\nis now\n%s", w.written[0], w.render(w.live)[0])
	}
	if err != nil {
		return got, err
	}
	if !reflect.DeepEqual(got.Summary, want.Summary) {
		w.t.Fatalf("warm summary %+v, cold %+v for %v page\n%s", got.Summary, want.Summary, f, page)
	}
	if got.Hits+got.Misses != got.Summary.Samples || want.Hits != 0 || want.Misses != want.Summary.Samples {
		w.t.Fatalf("warm %d hits and %d misses, cold %d and %d, of %d samples",
			got.Hits, got.Misses, want.Hits, want.Misses, want.Summary.Samples)
	}
	w.replace(got.Page)
	cold := exposition.NewMerger(1).Merge([]*exposition.Page{want.Page})
	for i, want := range w.render(cold) {
		if !bytes.Equal(w.written[i], want) {
			w.t.Fatalf("%v view of a %v page, warm:\n%s\ncold:\n%s\npage:\n%s", exposition.Format(i), f, w.written[i], want, page)
		}
	}
	if w.live.Losses() != cold.Losses() {
		w.t.Fatalf("warm losses %+v, cold %+v", w.live.Losses(), cold.Losses())
	}
	return got, nil
}

// replace makes a page the live one, as a run of the exporter does.
func (w *warmth) replace(page *exposition.Page) {
	if w.live != nil {
		w.live.Release()
		w.page.Release()
	}
	if !page.Retain() {
		w.t.Fatal("a new page has no reference")
	}
	w.page, w.live = page, w.merger.Merge([]*exposition.Page{page})
	w.written = w.render(w.live)
}

// poison overwrites what belongs to nobody: the body handed back, and the stock's
// buffer of the live page's size.
func (w *warmth) poison() {
	overwrite := func(b []byte) {
		for i := range b {
			b[i] = '!'
		}
	}
	overwrite(w.spare[:cap(w.spare)])
	if w.page != nil {
		b := w.buffers.Get(len(w.page.Text()))
		overwrite(b[:cap(b)])
		w.buffers.Put(b)
	}
}

func (w *warmth) render(m *exposition.Merged) (out [2][]byte) {
	for f := range out {
		var b bytes.Buffer
		if _, err := m.View(exposition.Format(f), true).WriteTo(&b); err != nil {
			w.t.Fatal(err)
		}
		out[f] = b.Bytes()
	}
	return out
}

// mutations are what happens to a page between two scrapes. Each gets the page's
// lines, the number of one of them and an arbitrary byte.
func mutations() []func(lines []string, i int, arg byte) []string {
	value := func(lines []string, i int, value string) []string {
		if at := strings.LastIndexByte(lines[i], ' '); at >= 0 && !strings.HasPrefix(lines[i], "#") {
			lines[i] = lines[i][:at+1] + value
		}
		return lines
	}
	pool := []string{
		"# TYPE new histogram", `new_bucket{le="1",engine="1"} 1`, `g{engine="2",n="1"} 1`, `g{n="2",engine="0"} 3 17`, "up 1",
		"# HELP g other words", "# TYPE g counter", "# TYPE c gauge", "vllm:kv_cache_usage_perc 0.5", "c_created 5",
		`h_bucket{le="2.5",engine="3"} 4`, `{"u.x",engine="1"} 5`, "# comment", "", `  g {engine = "4"} 6`, `g{n="a\n\"b"} 7`,
		`h_bucket{engine="0",le="1.0"} 1 # {a="b"} 1`, `lone 1e000`, `g{engine="9"} 1`, `q{stage="1",replica="x"} 1`,
		"# TYPE h_total counter", "h_total 3", `h_bucket{a="x,le=",b="0"} 1`, `h_bucket{a="x,le=" junk"0"} 1`,
	}
	return []func([]string, int, byte) []string{
		func(l []string, i int, arg byte) []string { return value(l, i, fmt.Sprint(arg)) },
		func(l []string, i int, arg byte) []string { return value(l, i, fmt.Sprintf("%d.%d", arg, arg)) },
		func(l []string, i int, arg byte) []string { return value(l, i, "2.5e-0"+fmt.Sprint(arg%10)) },
		func(l []string, i int, arg byte) []string {
			return value(l, i, []string{"NaN", "+Inf", "1_0", "", "x", "0x1p1", "1 1700000000", "-0", "1e" + strings.Repeat("0", 300) + "1"}[arg%9])
		},
		func(l []string, i int, _ byte) []string { return slices.Delete(l, i, i+1) },
		func(l []string, i int, arg byte) []string {
			return slices.Insert(l, i, pool[int(arg)%len(pool)])
		},
		func(l []string, i int, arg byte) []string { j := int(arg) % len(l); l[i], l[j] = l[j], l[i]; return l },
		func(l []string, i int, arg byte) []string { return slices.Insert(l, i, l[int(arg)%len(l)]) },
		func(l []string, i int, arg byte) []string {
			if len(l[i]) > 0 {
				b := []byte(l[i])
				b[int(arg)%len(b)] ^= 1 << (arg % 7)
				l[i] = strings.ReplaceAll(string(b), "\n", "")
			}
			return l
		},
		func(l []string, i int, _ byte) []string { return l[:i+1] }, // cut off
		func(l []string, i int, arg byte) []string { l[i] += string(" x1\t"[arg%4]); return l },
		func(l []string, _ int, _ byte) []string { return l }, // the same again
	}
}

const sequenceBase = `# HELP g a gauge
# TYPE g gauge
g{engine="0"} 1
g{engine="1"} 2.5
g{engine="2"} 3
# TYPE c counter
c{engine="0"} 10
c{engine="1"} 11
# TYPE c_created gauge
c_created{engine="0"} 1.7e+09
# TYPE h histogram
h_bucket{engine="0",le="1.0"} 1
h_bucket{engine="0",le="+Inf"} 2
h_sum{engine="0"} 3
h_count{engine="0"} 2
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25
g{engine="7"} 8
`

// sequenceRelabel returns rules that drop series, rename some, and take a label off.
func sequenceRelabel(t *testing.T) []*promrelabel.Config {
	var rules []*promrelabel.Config
	text := `
- {source_labels: [n], regex: "1", action: drop}
- {source_labels: [__name__, engine], regex: "g;7|g;9", target_label: __name__, replacement: renamed}
- {source_labels: [__name__], regex: "h_(count|sum)", target_label: __name__, replacement: "up"}
- {regex: model_name, action: labeldrop}
- {source_labels: [stage], regex: "(.+)", target_label: copy, replacement: "s$1"}
`
	if err := yaml.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if err := r.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
	}
	return rules
}

// FuzzSequence makes a sequence of pages out of bytes, three for each change, and
// checks that a warm target gives the same bytes as a cold one for each of them.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{0, 2, 7, 1, 3, 4, 2, 6, 250}, uint16(1))
	f.Add([]byte{3, 2, 0, 3, 2, 3, 0, 2, 9, 0, 2, 200}, uint16(1|8))
	f.Add([]byte{5, 0, 0, 5, 1, 1, 4, 3, 0, 6, 2, 5, 7, 2, 2, 9, 12, 0}, uint16(1|8|32))
	f.Add([]byte{5, 4, 2, 12 + 5, 4, 3, 0, 4, 1, 12, 1, 0, 0, 2, 1}, uint16(2))
	f.Add([]byte{0, 2, 7, 1, 3, 4, 4, 2, 0, 5, 3, 2, 6, 3, 250, 0, 16, 3}, uint16(256))
	f.Add([]byte{0, 2, 7, 5, 3, 4, 5, 2, 0, 5, 3, 2, 6, 3, 250, 0, 16, 3}, uint16(1|256|512))
	f.Add([]byte{5, 5, 6, 0, 2, 3, 5, 1, 7, 4, 5, 0, 3, 6, 6, 0, 6, 1, 3, 6, 8}, uint16(3|64))
	f.Fuzz(func(t *testing.T, ops []byte, options uint16) {
		o := newSetup(options).options
		if options&256 != 0 {
			o.MetricRelabel = sequenceRelabel(t)
		}
		if options&512 != 0 {
			o.Limits = Limits{Samples: 14, Labels: 7, LabelName: 20, LabelValue: 30}
		}
		w := newWarmth(t, NewRules(o))
		page, format := sequenceBase, exposition.Text
		if _, err := w.step(page, format); err != nil {
			t.Fatal(err)
		}
		changes := mutations()
		for len(ops) >= 3 && len(page) < 1<<14 {
			op, line, arg := int(ops[0]), int(ops[1]), ops[2]
			ops = ops[3:]
			if op%29 == 12 {
				format = 1 - format
			}
			lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
			next := strings.Join(changes[op%len(changes)](lines, line%len(lines), arg), "\n") + "\n"
			sent := next
			if format == exposition.OpenMetrics {
				sent += []string{"# EOF\n", "# EOF", "# EO\n"}[max(0, op%16-13)]
			}
			_, err := w.step(sent, format)
			var parse *exposition.ParseError
			if err != nil && !errors.As(err, &parse) {
				t.Fatalf("error %v names no line", err)
			}
			if err == nil || arg%2 == 0 { // else: the server was broken for one scrape
				page = next
			}
		}
	})
}
