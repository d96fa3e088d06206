// Package watch shows the forward passes of running ranks as they happen: a table that is redrawn on a terminal, plain
// lines elsewhere.
package watch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/term"

	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

const (
	// window is what rates and quantiles look back on.
	window = 5 * time.Second
	// redraw is the pace of the table, report that of the plain lines, whose windows so follow on each other.
	redraw = time.Second
	report = window
)

// Run subscribes to the endpoints and writes what their ranks do to out until ctx ends, which is no error. It returns
// an error for a bad endpoint, before anything is written, and when out cannot be written to.
func Run(ctx context.Context, endpoints []stream.Endpoint, out io.Writer, isTTY bool) error {
	m := newMonitor(endpoints)
	supervisor := stream.NewSupervisor(stream.Options{Sink: m.deliver, Logger: slog.New(slog.DiscardHandler)})
	defer supervisor.Close()
	if err := supervisor.Apply(endpoints); err != nil {
		return err
	}
	pace, write := report, writeLines
	if isTTY {
		pace, write = redraw, writeTable
		if _, err := io.WriteString(out, clearScreen); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if err := write(out, m.rows(supervisor.State(), now)); err != nil {
				return fmt.Errorf("write forward passes: %w", err)
			}
		}
	}
}

// width returns the columns of the terminal behind out, 0 if unknown.
func width(out io.Writer) int {
	f, ok := out.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
