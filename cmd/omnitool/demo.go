package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/demo"
	"github.com/omni-exporter/omni_exporter/internal/logging"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// demoAddress is where the demo's exporter listens: the exporter's usual port, on
// loopback.
const demoAddress = "127.0.0.1:10380"

// maxWarmUp is more than anyone waits for.
const maxWarmUp = 24 * time.Hour

func addDemo(app *kingpin.Application, all commands) {
	cmd := app.Command("demo", "Run the exporter over a simulated pipeline, on loopback, until it is interrupted.")
	o := demo.Options{}
	var faults []string
	names := make([]string, 0, len(simulator.Faults()))
	for _, f := range simulator.Faults() {
		names = append(names, string(f))
	}
	cmd.Flag("web.listen-address", "Where the exporter listens; port 0 takes a free one.").Default(demoAddress).StringVar(&o.Address)
	cmd.Flag("fault", "What to break, once the pipeline has run well for some minutes. Repeatable.").EnumsVar(&faults, names...)
	cmd.Flag("seed", "Number that the simulated traffic follows from.").Default("0").Uint64Var(&o.Seed)
	cmd.Flag("warm-up", "Simulated traffic that passes before the exporter is ready, so that its histograms are not empty.").
		Default(demo.DefaultWarmUp.String()).DurationVar(&o.WarmUp)
	logs := logging.AddFlags(cmd, "warn")
	all[cmd.FullCommand()] = func(ctx context.Context, s streams) error {
		if o.WarmUp < 0 || o.WarmUp > maxWarmUp {
			return &usageError{fmt.Sprintf("--warm-up must be from 0s to %v", maxWarmUp)}
		}
		o.Out, o.Logger = s.out, logs.New(s.err)
		for _, f := range faults {
			o.Faults = append(o.Faults, simulator.Fault(f))
		}
		return demo.Run(ctx, o)
	}
}
