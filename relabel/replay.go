package relabel

import (
	"encoding/binary"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// How far to copy beyond a changed value, in bytes: more while values keep their
// lengths, nothing behind one that did not, where what follows has to move.
const (
	minAhead = 256
	maxAhead = 4096
)

// patience is how many unchanged lines in a row make it worth looking for a long
// run of them.
const patience = 2

// replay rewrites a page of which only values changed since the last one, and
// returns nil for any other. Series are compared byte by byte with those of the
// last page, and where they are the same their rewritten form is copied from
// there; each value that differs passes the same check as on the first scrape.
// While lines do not change, runs of them are found by one comparison and taken
// over by one copy.
func (p *lastPage) replay(body []byte, buffers *exposition.Buffers) *exposition.Page {
	values := append(p.spare[:0], p.values...)
	p.spare = values
	ends := make([]uint32, len(p.page.Ends()))
	text := buffers.Get(len(p.page.Text()))
	text, ok := p.follow(body, text, values, ends)
	if !ok {
		buffers.Put(text)
		return nil
	}
	p.body, p.page = body, exposition.NewPage(p.page.Layout(), text, ends, buffers)
	p.values, p.spare = values, p.values
	return p.page
}

// follow walks the body along the last page. It appends the new page to text, puts
// the lengths of its values into values and the ends of its segments into ends.
func (p *lastPage) follow(body, text []byte, values []uint8, ends []uint32) ([]byte, bool) {
	old, oldText, oldEnds := p.body, p.page.Text(), p.page.Ends()
	entries := p.entries
	in, oldIn := 0, 0       // where line i starts in both bodies
	oldOut, copied := 0, 0  // where it starts in oldText, and how much of that is in text
	segment, growth := 0, 0 // the first segment whose end is not set, and what values have grown so far
	unchanged := patience   // lines since the last changed one
	ahead := 0              // how much to copy beyond a changed value
	for i := 0; i < len(entries); {
		e := &entries[i]
		series, was := int(e.in), int(values[i])
		width := series + was + 1
		if unchanged >= patience {
			equal := commonPrefix(body[in:], old[oldIn:])
			if width <= equal {
				for width <= equal {
					equal, in, oldIn = equal-width, in+width, oldIn+width
					if e.out > 0 {
						oldOut += int(e.out) + was + 1
					}
					if i++; i == len(entries) {
						break
					}
					e, was = &entries[i], int(values[i])
					width = int(e.in) + was + 1
				}
				unchanged = 0
				continue
			}
		}
		if len(body)-in <= series || string(body[in:in+series]) != string(old[oldIn:oldIn+series]) {
			return text, false
		}
		value := body[in+series:]
		is := 0
		if e.flags&flagWhole == 0 {
			is = exposition.ValueLen(value)
		} else if value[0] != '\n' {
			is = -1
		}
		if is < 0 {
			return text, false
		}
		if is == was && sameStart(value, old[oldIn+series:], is) {
			unchanged++
			if e.out > 0 {
				oldOut += int(e.out) + was + 1
			}
		} else {
			unchanged = 0
			values[i] = uint8(is)
			if e.out > 0 {
				at := oldOut + int(e.out) // of the value in oldText
				oldOut = at + was + 1
				if copied < oldOut {
					// Copy on, to save a call for each line: what follows is mostly the same, or
					// as long.
					more := min(oldOut+ahead, len(oldText))
					text = append(text, oldText[copied:more]...)
					copied = more
				}
				at += len(text) - copied
				if is == was {
					putStart(text[at:], value, is)
					ahead = min(2*ahead+minAhead, maxAhead)
				} else {
					text = append(text[:at], value[:is+1]...)
					copied, ahead = oldOut, 0
				}
				for ; is != was && segment < len(p.segment) && p.segment[segment] <= i; segment++ {
					ends[segment] = uint32(int(oldEnds[segment]) + growth)
				}
				growth += is - was
			}
		}
		in, oldIn = in+series+is+1, oldIn+width
		i++
	}
	if in != len(body) {
		return text, false
	}
	text = append(text, oldText[copied:]...)
	for ; segment < len(ends); segment++ {
		ends[segment] = uint32(int(oldEnds[segment]) + growth)
	}
	return text, true
}

const (
	// shortRun is how many bytes commonPrefix compares by words, about a line, before
	// it expects a long run.
	shortRun = 128
	// block is how many bytes it then compares at a time.
	block = 512
)

// commonPrefix returns how many bytes a and b have in common at their start.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for limit := min(n, shortRun); i+8 <= limit; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			return i + commonBytes(a[i:], b[i:])
		}
	}
	for i+block <= n && string(a[i:i+block]) == string(b[i:i+block]) {
		i += block
	}
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	return i + commonBytes(a[i:], b[i:])
}

// sameStart reports whether a and b are the same in their first n bytes. Both are
// longer than that.
func sameStart(a, b []byte, n int) bool {
	if n <= 8 && len(a) >= 8 && len(b) >= 8 {
		return (binary.LittleEndian.Uint64(a)^binary.LittleEndian.Uint64(b))<<(64-8*n) == 0
	}
	return string(a[:n]) == string(b[:n])
}

// putStart copies the first n bytes of src to the start of dst. Both are longer
// than that.
func putStart(dst, src []byte, n int) {
	if n <= 8 && len(dst) >= 8 && len(src) >= 8 {
		mask := ^uint64(0) >> (64 - 8*n)
		w := binary.LittleEndian.Uint64(src)&mask | binary.LittleEndian.Uint64(dst)&^mask
		binary.LittleEndian.PutUint64(dst, w)
		return
	}
	copy(dst, src[:n])
}

func commonBytes(a, b []byte) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}
