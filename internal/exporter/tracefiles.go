package exporter

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/omni-exporter/omni_exporter/collector"
	"github.com/omni-exporter/omni_exporter/internal/config"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
)

// traceFiles follows the trace files of the configuration.
type traceFiles struct {
	totals    *trace.Totals
	deliverer *trace.Deliverer
	log       *slog.Logger

	mu        sync.Mutex
	follower  *trace.Follower // nil while there are no patterns
	fromStart bool
	stateFile string
	cancel    context.CancelFunc
	done      chan struct{}
}

func newTraceFiles(gate *trace.Gate, logger *slog.Logger) *traceFiles {
	return &traceFiles{totals: trace.NewTotals(), deliverer: trace.NewDeliverer(gate.Trace), log: logger}
}

func (t *traceFiles) collector(gate *trace.Gate) prometheus.Collector {
	return collector.NewFPMTraceFiles(collector.FPMTraceFiles{
		Totals: t.totals, State: t.state, SkippedRows: gate.SkippedRows, SkippedRecords: gate.SkippedRecords,
	})
}

func (t *traceFiles) state() trace.FollowerState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.follower == nil {
		return trace.FollowerState{StateSaved: true}
	}
	return t.follower.State()
}

// apply follows the files of a configuration. Files that were followed before go on
// where they are.
func (t *traceFiles) apply(f *config.ForwardPassMetrics) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.follower != nil && len(f.TraceFiles) > 0 && t.fromStart == f.TraceFromStart && t.stateFile == f.TraceStateFile {
		t.follower.SetPatterns(f.TraceFiles)
		return
	}
	t.end()
	if len(f.TraceFiles) == 0 {
		return
	}
	t.fromStart, t.stateFile = f.TraceFromStart, f.TraceStateFile
	t.follower = trace.NewFollower(trace.FollowerOptions{
		Patterns: f.TraceFiles, FromStart: f.TraceFromStart, StateFile: f.TraceStateFile,
		Row: t.deliverer.Row, Totals: t.totals, Logger: t.log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	follower, done := t.follower, make(chan struct{})
	t.cancel, t.done = cancel, done
	go func() {
		defer close(done)
		follower.Run(ctx)
	}()
}

func (t *traceFiles) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
}

// end stops following. The lock is held.
func (t *traceFiles) end() {
	if t.follower != nil {
		t.cancel()
		<-t.done
		t.follower = nil
	}
}
