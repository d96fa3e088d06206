// Package tracetest makes traces for tests, of a simulated engine.
package tracetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/trace"
	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// Start is when simulated traces begin.
var Start = time.Date(2026, 6, 30, 20, 0, 0, 0, time.UTC)

// Simulate returns the rows of two ranks of an engine under a load that comes in waves. The same duration gives the same
// rows.
func Simulate(d time.Duration) ([]trace.Row, error) {
	var passes []simulator.ForwardPass
	p, err := simulator.New(simulator.Options{
		Seed: 7, Start: Start, WavePeriod: 3 * time.Minute,
		ForwardPasses: func(pass simulator.ForwardPass) { passes = append(passes, pass) },
	})
	if err != nil {
		return nil, err
	}
	const step = 10 * time.Millisecond
	var rows []trace.Row
	for p.Now().Before(Start.Add(d)) {
		passes = passes[:0]
		p.Step(step)
		for i := range passes {
			rows = append(rows, trace.Row{
				Elapsed: p.Now().Sub(Start), Namespace: "default", Component: "backend", Producer: passes[i].WorkerID,
				Capture: fpm.CaptureFull, Observed: p.Now(), Record: record(&passes[i]),
			})
		}
	}
	return rows, nil
}

func record(pass *simulator.ForwardPass) fpm.Record {
	s, q := &pass.Scheduled, &pass.Queued
	return fpm.Record{
		Version: uint64(pass.Version), WorkerID: pass.WorkerID, DPRank: uint64(pass.DPRank), CounterID: pass.CounterID, WallTime: pass.WallTime,
		Scheduled: fpm.Scheduled{
			NumPrefillRequests: uint64(s.NumPrefillRequests), SumPrefillTokens: uint64(s.SumPrefillTokens), VarPrefillLength: s.VarPrefillLength,
			SumPrefillKVTokens: uint64(s.SumPrefillKVTokens), NumDecodeRequests: uint64(s.NumDecodeRequests),
			SumDecodeKVTokens: uint64(s.SumDecodeKVTokens), VarDecodeKVTokens: s.VarDecodeKVTokens,
		},
		Queued: fpm.Queued{
			NumPrefillRequests: uint64(q.NumPrefillRequests), SumPrefillTokens: uint64(q.SumPrefillTokens), VarPrefillLength: q.VarPrefillLength,
			NumDecodeRequests: uint64(q.NumDecodeRequests), SumDecodeKVTokens: uint64(q.SumDecodeKVTokens), VarDecodeKVTokens: q.VarDecodeKVTokens,
		},
	}
}

// Row returns a row of a pass that decodes, of rank 0 of a worker.
func Row(worker string, counter uint64, at time.Time) trace.Row {
	return trace.Row{
		Namespace: "default", Component: "backend", Producer: worker, Capture: fpm.CaptureFull, Observed: at,
		Record: fpm.Record{
			Version: 1, WorkerID: worker, CounterID: counter, WallTime: 0.02,
			Scheduled: fpm.Scheduled{NumDecodeRequests: 4, SumDecodeKVTokens: 4000},
		},
	}
}

// WriteFile writes rows as a file of gzip members of so many rows each.
func WriteFile(path string, rows []trace.Row, perMember int) error {
	var out bytes.Buffer
	for len(rows) > 0 {
		n := min(perMember, len(rows))
		z := gzip.NewWriter(&out)
		for i := range rows[:n] {
			if _, err := z.Write(rows[i].AppendJSON(nil)); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write trace of %s bytes: %w", strconv.Itoa(out.Len()), err)
	}
	return nil
}
