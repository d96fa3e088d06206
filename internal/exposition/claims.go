package exposition

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// place is a series line of a source.
type place struct {
	source uint32
	line   uint32
}

// hashes returns the hash of each line's identity. Hashes find candidates for
// duplicates; only equal bytes make one (a cache keyed by a hash alone mixes series
// up: Alloy #5242). The seed is random, so no upstream can choose them.
func (p *Page) hashes(seed maphash.Seed) []uint64 {
	out := make([]uint64, 0, p.layout.Series())
	p.eachLine(func(line, _ uint32, text []byte) {
		out = append(out, maphash.Bytes(seed, identity(text[:p.layout.prefix[line]])))
	})
	return out
}

// shared returns the lines of all sources whose hash another line has too, grouped
// by hash, each group in order of sources and lines.
func shared(sources []source) map[uint64][]place {
	lines := 0
	for i := range sources {
		lines += len(sources[i].hashes)
	}
	size := 16
	for size < 2*lines {
		size *= 2
	}
	first := make([]place, size) // open addressing; source counts from 1 there, 0 is a free slot
	groups := map[uint64][]place{}
	for i := range sources {
		for line, h := range sources[i].hashes {
			here := place{uint32(i), uint32(line)}
			for at := h & uint64(size-1); ; at = (at + 1) & uint64(size-1) {
				if first[at].source == 0 {
					first[at] = place{here.source + 1, here.line}
					break
				}
				if other := (place{first[at].source - 1, first[at].line}); sources[other.source].hashes[other.line] == h {
					if groups[h] == nil {
						groups[h] = []place{other}
					}
					groups[h] = append(groups[h], here)
					break
				}
			}
		}
	}
	return groups
}

// identity returns the bytes by which a series is known to Prometheus: without
// empty labels, and with its bound in canonical form, as Prometheus 3 stores it.
func identity(series []byte) []byte {
	for i := firstLabel(series); ; {
		l, next, ok := nextLabel(series, i)
		if !ok {
			return series // most series are their own identity
		}
		value := series[l.value:l.end]
		if len(value) == 0 || isBound(series[l.start:l.equals]) && !isCanonicalFloat(value) {
			return rewriteIdentity(series)
		}
		i = next
	}
}

func rewriteIdentity(series []byte) []byte {
	var s Sample
	if err := ParseSample(append(slices.Clone(series), "0\n"...), 0, Text, &s); err != nil {
		return series // cannot be: AppendSeries wrote it
	}
	kept := s.Labels[:0]
	for _, l := range s.Labels {
		if isBound(l.Name) {
			l.Value = appendCanonicalFloat(nil, l.Value)
		}
		if len(l.Value) > 0 {
			kept = append(kept, l)
		}
	}
	series, _ = AppendSeries(nil, s.Name, kept)
	return series
}

func isBound(label []byte) bool { return string(label) == "le" || string(label) == "quantile" }

// losers returns, by source, the lines of the groups whose series an earlier line
// has too, sorted. Only lines that are accepted compete. series returns a line's
// series part.
func losers(groups map[uint64][]place, accepted func(place) bool, series func(place) []byte) map[uint32][]uint32 {
	out := map[uint32][]uint32{}
	for _, group := range groups {
		var kept [][]byte
		for _, at := range group {
			if !accepted(at) {
				continue
			}
			id := identity(series(at))
			if slices.ContainsFunc(kept, func(k []byte) bool { return bytes.Equal(k, id) }) {
				out[at.source] = append(out[at.source], at.line)
				continue
			}
			kept = append(kept, id)
		}
	}
	for _, lines := range out {
		slices.Sort(lines)
	}
	return out
}
