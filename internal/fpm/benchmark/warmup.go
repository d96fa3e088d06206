package benchmark

import (
	"slices"
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

const (
	evidenceRecorded    = "recorded"
	evidenceUnavailable = "unavailable"
)

// ledger is a rank's warm-up evidence as far as measurements refer to it.
type ledger struct {
	recorded bool
	records  []warmupRecord
}

type warmupRecord struct {
	running bool
	end     int64
	ended   bool
}

// checkWarmup judges the warm-up evidence of a file and adds what it holds to ledgers, by rank: a rank file has its own,
// a merged file those of all ranks. Evidence that is itself broken is left out, so measurements are not judged by it.
func (a *artifact) checkWarmup(ledgers map[int64]ledger) {
	own, all := a.Root.Key("warmup_evidence"), a.Root.Key("rank_warmup_evidence")
	if !a.hasExecution {
		for _, n := range []doc.Node{own, all} {
			a.want(!n.Present(), n, RuleWarmupWithout, "none: the protocol declares no execution_evidence")
		}
		return
	}
	if a.Kind == KindRank {
		if l, ok := a.checkLedger(own); ok && a.rankKnown {
			ledgers[a.rank] = l
		}
		return
	}
	a.want(!own.Present(), own, RuleMergedWarmup, "absent: a merged artifact keeps it as rank_warmup_evidence")
	ranks, ok := all.Object()
	if !a.want(ok, all, RuleMergedWarmup, "an object with the evidence of each rank") || !a.sizeKnown {
		return
	}
	sources, known := a.sourceRanks()
	for r := range a.size {
		n := all.Key(strconv.FormatInt(r, 10))
		if !a.want(n.Present(), n, RuleMergedWarmup, "the evidence of rank %d, unavailable if its file was not merged", r) {
			continue
		}
		// The evidence of a rank whose file was not merged is unavailable here, and unknown to its measurements.
		if l, ok := a.checkLedger(n); ok && (!known || slices.Contains(sources, r)) {
			ledgers[r] = l
		}
	}
	a.want(int64(ranks.Len()) <= a.size, all, RuleMergedWarmup, "no more than %d ranks", a.size)
}

// checkLedger judges the evidence of one rank (Warmup Completion Evidence).
func (a *artifact) checkLedger(n doc.Node) (ledger, bool) {
	if !a.oneOf(n.Key("status"), RuleWarmup, evidenceRecorded, evidenceUnavailable) {
		return ledger{}, false
	}
	status, _ := n.Key("status").Text()
	records, ok := n.Key("records").Array()
	if !a.want(ok, n.Key("records"), RuleWarmup, "an array") {
		return ledger{}, false
	}
	if status == evidenceUnavailable {
		return ledger{}, a.want(len(records) == 0, n.Key("records"), RuleWarmup, "no records with status unavailable")
	}
	l := ledger{recorded: true}
	good := true
	var before int64
	for _, r := range n.Key("records").Items() {
		record, ok := a.checkRecord(r)
		good = good && ok
		l.records = append(l.records, record)
		if points, ok := a.count(r.Key("completed_points_before"), RuleWarmupRecord); ok {
			a.want(points >= before, r.Key("completed_points_before"), RuleWarmupOrder, "at least %d, that of the record before", before)
			before = max(before, points)
		}
	}
	return l, good
}

func (a *artifact) checkRecord(r doc.Node) (warmupRecord, bool) {
	ok := a.oneOf(r.Key("kind"), RuleWarmupRecord, "global", "eager_shape", "real_prefix_seed", "real_prefix_shape")
	ok = a.oneOf(r.Key("status"), RuleWarmupRecord, "running", "completed", "failed") && ok
	status, _ := r.Key("status").Text()
	ok = a.checkValidation(r.Key("validation"), status) && ok
	start, okStart := a.optionalCount(r.Key("forward_index_start"))
	end, okEnd := a.optionalCount(r.Key("forward_index_end"))
	record := warmupRecord{running: status == "running", end: end, ended: !r.Key("forward_index_end").IsNone()}
	if !okStart || !okEnd {
		return record, false
	}
	started := !r.Key("forward_index_start").IsNone()
	if !a.want(!started || !record.ended || start <= end, r.Key("forward_index_end"), RuleWarmupRange, "null or >= %d, the start", start) {
		return record, false
	}
	if !a.want(status != "completed" || record.ended, r.Key("forward_index_end"), RuleWarmupRange, "an end: the attempt completed") {
		return record, false
	}
	count := r.Key("observed_forward_count")
	if count.IsNone() {
		return record, ok
	}
	seen, isCount := a.count(count, RuleWarmupCount)
	if isCount && started && record.ended {
		isCount = a.want(seen == end-start, count, RuleWarmupCount, "%d, the forwards from start to end", end-start)
	}
	return record, ok && isCount
}

func (a *artifact) checkValidation(v doc.Node, status string) bool {
	if !a.oneOf(v.Key("status"), RuleWarmupValidation, "not_performed", "passed", "failed") {
		return false
	}
	if scope := v.Key("scope"); !scope.IsNone() {
		a.wantText(scope, RuleWarmupValidation, "attention_dp_group")
	}
	if failed := v.Key("failed_dp_rank"); !failed.IsNone() {
		a.count(failed, RuleWarmupValidation)
	}
	// A pass needs an attempt that ended, a failure fails the attempt; "not_performed" goes with either.
	switch s, _ := v.Key("status").Text(); s {
	case "passed":
		return a.want(status == "completed", v.Key("status"), RuleWarmupValidation, "no pass: the attempt is %s", status)
	case "failed":
		return a.want(status == "failed", v.Key("status"), RuleWarmupValidation, "no failure: the attempt is %s", status)
	}
	return true
}

// optionalCount reads a forward index that may be null: an unobserved start, an unfinished end.
func (a *artifact) optionalCount(n doc.Node) (int64, bool) {
	if n.IsNone() {
		return 0, true
	}
	return a.count(n, RuleWarmupRange)
}

// checkWarmupReference judges what a measurement says of the warm-ups before it: as many records as it names exist, none of
// them was still running, and all ended before its first forward (merge).
func (c *checker) checkWarmupReference(before doc.Node, l ledger, known bool, firstForward int64, forwardKnown bool) {
	if before.IsNone() {
		c.want(!known || !l.recorded, before, RuleWarmupReference, "the number of warm-up records before this point")
		return
	}
	n, ok := c.count(before, RuleWarmupReference)
	if !ok || !known {
		return
	}
	if !c.want(l.recorded, before, RuleWarmupReference, "null: the rank's warm-up evidence is unavailable") ||
		!c.want(n <= int64(len(l.records)), before, RuleWarmupReference, "at most %d, the records there are", len(l.records)) {
		return
	}
	for i, r := range l.records[:n] {
		if r.running {
			c.failFound(before, RuleWarmupOverlap, "warm-up record "+strconv.Itoa(i)+" still running", "warm-ups that ended before the point")
			return
		}
		if r.ended && forwardKnown && r.end > firstForward {
			c.failFound(before, RuleWarmupOverlap, "warm-up record "+strconv.Itoa(i)+" ending at forward "+strconv.FormatInt(r.end, 10),
				"an end at or before forward %d, the point's first", firstForward)
			return
		}
	}
}
