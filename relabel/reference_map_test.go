package relabel

import (
	"strings"

	"github.com/prometheus/common/model"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// refFamily is a family of the reference: what the page calls it and what becomes
// of it.
type refFamily struct {
	name, typ string
	key       string // the text-format name with which it leaves
	out       string // its own name with which it leaves
	dropped   bool
	declared  bool
}

// refMap applies a setup to a parsed page the slow way.
type refMap struct {
	setup    setup
	format   exposition.Format
	page     *parsedPage
	families []*refFamily
	types    map[string]string // by key: the type with which the family leaves
	rejected map[*refFamily]bool
}

// expected returns what the page's series must be in a view of the given format.
func expected(s setup, page *parsedPage, in, out exposition.Format) []series {
	m := refMap{setup: s, format: in, page: page, types: map[string]string{}, rejected: map[*refFamily]bool{}}
	for _, f := range page.families {
		typ := f.typ
		if typ == "" {
			typ = "unknown"
		}
		m.add(f.name, typ, true)
	}
	type placed struct {
		series
		family *refFamily
	}
	var kept []placed
	for _, s := range page.series {
		name := s.labels.Get(model.MetricNameLabel)
		f := m.familyOf(name)
		if f.dropped {
			continue
		}
		l, ok := m.setup.relabeled(s.labels, f.out+name[len(f.name):])
		if !ok {
			continue
		}
		s.labels = l
		kept = append(kept, placed{s, f})
	}
	m.merge()
	var result []series
	seen := map[string]bool{}
	for _, p := range kept {
		id := p.labels.String()
		if m.rejected[p.family] || seen[id] {
			continue
		}
		seen[id] = true
		typ := m.types[p.family.key]
		if out == exposition.Text {
			p.exemplar = ""
			switch typ {
			case "gaugehistogram":
				continue
			case "info", "stateset":
				typ = "gauge"
			}
		} else {
			if m.holdsCreated(p.family.key, m.types) {
				continue
			}
			typ = m.openMetricsType(p.family.key, typ)
		}
		p.typ = typ
		result = append(result, p.series)
	}
	return result
}

func (m *refMap) add(name, typ string, declared bool) *refFamily {
	f := &refFamily{name: name, typ: typ, declared: declared}
	m.families = append(m.families, f)
	f.out = name
	if p := m.setup.options.OmniPrefix; p != "" {
		for _, old := range []string{"vllm:omni_", "vllm_omni:", "v_llm_omni:"} {
			if strings.HasPrefix(name, old) {
				f.out = p + name[len(old):]
				break
			}
		}
	}
	if m.setup.options.Aliases {
		f.out = m.current(f)
	}
	f.key = f.out
	if m.format == exposition.OpenMetrics {
		f.key += map[string]string{"counter": "_total", "info": "_info"}[typ]
	}
	all := map[string]string{}
	for _, f := range m.page.families {
		all[f.name] = f.typ
	}
	f.dropped = !m.setup.included(name) && !m.setup.included(f.out) || reservedName(f.key) ||
		!m.setup.options.KeepCreated && m.format == exposition.Text && (typ == "gauge" || typ == "unknown") && m.holdsCreated(name, all)
	return f
}

// current returns the name of a family with old names replaced.
func (m *refMap) current(f *refFamily) string {
	suffix := ""
	base := f.out
	if f.typ == "counter" && m.format == exposition.Text {
		if !strings.HasSuffix(base, "_total") {
			return f.out
		}
		suffix, base = "_total", strings.TrimSuffix(base, "_total")
	}
	current := map[string]string{
		"gauge vllm:gpu_cache_usage_perc":              "vllm:kv_cache_usage_perc",
		"counter vllm:gpu_prefix_cache_queries":        "vllm:prefix_cache_queries",
		"counter vllm:gpu_prefix_cache_hits":           "vllm:prefix_cache_hits",
		"histogram vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
		"histogram vllm:time_in_queue_requests":        "vllm:request_queue_time_seconds",
	}[f.typ+" "+base]
	if current == "" && f.typ == "counter" && strings.HasPrefix(base, "vllm") && strings.HasSuffix(base, "_total") {
		current = strings.TrimSuffix(base, "_total")
	}
	if current == "" {
		return f.out
	}
	sample := current + map[string]string{"counter": "_total", "histogram": "_bucket"}[f.typ]
	for _, s := range m.page.series {
		if s.labels.Get(model.MetricNameLabel) == sample {
			return f.out
		}
	}
	return current + suffix
}

func reservedName(name string) bool {
	switch name {
	case "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
		"scrape_series_added", "scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes":
		return true
	}
	return strings.HasPrefix(name, "ALERTS")
}

// familyOf returns the family of a sample; a sample of none makes its own.
func (m *refMap) familyOf(name string) *refFamily {
	for _, f := range m.families {
		if f.name == name {
			return f
		}
	}
	suffixes := map[string][]string{"histogram": {"_bucket", "_count", "_sum"}, "summary": {"_count", "_sum"}}
	if m.format == exposition.OpenMetrics {
		suffixes = map[string][]string{
			"histogram": {"_bucket", "_count", "_sum", "_created"}, "summary": {"_count", "_sum", "_created"},
			"counter": {"_total", "_created"}, "gaugehistogram": {"_bucket", "_gcount", "_gsum"}, "info": {"_info"},
		}
	}
	for _, f := range m.families {
		for _, suffix := range suffixes[f.typ] {
			if !f.declared || f.name+suffix != name {
				continue
			}
			if suffix != "_created" {
				return f
			}
			created := &refFamily{
				name: name, out: f.out + suffix, key: f.out + suffix, typ: "gauge",
				dropped: f.dropped || !m.setup.options.KeepCreated,
			}
			m.families = append(m.families, created)
			return created
		}
	}
	return m.add(name, "unknown", false)
}

func (m *refMap) holdsCreated(key string, types map[string]string) bool {
	base, ok := strings.CutSuffix(key, "_created")
	if !ok || base == "" {
		return false
	}
	switch types[base] {
	case "counter", "histogram", "summary":
		return true
	}
	return types[base+"_total"] == "counter"
}

// merge settles the types of families that leave under one key; one that
// contradicts the earlier ones is left out.
func (m *refMap) merge() {
	inText := func(t string) string {
		if t == "info" || t == "stateset" {
			return "gauge"
		}
		return t
	}
	plain := func(t string) bool { return t == "counter" || inText(t) == "gauge" }
	for _, f := range m.families {
		if f.dropped {
			continue
		}
		have, ok := m.types[f.key]
		switch {
		case !ok:
			m.types[f.key] = f.typ
		case have == f.typ, f.typ == "unknown" && plain(have):
		case have == "unknown" && plain(f.typ):
			m.types[f.key] = f.typ
		case inText(have) == inText(f.typ):
			m.types[f.key] = inText(have)
		default:
			m.rejected[f] = true
		}
	}
}

// openMetricsType returns the type that a family has in OpenMetrics, where counters
// and info families need their suffix and names that nobody else has.
func (m *refMap) openMetricsType(key, typ string) string {
	var suffix, otherwise string
	switch typ {
	case "counter":
		suffix, otherwise = "_total", "unknown"
	case "info":
		suffix, otherwise = "_info", "gauge"
	default:
		return typ
	}
	base, ok := strings.CutSuffix(key, suffix)
	if !ok || base == "" {
		return otherwise
	}
	if _, taken := m.types[base]; taken {
		return otherwise
	}
	if typ == "counter" && m.types[base+"_info"] == "info" {
		return otherwise
	}
	return typ
}
