package exporter

import (
	"context"
	"log/slog"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
)

// artifacts shows benchmark artifacts, and looks now and then whether they changed.
type artifacts struct {
	families *collector.Benchmark
	cancel   context.CancelFunc
	done     chan struct{}
}

func newArtifacts(logger *slog.Logger) *artifacts {
	ctx, cancel := context.WithCancel(context.Background())
	a := &artifacts{
		families: collector.NewBenchmark(collector.BenchmarkOptions{Logger: logger}), cancel: cancel, done: make(chan struct{}),
	}
	go func() {
		defer close(a.done)
		a.families.Run(ctx, 0)
	}()
	return a
}

func (a *artifacts) apply(c *config.ForwardPassMetrics) { a.families.SetPatterns(c.BenchmarkArtifacts) }

func (a *artifacts) close() {
	a.cancel()
	<-a.done
}
