package relabel

import (
	"bytes"
	"fmt"
	"math"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Summary is what a page holds beside its lines. It depends on the page's layout
// alone, and is shared by pages of one layout.
type Summary struct {
	Samples         int            // sample lines of the page as it came
	Places          map[Place]bool // where series of the page stand
	Unmapped        map[string]bool
	UnmappedSamples int // series dropped because their engine is unmapped
	CreatedSamples  int // series dropped because they are creation times
	ReservedSamples int // series dropped because of their name
	LabelCollisions int // source labels moved to `exported_`
	RetypedFamilies int // TYPE lines that contradict an earlier one of the page
}

// Result is one page, rewritten.
type Result struct {
	Page    *exposition.Page
	Summary *Summary
	Hits    int // lines taken from the line cache
	Misses  int // lines taken apart
}

// Target rewrites the pages of one target. It is used by one goroutine at a time.
type Target struct {
	rules   *Rules
	buffers *exposition.Buffers
	last    *lastPage // nil before the first good page

	builder exposition.Builder
	sample  exposition.Sample

	explain  bool               // keep families
	families map[string]*family // of the last page, by sample name
}

// NewTarget returns a target without a last page. Pages are written into buffers
// of the stock, which may be nil.
func NewTarget(rules *Rules, buffers *exposition.Buffers) *Target {
	return &Target{rules: rules, buffers: buffers}
}

// Rewrite rewrites one whole page. It takes the body over, and returns a buffer
// that it no longer needs (nil, or an earlier body) for the next one. A page with
// an error contributes nothing, and the last good page stays the one that the
// next is compared with: the caller keeps its reference to that until the next
// good one.
func (t *Target) Rewrite(body []byte, f exposition.Format) (r Result, spare []byte, err error) {
	if len(body) > math.MaxInt32 {
		return Result{}, body, fmt.Errorf("page of %d bytes: at most 2 GiB can be read", len(body))
	}
	last := t.last
	if last != nil && last.format == f {
		spare = last.body
		if page := last.replay(body, t.buffers); page != nil {
			return Result{Page: page, Summary: last.summary, Hits: last.summary.Samples}, spare, nil
		}
	} else {
		last = nil
	}
	next, r, err := t.rebuild(body, f, last)
	if err != nil {
		t.builder.Abandon()
		return Result{}, body, err
	}
	if t.last != nil {
		spare = t.last.body
	}
	t.last = next
	return r, spare, nil
}

// rebuild makes a page line by line. Lines that the last page had too are taken
// from it; the others are taken apart.
func (t *Target) rebuild(body []byte, f exposition.Format, last *lastPage) (*lastPage, Result, error) {
	w := rewriting{
		rules: t.rules, format: f, builder: &t.builder, sample: &t.sample, labeler: newLabeler(t.rules),
		families: newPageFamilies(t.rules, f, body),
		summary:  &Summary{Places: map[Place]bool{}, Unmapped: map[string]bool{}},
		next:     &lastPage{format: f, body: body},
	}
	if err := w.families.collect(); err != nil {
		return nil, Result{}, err
	}
	size, lines := len(body), len(body)/typicalLine
	if last != nil {
		w.recall = newRecall(last)
		size, lines = len(last.page.Text()), len(last.entries)
	}
	t.builder.Reset(t.buffers, size, lines+lines/8)
	w.next.reserve(lines + lines/8)
	w.families.settle(&t.builder)
	if err := w.lines(); err != nil {
		return nil, Result{}, err
	}
	w.summary.RetypedFamilies = w.families.retyped
	page := t.builder.Finish()
	w.next.page, w.next.summary = page, w.summary
	if t.explain {
		t.families = w.families.samples
	}
	return w.next, Result{Page: page, Summary: w.summary, Hits: w.hits, Misses: w.summary.Samples - w.hits}, nil
}

// typicalLine is the length of a vLLM page's line, in bytes: what the first page
// of a target is expected to hold.
const typicalLine = 90

// rewriting is the state of one rebuild.
type rewriting struct {
	rules    *Rules
	format   exposition.Format
	builder  *exposition.Builder
	sample   *exposition.Sample
	labeler  labeler
	families pageFamilies
	summary  *Summary
	next     *lastPage
	recall   *recall // nil if there is no last page to recall lines from
	bucket   bucket

	lastName   []byte // of the previous sample line, and its family
	lastFamily *family
	kept, hits int
	number     int
}

func (w *rewriting) lines() error {
	s := exposition.NewScanner(w.families.body, w.format)
	for s.Next() {
		line := s.Line()
		if line.Kind != exposition.KindSample {
			w.next.literal(line.Raw)
			continue
		}
		w.number = s.Number()
		w.summary.Samples++
		if err := w.line(line.Raw); err != nil {
			return err
		}
	}
	return s.Err()
}

func (w *rewriting) line(raw []byte) error {
	if w.recall != nil {
		if done, err := w.recalled(raw); done || err != nil {
			return err
		}
	}
	if done, err := w.spliced(raw); done || err != nil {
		return err
	}
	s := w.sample
	if err := exposition.ParseSample(raw, w.number, w.format, s); err != nil {
		return err
	}
	f, err := w.family(s.Name)
	if err != nil {
		return err
	}
	sortLabels(s.Labels)
	if err := w.checkLabels(s.Labels); err != nil {
		return err
	}
	e := entry{in: uint32(s.Prefix), name: uint16(len(s.Name))}
	if !s.Plain(raw) || len(s.Name) > math.MaxUint16 || string(raw[:len(s.Name)]) != string(s.Name) {
		e = entry{in: uint32(len(raw) - 1), flags: flagWhole}
	}
	if f.verdict != keep {
		w.leaveOut(f)
		w.next.add(e, s.Value, note{})
		return nil
	}
	n, err := w.place(f, &e)
	if err != nil {
		return err
	}
	if e.out > 0 && f.typ == exposition.Histogram && w.rules.boundIsInert() {
		w.bucket.learn(raw, w.builder.LastSeries(), f, e, n)
	}
	w.next.add(e, s.Value, n)
	return nil
}

// place relabels the current sample, which belongs to f, and writes it.
func (w *rewriting) place(f *family, e *entry) (note, error) {
	s := w.sample
	var n note
	s.Labels, n = w.labeler.relabel(s.Labels)
	w.summary.add(&n)
	if n.dropped {
		return n, nil
	}
	name := outputName(f, s.Name)
	if rules := w.rules.options.MetricRelabel; len(rules) > 0 {
		after, labels, kept := metricRelabel(rules, name, s.Labels)
		if !kept {
			return n, nil
		}
		if string(after) != string(name) {
			e.flags |= flagRenamed
			name, f = after, w.families.renamed(after, w.builder)
		}
		s.Labels = labels
		if f.verdict != keep {
			w.leaveOut(f)
			return n, nil
		}
	}
	if err := w.checkLimits(name, s.Labels); err != nil {
		return n, err
	}
	length, line, quoted := w.builder.Line(f.index, name, s.Labels, s, w.format)
	e.out = uint32(length)
	if e.flags&flagWhole != 0 {
		e.out = uint32(line - 1)
	}
	if quoted {
		e.flags |= flagQuoted
	}
	w.next.cut(w.builder.Segments())
	return n, w.count()
}

// outputName returns the name with which a sample leaves: that of its family,
// with its own suffix.
func outputName(f *family, sample []byte) []byte {
	if f.out == f.name {
		return sample
	}
	return append([]byte(f.out), sample[len(f.name):]...)
}

// leavesAs reports whether a rewritten series has the name with which a sample of the
// family leaves.
func (f *family) leavesAs(sample, series []byte) bool {
	rest, ok := bytes.CutPrefix(series, []byte(f.out))
	if !ok {
		return false
	}
	rest, ok = bytes.CutPrefix(rest, sample[len(f.name):])
	return ok && len(rest) > 0 && (rest[0] == '{' || rest[0] == ' ')
}

func (w *rewriting) family(name []byte) (*family, error) {
	if w.lastFamily != nil && string(name) == string(w.lastName) {
		return w.lastFamily, nil
	}
	f, reason := w.families.resolve(name, w.builder)
	if reason != "" {
		return nil, &exposition.ParseError{Line: w.number, Reason: reason, Token: shorten(string(name))}
	}
	w.lastName, w.lastFamily = name, f
	return f, nil
}

// leaveOut counts a sample of a family that does not leave.
func (w *rewriting) leaveOut(f *family) {
	switch f.verdict {
	case created:
		w.summary.CreatedSamples++
	case reserved:
		w.summary.ReservedSamples++
	}
}

// add counts what one series says.
func (s *Summary) add(n *note) {
	s.LabelCollisions += n.collisions
	if n.placed && !s.Places[n.place] {
		s.Places[n.place] = true
	}
	if n.unmapped != "" || n.dropped {
		s.Unmapped[n.unmapped] = true
	}
	if n.dropped {
		s.UnmappedSamples++
	}
}

// count counts a kept line against the sample limit.
func (w *rewriting) count() error {
	w.kept++
	if most := w.rules.options.Limits.Samples; most > 0 && w.kept > most {
		return &exposition.ParseError{
			Line: w.number, Err: exposition.ErrSampleLimit,
			Reason: fmt.Sprintf("more than %d samples: raise sample_limit or let fewer families through", most),
		}
	}
	return nil
}

// checkLabels finds a label that occurs twice; the labels are sorted.
func (w *rewriting) checkLabels(labels []exposition.Label) error {
	for i := 1; i < len(labels); i++ {
		if string(labels[i].Name) == string(labels[i-1].Name) {
			return &exposition.ParseError{
				Line: w.number, Reason: "label occurs twice", Token: shorten(string(labels[i].Name)),
			}
		}
	}
	return nil
}

func (w *rewriting) checkLimits(name []byte, labels []exposition.Label) error {
	l := &w.rules.options.Limits
	fail := func(what string, n, most int, option string, token []byte) error {
		return &exposition.ParseError{
			Line: w.number, Err: exposition.ErrLabelLimit, Token: shorten(string(token)),
			Reason: fmt.Sprintf("%s of %d exceeds %s %d", what, n, option, most),
		}
	}
	if n := len(labels) + 1; l.Labels > 0 && n > l.Labels {
		return fail("label count", n, l.Labels, "label_limit", name)
	}
	if n := len(name); l.LabelValue > 0 && n > l.LabelValue {
		return fail("metric name length", n, l.LabelValue, "label_value_length_limit", name)
	}
	for _, label := range labels {
		if n := len(label.Name); l.LabelName > 0 && n > l.LabelName {
			return fail("label name length", n, l.LabelName, "label_name_length_limit", label.Name)
		}
		if n := valueLength(label.Value); l.LabelValue > 0 && n > l.LabelValue {
			return fail("label value length", n, l.LabelValue, "label_value_length_limit", label.Name)
		}
	}
	return nil
}

// valueLength returns the length of a label value without its escapes, which is what
// Prometheus's limit is about.
func valueLength(escaped []byte) int {
	if bytes.IndexByte(escaped, '\\') < 0 {
		return len(escaped)
	}
	return len(exposition.Unescape(escaped))
}
