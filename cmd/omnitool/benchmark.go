package main

import (
	"context"
	"io"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/report"
)

// addBenchmark adds the commands over self-benchmark artifacts.
func addBenchmark(parent *kingpin.CmdClause, all commands) {
	add := func(cmd *kingpin.CmdClause, do func(io.Writer, report.Options) (int, error)) *kingpin.CmdClause {
		format := ""
		outputFlag(cmd, &format)
		all[cmd.FullCommand()] = func(_ context.Context, s streams) error {
			status, err := do(s.out, report.Options{JSON: format == outputJSON, Limits: report.DefaultLimits()})
			if err == nil && status != 0 {
				return errReported
			}
			return err
		}
		return cmd
	}
	var files []string
	var output, first, second string

	verify := add(parent.Command("verify", "Judge rank, merged and sidecar files together: 0 if they can be trusted, 1 if not."),
		func(w io.Writer, o report.Options) (int, error) { return report.Verify(w, files, o) })
	verify.Arg("file", "Files of one benchmark run.").Required().StringsVar(&files)

	merge := add(parent.Command("merge", "Merge the files of all ranks into one artifact."),
		func(w io.Writer, o report.Options) (int, error) { return report.Merge(w, output, files, o) })
	merge.Flag("output-file", "File to write; it must not be one of the inputs.").Short('o').Required().StringVar(&output)
	merge.Arg("rank", "The file of each rank.").Required().StringsVar(&files)

	show := add(parent.Command("show", "Show what a run measured and whether it can be trusted."),
		func(w io.Writer, o report.Options) (int, error) { return report.Show(w, first, o) })
	show.Arg("file", "A rank or merged artifact.").Required().StringVar(&first)

	compare := add(parent.Command("compare", "Say whether two runs can be compared, and what differs."),
		func(w io.Writer, o report.Options) (int, error) { return report.Compare(w, first, second, o) })
	compare.Arg("a", "An artifact of one run.").Required().StringVar(&first)
	compare.Arg("b", "An artifact of the other run.").Required().StringVar(&second)

	plot := add(parent.Command("plot", "Draw wall time against tokens and batch size, by phase, with the spread of the ranks."),
		func(w io.Writer, o report.Options) (int, error) { return report.Plot(w, output, first, o) })
	plot.Flag("output-file", "File to write, .svg or .png.").Short('o').Required().StringVar(&output)
	plot.Arg("file", "A rank or merged artifact.").Required().StringVar(&first)
}
