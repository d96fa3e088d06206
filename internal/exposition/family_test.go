package exposition

import (
	"errors"
	"slices"
	"testing"
)

func TestParseType(t *testing.T) {
	tests := []struct {
		word              string
		text, openMetrics bool
		typ               Type
	}{
		{"counter", true, true, Counter},
		{"gauge", true, true, Gauge},
		{"histogram", true, true, Histogram},
		{"summary", true, true, Summary},
		{"untyped", true, false, Unknown},
		{"unknown", false, true, Unknown},
		{"gaugehistogram", false, true, GaugeHistogram},
		{"info", false, true, Info},
		{"stateset", false, true, StateSet},
		{"Gauge", false, false, Unknown},
		{"", false, false, Unknown},
	}
	for _, tt := range tests {
		for format, ok := range map[Format]bool{Text: tt.text, OpenMetrics: tt.openMetrics} {
			got, gotOK := ParseType([]byte(tt.word), format)
			if gotOK != ok || ok && got != tt.typ {
				t.Errorf("%v type %q = %v, %t", format, tt.word, got, gotOK)
			}
		}
	}
}

// The word of each type is one that its own format's parser knows.
func TestTypeWords(t *testing.T) {
	for typ := Unknown; typ <= StateSet; typ++ {
		if got, ok := ParseType([]byte(typ.String()), OpenMetrics); !ok || got != typ {
			t.Errorf("OpenMetrics word %q = %v, %t", typ.String(), got, ok)
		}
		if _, ok := ParseType([]byte(typ.names().text), Text); !ok {
			t.Errorf("text word %q of %v is unknown", typ.names().text, typ)
		}
	}
}

func TestAllows(t *testing.T) {
	tests := []struct {
		typ    Type
		format Format
		want   []string
	}{
		{Unknown, Text, []string{""}},
		{Gauge, Text, []string{""}},
		{Gauge, OpenMetrics, []string{""}},
		{StateSet, OpenMetrics, []string{""}},
		{Counter, Text, []string{""}},
		{Counter, OpenMetrics, []string{"_total", "_created"}},
		{Histogram, Text, []string{"_bucket", "_count", "_sum"}},
		{Histogram, OpenMetrics, []string{"_bucket", "_count", "_sum", "_created"}},
		{Summary, Text, []string{"", "_count", "_sum"}},
		{Summary, OpenMetrics, []string{"", "_count", "_sum", "_created"}},
		{Info, OpenMetrics, []string{"_info"}},
		{GaugeHistogram, OpenMetrics, []string{"_bucket", "_gcount", "_gsum"}},
	}
	for _, tt := range tests {
		allowed := map[string]bool{}
		for _, s := range tt.want {
			allowed[s] = true
		}
		for _, suffix := range append(slices.Collect(SampleSuffixes), "") {
			if got := tt.typ.Allows(suffix, tt.format); got != allowed[suffix] {
				t.Errorf("%v %v allows %q: %t", tt.format, tt.typ, suffix, got)
			}
		}
	}
}

func TestFamilyNames(t *testing.T) {
	tests := []struct {
		name     string
		typ      Type
		format   Format
		key      string
		wantName string
		wantType Type
	}{
		{"x_total", Counter, Text, "x_total", "x", Counter},
		{"x", Counter, OpenMetrics, "x_total", "x", Counter},
		{"x_total", Counter, OpenMetrics, "x_total_total", "x_total", Counter},
		{"x", Counter, Text, "x", "x", Unknown}, // OpenMetrics knows no counter without _total
		{"_total", Counter, Text, "_total", "_total", Unknown},
		{"x_total", Histogram, Text, "x_total", "x_total", Histogram}, // vllm:iteration_tokens_total
		{"x_total", Gauge, Text, "x_total", "x_total", Gauge},
		{"x", Info, OpenMetrics, "x_info", "x", Info},
		{"x_info", Gauge, Text, "x_info", "x_info", Gauge},
		{"x", StateSet, OpenMetrics, "x", "x", StateSet},
	}
	for _, tt := range tests {
		key := FamilyKey(tt.name, tt.typ, tt.format)
		name, typ := openMetricsName(key, tt.typ)
		if key != tt.key || name != tt.wantName || typ != tt.wantType {
			t.Errorf("%v %v %q: key %q, in OpenMetrics %q %v", tt.format, tt.typ, tt.name, key, name, typ)
		}
	}
}

