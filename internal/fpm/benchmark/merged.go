package benchmark

import (
	"slices"
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// checkMerged judges what only a merged artifact has.
func (a *artifact) checkMerged() {
	a.checkMergedResults()
	a.checkMergedTiming()
	sources, known := a.sourceRanks()
	files := a.Root.Key("rank_files")
	list, ok := files.Array()
	a.want(ok && (!known || len(list) == len(sources)), files, RuleMergedPaths, "the path of each source rank's file")
	path := a.Root.Key("worker_probe_path")
	_, hasEngine := a.engine().Object()
	_, isText := path.Text()
	a.want(!path.Present() || hasEngine && isText, path, RuleMergedPaths, "a path, and none without an engine block")
}

// checkMergedResults compares the flat results with the groups: in order of benchmark id and rank, each point with its rank.
func (a *artifact) checkMergedResults() {
	results := a.Root.Key("results").Items()
	i := 0
	for _, g := range sortedGroups(a.Root) {
		for rank, r := range g.Key("rank_results").Items() {
			if i >= len(results) {
				return // reported with the counts
			}
			a.checkMergedResult(results[i], g, r, int64(rank))
			i++
		}
	}
}

func (a *artifact) checkMergedResult(result, g, r doc.Node, rank int64) {
	at := result.Key("point").Key("dp_rank")
	got, ok := at.Int()
	if !a.want(ok && got == rank, at, RuleMergedResults, "%d: results are in order of benchmark id and rank", rank) {
		return
	}
	point, _ := result.Key("point").Object()
	bare := doc.Clone(point).(*doc.Object)
	bare.Delete("dp_rank")
	if !doc.Equal(bare, g.Key("point").Value()) {
		a.fail(result.Key("point"), RuleMergedResults, "%s with dp_rank %d", g.Key("point").Show(), rank)
		return
	}
	if !doc.Equal(result.Key("fpms").Value(), r.Key("fpms").Value()) {
		place, other := firstDifference(result.Key("fpms"), r.Key("fpms"))
		a.fail(place, RuleMergedResults, "%s as at %s", other.Show(), other.Path())
		return
	}
	a.checkRegime(result)
}

// checkMergedTiming: the run took as long as its slowest rank.
func (a *artifact) checkMergedTiming() {
	at := a.Root.Key("timing").Key("rank_benchmark_elapsed_seconds")
	ranks, ok := at.Object()
	if !a.want(ok, at, RuleMergedTiming, "an object with the seconds of each source rank") {
		return
	}
	sources, known := a.sourceRanks()
	longest, ok := 0.0, true
	for key := range ranks.All() {
		r, err := strconv.ParseInt(key, 10, 64)
		s, isSeconds := secondsOf(at.Key(key))
		ok = a.want(err == nil && isSeconds && (!known || slices.Contains(sources, r)), at.Key(key), RuleMergedTiming, "seconds of a source rank") && ok
		longest = max(longest, s)
	}
	if known && ok && !a.want(ranks.Len() == len(sources), at, RuleMergedTiming, "the seconds of %s", showRanks(sources)) {
		return
	}
	total, isSeconds := secondsOf(a.Root.Key("timing").Key("benchmark_elapsed_seconds"))
	if ok && isSeconds {
		a.want(total == longest, a.Root.Key("timing").Key("benchmark_elapsed_seconds"), RuleMergedTiming, "%s, the slowest rank's", seconds(longest))
	}
}

// checkAgainstRanks compares a merged artifact with what its rank files merge to, when all of them were given.
func (a *artifact) checkAgainstRanks(ranks []*artifact) {
	sources, ok := a.sourceRanks()
	if !ok {
		return
	}
	var own []*artifact
	for _, r := range sources {
		for _, file := range ranks {
			if file.rank == r {
				own = append(own, file)
			}
		}
	}
	if len(own) != len(sources) {
		return
	}
	want := doc.Root(merge(own, a.Path))
	// Paths are where the files were on the machine of the run.
	skip := []string{"rank_files", "merged_output_path", "worker_probe_path", "engine"}
	mine, _ := a.Root.Object()
	theirs, _ := want.Object()
	for _, key := range unionKeys(mine, theirs) {
		if slices.Contains(skip, key) {
			continue
		}
		left, right := a.Root.Key(key), want.Key(key)
		if left.Present() == right.Present() && doc.Equal(left.Value(), right.Value()) {
			continue
		}
		place, other := firstDifference(left, right)
		a.fail(place, RuleMergedDiffers, "%s, what the rank files merge to", other.Show())
	}
	a.checkMergedEngine(want.Key("engine"))
}

func (a *artifact) checkMergedEngine(want doc.Node) {
	mine, ok1 := a.engine().Object()
	theirs, ok2 := want.Object()
	if ok1 != ok2 {
		a.fail(a.engine(), RuleMergedDiffers, "%s, what the rank files merge to", want.Show())
		return
	}
	if !ok1 {
		return
	}
	left, right := doc.Root(doc.NewObject("engine", engineIdentity(mine))), doc.Root(doc.NewObject("engine", engineIdentity(theirs)))
	if !doc.Equal(left.Value(), right.Value()) {
		place, other := firstDifference(left, right)
		a.fail(place, RuleMergedDiffers, "%s, what the rank files merge to", other.Show())
	}
}

func unionKeys(a, b *doc.Object) []string {
	var keys []string
	for key := range a.All() {
		keys = append(keys, key)
	}
	for key := range b.All() {
		if _, ok := a.Get(key); !ok {
			keys = append(keys, key)
		}
	}
	return keys
}
