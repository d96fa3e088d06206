// Package benchmark reads the artifacts of Dynamo's self-benchmark (--benchmark-mode): one JSON file per data-parallel
// rank, one merged file, and the worker-probe sidecar next to the merged file. It judges whether they can be trusted,
// merges rank files, and recomputes what a sidecar claims.
//
// Times are in seconds, token and request counts are whole numbers, ranks are global data-parallel ranks unless said
// otherwise. The rules are those of Dynamo's FPM reference; each constant of type Rule says which part of it.
package benchmark

import (
	"fmt"
	"slices"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Severity says whether a finding makes a benchmark untrustworthy.
type Severity string

const (
	// SeverityError marks a broken rule: the artifacts contradict themselves or one another.
	SeverityError Severity = "error"
	// SeverityNote marks what is not wrong but limits what the artifacts show.
	SeverityNote Severity = "note"
)

// Finding is one thing that a check has to say.
type Finding struct {
	File     string   `json:"file"`
	Path     string   `json:"path"` // JSONPath in File
	Rule     Rule     `json:"rule"`
	Severity Severity `json:"severity"`
	Found    string   `json:"found"`
	Expected string   `json:"expected"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s: found %s, expected %s", f.File, f.Path, f.Severity, f.Rule, f.Found, f.Expected)
}

// MaxFindings is how many findings a report lists; the rest is counted, so that a hostile file cannot bloat a report.
const MaxFindings = 2000

// Report is the outcome of a check.
type Report struct {
	Valid    bool      `json:"valid"` // no finding of SeverityError
	Findings []Finding `json:"findings"`
	Omitted  int       `json:"omitted_findings,omitempty"` // findings past MaxFindings
}

// Errors are the findings that make the report invalid.
func (r Report) Errors() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Severity != SeverityError })
}

// Summary is a one-line account of an invalid report, for a log line or an error.
func (r Report) Summary() string {
	errs := r.Errors()
	if len(errs) == 0 {
		return "no errors"
	}
	if len(errs) == 1 {
		return errs[0].String()
	}
	return fmt.Sprintf("%d findings, the first: %s", len(errs), errs[0])
}

// findings collects what all checks of one verification say.
type findings struct {
	list    []Finding
	errors  int
	omitted int
}

func (f *findings) add(finding Finding) {
	if finding.Severity == SeverityError {
		f.errors++
	}
	if len(f.list) >= MaxFindings {
		f.omitted++
		return
	}
	f.list = append(f.list, finding)
}

func (f *findings) report() Report {
	list := f.list
	if list == nil {
		list = []Finding{}
	}
	return Report{Valid: f.errors == 0, Findings: list, Omitted: f.omitted}
}

// checker adds the findings of one file.
type checker struct {
	file string
	out  *findings
}

// fail reports a broken rule at n, which holds something other than expected.
func (c *checker) fail(n doc.Node, rule Rule, expected string, args ...any) {
	c.failFound(n, rule, n.Show(), expected, args...)
}

// failFound reports a broken rule at n where the value itself does not say what is wrong.
func (c *checker) failFound(n doc.Node, rule Rule, found, expected string, args ...any) {
	c.out.add(Finding{c.file, n.Path(), rule, SeverityError, found, fmt.Sprintf(expected, args...)})
}

// note reports what limits the evidence without breaking a rule.
func (c *checker) note(n doc.Node, rule Rule, found, expected string, args ...any) {
	c.out.add(Finding{c.file, n.Path(), rule, SeverityNote, found, fmt.Sprintf(expected, args...)})
}

// want reports rule at n unless ok, and returns ok.
func (c *checker) want(ok bool, n doc.Node, rule Rule, expected string, args ...any) bool {
	if !ok {
		c.fail(n, rule, expected, args...)
	}
	return ok
}

// oneOf says whether n is a string of the set, and reports rule otherwise.
func (c *checker) oneOf(n doc.Node, rule Rule, set ...string) bool {
	s, ok := n.Text()
	return c.want(ok && slices.Contains(set, s), n, rule, "one of %s", strings.Join(set, ", "))
}

// count says whether n is an integer >= 0, and reports rule otherwise.
func (c *checker) count(n doc.Node, rule Rule) (int64, bool) {
	i, ok := n.Int()
	ok = ok && i >= 0
	return i, c.want(ok, n, rule, "an integer >= 0")
}
