package report

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
)

// compareAnswer is what Compare prints for programs.
type compareAnswer struct {
	A string `json:"a"`
	B string `json:"b"`
	benchmark.Comparison
}

// Compare says whether two runs were measured under the same recorded conditions, and what differs. Only runs that are
// comparable give status 0.
func Compare(w io.Writer, pathA, pathB string, o Options) (int, error) {
	fileA, _, a, err := loadRun(pathA, o.Limits)
	if err != nil {
		return statusBad, err
	}
	fileB, _, b, err := loadRun(pathB, o.Limits)
	if err != nil {
		return statusBad, err
	}
	c := benchmark.Compare(fileA, fileB, a, b)
	status := statusOf(c.Verdict == benchmark.VerdictComparable)
	if o.JSON {
		return status, printJSON(w, compareAnswer{pathA, pathB, c})
	}
	p := &page{w: w}
	switch c.Verdict {
	case benchmark.VerdictComparable:
		p.printf("COMPARABLE: all recorded conditions agree\n")
	case benchmark.VerdictUnestablished:
		p.printf("NOT ESTABLISHED: nothing recorded differs, but not everything is recorded\n")
	case benchmark.VerdictDiffers:
		p.printf("NOT COMPARABLE: recorded conditions differ\n")
	}
	p.printf("A %s, run %s\nB %s, run %s\n", pathA, quoteOdd(a.RunID), pathB, quoteOdd(b.RunID))
	var rows []table.Row
	for _, d := range c.Differences {
		kind := "differs"
		if d.Missing {
			kind = "missing"
		}
		rows = append(rows, table.Row{kind, d.Aspect, quoteOdd(d.Where), quoteOdd(d.A), quoteOdd(d.B)})
	}
	p.table("Conditions", table.Row{"", "aspect", "place", "A", "B"}, rows)
	if c.Omitted > 0 {
		p.printf("and %d more\n", c.Omitted)
	}
	rows = nil
	for _, pt := range c.Points {
		ratio := "-"
		if pt.A > 0 {
			ratio = fmt.Sprintf("%.3f", pt.B/pt.A)
		}
		rows = append(rows, table.Row{quoteOdd(pt.Phase), pt.PrefillTokens, pt.KVReadTokens, pt.BatchSize, ms(pt.A), ms(pt.B), ratio})
	}
	p.table("Wall time of the points both measured (no part of the verdict)",
		table.Row{"phase", "prefill tokens", "KV read tokens", "batch", "A ms", "B ms", "B/A"}, rows)
	p.printf("\nNote: %s\n", c.Warning)
	return status, p.err
}
