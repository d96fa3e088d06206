package exposition

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// show writes a sample with a bar between its parts.
func show(s *Sample) string {
	series, _ := AppendSeries(nil, s.Name, s.Labels)
	out := string(series) + "|" + string(s.Value)
	if s.Timestamp != nil {
		out += "|" + string(s.Timestamp)
	}
	if s.Exemplar != nil {
		out += "|" + string(appendExemplar(nil, s.Exemplar))
	}
	return out
}

func TestParseSample(t *testing.T) {
	tests := []struct {
		name, line, want string
		format           Format
	}{
		{name: "bare", line: `a 1`, want: `a |1`},
		{name: "colons", line: `vllm:a_b:c 1`, want: `vllm:a_b:c |1`},
		{name: "labels in the order sent", line: `a{b="1",a="2"} 1`, want: `a{b="1",a="2"} |1`},
		{name: "no labels", line: `a{} 1`, want: `a |1`},
		{name: "closing comma", line: `a{b="1",} 1`, want: `a{b="1"} |1`},
		{name: "odd spacing", line: " \ta\t{ b = \"1\" , c\t=\t\"2\" ,\t}  1\t ", want: `a{b="1",c="2"} |1`},
		{name: "no blank behind the labels", line: `a{b="1"}2`, want: `a{b="1"} |2`},
		{name: "value kept as sent", line: `a 2.894350336e+010`, want: `a |2.894350336e+010`},
		{name: "NaN", line: `a nan`, want: `a |nan`},
		{name: "timestamp", line: `a 1 1764444000123`, want: `a |1|1764444000123`},
		{name: "seconds", line: `a 1 1764444000.123`, want: `a |1|1764444000.123`, format: OpenMetrics},
		{name: "escapes", line: `a{b="\\ \" \n"} 1`, want: `a{b="\\ \" \n"} |1`},
		{name: "unknown escapes are backslashes", line: `a{b="C:\DIR\é\\"} 1`, want: `a{b="C:\\DIR\\é\\"} |1`},
		{name: "braces, commas and quotes in a value", line: `a{b="},{c=\"1\"",c="#"} 1`, want: `a{b="},{c=\"1\"",c="#"} |1`},
		{name: "quoted metric name", line: `{"a.b",c="1"} 1`, want: `{"a.b",c="1"} |1`},
		{name: "quoted metric name that needs no quotes", line: `{"a"} 1`, want: `a |1`},
		{name: "quoted label names", line: `a{"b.c"="1","d"="2"} 1`, want: `a{"b.c"="1",d="2"} |1`},
		{name: "escapes in names", line: `{"a\"b","c\\d"="1"} 1`, want: `{"a\"b","c\\d"="1"} |1`},
		{name: "label name with a colon", line: `a{"b:c"="1"} 1`, want: `a{"b:c"="1"} |1`},
		{
			name: "exemplar", format: OpenMetrics,
			line: `a_total 1 # {trace_id="x"} 0.5 1764444000.1`, want: `a_total |1|{trace_id="x"} 0.5 1764444000.1`,
		},
		{
			name: "exemplar behind a timestamp", format: OpenMetrics,
			line: `a_total{b="#"} 1 2 # {} 0.5`, want: `a_total{b="#"} |1|2|{} 0.5`,
		},
		{
			name: "exemplar with odd spacing leaves with that of the format", format: OpenMetrics,
			line: "a 1  #\t{ b = \"1\" , \"c.d\"=\"\\x\",}0.5\t 1 ", want: `a |1|{b="1","c.d"="\\x"} 0.5 1`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Sample
			if err := ParseSample([]byte(tt.line+"\n"), 7, tt.format, &s); err != nil {
				t.Fatal(err)
			}
			if got := show(&s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := tt.line[s.Prefix : s.Prefix+len(s.Value)]; got != string(s.Value) {
				t.Errorf("value %q, but %q at the prefix's end", s.Value, got)
			}
		})
	}
}

