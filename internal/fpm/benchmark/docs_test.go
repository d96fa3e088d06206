package benchmark_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestRulesAreDocumented looks for every rule in the table of docs/benchmark.md, whose first column has names and patterns.
func TestRulesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../docs/benchmark.md")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(data)) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				patterns = append(patterns, m[1])
			}
		}
	}
	used := map[string]bool{}
	for _, b := range brokenRules() {
		found := false
		for _, p := range patterns {
			if ok, err := path.Match(p, string(b.rule)); err != nil {
				t.Fatal(err)
			} else if ok {
				found, used[p] = true, true
			}
		}
		if !found {
			t.Errorf("%s is not documented", b.rule)
		}
	}
	for _, p := range patterns {
		if !used[p] && !strings.Contains(p, "benchmark") && !strings.HasPrefix(p, "...") {
			t.Errorf("%s is documented, but no rule", p)
		}
	}
}
