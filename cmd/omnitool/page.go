package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"
	"golang.org/x/term"

	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// pageName is what the page on standard input is called in errors.
const pageName = "standard input"

// maxPage bounds a page in bytes, so that a mistaken pipe does not fill the memory.
const maxPage = 1 << 30

// The values of --format.
const (
	formatAuto        = "auto"
	formatText        = "text"
	formatOpenMetrics = "openmetrics"
)

func formatFlag(cmd *kingpin.CmdClause, format *string) {
	cmd.Flag("format", "Format of the page; auto takes one that ends in '# EOF' for OpenMetrics.").
		Default(formatAuto).EnumVar(format, formatAuto, formatText, formatOpenMetrics)
}

// page is one page as it came.
type page struct {
	body   []byte
	format exposition.Format
}

// readPage reads a page from standard input.
func readPage(s streams, format string) (page, error) {
	if f, ok := s.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintln(s.err, "omnitool reads a page from the terminal until Ctrl-D; pipe one in, such as: curl -fsS http://127.0.0.1:8000/metrics | omnitool ...")
	}
	body, err := io.ReadAll(io.LimitReader(s.in, maxPage+1))
	switch {
	case err != nil:
		return page{}, fmt.Errorf("read page: %w", err)
	case len(body) > maxPage:
		return page{}, fmt.Errorf("%s: more than %d bytes: that is no page of metrics", pageName, maxPage)
	}
	p := page{body: body}
	if format == formatOpenMetrics || format == formatAuto && endsInEOF(body) {
		p.format = exposition.OpenMetrics
	}
	return p, nil
}

// endsInEOF reports whether the last line is that of an OpenMetrics page.
func endsInEOF(body []byte) bool {
	body = bytes.TrimSuffix(body, []byte("\n"))
	return string(body[bytes.LastIndexByte(body, '\n')+1:]) == "# EOF"
}

// fate is what becomes of one sample line, merging included.
type fate struct {
	relabel.Line
	lost loss // "" if the line leaves
}

// loss says why a sample line does not leave, in the words of
// omni_exporter_merge_dropped_samples_total where that counts it.
type loss string

const (
	lostDuplicate loss = "duplicate"
	lostType      loss = "type_conflict"
	lostFormat    loss = "gauge_histogram"
)

// why says what a loss means and, where there is one, the remedy.
func (l loss) why() string {
	switch l {
	case loss(relabel.DropExcluded):
		return "the family is not on the include list of the configuration"
	case loss(relabel.DropCreated):
		return "creation times are no samples; created_series: keep lets them through"
	case loss(relabel.DropReserved):
		return "Prometheus writes a series of this name itself at each scrape"
	case loss(relabel.DropUnmapped):
		return "the engine is not in the map of the pipeline, and on_unmapped is drop; give the stages more replicas"
	case loss(relabel.DropRule):
		return "a rule of metric_relabel_configs drops it"
	case lostDuplicate:
		return "an earlier line is the same series, or leaves as the same; the first one stays"
	case lostType:
		return "another family that leaves with this name has another type; the first one stays"
	case lostFormat:
		return "the text format has no gauge histograms; readers of OpenMetrics get them"
	}
	return string(l)
}

// explained is a page and what becomes of it.
type explained struct {
	fates    []fate
	families int // that leave, those without samples too
	merged   *exposition.Merged
	summary  *relabel.Summary
}

// explain rewrites and merges a page as the exporter does. The error names the
// line that is broken, and the remedy.
func explain(rules *relabel.Rules, p page) (*explained, error) {
	result, lines, err := relabel.Explain(rules, p.body, p.format)
	if err != nil {
		return nil, pageError(err)
	}
	families := len(result.Page.Layout().Families)
	if len(lines) == 0 && families == 0 {
		return nil, fmt.Errorf("%s: page holds no metric: the server that sent it is up but exposes nothing", pageName)
	}
	e := &explained{
		fates: make([]fate, len(lines)), families: families, summary: result.Summary,
	}
	e.merged = exposition.NewMerger(1).Merge([]*exposition.Page{result.Page})
	merged := e.merged.LeftOut(0)
	for i := range lines {
		e.fates[i] = fate{Line: lines[i], lost: loss(lines[i].Drop)}
		if lines[i].Drop != relabel.Kept {
			continue
		}
		switch merged[0] {
		case exposition.LossType:
			e.fates[i].lost = lostType
		case exposition.LossDuplicate:
			e.fates[i].lost = lostDuplicate
		case exposition.LossFormat:
			e.fates[i].lost = lostFormat
		}
		merged = merged[1:]
	}
	return e, nil
}

// brokenPage is a page that counts for nothing.
type brokenPage struct {
	parse *exposition.ParseError
}

// Error names the line, what is wrong with it, and the remedy.
func (e *brokenPage) Error() string {
	p := e.parse
	msg := fmt.Sprintf("%s:%d: %s", pageName, p.Line, p.Reason)
	if p.Token != "" {
		msg += fmt.Sprintf(": %q", p.Token)
	}
	return msg + "; " + e.remedy()
}

func (e *brokenPage) remedy() string {
	switch {
	case errors.Is(e.parse, exposition.ErrTruncated):
		return "get the page again, whole"
	case errors.Is(e.parse, exposition.ErrSampleLimit), errors.Is(e.parse, exposition.ErrLabelLimit):
		return "omni_exporter refuses the whole page: raise the limit, or have the server send less"
	}
	return "Prometheus and omni_exporter refuse the whole page: the server that sent it must be mended"
}

// Unwrap returns the error of the line.
func (e *brokenPage) Unwrap() error { return e.parse }

func pageError(err error) error {
	if parse, ok := errors.AsType[*exposition.ParseError](err); ok {
		return &brokenPage{parse}
	}
	return fmt.Errorf("%s: %w", pageName, err)
}
