package relabel

import (
	"bytes"
	"slices"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// Drop says why a sample line does not leave.
type Drop string

// The reasons. Those that the exporter counts have the words of
// omni_exporter_merge_dropped_samples_total.
const (
	Kept         Drop = ""
	DropExcluded Drop = "excluded"      // its family is not let through
	DropCreated  Drop = "created"       // a creation time
	DropReserved Drop = "reserved_name" // Prometheus writes this name itself
	DropUnmapped Drop = "unmapped_engine"
	DropRule     Drop = "metric_relabel_configs"
)

// Line is what became of one sample line of a page.
type Line struct {
	Number int    // in the page as it came, from 1
	Before string // as it came, without the newline
	After  string // as it leaves, in the text format; "" if it does not
	Drop   Drop

	Family, OutFamily string // names of its family as it came and as it leaves

	OmniPrefix bool // its omni prefix was normalized
	Alias      bool // an old name gave way to the current one

	// Engine is the source's `engine` label; HasEngine tells whether there is one, and
	// Unmapped that the topology has no place for it.
	Engine    string
	HasEngine bool
	Unmapped  bool
	// Place is where the series stands, if it has a place.
	Place  Place
	Placed bool
	// ByEngine tells that the place was found by the engine label, ByTarget that it is
	// the target's own, for want of such a label. With neither, the source said it.
	ByEngine, ByTarget bool

	Added       []string // labels of the pipeline and the target that it got
	Moved       []string // source labels that had to make way, by the names they got
	Relabeled   bool     // it leaves with other labels than it came with
	RuleRenamed bool     // a rule of metric_relabel_configs gave it its name
	RuleLabels  bool     // such rules changed its labels
}

// Changed reports whether the line leaves otherwise than it came, the order of
// labels and blanks apart.
func (l *Line) Changed() bool {
	return l.Drop != Kept || l.Family != l.OutFamily || l.RuleRenamed || l.Relabeled
}

func equalLabel(a, b exposition.Label) bool {
	return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value)
}

// Explain rewrites one page as a Target does that has seen none before, and tells
// what became of each of its sample lines, in order. It reads that off what the
// Target remembers of the page. The error is Rewrite's.
func Explain(rules *Rules, body []byte, f exposition.Format) (Result, []Line, error) {
	t := NewTarget(rules, nil)
	t.explain = true
	result, _, err := t.Rewrite(body, f)
	if err != nil {
		return Result{}, nil, err
	}
	e := explainer{rules: rules, last: t.last, families: t.families, labeler: newLabeler(rules), text: result.Page.Text()}
	s := exposition.NewScanner(body, f)
	for i := 0; s.Next(); i++ {
		if line := s.Line(); line.Kind == exposition.KindSample {
			l, err := e.line(line.Raw, s.Number(), &t.last.entries[i])
			if err != nil {
				return Result{}, nil, err // cannot be: Rewrite has read the line
			}
			e.lines = append(e.lines, l)
		}
	}
	return result, e.lines, nil
}

// explainer walks the lines of a page as it came and as it left.
type explainer struct {
	rules    *Rules
	last     *lastPage
	families map[string]*family // by sample name
	labeler  labeler
	sample   exposition.Sample
	text     []byte // of the page as it left, from the next line on
	lines    []Line
}

func (e *explainer) line(raw []byte, number int, was *entry) (Line, error) {
	s := &e.sample
	if err := exposition.ParseSample(raw, number, e.last.format, s); err != nil {
		return Line{}, err
	}
	f := e.families[string(s.Name)]
	l := Line{Number: number, Before: string(bytes.TrimRight(raw, "\n")), Family: f.name, OutFamily: f.out}
	prefixed := e.rules.outputName(f.name)
	l.OmniPrefix, l.Alias = prefixed != f.name, f.verdict == keep && f.out != prefixed
	if was.out > 0 {
		end := bytes.IndexByte(e.text, '\n')
		l.After = string(e.text[:end])
		e.text = e.text[end+1:]
	}
	switch f.verdict {
	case excluded:
		l.Drop = DropExcluded
	case created:
		l.Drop = DropCreated
	case reserved:
		l.Drop = DropReserved
	default:
		l.RuleRenamed = was.flags&flagRenamed != 0
		e.place(&l)
	}
	return l, nil
}

// place tells where the current sample stands and what its labels became. The
// labeler says it again; only what rules made of its answer is read off the line
// that left.
func (e *explainer) place(l *Line) {
	s := &e.sample
	sortLabels(s.Labels)
	before := slices.Clone(s.Labels)
	if i := index(before, []byte(labelEngine)); i >= 0 {
		l.Engine, l.HasEngine = string(exposition.Unescape(before[i].Value)), true
	}
	labels, n := e.labeler.relabel(s.Labels)
	l.Place, l.Placed, l.Unmapped = n.place, n.placed, n.unmapped != "" || n.dropped
	if n.placed && (index(before, []byte(labelStage)) < 0 || index(before, []byte(labelReplica)) < 0) {
		l.ByEngine, l.ByTarget = l.HasEngine, !l.HasEngine
	}
	if n.dropped {
		l.Drop = DropUnmapped
		return
	}
	for _, added := range e.rules.labels {
		if index(before, added.Name) < 0 {
			l.Added = append(l.Added, string(added.Name))
		}
	}
	if n.collisions > 0 {
		for _, label := range labels {
			if bytes.HasPrefix(label.Name, []byte(exportedPrefix)) && index(before, label.Name) < 0 {
				l.Moved = append(l.Moved, string(label.Name))
			}
		}
	}
	switch {
	case l.After != "":
		var after exposition.Sample
		err := exposition.ParseSample([]byte(l.After+"\n"), l.Number, exposition.Text, &after)
		l.RuleLabels = err != nil || !slices.EqualFunc(labels, after.Labels, equalLabel)
		l.Relabeled = !slices.EqualFunc(before, after.Labels, equalLabel)
	case l.RuleRenamed:
		l.Drop = DropReserved
	default:
		l.Drop = DropRule
	}
}
