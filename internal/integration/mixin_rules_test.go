//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestMixinRules runs the mixin's own unit tests of its rules with promtool of both major versions.
func TestMixinRules(t *testing.T) {
	rules := mixinRules(t)
	tests, err := filepath.Glob(filepath.Join(filepath.Dir(rules[0]), "tests", "*.yaml"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("no rule tests: %v", err)
	}
	for version, tool := range map[string]string{"v2": "debian", "v3": "prometheus"} {
		t.Run(version, func(t *testing.T) {
			promtool := filepath.Join(filepath.Dir(prometheusPath(t, tool)), "promtool")
			for _, arguments := range [][]string{append([]string{"check", "rules"}, rules...), append([]string{"test", "rules"}, tests...)} {
				if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
					t.Errorf("promtool %s: %v\n%s", arguments[0], err, out)
				}
			}
		})
	}
}

// TestMixinRulesAreAllTested demands a unit test for each alert that makes it fire.
func TestMixinRulesAreAllTested(t *testing.T) {
	rules := mixinRules(t)
	tests, err := filepath.Glob(filepath.Join(filepath.Dir(rules[0]), "tests", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, path := range tests {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`ALERTS\{alertname="(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			fired[match[1]] = true
		}
	}
	names := alertNames(t, rules[0])
	for name := range names {
		if !fired[name] {
			t.Errorf("no unit test makes %s fire", name)
		}
	}
	t.Logf("%d alerts, each made to fire", len(names))
}

// alertNames returns the names of the alerts in a rule file.
func alertNames(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			names[rule.Alert] = true
		}
	}
	return names
}
