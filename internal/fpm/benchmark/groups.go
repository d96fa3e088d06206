package benchmark

import (
	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// groupCheck judges the iteration groups of an artifact. Every rank file of a run holds the groups of all ranks, so equal
// groups are judged once, in the first file.
type groupCheck struct {
	*artifact
	ledgers  map[int64]ledger
	forwards map[int64]int64 // last forward index seen, by rank
}

// checkGroups judges the groups in depth (merge, groups and measurements).
func (a *artifact) checkGroups(ledgers map[int64]ledger) {
	groups, ok := a.Root.Key("iteration_groups").Array()
	if !ok {
		return // reported with the counts, where the status lets them be judged
	}
	c := &groupCheck{artifact: a, ledgers: ledgers, forwards: map[int64]int64{}}
	seen := make(map[int64]bool, len(groups))
	for i, g := range a.Root.Key("iteration_groups").Items() {
		id, ok := g.Key("benchmark_id").Int()
		switch {
		case !a.want(ok && id >= 1 && id <= int64(len(groups)), g.Key("benchmark_id"), RulePointIDs, "one of 1..%d, without gaps", len(groups)):
		case !a.want(!seen[id], g.Key("benchmark_id"), RulePointIDs, "an id that occurs once"):
		default:
			seen[id] = true
			c.group(g, id, i)
		}
	}
}

func (c *groupCheck) group(g doc.Node, id int64, position int) {
	point := g.Key("point")
	c.checkPoint(point)
	pid, ok := point.Key("benchmark_id").Int()
	c.want(ok && pid == id, point.Key("benchmark_id"), RulePointIDs, "%d as the group's", id)
	complete, ok := g.Key("complete").Bool()
	c.want(ok && complete, g.Key("complete"), RuleGroupComplete, "true")
	if c.sizeKnown {
		c.want(isRankRange(g.Key("expected_dp_ranks"), c.size), g.Key("expected_dp_ranks"), RuleGroupRanks, "the ranks 0..%d in order", c.size-1)
	}
	results, ok := g.Key("rank_results").Array()
	if !ok || c.sizeKnown && int64(len(results)) != c.size {
		c.failFound(g.Key("rank_results"), RuleGroupRanks, doc.Show(doc.Number(len(results)))+" results", "one result for each of %d ranks", c.size)
		return
	}
	slowest, known := 0.0, true
	for rank, r := range g.Key("rank_results").Items() {
		at := r.Key("dp_rank")
		if got, ok := at.Int(); !c.want(ok && got == int64(rank), at, RuleGroupRanks, "%d: results are in order of rank", rank) {
			known = false
			continue
		}
		wall, ok := c.rankResult(r, point, id, int64(rank), position)
		slowest, known = max(slowest, wall), known && ok
	}
	wall, ok := g.Key("wall_time").Float()
	if known {
		c.want(ok && wall == slowest, g.Key("wall_time"), RuleGroupWallTime, "%s, the slowest rank's", seconds(slowest))
	}
}

// rankResult judges one rank's part of a group and returns its wall time.
func (c *groupCheck) rankResult(r, point doc.Node, id, rank int64, position int) (float64, bool) {
	fpms, ok := r.Key("fpms").Array()
	if !ok || len(fpms) != 1 {
		c.failFound(r.Key("fpms"), RuleFPMCount, doc.Show(doc.Number(len(fpms)))+" FPMs", "exactly one retained FPM")
		return 0, false
	}
	fpm := r.Key("fpms").At(0)
	if _, ok := fpm.Object(); !c.want(ok, fpm, RuleFPMCount, "a retained FPM") {
		return 0, false
	}
	counter, ok := fpm.Key("counter_id").Int()
	c.want(ok && counter == id, fpm.Key("counter_id"), RuleFPMCounter, "%d, the benchmark id", id)
	got, ok := fpm.Key("dp_rank").Int()
	c.want(ok && got == rank, fpm.Key("dp_rank"), RuleFPMRank, "%d", rank)
	wall, wallOK := secondsOf(fpm.Key("wall_time"))
	c.want(wallOK, fpm.Key("wall_time"), RuleFPMWallTime, "finite seconds >= 0")
	c.checkShape(fpm, point)
	m := &measurementCheck{groupCheck: c, fpm: fpm, node: fpm.Key("benchmark_measurement"), point: point, id: id, rank: rank, position: position}
	m.check(wall, wallOK)
	return wall, wallOK
}

// checkResults compares the results of a rank file with its groups (merge: the results match the group).
func (a *artifact) checkResults() {
	if !a.rankKnown {
		return
	}
	groups := map[int64]doc.Node{}
	for _, g := range a.Root.Key("iteration_groups").Items() {
		if id, ok := g.Key("benchmark_id").Int(); ok {
			groups[id] = g
		}
	}
	seen := map[int64]bool{}
	for _, r := range a.Root.Key("results").Items() {
		at := r.Key("point").Key("benchmark_id")
		id, ok := at.Int()
		group, known := groups[id]
		if !a.want(ok && known && !seen[id], at, RuleResultMismatch, "the id of one of the iteration groups, once") {
			continue
		}
		seen[id] = true
		a.sameAsGroup(r.Key("point"), group.Key("point"))
		a.sameAsGroup(r.Key("fpms"), group.Key("rank_results").At(int(a.rank)).Key("fpms"))
		a.checkRegime(r)
	}
}

func (a *artifact) sameAsGroup(result, group doc.Node) {
	if !group.Present() || doc.Equal(result.Value(), group.Value()) {
		return
	}
	at, other := firstDifference(result, group)
	a.fail(at, RuleResultMismatch, "%s as at %s", other.Show(), other.Path())
}

// checkRegime compares how a result and its measurement say that the KV cache was seeded.
func (a *artifact) checkRegime(result doc.Node) {
	row := result.Key("kv_seed_regime")
	at := result.Key("fpms").At(0).Key("benchmark_measurement").Key("preparation").Key("kv_seed_regime")
	if row.Present() && at.Present() && !doc.Equal(row.Value(), at.Value()) {
		a.fail(at, RuleMeasurementRegime, "%s as in the result", row.Show())
	}
}

// checkGroupsAlike reports the first place where a rank file's groups differ from another's, and says whether they do.
func (a *artifact) checkGroupsAlike(first *artifact) bool {
	mine, theirs := a.Root.Key("iteration_groups"), first.Root.Key("iteration_groups")
	if doc.Equal(mine.Value(), theirs.Value()) {
		return true
	}
	at, other := firstDifference(mine, theirs)
	a.fail(at, RuleGroupsDiffer, "%s as in %s", other.Show(), first.Path)
	return false
}
