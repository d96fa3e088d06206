package benchmark_test

import (
	"testing"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/benchmarktest"
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// BenchmarkVerifyFiles reads and judges the files of a run of eight ranks and 50 points from disk.
func BenchmarkVerifyFiles(b *testing.B) {
	s := benchmarktest.New(b, benchmarktest.Options{Ranks: 8, Points: 25})
	paths := s.Write(b, b.TempDir())
	var size int64
	for _, p := range paths {
		size += fileSize(b, p)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if r := benchmark.VerifyFiles(paths, doc.Limits{}); !r.Valid {
			b.Fatal(show(r))
		}
	}
}
