package summary

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteTable writes a table for people.
func WriteTable(w io.Writer, ranks []Rank) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	header := table.Row{
		"worker", "rank", "mode", "from", "for", "rows", "passes", "prefill tok/s", "decode tok/s", "busy",
		"batch p50/p99", "wall p50/p99/max", "lost", "restarts", "silence", "row bytes",
	}
	t.AppendHeader(header)
	configs := make([]table.ColumnConfig, 0, len(header))
	for i := range header {
		if i > 2 {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(configs)
	for i := range ranks {
		r := &ranks[i]
		mode, lost := r.CaptureMode, strconv.FormatUint(r.Lost, 10)
		if r.PassesPerSecond == nil {
			lost = "-"
		}
		t.AppendRow(table.Row{
			name(r), r.DPRank, mode, r.First.UTC().Format(time.DateTime), span(r.Seconds), r.Rows, r.Passes(),
			rate(r.PrefillPerSecond), rate(r.DecodePerSecond), percent(r.Busy),
			fmt.Sprintf("%.0f/%.0f", r.Batch.P50, r.Batch.P99),
			fmt.Sprintf("%s/%s/%s", wall(r.WallTime.P50), wall(r.WallTime.P99), wall(r.WallTime.Max)),
			lost, r.Restarts, span(r.LongestSilence), fmt.Sprintf("%.0f", r.RowBytes),
		})
	}
	if _, err := io.WriteString(w, t.Render()+"\n"); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// name returns the worker, quoted where its id is no plain text.
func name(r *Rank) string {
	if q := strconv.Quote(r.WorkerID); r.WorkerID == "" || q[1:len(q)-1] != r.WorkerID {
		return q
	}
	return r.WorkerID
}

func rate(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *v*100)
}

func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func wall(seconds float64) string { return fmt.Sprintf("%.4gms", seconds*1e3) }
