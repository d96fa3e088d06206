package benchmark

import "github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"

// Statuses of a run. Only the first two have numbers to trust.
const (
	StatusComplete = "complete" // every point measured
	StatusPartial  = "partial"  // stopped by the time limit, what is there is whole
	StatusFailed   = "failed"
)

// stopTimeout is the only stop_reason a partial run has.
const stopTimeout = "timeout"

// coverage is the coverage block, per rank: a merged artifact's counts are divided by its number of ranks.
type coverage struct {
	expected, completed, skipped int64
}

// checkCoverage judges status and coverage (merge: status not allowed, coverage arithmetic wrong).
func (a *artifact) checkCoverage() {
	status := a.Root.Key("status")
	if s, _ := status.Text(); s == StatusFailed {
		a.failFound(status, RuleStatus, "failed: error "+a.Root.Key("error").Show(), "complete or partial")
		return
	}
	if !a.oneOf(status, RuleStatus, StatusComplete, StatusPartial) {
		return
	}
	a.status, _ = status.Text()
	cov, ok := a.readCoverage()
	if !ok {
		return
	}
	a.checkCounts(cov)
	a.checkStatusConsistency(cov)
	a.checkSkipped()
}

func (a *artifact) readCoverage() (coverage, bool) {
	n := a.Root.Key("coverage")
	expected, ok1 := a.count(n.Key("expected_points"), RuleCoverageArithmetic)
	completed, ok2 := a.count(n.Key("completed_points"), RuleCoverageArithmetic)
	skipped, ok3 := a.count(n.Key("skipped_points"), RuleCoverageArithmetic)
	if !ok1 || !ok2 || !ok3 {
		return coverage{}, false
	}
	if !a.want(completed <= expected-skipped, n, RuleCoverageArithmetic, "completed_points + skipped_points <= expected_points") {
		return coverage{}, false
	}
	return coverage{expected, completed, skipped}, true
}

// checkCounts compares the coverage with the lists it counts. A merged artifact counts rank-points: its coverage is that of
// one rank times the ranks of the run, its groups and skipped points are those of one rank, its results those of all.
func (a *artifact) checkCounts(cov coverage) {
	scale := int64(1)
	if a.Kind == KindMerged {
		if !a.sizeKnown {
			return
		}
		scale = a.size
		for _, c := range []int64{cov.expected, cov.completed, cov.skipped} {
			if !a.want(c%scale == 0, a.Root.Key("coverage"), RuleCoverageArithmetic, "counts of one rank times %d ranks", scale) {
				return
			}
		}
	}
	a.checkLength("results", cov.completed, "completed_points")
	a.checkLength("iteration_groups", cov.completed/scale, "completed_points of one rank")
	a.checkLength("skipped_points", cov.skipped/scale, "skipped_points of one rank")
}

func (a *artifact) checkLength(key string, want int64, what string) {
	n := a.Root.Key(key)
	items, ok := n.Array()
	if !ok {
		// The producer may leave out an empty list of skipped points; results and groups it always writes.
		a.want(key == "skipped_points" && !n.Present() && want == 0, n, RuleCoverageCounts, "an array of %d", want)
		return
	}
	if int64(len(items)) != want {
		a.failFound(n, RuleCoverageCounts, doc.Show(doc.Number(len(items)))+" "+key, "%d, the %s", want, what)
	}
}

// checkStatusConsistency: complete means valid, nothing missing and no reason to stop; partial means not valid but usable,
// stopped by the time limit with points left and none skipped (merge).
func (a *artifact) checkStatusConsistency(cov coverage) {
	root := a.Root
	complete := a.status == StatusComplete
	flag := func(key string, want, mayBeAbsent bool) {
		n := root.Key(key)
		v, ok := n.Bool()
		a.want(ok && v == want || mayBeAbsent && !n.Present(), n, RuleStatusConsistency, "%v with status %s", want, a.status)
	}
	flag("valid", complete, false)
	flag("usable", true, complete)
	flag("timing_valid", true, true)
	stop := root.Key("stop_reason")
	if complete {
		a.want(stop.IsNone(), stop, RuleStatusConsistency, "null with status complete")
		a.want(cov.completed == cov.expected, root.Key("coverage").Key("completed_points"), RuleStatusConsistency,
			"%d, every expected point, with status complete", cov.expected)
	} else {
		s, _ := stop.Text()
		a.want(s == stopTimeout, stop, RuleStatusConsistency, "%q with status partial", stopTimeout)
		a.want(cov.completed < cov.expected, root.Key("coverage").Key("completed_points"), RuleStatusConsistency,
			"less than %d with status partial", cov.expected)
	}
	a.want(cov.skipped == 0, root.Key("coverage").Key("skipped_points"), RuleStatusConsistency, "0 with status %s", a.status)
	a.want(root.Key("error").IsNone(), root.Key("error"), RuleStatusConsistency, "null with status %s", a.status)
	missing := root.Key("missing_phases")
	phases, ok := missing.Array()
	a.want(!missing.Present() || ok && len(phases) == 0, missing, RuleStatusConsistency, "an empty array with status %s", a.status)
}

func (a *artifact) checkSkipped() {
	for _, skipped := range a.Root.Key("skipped_points").Items() {
		_, isPoint := skipped.Key("point").Object()
		reason, _ := skipped.Key("reason").Text()
		a.want(isPoint && reason != "", skipped, RuleSkippedPoint, "a point and a reason")
	}
}
