package exposition

import "bytes"

// Type is a family's type, in OpenMetrics's terms; text's untyped is Unknown.
type Type uint8

// The types of OpenMetrics 1.0.
const (
	Unknown Type = iota
	Counter
	Gauge
	Histogram
	GaugeHistogram
	Summary
	Info
	StateSet
)

// typeName is a type's word in each format; the text format has no word for
// info and stateset (both are written as gauges) nor for gauge histograms.
type typeName struct {
	openMetrics string
	text        string
}

func (t Type) names() typeName {
	switch t {
	case Counter:
		return typeName{"counter", "counter"}
	case Gauge:
		return typeName{"gauge", "gauge"}
	case Histogram:
		return typeName{"histogram", "histogram"}
	case GaugeHistogram:
		return typeName{"gaugehistogram", "untyped"}
	case Summary:
		return typeName{"summary", "summary"}
	case Info:
		return typeName{"info", "gauge"}
	case StateSet:
		return typeName{"stateset", "gauge"}
	default:
		return typeName{"unknown", "untyped"}
	}
}

// String returns the type's OpenMetrics word.
func (t Type) String() string { return t.names().openMetrics }

// InText returns the type that a family of type t has in the text format.
func (t Type) InText() Type {
	switch t {
	case Info, StateSet:
		return Gauge
	default:
		return t
	}
}

// ParseType returns the type that a TYPE line of the given format names.
func ParseType(word []byte, f Format) (Type, bool) {
	switch string(word) {
	case "counter":
		return Counter, true
	case "gauge":
		return Gauge, true
	case "histogram":
		return Histogram, true
	case "summary":
		return Summary, true
	}
	if f == Text {
		return Unknown, string(word) == "untyped"
	}
	switch string(word) {
	case "gaugehistogram":
		return GaugeHistogram, true
	case "info":
		return Info, true
	case "stateset":
		return StateSet, true
	}
	return Unknown, string(word) == "unknown"
}

// Suffixes of the names of samples within a family.
const (
	SuffixTotal   = "_total"
	SuffixCreated = "_created"
	SuffixInfo    = "_info"
	SuffixBucket  = "_bucket"
	SuffixCount   = "_count"
	SuffixSum     = "_sum"
	SuffixGCount  = "_gcount"
	SuffixGSum    = "_gsum"
)

// sampleSuffixes are all that the samples of some type carry.
var sampleSuffixes = [...]string{
	SuffixBucket, SuffixCount, SuffixSum, SuffixTotal, SuffixCreated, SuffixInfo, SuffixGCount, SuffixGSum,
}

// SampleSuffixes yields every suffix that the samples of some type carry.
func SampleSuffixes(yield func(string) bool) {
	for _, s := range sampleSuffixes {
		if !yield(s) {
			return
		}
	}
}

// Allows reports whether a sample of a family of type t may be named after the
// family with this suffix; "" is the bare name. The rules hold for the declared
// type only: vLLM's `vllm:iteration_tokens_total` is a histogram, so a name alone
// says nothing.
func (t Type) Allows(suffix string, f Format) bool {
	switch t {
	case Histogram:
		return suffix == SuffixBucket || suffix == SuffixCount || suffix == SuffixSum ||
			suffix == SuffixCreated && f == OpenMetrics
	case Summary:
		return suffix == "" || suffix == SuffixCount || suffix == SuffixSum ||
			suffix == SuffixCreated && f == OpenMetrics
	case Counter:
		if f == OpenMetrics {
			return suffix == SuffixTotal || suffix == SuffixCreated
		}
	case GaugeHistogram:
		return suffix == SuffixBucket || suffix == SuffixGCount || suffix == SuffixGSum
	case Info:
		return suffix == SuffixInfo
	}
	return suffix == ""
}

// FamilyKey returns the name under which a declared family is merged: its name in the
// text format, so that a counter `x` of an OpenMetrics page meets the counter
// `x_total` of a text page.
func FamilyKey(name string, t Type, f Format) string {
	if f == OpenMetrics {
		switch t {
		case Counter:
			return name + SuffixTotal
		case Info:
			return name + SuffixInfo
		}
	}
	return name
}

// openMetricsName returns the family's name in OpenMetrics for a key of type t,
// and the type it can have there: a counter or info family whose key lacks the
// suffix is unknown to OpenMetrics.
func openMetricsName(key string, t Type) (string, Type) {
	switch t {
	case Counter:
		if name, ok := cutSuffix(key, SuffixTotal); ok {
			return name, Counter
		}
		return key, Unknown
	case Info:
		if name, ok := cutSuffix(key, SuffixInfo); ok {
			return name, Info
		}
		return key, Gauge
	}
	return key, t
}

func cutSuffix(s, suffix string) (string, bool) {
	if len(s) > len(suffix) && s[len(s)-len(suffix):] == suffix {
		return s[:len(s)-len(suffix)], true
	}
	return s, false
}

// Reserved reports whether Prometheus writes a series of this name itself for
// every scrape, so that a scraped page must not hold it.
func Reserved(name []byte) bool {
	switch string(name) {
	case "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
		"scrape_series_added", "scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes":
		return true
	}
	return bytes.HasPrefix(name, []byte("ALERTS"))
}
