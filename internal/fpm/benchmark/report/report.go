// Package report is what the benchmark commands of omnitool print: for people as tables, for programs as JSON. Each function
// returns the exit status of its command, 0 when the answer is good and 1 when it is not, and an error when it could not
// write its answer or has none.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// DefaultLimits are those of a command, on a machine that can spare some memory for a large artifact.
func DefaultLimits() doc.Limits { return doc.Limits{Bytes: 512 << 20, Values: 32_000_000} }

// Options say how to read and to print.
type Options struct {
	JSON   bool
	Limits doc.Limits // zero fields take the library's defaults; see DefaultLimits
}

const (
	statusGood = 0
	statusBad  = 1
)

func statusOf(good bool) int {
	if good {
		return statusGood
	}
	return statusBad
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// page writes text and remembers the first error, so that a report can be written without looking after every line.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table renders rows under a header, with a title line above; a list of names and values has no header.
func (p *page) table(title string, header table.Row, rows []table.Row) {
	if len(rows) == 0 {
		return
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	if len(header) > 0 {
		t.AppendHeader(header)
	}
	t.AppendRows(rows)
	p.printf("\n%s\n%s\n", title, t.Render())
}

func (p *page) findings(r benchmark.Report) {
	var rows []table.Row
	for _, f := range r.Findings {
		rows = append(rows, table.Row{
			string(f.Severity), string(f.Rule),
			quoteOdd(f.File) + "\n" + quoteOdd(f.Path), "found    " + quoteOdd(f.Found) + "\nexpected " + quoteOdd(f.Expected),
		})
	}
	p.table("Findings", table.Row{"severity", "rule", "place", "what"}, rows)
	if r.Omitted > 0 {
		p.printf("and %d more\n", r.Omitted)
	}
}

func (p *page) verdict(r benchmark.Report, good string) {
	errs := len(r.Errors())
	notes := len(r.Findings) - errs
	if r.Valid {
		p.printf("VALID: %s (%s)\n", good, plural(notes, "note"))
		return
	}
	p.printf("NOT VALID: %s, %s\n", plural(errs, "error"), plural(notes, "note"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Verify judges artifacts and sidecars of one run together: the verdict, then the findings.
func Verify(w io.Writer, paths []string, o Options) (int, error) {
	r := benchmark.VerifyFiles(paths, o.Limits)
	if o.JSON {
		return statusOf(r.Valid), printJSON(w, r)
	}
	p := &page{w: w}
	p.verdict(r, plural(len(paths), "file"))
	p.findings(r)
	return statusOf(r.Valid), p.err
}

// mergeAnswer is what Merge prints for programs.
type mergeAnswer struct {
	benchmark.Report
	Output string `json:"output,omitempty"` // written, when the merge was not refused
}

// Merge merges the rank files of a run into output, or says why it does not.
func Merge(w io.Writer, output string, paths []string, o Options) (int, error) {
	files := benchmark.LoadAll(paths, o.Limits)
	merged, r, err := benchmark.Merge(files, output)
	refused := errors.Is(err, benchmark.ErrRefused)
	if err == nil {
		err = benchmark.WriteMerged(output, merged, files)
	}
	if err != nil && !refused {
		return statusBad, err
	}
	if o.JSON {
		a := mergeAnswer{Report: r, Output: output}
		if refused {
			a.Output = ""
		}
		return statusOf(!refused), printJSON(w, a)
	}
	p := &page{w: w}
	if refused {
		p.printf("REFUSED: the files do not make one run (%s)\n", plural(len(r.Errors()), "error"))
	} else {
		p.printf("MERGED: %s into %s (%s)\n", plural(len(files), "rank file"), output, plural(len(r.Findings), "note"))
	}
	p.findings(r)
	return statusOf(!refused), p.err
}

// loadRun reads one artifact and, if there is one next to it, its sidecar.
func loadRun(path string, limits doc.Limits) (*benchmark.File, *benchmark.File, benchmark.Run, error) {
	f := benchmark.Load(path, limits)
	if err := f.Err(); err != nil {
		return nil, nil, benchmark.Run{}, err
	}
	if f.Kind == benchmark.KindSidecar {
		return nil, nil, benchmark.Run{}, fmt.Errorf("%s is a worker-probe sidecar; name its merged artifact instead", path)
	}
	side := benchmark.LoadSidecar(f, limits)
	return f, side, benchmark.ReadRun(f, side), nil
}
