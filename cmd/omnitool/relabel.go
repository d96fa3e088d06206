package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
)

// explainedLine is one sample line that leaves otherwise than it came, or does not
// leave, or has no place.
type explainedLine struct {
	Line   int      `json:"line"`
	Before string   `json:"before"`
	After  string   `json:"after,omitempty"`   // "" if it does not leave
	Lost   loss     `json:"dropped,omitempty"` // why it does not
	Why    []string `json:"why"`
}

func addRelabel(app *kingpin.Application, all commands) {
	cmd := app.Command("relabel", "Read a page from standard input and write what omni_exporter makes of it.")
	rules := addRuleFlags(cmd)
	stages, format, output, explainIt := "", "", "", false
	cmd.Flag("stages", "Replicas of each stage, in order, such as 1,2,2: for a page of one server, without a configuration.").StringVar(&stages)
	formatFlag(cmd, &format)
	cmd.Flag("explain", "Write each changed line before and after, and why, instead of the page.").BoolVar(&explainIt)
	outputFlag(cmd, &output)
	all[cmd.FullCommand()] = func(_ context.Context, s streams) error {
		if output == outputJSON && !explainIt {
			return &usageError{"a page is written in the text format: --output=json goes with --explain"}
		}
		r, err := relabelRules(rules, stages)
		if err != nil {
			return err
		}
		p, err := readPage(s, format)
		if err != nil {
			return err
		}
		e, err := explain(r.rules, p)
		switch {
		case err != nil:
			return err
		case !explainIt:
			_, err := e.merged.View(exposition.Text, true).WriteTo(s.out)
			return err
		case output == outputJSON:
			return writeJSON(s.out, explainLines(e.fates, r.own))
		}
		writeExplained(s.out, e, r.own)
		return nil
	}
}

// relabelRules returns the rules of the target that the flags name or, without a
// configuration, those of one server with the stages given.
func relabelRules(f *ruleFlags, stages string) (targetRules, error) {
	switch err := f.check(); {
	case err != nil:
		return targetRules{}, err
	case f.configFile != "" && stages != "":
		return targetRules{}, &usageError{"--config.file and --stages exclude each other: the configuration has stages of its own"}
	case f.configFile != "":
		return f.load()
	case stages == "":
		return targetRules{}, &usageError{"how engines map is not said: add --config.file and --target, or --stages"}
	}
	c, err := config.FromFlags(config.FlagConfig{Upstreams: []string{"localhost:8000"}, Stages: stages})
	if err != nil {
		return targetRules{}, err
	}
	return f.choose(c)
}

// explainLines returns the lines that there is something to say about.
func explainLines(fates []fate, own bool) []explainedLine {
	out := []explainedLine{}
	for i := range fates {
		f := &fates[i]
		if !f.Changed() && f.lost == "" && !f.Unmapped {
			continue
		}
		l := explainedLine{Line: f.Number, Before: f.Before, After: f.After, Lost: f.lost, Why: f.reasons(own)}
		if f.lost != "" {
			l.After = ""
		}
		out = append(out, l)
	}
	return out
}

// reasons says why a line leaves as it does. own tells that the target is one
// replica of a stage.
func (f *fate) reasons(own bool) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	by := "by the flat map of the pipeline's stages"
	if own {
		by = "by the stage and replica of the target"
	}
	switch {
	case f.lost != "":
		say("dropped, %s: %s", f.lost, f.lost.why())
		if f.HasEngine && f.Unmapped {
			say("engine %q", f.Engine)
		}
		return out
	case f.Unmapped:
		say("engine %q is not in the map and stays, as on_unmapped has it", f.Engine)
	case f.ByEngine:
		say("engine %q -> stage %q, replica %q, %s", f.Engine, f.Place.Stage, f.Place.Replica, by)
	case f.ByTarget:
		say("no engine -> stage %q, replica %q, those of the target", f.Place.Stage, f.Place.Replica)
	}
	if f.OmniPrefix {
		say("renamed to the prefix of omni_prefix")
	}
	if f.Alias {
		say("renamed to the current name of %q, which the page does not have", f.Family)
	}
	for _, name := range f.Added {
		say("label %q added, of the pipeline or the target", name)
	}
	for _, name := range f.Moved {
		say("label collision: the source's %q makes way and becomes %q", strings.TrimPrefix(name, "exported_"), name)
	}
	if f.RuleRenamed {
		say("renamed by a rule of metric_relabel_configs")
	}
	if f.RuleLabels {
		say("labels changed by a rule of metric_relabel_configs")
	}
	return out
}

// writeExplained writes the explanation for people.
func writeExplained(w io.Writer, e *explained, own bool) {
	lost := 0
	for i := range e.fates {
		if e.fates[i].lost != "" {
			lost++
		}
	}
	lines := explainLines(e.fates, own)
	for i := range lines {
		l := &lines[i]
		fmt.Fprintf(w, "line %d: %s\n", l.Line, strings.Join(l.Why, "; "))
		fmt.Fprintf(w, "  - %s\n", printable(l.Before))
		if l.After != "" {
			fmt.Fprintf(w, "  + %s\n", printable(l.After))
		}
	}
	fmt.Fprintf(w, "%s: %d as they came, %d explained, of which %d dropped\n", counted(len(e.fates), "sample", "samples"),
		len(e.fates)-len(lines), len(lines), lost)
}
