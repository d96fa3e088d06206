package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kingpin/v2"

	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/relabel"
)

// maxExamples is how many lines are shown of each kind of loss.
const maxExamples = 3

// checkedPage is what is said of one page. Samples, Families and the rest are of a
// valid page.
type checkedPage struct {
	Valid bool   `json:"valid"`
	Error string `json:"error,omitempty"`
	Line  int    `json:"line,omitempty"` // of the error

	Format   string     `json:"format"`
	Families int        `json:"families"` // that leave
	Samples  int        `json:"samples"`  // of the page as it came
	Kept     int        `json:"kept"`     // samples that leave
	Lost     []lostPart `json:"lost"`
	Notes    []string   `json:"notes"` // what is odd, and costs no sample
}

// lostPart is what is lost of a page for one reason.
type lostPart struct {
	Reason   loss      `json:"reason"`
	Why      string    `json:"why"`
	Samples  int       `json:"samples"`
	Families int       `json:"families"`
	Examples []example `json:"examples"`
}

// example is one sample line.
type example struct {
	Line   int    `json:"line"`
	Sample string `json:"sample"`
}

func addCheckMetrics(parent *kingpin.CmdClause, all commands) {
	cmd := parent.Command("metrics", "Read a page from standard input and say whether it is valid and what of it would be lost. Exits with 1 if it is broken.")
	rules := addRuleFlags(cmd)
	format, output := "", ""
	formatFlag(cmd, &format)
	outputFlag(cmd, &output)
	all[cmd.FullCommand()] = func(_ context.Context, s streams) error {
		r, err := rulesOrDefaults(rules)
		if err != nil {
			return err
		}
		p, err := readPage(s, format)
		if err != nil {
			return err
		}
		checked, err := checkPage(r, p)
		if output != outputJSON {
			if err == nil {
				checked.writeTo(s.out)
			}
			return err
		}
		if written := writeJSON(s.out, checked); written != nil {
			return written
		}
		if err != nil {
			return errReported
		}
		return nil
	}
}

// rulesOrDefaults returns the rules that the flags name or, without a
// configuration, those that let every family through and map no engine.
func rulesOrDefaults(f *ruleFlags) (*relabel.Rules, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.configFile != "" {
		r, err := f.load()
		return r.rules, err
	}
	defaults := config.DefaultConfig()
	return relabel.NewRules(relabel.Options{
		OmniPrefix: defaults.OmniPrefix, Aliases: defaults.NormalizeNames,
		KeepCreated: defaults.CreatedSeries == config.CreatedKeep,
	}), nil
}

// checkPage checks one page. With the error, what is returned says the same.
func checkPage(rules *relabel.Rules, p page) (checkedPage, error) {
	checked := checkedPage{Format: p.format.String(), Lost: []lostPart{}, Notes: []string{}}
	e, err := explain(rules, p)
	if err != nil {
		checked.Error = err.Error()
		if broken, ok := errors.AsType[*brokenPage](err); ok {
			checked.Line = broken.parse.Line
		}
		return checked, err
	}
	checked.Valid = true
	checked.Families, checked.Samples = e.families, len(e.fates)
	checked.Lost = lostParts(e.fates)
	checked.Kept = checked.Samples
	for _, part := range checked.Lost {
		checked.Kept -= part.Samples
	}
	checked.Notes = append(checked.Notes, notes(e.summary)...)
	return checked, nil
}

// lostParts sums the losses of a page up, the largest first.
func lostParts(fates []fate) []lostPart {
	parts := map[loss]*lostPart{}
	families := map[loss]map[string]bool{}
	for i := range fates {
		f := &fates[i]
		if f.lost == "" {
			continue
		}
		part := parts[f.lost]
		if part == nil {
			part = &lostPart{Reason: f.lost, Why: f.lost.why()}
			parts[f.lost], families[f.lost] = part, map[string]bool{}
		}
		part.Samples++
		families[f.lost][f.Family] = true
		if len(part.Examples) < maxExamples {
			part.Examples = append(part.Examples, example{Line: f.Number, Sample: f.Before})
		}
	}
	out := make([]lostPart, 0, len(parts))
	for reason, part := range parts {
		part.Families = len(families[reason])
		out = append(out, *part)
	}
	slices.SortFunc(out, func(a, b lostPart) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

func notes(s *relabel.Summary) []string {
	var out []string
	if n := s.RetypedFamilies; n > 0 {
		out = append(out, fmt.Sprintf("%s contradict an earlier one of the family: the first one holds", counted(n, "TYPE line", "TYPE lines")))
	}
	if n := s.LabelCollisions; n > 0 {
		out = append(out, fmt.Sprintf("%s of the source make way and get the prefix exported_", counted(n, "label", "labels")))
	}
	return out
}

// writeTo writes the result for people.
func (c *checkedPage) writeTo(w io.Writer) {
	fmt.Fprintf(w, "valid: %s format, %s; %d leave, in %s\n", c.Format, counted(c.Samples, "sample", "samples"),
		c.Kept, counted(c.Families, "family", "families"))
	for i := range c.Lost {
		part := &c.Lost[i]
		fmt.Fprintf(w, "\n%s: %s of %s: %s\n", part.Reason, counted(part.Samples, "sample", "samples"), counted(part.Families, "family", "families"), part.Why)
		for _, e := range part.Examples {
			fmt.Fprintf(w, "  line %d: %s\n", e.Line, printable(e.Sample))
		}
		if more := part.Samples - len(part.Examples); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
	for _, note := range c.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
}
