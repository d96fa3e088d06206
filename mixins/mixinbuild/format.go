package mixinbuild

import (
	"fmt"

	"github.com/google/go-jsonnet/formatter"
)

// Format returns jsonnet in the style that jsonnetfmt writes by default.
func Format(name, text string) (string, error) {
	formatted, err := formatter.Format(name, text, formatter.DefaultOptions())
	if err != nil {
		return "", fmt.Errorf("format jsonnet: %w", err)
	}
	return formatted, nil
}
