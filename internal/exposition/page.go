package exposition

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// Family describes one family of a page.
type Family struct {
	Key  string // its name in the text format; families merge by it
	Type Type
	Help string // not escaped
	Unit string

	segments []uint32
	lines    int
	quoted   bool // some name in it needs quotes
}

// segment is a run of lines of one family: families usually stand in one run,
// but a page may come back to one.
type segment struct {
	family     uint32
	first, end uint32 // lines
}

// Layout is all of a page that does not depend on its values: which families and
// series it holds and in which order. Successive pages of a target share one
// Layout for as long as only values change, so an equal pointer means that
// nothing about the page's shape has to be looked at again.
type Layout struct {
	Families []Family

	segments []segment
	prefix   []uint32          // of each line, the length of its series part
	tails    map[uint32]string // by line: what follows the series in OpenMetrics, where text differs

	regroupOnce sync.Once
	variants    map[uint32]*variant
}

// Series returns how many series the page holds.
func (l *Layout) Series() int { return len(l.prefix) }

// Page is what one whole page of a target became: its kept lines, rewritten, in
// the order in which they came. It is immutable. Whoever keeps one holds a
// reference to it; with the last reference its buffer goes to the next page. A
// reference that is never given back costs only that.
type Page struct {
	layout  *Layout
	text    []byte
	ends    []uint32 // of each segment in text
	buffers *Buffers // where text goes with the last reference
	refs    atomic.Int32

	openMetricsOnce sync.Once
	openMetrics     map[uint32][]byte // by family, where OpenMetrics differs from text
}

// NewPage returns a page of the given layout with one reference, the caller's: text
// holds its lines, ends the byte position at which each segment ends. The page
// keeps both; text goes to buffers, which may be nil, with the last reference.
func NewPage(layout *Layout, text []byte, ends []uint32, buffers *Buffers) *Page {
	p := &Page{layout: layout, text: text, ends: ends, buffers: buffers}
	p.refs.Store(1)
	return p
}

