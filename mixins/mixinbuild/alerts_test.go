package mixinbuild

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// ruleGroups reads both rule files as Prometheus 3 does, expressions and templates included.
func ruleGroups(t *testing.T, out *Output) []rulefmt.RuleGroup {
	t.Helper()
	var all []rulefmt.RuleGroup
	for _, text := range [][]byte{out.Alerts, out.Rules} {
		groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
		for _, err := range errs {
			t.Error(err)
		}
		if groups != nil {
			all = append(all, groups.Groups...)
		}
	}
	return all
}

// TestAlertConventions holds the conventions of monitoring mixins that mixtool lints by.
func TestAlertConventions(t *testing.T) {
	var (
		alertName = regexp.MustCompile(`^([A-Z]+[a-z0-9]+)+$`)
		summary   = regexp.MustCompile(`^[A-Z].+\.$`)
		recorded  = regexp.MustCompile(`^[a-z_]+:[a-z0-9_]+:[a-z0-9_]+$`)
		severity  = map[string]bool{"critical": true, "warning": true, "info": true}
		names     = map[string]bool{}
	)
	for _, g := range ruleGroups(t, build(t, "{}")) {
		if len(g.Name) > 40 || names[g.Name] || len(g.Rules) > 20 {
			t.Errorf("group %q: name too long or used twice, or %d rules", g.Name, len(g.Rules))
		}
		names[g.Name] = true
		for _, r := range g.Rules {
			if r.Record != "" {
				if !recorded.MatchString(r.Record) {
					t.Errorf("rule %q is not named level:metric:operations", r.Record)
				}
				continue
			}
			a := r.Annotations
			switch {
			case !alertName.MatchString(r.Alert) || len(r.Alert) > 40:
				t.Errorf("alert %q: name", r.Alert)
			case !severity[r.Labels["severity"]]:
				t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
			case !summary.MatchString(a["summary"]) || strings.Contains(a["summary"], "{{"):
				t.Errorf("%s: summary %q is no fixed sentence", r.Alert, a["summary"])
			case !strings.Contains(a["description"], "{{") || !strings.HasSuffix(a["description"], "."):
				t.Errorf("%s: description %q", r.Alert, a["description"])
			case r.For == 0:
				t.Errorf("%s fires at once", r.Alert)
			}
		}
	}
}

// TestDescriptionsUseLabelsThatExist catches a description that names a label which the aggregation has dropped: it would
// be rendered as nothing.
func TestDescriptionsUseLabelsThatExist(t *testing.T) {
	used := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	for _, g := range ruleGroups(t, build(t, "{}")) {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			kept := map[string]bool{"job": true, "instance": true} // of a bare series
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if a, ok := node.(*parser.AggregateExpr); ok {
					for _, label := range a.Grouping {
						kept[label] = true
					}
				}
				return nil
			})
			for _, text := range r.Annotations {
				for _, match := range used.FindAllStringSubmatch(text, -1) {
					if !kept[match[1]] {
						t.Errorf("%s: the description uses label %q, which %s does not keep", r.Alert, match[1], r.Expr)
					}
				}
			}
		}
	}
}

func TestRunbookHasEveryAlert(t *testing.T) {
	text, err := os.ReadFile(source + "/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = body
	}
	alerts := map[string]bool{}
	for _, g := range ruleGroups(t, build(t, "{}")) {
		for _, r := range g.Rules {
			if r.Alert == "" || alerts[r.Alert] {
				continue
			}
			alerts[r.Alert] = true
			body, ok := sections[r.Alert]
			if !ok {
				t.Errorf("runbook.md has no section %q", r.Alert)
				continue
			}
			for _, part := range []string{"**Meaning.**", "**Impact.**", "**Diagnosis.**", "**Mitigation.**"} {
				if !strings.Contains(body, part) {
					t.Errorf("runbook.md, %s: no %s", r.Alert, part)
				}
			}
			if !strings.HasSuffix(r.Annotations["runbook_url"], "#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s: runbook_url %q", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
	for name := range sections {
		if !alerts[name] {
			t.Errorf("runbook.md has a section %q, and there is no such alert", name)
		}
	}
}
