package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// smallHeap is how much garbage may gather, in bytes, however little is in use:
	// below it, collecting costs more than the memory is worth.
	smallHeap = 32 << 20
	// leastPercent is how much garbage may gather in percent of what is in use, however
	// much that is. Most of it is pages, which hold no pointers: collecting them often
	// costs little, and keeps the memory near the size of what is served.
	leastPercent = 20
	// tuneInterval is how often the choice is looked at again.
	tuneInterval = 2 * time.Second
)

// gcPercent returns the garbage collector's target for a heap of which that many
// bytes are in use.
func gcPercent(live uint64) int {
	if live == 0 {
		return leastPercent // nothing is known yet: the first pages are the largest garbage
	}
	return int(min(max(smallHeap*100/live, leastPercent), 100))
}

// tuneGC keeps the garbage collector's target at that of the heap as it is, until ctx
// ends.
func tuneGC(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcPercent(0)
	debug.SetGCPercent(percent)
	tick := time.NewTicker(tuneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			continue
		}
		// Setting it stops the world for a moment.
		if now := gcPercent(sample[0].Value.Uint64()); now != percent {
			percent = now
			debug.SetGCPercent(percent)
		}
	}
}