// Retain takes a reference, and returns false if the last one has been given back:
// then the page is no more.
func (p *Page) Retain() bool {
	for {
		n := p.refs.Load()
		if n <= 0 {
			return false
		}
		if p.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back.
func (p *Page) Release() {
	switch n := p.refs.Add(-1); {
	case n == 0:
		text := p.text
		p.text = nil // a use from now on panics instead of reading another page
		p.buffers.Put(text)
	case n < 0:
		panic("exposition: page released more often than retained")
	}
}

// Layout returns the page's layout.
func (p *Page) Layout() *Layout { return p.layout }

// Text returns the page's lines, `series value [timestamp]`, which must not be
// changed.
func (p *Page) Text() []byte { return p.text }

// Ends returns where each segment ends in Text; it must not be changed.
func (p *Page) Ends() []uint32 { return p.ends }

func (p *Page) segmentText(i uint32) []byte {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return p.text[start:p.ends[i]]
}

// eachLine calls f with every line of the page, in order, with its newline.
func (p *Page) eachLine(f func(line uint32, family uint32, text []byte)) {
	rest := p.text
	for _, s := range p.layout.segments {
		for line := s.first; line < s.end; line++ {
			n := int(p.layout.prefix[line])
			n += bytes.IndexByte(rest[n:], '\n') + 1
			f(line, s.family, rest[:n])
			rest = rest[n:]
		}
	}
}

// familyLines appends the line numbers and texts of one family.
func (p *Page) familyLines(family uint32, f func(line uint32, text []byte)) {
	for _, i := range p.layout.Families[family].segments {
		s, rest := p.layout.segments[i], p.segmentText(i)
		for line := s.first; line < s.end; line++ {
			n := int(p.layout.prefix[line])
			n += bytes.IndexByte(rest[n:], '\n') + 1
			f(line, rest[:n])
			rest = rest[n:]
		}
	}
}

// Builder makes a Page line by line. The zero value is ready; it is reused by
// Reset.
type Builder struct {
	layout  *Layout
	text    []byte
	ends    []uint32
	buffers *Buffers

	lastLine int // where the last line added by Line starts
}

// Reset starts a new page of about the given size in bytes and lines, in a buffer
// taken from buffers.
func (b *Builder) Reset(buffers *Buffers, size, lines int) {
	b.layout = &Layout{prefix: make([]uint32, 0, lines)}
	b.text, b.ends, b.buffers = buffers.Get(size), make([]uint32, 0, 64), buffers
}

// Abandon drops the page that was started, if any.
func (b *Builder) Abandon() {
	if b.layout != nil {
		b.buffers.Put(b.text)
		*b = Builder{}
	}
}

// Family adds a family and returns its index.
func (b *Builder) Family(f Family) int {
	b.layout.Families = append(b.layout.Families, f)
	return len(b.layout.Families) - 1
}

// Line adds a series line of a family with its labels in output order. It
// returns the length of the series part, with its closing space, that of the
// line, with its newline, and whether a name in it needed quotes.
func (b *Builder) Line(family int, name []byte, labels []Label, s *Sample, f Format) (n, line int, quoted bool) {
	b.open(family)
	start := len(b.text)
	b.lastLine = start
	b.text, quoted = AppendSeries(b.text, name, labels)
	n = len(b.text) - start
	b.close(n, s, f)
	if quoted {
		b.layout.Families[family].quoted = true
	}
	return n, len(b.text) - start, quoted
}

// Known adds a line without timestamp or exemplar whose series part, with its
// closing space, is known from an earlier page.
func (b *Builder) Known(family int, series, value []byte, quoted bool) {
	b.open(family)
	if quoted {
		b.layout.Families[family].quoted = true
	}
	b.text = append(b.text, series...)
	b.layout.prefix = append(b.layout.prefix, uint32(len(series)))
	b.text = append(b.text, value...)
	b.text = append(b.text, '\n')
}

// Spliced adds a line without timestamp or exemplar whose series part is head,
// bound and tail in turn.
func (b *Builder) Spliced(family int, head, bound, tail, value []byte, quoted bool) {
	b.open(family)
	if quoted {
		b.layout.Families[family].quoted = true
	}
	b.text = append(b.text, head...)
	b.text = append(b.text, bound...)
	b.text = append(b.text, tail...)
	b.layout.prefix = append(b.layout.prefix, uint32(len(head)+len(bound)+len(tail)))
	b.text = append(b.text, value...)
	b.text = append(b.text, '\n')
}

// LastSeries returns the series part of the line that Line has just added. It is
// good until the next line is added.
func (b *Builder) LastSeries() []byte {
	prefix := b.layout.prefix
	return b.text[b.lastLine:][:prefix[len(prefix)-1]]
}

// Segments returns how many runs of lines the page has so far.
func (b *Builder) Segments() int { return len(b.layout.segments) }

func (b *Builder) open(family int) {
	l := b.layout
	line := uint32(len(l.prefix))
	if n := len(l.segments); n > 0 {
		if l.segments[n-1].family == uint32(family) {
			return
		}
		l.segments[n-1].end = line
		b.ends = append(b.ends, uint32(len(b.text)))
	}
	fam := &l.Families[family]
	fam.segments = append(fam.segments, uint32(len(l.segments)))
	l.segments = append(l.segments, segment{family: uint32(family), first: line})
}

// close writes what follows the series in text, and remembers what follows it in
// OpenMetrics where that is something else.
func (b *Builder) close(n int, s *Sample, f Format) {
	line := uint32(len(b.layout.prefix))
	b.layout.prefix = append(b.layout.prefix, uint32(n))
	b.text = append(b.text, s.Value...)
	if s.Timestamp != nil || s.Exemplar != nil {
		tail := append([]byte(nil), s.Value...)
		if s.Timestamp != nil {
			b.text, tail = append(b.text, ' '), append(tail, ' ')
			if f == Text {
				b.text = append(b.text, s.Timestamp...)
				tail, _ = appendSeconds(tail, s.Timestamp)
			} else {
				b.text, _ = appendMilliseconds(b.text, s.Timestamp)
				tail = append(tail, s.Timestamp...)
			}
		}
		if s.Exemplar != nil {
			tail = append(tail, " # "...)
			tail = appendExemplar(tail, s.Exemplar)
		}
		if b.layout.tails == nil {
			b.layout.tails = map[uint32]string{}
		}
		b.layout.tails[line] = string(tail)
	}
	b.text = append(b.text, '\n')
}

// Finish ends the page and returns it.
func (b *Builder) Finish() *Page {
	l := b.layout
	if n := len(l.segments); n > 0 {
		l.segments[n-1].end = uint32(len(l.prefix))
		b.ends = append(b.ends, uint32(len(b.text)))
	}
	for i := range l.segments {
		s := &l.segments[i]
		l.Families[s.family].lines += int(s.end - s.first)
	}
	p := NewPage(l, b.text, b.ends, b.buffers)
	*b = Builder{}
	return p
}
