package relabel

import (
	"bytes"
	"hash/maphash"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// entry is one line of the last page as it came: how much of it is the series,
// and how long that became. Lines follow each other without gaps in both pages,
// so lengths are all that is needed to find them.
type entry struct {
	in    uint32 // bytes before the value token; with flagWhole, of the line without its newline
	out   uint32 // bytes of the rewritten series; with flagWhole, of the line without its newline; 0 if it was left out
	note  uint32
	name  uint16 // bytes of the metric name, with which the line starts
	flags uint8
}

const (
	flagWhole   = 1 << iota // known only as a whole: metadata, timestamps, exemplars
	flagQuoted              // a name in the series needs quotes
	flagRenamed             // a rule gave the series another name
)

// lastPage is the last good page of a target, as it came and as it left: the line
// cache. The next page is compared with it byte by byte, so a line is known only
// if it is equal; it holds nothing that the last page did not, so nothing has to
// be evicted; and it belongs to one target and one set of rules.
type lastPage struct {
	format  exposition.Format
	body    []byte
	page    *exposition.Page
	summary *Summary

	entries []entry
	values  []uint8 // by line: bytes of the value token, the same on both sides
	spare   []uint8
	segment []int // by segment of the page: the line before which it ends

	notes []note
}

func (p *lastPage) reserve(lines int) {
	p.entries = make([]entry, 0, lines)
	p.values = make([]uint8, 0, lines)
}

func (p *lastPage) add(e entry, value []byte, n note) {
	length := uint8(len(value))
	if e.flags&flagWhole != 0 {
		length = 0
	}
	if last := len(p.notes) - 1; last < 0 || p.notes[last] != n {
		p.notes = append(p.notes, n)
	}
	e.note = uint32(len(p.notes) - 1)
	p.entries = append(p.entries, e)
	p.values = append(p.values, length)
}

func (p *lastPage) literal(raw []byte) {
	in := len(raw) - 1
	if raw[in] != '\n' {
		in++ // `# EOF` may end the page without a newline; then no page is taken for this one
	}
	p.add(entry{in: uint32(in), flags: flagWhole}, nil, note{})
}

// cut notes that the next line starts the page's last segment, if it does.
func (p *lastPage) cut(segments int) {
	for len(p.segment) < segments-1 {
		p.segment = append(p.segment, len(p.entries))
	}
}

// recall finds lines of the last page that the page at hand has too, whatever the
// order in which it has them.
type recall struct {
	last    *lastPage
	in, out []uint32 // where each line of the last page starts
	next    int      // the line that is expected now
	seed    maphash.Seed
	table   []int32 // open addressing over the lines' series; made at the first surprise
}

func newRecall(last *lastPage) *recall {
	r := &recall{last: last, in: make([]uint32, len(last.entries)), out: make([]uint32, len(last.entries))}
	in, out := uint32(0), uint32(0)
	for i := range last.entries {
		e := &last.entries[i]
		value := uint32(last.values[i])
		r.in[i], r.out[i] = in, out
		in += e.in + value + 1
		if e.out > 0 {
			out += e.out + value + 1
		}
	}
	return r
}

// find returns the line of the last page that has the series of raw.
func (r *recall) find(raw []byte) (int, bool) {
	entries := r.last.entries
	for r.next < len(entries) && entries[r.next].flags&flagWhole != 0 {
		r.next++
	}
	if r.next < len(entries) {
		if series := r.series(r.next); len(raw) > len(series) && string(raw[:len(series)]) == string(series) {
			r.next++
			return r.next - 1, true
		}
	}
	i, ok := r.look(raw)
	if ok {
		r.next = i + 1
	}
	return i, ok
}

func (r *recall) series(i int) []byte {
	return r.last.body[r.in[i] : r.in[i]+r.last.entries[i].in]
}

func (r *recall) look(raw []byte) (int, bool) {
	if r.table == nil {
		r.fill()
	}
	end := len(raw) - 2
	for end >= 0 && raw[end] != ' ' {
		end--
	}
	series := raw[:end+1]
	mask := uint64(len(r.table) - 1)
	for at := maphash.Bytes(r.seed, series) & mask; r.table[at] >= 0; at = (at + 1) & mask {
		if i := int(r.table[at]); string(r.series(i)) == string(series) {
			return i, true
		}
	}
	return 0, false
}

func (r *recall) fill() {
	size := 16
	for size < 2*len(r.last.entries) {
		size *= 2
	}
	r.seed, r.table = maphash.MakeSeed(), make([]int32, size)
	for i := range r.table {
		r.table[i] = -1
	}
	mask := uint64(size - 1)
	for i := range r.last.entries {
		if r.last.entries[i].flags&flagWhole != 0 {
			continue
		}
		at := maphash.Bytes(r.seed, r.series(i)) & mask
		// A series that the page has twice is entered once: a page that repeats one
		// would fill the table with a single run of slots.
		for r.table[at] >= 0 && !bytes.Equal(r.series(int(r.table[at])), r.series(i)) {
			at = (at + 1) & mask
		}
		if r.table[at] < 0 {
			r.table[at] = int32(i)
		}
	}
}

// recalled writes a line that the last page had too, and returns false for any
// other. The line's family must have the same fate as then.
func (w *rewriting) recalled(raw []byte) (bool, error) {
	i, ok := w.recall.find(raw)
	if !ok {
		return false, nil
	}
	last := w.recall.last
	e := last.entries[i]
	if e.flags&flagRenamed != 0 {
		return false, nil
	}
	value := raw[e.in:]
	length := exposition.ValueLen(value)
	if length < 0 {
		return false, nil
	}
	f, err := w.family(raw[:e.name])
	if err != nil {
		return false, err
	}
	n := last.notes[e.note]
	switch at := w.recall.out[i]; {
	case f.verdict != keep:
		e.out, n = 0, note{}
	case e.out == 0 && !n.dropped:
		return false, nil // its family was left out then, or a rule dropped it
	case e.out > 0 && !f.leavesAs(raw[:e.name], last.page.Text()[at:at+e.out]):
		return false, nil
	}
	w.hits++
	value = value[:length]
	if f.verdict != keep {
		w.leaveOut(f)
		w.next.add(e, value, n)
		return true, nil
	}
	w.summary.add(&n)
	if e.out > 0 {
		at := w.recall.out[i]
		w.builder.Known(f.index, last.page.Text()[at:at+e.out], value, e.flags&flagQuoted != 0)
		w.next.cut(w.builder.Segments())
		if err := w.count(); err != nil {
			return false, err
		}
	}
	w.next.add(e, value, n)
	return true, nil
}
