package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kingpin/v2"
	"github.com/google/renameio/v2"

	"github.com/omni-exporter/omni_exporter/internal/fpm/plot"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

func addFPMPlot(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("plot", "Draw forward-pass traces: throughput, batches, queues and wall time over time, and wall time against tokens.")
	in := traceFlags(cmd)
	file := cmd.Flag("output-file", "Picture to write, .svg or .png.").Short('o').Required().String()
	title := cmd.Flag("title", "Title of the picture.").Default("Forward passes").String()
	all[cmd.FullCommand()] = func(ctx context.Context, s streams) error {
		format, err := plot.FormatOf(*file)
		if err != nil {
			return &usageError{"--output-file: " + err.Error()}
		}
		data := plot.New()
		problems, err := in.read(ctx, s, true, "reading", func(r *trace.Row) error {
			data.Add(r)
			return nil
		})
		if err != nil {
			return err
		}
		if data.Rows() == 0 {
			_ = problems.result() // what follows from them is the error
			return errors.New("there are no rows to draw")
		}
		if err := writePlot(data, *file, format, *title); err != nil {
			return err
		}
		return problems.result()
	}
}

// writePlot writes a picture, whole or not at all.
func writePlot(data *plot.Data, path, format, title string) error {
	out, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	defer func() { _ = out.Cleanup() }()
	if err := data.Write(out, format, title); err != nil {
		return err
	}
	if err := out.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	return nil
}
