package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

func addFPMCat(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("cat", "Write the rows of forward-pass traces as they are, one JSON object a line, in order of time.")
	in := traceFlags(cmd)
	follow := cmd.Flag("follow", "Go on with rows as they come, through new segments, until interrupted. Quote patterns, so that new files match.").Short('f').Bool()
	fromEnd := cmd.Flag("from-end", "With --follow: leave out what the files hold already.").Bool()
	all[cmd.FullCommand()] = func(ctx context.Context, s streams) error {
		if *follow {
			return followTraces(ctx, s, in, *fromEnd)
		}
		if *fromEnd {
			return &usageError{"--from-end goes with --follow"}
		}
		out := bufio.NewWriterSize(s.out, 64<<10)
		problems, err := in.read(ctx, s, true, "reading", func(r *trace.Row) error { return writeRow(out, r) })
		if err = errors.Join(err, out.Flush()); err != nil {
			return err
		}
		return problems.result()
	}
}

func writeRow(out *bufio.Writer, r *trace.Row) error {
	_, _ = out.Write(r.Line) // the writer keeps its first error
	if err := out.WriteByte('\n'); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	return nil
}

// followTraces writes rows until ctx ends, which is no error, or until they can be written no more.
func followTraces(ctx context.Context, s streams, in *traceInput, fromEnd bool) error {
	filter, err := in.filter(time.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := bufio.NewWriterSize(s.out, 64<<10)
	write := func(r *trace.Row) {
		if err := errors.Join(writeRow(out, r), out.Flush()); err != nil {
			cancel(err)
		}
	}
	trace.NewFollower(trace.FollowerOptions{
		Patterns: in.files, FromStart: !fromEnd, Logger: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Row: func(r *trace.Row) *fpm.RejectError {
			if ctx.Err() == nil && filter.Match(r) {
				write(r)
			}
			return nil
		},
	}).Run(ctx)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
