package benchmark

import (
	"math"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Tolerances of the producer's arithmetic (merge): relative for every comparison of times, and absolute in seconds, wider
// for the difference of two monotonic timestamps than for sums and reductions.
const (
	relTolerance      = 1e-9
	intervalTolerance = 1e-9
	sumTolerance      = 1e-12
)

// near reports whether two times are equal within the relative tolerance or the absolute one, whichever is wider.
func near(a, b, absolute float64) bool {
	return math.Abs(a-b) <= math.Max(relTolerance*math.Max(math.Abs(a), math.Abs(b)), absolute)
}

// secondsOf reads a finite number of seconds >= 0.
func secondsOf(n doc.Node) (float64, bool) {
	v, ok := n.Float()
	return v, ok && v >= 0
}

// checkTiming judges the run's timing block against its groups (merge: missing, non-finite, measured is not the sum of the
// groups, measured exceeds elapsed).
func (a *artifact) checkTiming() {
	t := a.Root.Key("timing")
	if _, ok := t.Object(); !a.want(ok, t, RuleTiming, "an object") {
		return
	}
	for _, key := range []string{"started_at", "completed_at"} {
		s, _ := t.Key(key).Text()
		_, err := time.Parse(time.RFC3339, s)
		a.want(err == nil, t.Key(key), RuleTiming, "a time in RFC 3339")
	}
	elapsed, okElapsed := secondsOf(t.Key("benchmark_elapsed_seconds"))
	a.want(okElapsed, t.Key("benchmark_elapsed_seconds"), RuleTiming, "finite seconds >= 0")
	measured, okMeasured := secondsOf(t.Key("measured_iteration_seconds"))
	if !a.want(okMeasured, t.Key("measured_iteration_seconds"), RuleTiming, "finite seconds >= 0") {
		return
	}
	sum, known := 0.0, true
	for _, g := range a.Root.Key("iteration_groups").Items() {
		w, ok := g.Key("wall_time").Float()
		sum, known = sum+w, known && ok
	}
	if known && !near(measured, sum, sumTolerance) {
		a.fail(t.Key("measured_iteration_seconds"), RuleTimingMeasuredSum, "%s, the sum of the groups' wall_time", seconds(sum))
		return
	}
	if okElapsed && measured > elapsed+sumTolerance {
		a.fail(t.Key("benchmark_elapsed_seconds"), RuleTimingElapsed, "at least the %s s measured", seconds(measured))
	}
}

// Timing bases of a sample (Per-Sample Timing and Graph Dispatch).
const (
	basisSchedule = "schedule_to_output"
	basisInter    = "inter_output"
)

// checkSampleTiming judges one sample's interval. The clock is the rank process's own: timestamps of different ranks are
// never compared. A null start is unknown and proves nothing.
func (c *checker) checkSampleTiming(sample doc.Node, wall float64, wallKnown bool) {
	t := sample.Key("timing")
	c.oneOf(t.Key("basis"), RuleTimingBasis, basisSchedule, basisInter)
	end, ok := t.Key("end_monotonic").Float()
	if !c.want(ok, t.Key("end_monotonic"), RuleTimingInterval, "finite seconds") {
		return
	}
	startNode := t.Key("start_monotonic")
	if startNode.IsNone() {
		return
	}
	start, ok := startNode.Float()
	if !c.want(ok && start <= end, startNode, RuleTimingInterval, "null, or seconds <= end_monotonic %s", seconds(end)) {
		return
	}
	if wallKnown && !near(end-start, wall, intervalTolerance) {
		c.failFound(t, RuleTimingInterval, "end - start = "+seconds(end-start)+" s", "the sample's wall_time %s s within 1e-9", seconds(wall))
	}
}
