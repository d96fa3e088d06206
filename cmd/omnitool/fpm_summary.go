package main

import (
	"context"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/fpm/summary"
)

func addFPMSummary(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("summary", "Say what the rows of forward-pass traces come to: passes, tokens, batches, wall time, gaps, rank by rank.")
	in := traceFlags(cmd)
	output := ""
	outputFlag(cmd, &output)
	all[cmd.FullCommand()] = func(ctx context.Context, s streams) error {
		sum := summary.New()
		problems, err := in.read(ctx, s, false, "reading", sum.Add)
		if err != nil {
			return err
		}
		if output == outputJSON {
			err = writeJSON(s.out, sum.Ranks())
		} else {
			err = summary.WriteTable(s.out, sum.Ranks())
		}
		if err != nil {
			return err
		}
		return problems.result()
	}
}