func TestParseSampleErrors(t *testing.T) {
	tests := []struct {
		line, want string
		format     Format
	}{
		{line: `1a 1`, want: `line does not start with a metric name: "1a 1"`},
		{line: `é 1`, want: `line does not start with a metric name: "é 1"`},
		{line: `{a="1"} 1`, want: `series without a metric name: "{a=\"1\"} 1"`},
		{line: `a`, want: `value is no number: ""`},
		{line: `a{b="1"}`, want: `value is no number: ""`},
		{line: `a one`, want: `value is no number: "one"`},
		{line: `a-b 1`, want: `value is no number: "-b"`},
		{line: `a 1_0`, want: `value is no number: "1_0"`},
		{line: `a{b="1" 1`, want: `labels not separated by ',': "a{b=\"1\" 1"`},
		{line: `a{b="1"`, want: `label set is not closed: "a{b=\"1\""`},
		{line: `a{`, want: `label set is not closed: "a{"`},
		{line: `a{b`, want: `label set is not closed: "a{b"`},
		{line: `a{b} 1`, want: `label without '=': "a{b} 1"`},
		{line: `a{b=1} 1`, want: `value is not quoted: "a{b=1} 1"`},
		{line: `a{b="1} 1`, want: `quote is not closed: "a{b=\"1} 1"`},
		{line: `a{b="1\"} 1`, want: `quote is not closed: "a{b=\"1\\\"} 1"`},
		{line: `a{b="1"c="2"} 1`, want: `labels not separated by ',': "a{b=\"1\"c=\"2\"} 1"`},
		{line: `a{,} 1`, want: `invalid label name: "a{,} 1"`},
		{line: `a{b:c="1"} 1`, want: `label without '=': "a{b:c=\"1\"} 1"`},
		{line: `a{""="1"} 1`, want: `invalid label name: "a{\"\"=\"1\"} 1"`},
		{line: `{""} 1`, want: `invalid label name: "{\"\"} 1"`},
		{line: `a{"b"} 1`, want: `quoted metric name must stand first and once: "a{\"b\"} 1"`},
		{line: `{c="1","b"} 1`, want: `quoted metric name must stand first and once: "{c=\"1\",\"b\"} 1"`},
		{line: `a{__name__="b"} 1`, want: `label __name__ in a label set: "a{__name__=\"b\"} 1"`},
		{line: `a 1 x`, want: `invalid timestamp: "x"`},
		{line: `a 1 -5`, want: `invalid timestamp: "-5"`},
		{line: `a 1 1.5`, want: `invalid timestamp: "1.5"`},
		{line: `a 1 NaN`, want: `invalid timestamp: "NaN"`, format: OpenMetrics},
		{line: `a 1 2 3`, want: `text after the sample: "3"`},
		{line: `a 1 # {} 1`, want: `text after the sample: "# {} 1"`},
		{line: `a 1 2 3`, want: `text after the sample: "3"`, format: OpenMetrics},
		{line: `a 1 # x`, want: `invalid exemplar: "x"`, format: OpenMetrics},
		{line: `a 1 # {`, want: `invalid exemplar: "{"`, format: OpenMetrics},
		{line: `a 1 # {}`, want: `invalid exemplar: "{}"`, format: OpenMetrics},
		{line: `a 1 # {} x`, want: `invalid exemplar: "{} x"`, format: OpenMetrics},
		{line: `a 1 # {} 1 x`, want: `invalid exemplar: "{} 1 x"`, format: OpenMetrics},
		{line: `a 1 # {} 1 2 3`, want: `invalid exemplar: "{} 1 2 3"`, format: OpenMetrics},
		{line: `a 1 # {"b"} 1`, want: `invalid exemplar: "{\"b\"} 1"`, format: OpenMetrics},
		{line: `a 1 # {b="1",b="2"} 1`, want: `invalid exemplar: "{b=\"1\",b=\"2\"} 1"`, format: OpenMetrics},
	}
	for _, tt := range tests {
		var s Sample
		err := ParseSample([]byte(tt.line+"\n"), 7, tt.format, &s)
		want := strings.Replace("line 7: "+tt.want, `: ""`, "", 1)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", tt.line, err, want)
		}
		if errors.Is(err, ErrTruncated) {
			t.Errorf("%s passes for a truncated page", tt.line)
		}
	}
}

func TestExemplarLimit(t *testing.T) {
	for _, tt := range []struct {
		label string
		ok    bool
	}{
		{`k="` + strings.Repeat("é", 127) + `"`, true},
		{`k="` + strings.Repeat("é", 128) + `"`, false},
	} {
		var s Sample
		err := ParseSample([]byte("a 1 # {"+tt.label+"} 1\n"), 1, OpenMetrics, &s)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.label, err)
		}
	}
}

