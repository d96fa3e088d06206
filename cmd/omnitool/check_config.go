package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exporter"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
	"github.com/omni-exporter/omni_exporter/internal/scrape"
)

// checkedConfig is what is said of one configuration file.
type checkedConfig struct {
	File     string        `json:"file"`
	Valid    bool          `json:"valid"`
	Faults   []configFault `json:"faults"`
	Warnings []string      `json:"warnings"`

	Pipelines int `json:"pipelines"`
	Targets   int `json:"targets"` // after relabeling
	Engines   int `json:"engines"` // of the pipelines' stages
	Streams   int `json:"streams"` // of forward-pass metrics
}

// configFault is one thing that is wrong. Line and Path are empty where unknown.
type configFault struct {
	Line    int    `json:"line,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`

	text string // the whole, for people
}

func addCheckConfig(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("config", "Check configuration files. Exits with 1 if one cannot be used, and says where and why.")
	files := cmd.Arg("file", "Configuration files.").Required().Strings()
	output := ""
	outputFlag(cmd, &output)
	all[cmd.FullCommand()] = func(_ context.Context, s streams) error {
		// Linux alone says which ports it gives to outbound connections.
		ephemeral, _ := stream.ReadEphemeralRange(stream.EphemeralRangeFile)
		checked := make([]checkedConfig, len(*files))
		valid := true
		for i, file := range *files {
			checked[i] = checkConfig(file, ephemeral)
			valid = valid && checked[i].Valid
		}
		if output == outputJSON {
			if err := writeJSON(s.out, checked); err != nil {
				return err
			}
		} else {
			writeChecked(s, checked)
		}
		if !valid {
			return errReported
		}
		return nil
	}
}

// checkConfig does with a file what the exporter does at its start, but for
// listening and connecting.
func checkConfig(file string, ephemeral stream.PortRange) checkedConfig {
	checked := checkedConfig{File: file, Faults: []configFault{}, Warnings: []string{}}
	c, err := config.Load(file)
	if err != nil {
		checked.Faults = configFaults(err)
		return checked
	}
	pool, err := scrape.NewPool(c, scrape.PoolOptions{})
	if err != nil {
		checked.Faults = []configFault{{Message: err.Error(), text: fmt.Sprintf("%s: %v", file, err)}}
		return checked
	}
	defer pool.Close()
	checked.Valid = true
	checked.Pipelines, checked.Targets = len(c.Pipelines), len(pool.Targets())
	for i := range c.Pipelines {
		checked.Engines += c.Pipelines[i].Engines()
	}
	blocks := exporter.StreamBlocks(c)
	checked.Streams = len(blocks)
	checked.Warnings = append(checked.Warnings, stream.LintPorts(blocks, ephemeral)...)
	return checked
}

// configFaults takes the joined error of config.Load apart.
func configFaults(err error) []configFault {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	faults := make([]configFault, 0, len(all))
	for _, err := range all {
		f := configFault{Message: err.Error(), text: err.Error()}
		if fault, ok := errors.AsType[*config.Error](err); ok {
			f.Line, f.Path, f.Message = fault.Line, fault.Path, fault.Msg
		}
		faults = append(faults, f)
	}
	return faults
}

// writeChecked writes what is wrong to the error stream and what is well to the
// other.
func writeChecked(s streams, checked []checkedConfig) {
	for i := range checked {
		c := &checked[i]
		for _, fault := range c.Faults {
			fmt.Fprintln(s.err, fault.text)
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(s.err, "%s: warning: %s\n", c.File, warning)
		}
		if c.Valid {
			fmt.Fprintf(s.out, "%s: valid: %s, %s, %s, %s\n", c.File, counted(c.Pipelines, "pipeline", "pipelines"),
				counted(c.Engines, "engine", "engines"), counted(c.Targets, "target", "targets"), counted(c.Streams, "forward-pass stream", "forward-pass streams"))
		}
	}
}
