package watch

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
)

// What a terminal does on the way: the table is drawn over the one before, so that it does not flicker.
const (
	clearScreen = "\x1b[2J"
	home        = "\x1b[H"
	clearLine   = "\x1b[K\n"
	clearBelow  = "\x1b[J"
)

// writeTable draws the table at the top of the terminal. Prefill and decode are tokens, p50 and p99 wall times. What
// does not fit is cut off at the right.
func writeTable(out io.Writer, rows []row) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	if columns := width(out); columns > 0 {
		t.Style().Size.WidthMax = columns
	}
	t.AppendHeader(table.Row{"Rank", "Endpoint", "State", "Passes/s", "Prefill/s", "Decode/s", "Batch", "Queue", "p50", "p99", "Age", "Lost", "Refused"})
	configs := []table.ColumnConfig{{Number: 1, Align: text.AlignRight}}
	for n := 4; n <= 13; n++ {
		configs = append(configs, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(configs)
	for _, r := range rows {
		t.AppendRow(table.Row{
			r.rankText(), r.endpoint, r.state, number(r.passes), number(r.prefill), number(r.decode),
			r.batch, r.queue, duration(r.p50), duration(r.p99), r.ageText(), r.lost, r.rejected,
		})
	}
	text := home + strings.ReplaceAll(t.Render()+"\n", "\n", clearLine) + clearBelow
	_, err := io.WriteString(out, text)
	return err
}

// writeLines writes one line of key=value pairs per endpoint.
func writeLines(out io.Writer, rows []row) error {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "endpoint=%s state=%s rank=%s worker_id=%q passes_per_second=%s prefill_tokens_per_second=%s decode_tokens_per_second=%s "+
			"batch=%d queue=%d wall_p50=%s wall_p99=%s lost=%d refused=%d restarts=%d age=%s\n",
			printable(r.endpoint), r.state, r.rankText(), r.worker, number(r.passes), number(r.prefill), number(r.decode),
			r.batch, r.queue, duration(r.p50), duration(r.p99), r.lost, r.rejected, r.restarts, r.ageText())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *row) rankText() string {
	if r.rank == fpm.UnknownRank {
		return "-"
	}
	return fmt.Sprint(r.rank)
}

func (r *row) ageText() string {
	if r.age < 0 {
		return "-"
	}
	return r.age.Round(100 * time.Millisecond).String()
}

func number(v float64) string {
	if v > 0 && v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func duration(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(100 * time.Microsecond).String()
}

// printable replaces what a terminal would act on.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