func TestPlain(t *testing.T) {
	for line, want := range map[string]bool{
		"a 1\n": true, "a{b=\"1\"}  1\n": true, "a 1 \n": false, "a 1 5\n": false, " a 1\n": true,
	} {
		var s Sample
		if err := ParseSample([]byte(line), 1, Text, &s); err != nil {
			t.Fatal(err)
		}
		if got := s.Plain([]byte(line)); got != want {
			t.Errorf("%q is plain: %t", line, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain", `a\\b`: `a\b`, `a\"b`: `a"b`, `a\nb`: "a\nb", `\\n`: `\n`, ``: "",
	} {
		got := string(Unescape([]byte(in)))
		if got != want {
			t.Errorf("Unescape(%q) = %q, want %q", in, got, want)
		}
		if back := string(AppendLabelValue(nil, got)); back != in {
			t.Errorf("%q came back as %q", in, back)
		}
	}
}

func TestUnescapeHelp(t *testing.T) {
	for _, tt := range []struct{ in, text, openMetrics string }{
		{`plain`, `plain`, `plain`},
		{`a\\b\nc`, "a\\b\nc", "a\\b\nc"},
		{`say \"x\"`, `say \"x\"`, `say "x"`},
		{`C:\dir\`, `C:\dir\`, `C:\dir\`},
		{`\\n`, `\n`, `\n`},
	} {
		if got := UnescapeHelp([]byte(tt.in), Text); got != tt.text {
			t.Errorf("text HELP %q = %q, want %q", tt.in, got, tt.text)
		}
		if got := UnescapeHelp([]byte(tt.in), OpenMetrics); got != tt.openMetrics {
			t.Errorf("OpenMetrics HELP %q = %q, want %q", tt.in, got, tt.openMetrics)
		}
	}
}

// FuzzParseSample checks that what is accepted can be written again, is then the
// same, and means to Prometheus's parser what it means here.
func FuzzParseSample(f *testing.F) {
	for _, line := range []string{
		`a 1`, `vllm:a{engine="0",le="+Inf"} 2.5e+010 1764444000`, `{"a.b","c.d"="\\\"\n\x"} NaN`, ` a { b = "1" , } 1 2`,
		`a_total 1 1.5 # {trace_id="x"} 0.5 1`, `a{b="},{\"",c=""} -.5`, `a{b="1`, `a{"x"} 1`,
	} {
		f.Add([]byte(line), true)
		f.Add([]byte(line), false)
	}
	f.Fuzz(func(t *testing.T, line []byte, text bool) {
		format := OpenMetrics
		if text {
			format = Text
		}
		page, _, _ := strings.Cut(string(line), "\n")
		page += "\n"
		scanner := NewScanner([]byte(page), format)
		if !scanner.Next() || scanner.Line().Kind != KindSample {
			return
		}
		var s, again Sample
		if err := ParseSample([]byte(page), 1, format, &s); err != nil {
			var parse *ParseError
			if !errors.As(err, &parse) || parse.Line != 1 {
				t.Fatalf("error %v names no line", err)
			}
			return
		}
		for i, l := range s.Labels {
			if hasLabel(s.Labels[:i], l.Name) {
				return // told apart by the caller
			}
		}
		series, quoted := AppendSeries(nil, s.Name, s.Labels)
		if quoted != strings.Contains(unquoteValues(string(series)), `"`) {
			t.Errorf("%q needs quotes: %t", series, quoted)
		}
		written := string(series) + string(s.Value)
		if s.Timestamp != nil {
			written += " " + string(s.Timestamp)
		}
		if s.Exemplar != nil {
			written += " # " + string(appendExemplar(nil, s.Exemplar))
		}
		written += "\n"
		if err := ParseSample([]byte(written), 1, format, &again); err != nil || show(&again) != show(&s) {
			t.Fatalf("%q was written as %q, which reads as %q, %v", page, written, show(&again), err)
		}
		p := textparse.NewPromParser([]byte(written), labels.NewSymbolTable(), false)
		if format == OpenMetrics {
			p = textparse.NewOpenMetricsParser([]byte(written+"# EOF\n"), labels.NewSymbolTable())
		}
		if _, err := p.Next(); err != nil {
			t.Fatalf("Prometheus refuses %q: %v", written, err)
		}
		var theirs labels.Labels
		p.Labels(&theirs)
		b := labels.NewScratchBuilder(len(s.Labels) + 1)
		b.Add(model.MetricNameLabel, string(s.Name))
		for _, l := range s.Labels {
			b.Add(string(l.Name), string(Unescape(l.Value)))
		}
		b.Sort()
		if ours := b.Labels(); !labels.Equal(ours, theirs) {
			t.Errorf("%q: %v here, %v to Prometheus", written, ours, theirs)
		}
	})
}

// unquoteValues takes the values off a series, so that only the quotes of names are
// left.
func unquoteValues(series string) string {
	b := []byte(series)
	var out []byte
	from := 0
	for i := firstLabel(b); ; {
		l, next, ok := nextLabel(b, i)
		if !ok {
			return string(append(out, b[from:]...))
		}
		out = append(out, b[from:l.equals]...)
		from, i = next, next
	}
}
