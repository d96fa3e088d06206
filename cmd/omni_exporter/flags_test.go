package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFlagsAreDocumented compares the table in docs/configuration.md with what the
// program takes.
func TestFlagsAreDocumented(t *testing.T) {
	code, help, _ := ended(t, "--help")
	if code != 0 {
		t.Fatalf("--help: status %d", code)
	}
	doc, err := os.ReadFile(filepath.FromSlash("../../docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(doc), "\n## Flags\n")
	if !found {
		t.Fatal("docs/configuration.md has no section Flags")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	taken := names(regexp.MustCompile(`(?m)^ {2,6}(?:-h, )?--(?:\[no-\])?([a-z][a-z.-]*)`), help)
	documented := names(regexp.MustCompile("(?m)^\\| `--([a-z.-]+)`"), section)
	if !slices.Equal(taken, documented) {
		t.Errorf("flags of the program:\n%s\nflags in docs/configuration.md:\n%s", strings.Join(taken, "\n"), strings.Join(documented, "\n"))
	}
}

// names returns what the group of re matches, in order of the alphabet.
func names(re *regexp.Regexp, text string) []string {
	var found []string
	for _, match := range re.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}
