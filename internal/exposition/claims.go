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

// claims knows which series each source holds, so that a series that two sources
// expose is found. It is updated only when the layout of a source changes, at a
// cost of that source's lines. Hashes find candidates; only equal bytes make a
// duplicate (a cache keyed by a hash alone mixes series up: Alloy #5242).
type claims struct {
	seed   maphash.Seed
	single map[uint64]place   // hashes that one line has
	shared map[uint64][]place // hashes that several lines have
}

func newClaims() *claims {
	return &claims{seed: maphash.MakeSeed(), single: map[uint64]place{}, shared: map[uint64][]place{}}
}

// add claims every line of a source's page and returns the lines' hashes, by
// which the claims are given up again when the page is gone.
func (c *claims) add(source uint32, p *Page) []uint64 {
	hashes := make([]uint64, 0, p.layout.Series())
	p.eachLine(func(line, _ uint32, text []byte) {
		h := c.hash(text[:p.layout.prefix[line]])
		hashes = append(hashes, h)
		at := place{source, line}
		if list, ok := c.shared[h]; ok {
			c.shared[h] = append(list, at)
		} else if other, ok := c.single[h]; ok {
			delete(c.single, h)
			c.shared[h] = []place{other, at}
		} else {
			c.single[h] = at
		}
	})
	return hashes
}

// remove gives up the claims of a source's page.
func (c *claims) remove(source uint32, hashes []uint64) {
	for line, h := range hashes {
		list, ok := c.shared[h]
		if !ok {
			delete(c.single, h)
			continue
		}
		at := place{source, uint32(line)}
		list = slices.DeleteFunc(list, func(other place) bool { return other == at })
		if len(list) == 1 {
			delete(c.shared, h)
			c.single[h] = list[0]
			continue
		}
		c.shared[h] = list
	}
}

func (c *claims) hash(series []byte) uint64 { return maphash.Bytes(c.seed, identity(series)) }

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

// losers returns, by source, the lines whose series an earlier line has too,
// sorted. Only lines that are accepted compete. series returns a line's series
// part.
func (c *claims) losers(accepted func(place) bool, series func(place) []byte) map[uint32][]uint32 {
	out := map[uint32][]uint32{}
	for _, list := range c.shared {
		list = slices.DeleteFunc(slices.Clone(list), func(at place) bool { return !accepted(at) })
		slices.SortFunc(list, func(a, b place) int {
			if a.source != b.source {
				return int(a.source) - int(b.source)
			}
			return int(a.line) - int(b.line)
		})
		kept := make([][]byte, 0, len(list))
		for _, at := range list {
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
