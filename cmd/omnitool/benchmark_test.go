package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
)

func TestBenchmark(t *testing.T) {
	dir := t.TempDir()
	paths := benchmarktest.New(t, benchmarktest.Options{Ranks: 2}).Write(t, dir)
	omnitool(t, "", append([]string{"benchmark", "verify"}, paths...)...).demand(t, 0, "VALID: ", "")
	omnitool(t, "", append([]string{"benchmark", "verify", "--output=json"}, paths...)...).demand(t, 0, `"valid": true`, "")

	ranks := []string{filepath.Join(dir, benchmarktest.RankFile(0)), filepath.Join(dir, benchmarktest.RankFile(1))}
	merged := filepath.Join(dir, "out.json")
	omnitool(t, "", append([]string{"benchmark", "merge", "-o", merged}, ranks...)...).demand(t, 0, "out.json", "")
	if info, err := os.Stat(merged); err != nil || info.Size() == 0 {
		t.Fatalf("merged artifact: %v", err)
	}
	omnitool(t, "", append([]string{"benchmark", "merge", "-o", ranks[0]}, ranks...)...).demand(t, 1, "", "input")
	omnitool(t, "", "benchmark", "show", merged).demand(t, 0, "prefill", "")
	omnitool(t, "", "benchmark", "plot", "-o", filepath.Join(dir, "plot.svg"), merged).demand(t, 0, "plot.svg", "")
	omnitool(t, "", "benchmark", "show", filepath.Join(dir, "none.json")).demand(t, 1, "", "none.json")
	omnitool(t, "", "benchmark", "verify").demand(t, 2, "", "file")
}
