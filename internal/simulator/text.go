package simulator

import (
	"slices"
	"strconv"
	"strings"
)

// appendText spells families as the Python client does in text format 0.0.4: sorted labels, `_total` in a counter's HELP
// and TYPE, creation times as a gauge family after each counter, histogram and summary.
func appendText(b []byte, families []family) []byte {
	for _, f := range families {
		name := f.name
		if f.kind == counterKind {
			name += "_total"
		}
		b = appendHead(b, name, f.help, f.kind)
		for _, s := range f.series {
			b = appendPython(b, f.kind, name, s)
		}
		if f.kind == gaugeKind || len(f.series) == 0 || f.series[0].created == noCreated {
			continue
		}
		b = appendHead(b, f.name+"_created", f.help, gaugeKind)
		for _, s := range f.series {
			b = appendValue(b, f.name, "_created", appendBraced(nil, sorted(s.labels)), s.created)
		}
	}
	return b
}

func appendPython(b []byte, k kind, name string, s series) []byte {
	labels := sorted(s.labels)
	braced := appendBraced(nil, labels)
	switch k {
	case histogramKind:
		at := 0
		for at < len(labels) && labels[at].name < "le" {
			at++
		}
		before, behind := appendLabels([]byte{'{'}, labels[:at]), appendLabels(nil, labels[at:])
		if at > 0 {
			before = append(before, ',')
		}
		if at < len(labels) {
			behind = append([]byte{','}, behind...)
		}
		h, total := s.histogram, uint64(0)
		for n, c := range h.counts {
			total += c
			b = append(append(append(b, name...), "_bucket"...), before...)
			b = append(b, `le="`...)
			if n < len(h.bounds) {
				b = appendPythonFloat(b, h.bounds[n])
			} else {
				b = append(b, "+Inf"...)
			}
			b = append(append(append(b, '"'), behind...), "} "...)
			b = append(appendPythonFloat(b, float64(total)), '\n')
		}
		b = appendValue(b, name, "_count", braced, float64(h.count))
		return appendValue(b, name, "_sum", braced, h.sum)
	case summaryKind:
		b = appendValue(b, name, "_count", braced, float64(s.count))
		return appendValue(b, name, "_sum", braced, s.sum)
	default:
		return appendValue(b, name, "", braced, s.value)
	}
}

func appendValue(b []byte, name, suffix string, braced []byte, v float64) []byte {
	b = append(append(append(b, name...), suffix...), braced...)
	return append(appendPythonFloat(append(b, ' '), v), '\n')
}

// appendOpenMetrics spells families as vLLM's Rust front end does in OpenMetrics 1.0: counters named without `_total`, a
// full stop after each HELP, whole numbers without a fraction, labels as declared with le last, no creation times, and
// sum and count before the buckets.
func appendOpenMetrics(b []byte, families []family) []byte {
	for _, f := range families {
		b = appendHead(b, f.name, f.help+".", f.kind)
		for _, s := range f.series {
			b = appendRust(b, f.kind, f.name, s)
		}
	}
	return append(b, "# EOF\n"...)
}

func appendRust(b []byte, k kind, name string, s series) []byte {
	switch k {
	case histogramKind:
		h, total := s.histogram, uint64(0)
		b = appendSample(b, name, "_sum", s.labels, rustFloat(h.sum))
		b = appendSample(b, name, "_count", s.labels, strconv.FormatUint(h.count, 10))
		le := with(s.labels, "le", "+Inf")
		for n, c := range h.counts {
			total += c
			if le[len(le)-1].value = "+Inf"; n < len(h.bounds) {
				le[len(le)-1].value = rustFloat(h.bounds[n])
			}
			b = appendSample(b, name, "_bucket", le, strconv.FormatUint(total, 10))
		}
		return b
	case summaryKind:
		b = appendSample(b, name, "_sum", s.labels, rustFloat(s.sum))
		return appendSample(b, name, "_count", s.labels, strconv.FormatUint(s.count, 10))
	case counterKind:
		name += "_total"
	}
	value := strconv.FormatFloat(s.value, 'f', -1, 64)
	if s.float {
		value = rustFloat(s.value)
	}
	return appendSample(b, name, "", s.labels, value)
}

func appendHead(b []byte, name, help string, k kind) []byte {
	b = append(append(append(b, "# HELP "...), name...), ' ')
	b = append(append(b, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)...), '\n')
	b = append(append(append(b, "# TYPE "...), name...), ' ')
	return append(append(b, k...), '\n')
}

func appendSample(b []byte, name, suffix string, labels []label, value string) []byte {
	b = appendBraced(append(append(b, name...), suffix...), labels)
	return append(append(append(b, ' '), value...), '\n')
}

// appendBraced writes labels in braces, and nothing when there are none.
func appendBraced(b []byte, labels []label) []byte {
	if len(labels) == 0 {
		return b
	}
	return append(appendLabels(append(b, '{'), labels), '}')
}

func appendLabels(b []byte, labels []label) []byte {
	for i, l := range labels {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, l.name...), '=', '"')
		b = append(appendEscaped(b, l.value), '"')
	}
	return b
}

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch s[i] {
		case '\\', '"':
			b = append(b, '\\', s[i])
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, s[i])
		}
	}
	return b
}

func sorted(labels []label) []label {
	out := slices.Clone(labels)
	slices.SortFunc(out, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return out
}

// appendPythonFloat spells a float as Python's client does: as Python prints it, but from a million on with an exponent,
// whose zero stands before the digits of the number, so that 1e10 comes out as "1e+010".
func appendPythonFloat(b []byte, v float64) []byte {
	if whole := int64(v); v >= 0 && v < 1e6 && float64(whole) == v { // most of a page is this
		return append(strconv.AppendInt(b, whole, 10), ".0"...)
	}
	s := pythonRepr(v)
	dot := strings.IndexByte(s, '.')
	if v <= 0 || dot <= 6 {
		return append(b, s...)
	}
	b = append(b, strings.TrimRight(s[:1]+"."+s[1:dot]+s[dot+1:], "0.")...)
	return strconv.AppendInt(append(b, "e+0"...), int64(dot-1), 10)
}

// pythonRepr is the shortest text that reads back as v, with a fraction below 1e16 and an exponent outside 1e-4 to 1e16.
func pythonRepr(v float64) string {
	s := strconv.FormatFloat(v, 'e', -1, 64)
	_, after, ok := strings.Cut(s, "e")
	if !ok {
		return s // not reached by what the model counts: it has no NaN and no infinity
	}
	exponent, err := strconv.Atoi(after)
	if err != nil || exponent < -4 || exponent >= 16 {
		return s
	}
	return rustFloat(v)
}

// rustFloat is the shortest decimal text that reads back as v, with at least one digit after the point.
func rustFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
