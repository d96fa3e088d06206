//go:build integration

package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPrometheusExamplesAreValid lets promtool of both major versions read the example configurations of deploy/.
func TestPrometheusExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "prometheus", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, tool := range []string{"debian", "prometheus"} {
		promtool := filepath.Join(filepath.Dir(prometheusPath(t, tool)), "promtool")
		arguments := append([]string{"check", "config"}, files...)
		if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", promtool, err, out)
		}
	}
}