func TestCommonType(t *testing.T) {
	tests := []struct {
		a, b, want Type
		ok         bool
	}{
		{Gauge, Gauge, Gauge, true},
		{Unknown, Gauge, Gauge, true},
		{Counter, Unknown, Counter, true},
		{Info, Gauge, Gauge, true},
		{StateSet, Info, Gauge, true},
		{Unknown, StateSet, StateSet, true},
		{Unknown, Histogram, Unknown, false}, // a histogram has no sample of the bare name
		{Counter, Gauge, Counter, false},
		{Histogram, GaugeHistogram, Histogram, false},
		{Summary, Histogram, Summary, false},
	}
	for _, tt := range tests {
		if got, ok := commonType(tt.a, tt.b); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%v and %v: %v, %t", tt.a, tt.b, got, ok)
		}
	}
}

func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"up": true, "scrape_duration_seconds": true, "scrape_samples_scraped": true, "scrape_body_size_bytes": true,
		"ALERTS": true, "ALERTS_FOR_STATE": true,
		"upper": false, "vllm:up": false, "scrape_duration": false, "alerts": false, "": false,
	} {
		if got := Reserved([]byte(name)); got != want {
			t.Errorf("%q is reserved: %t", name, got)
		}
	}
}

func TestIsCreated(t *testing.T) {
	types := map[string]Type{"c_total": Counter, "bare": Counter, "h": Histogram, "s": Summary, "g": Gauge, "x_total": Histogram}
	lookup := func(name string) (Type, bool) { typ, ok := types[name]; return typ, ok }
	for key, want := range map[string]bool{
		"c_created": true, "bare_created": true, "h_created": true, "s_created": true, "x_total_created": true,
		"g_created": false, "x_created": false, "other_created": false, "_created": false, "created": false,
	} {
		if got := IsCreated(key, lookup); got != want {
			t.Errorf("%q holds creation times: %t", key, got)
		}
	}
}

func TestFormatOf(t *testing.T) {
	tests := []struct {
		header string
		format Format
		ok     bool
	}{
		{"text/plain", Text, true},
		{"text/plain; version=0.0.4; charset=utf-8", Text, true},
		{"text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8", Text, true},
		{"Text/Plain;version=0.0.4", Text, true},
		{"application/openmetrics-text; version=1.0.0; charset=utf-8", OpenMetrics, true},
		{"application/openmetrics-text; version=0.0.1", OpenMetrics, true},
		{"application/openmetrics-text", OpenMetrics, true},
		{"application/openmetrics-text; version=2.0.0", 0, false},
		{"text/plain; version=0.0.5", 0, false},
		{"text/html", 0, false},
		{"application/json", 0, false},
		{"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", 0, false},
		{"", 0, false},
		{"text/plain; version", 0, false},
		{";", 0, false},
	}
	for _, tt := range tests {
		got, err := FormatOf(tt.header)
		if (err == nil) != tt.ok || tt.ok && got != tt.format {
			t.Errorf("%q: %v, %v", tt.header, got, err)
		}
		var kind *ContentTypeError
		if !tt.ok && !errors.As(err, &kind) {
			t.Errorf("%q: error is a %T", tt.header, err)
		}
	}
}

func FuzzFormatOf(f *testing.F) {
	f.Add("text/plain; version=0.0.4; charset=utf-8")
	f.Add("application/openmetrics-text;version=\"1.0.0\"")
	f.Fuzz(func(t *testing.T, header string) {
		if _, err := FormatOf(header); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
