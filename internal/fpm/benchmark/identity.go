package benchmark

import (
	"slices"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// maxDPSize bounds dp.size, which sizes the checks; it is far above any deployment.
const maxDPSize = 1 << 16

// artifact is a rank or merged artifact with the facts that other checks build on. A fact that could not be read has been
// reported, and checks that need it are left out, so that one broken rule gives one finding.
type artifact struct {
	*File
	checker

	runID, gridDigest string
	rank              int64 // of a rank artifact
	rankKnown         bool
	size              int64 // data-parallel ranks of the run
	sizeKnown         bool
	status            string
	hasProtocol       bool // measurement_protocol is written, whatever it is
	hasExecution      bool // it declares the per-sample and warm-up evidence
}

func newArtifact(f *File, out *findings) *artifact {
	return &artifact{File: f, checker: checker{file: f.Path, out: out}}
}

// checkIdentity judges what the artifact says it is (merge: run_id, grid_digest and rank metadata).
func (a *artifact) checkIdentity() {
	version := a.Root.Key("schema_version")
	v, ok := version.Int()
	a.want(ok && v == schemaVersion, version, RuleSchema, "%d (older artifacts have other fields and are not read)", schemaVersion)
	a.runID = a.name("run_id", RuleRunID)
	a.gridDigest = a.name("grid_digest", RuleGridDigest)
	dp := a.Root.Key("dp")
	if a.Kind == KindMerged {
		a.checkMergedDP(dp)
		return
	}
	size, ok := dp.Key("size").Int()
	a.sizeKnown = a.want(ok && size >= 1 && size <= maxDPSize, dp.Key("size"), RuleDPSize, "an integer >= 1")
	if a.sizeKnown {
		a.size = size
	}
	rank, ok := dp.Key("rank").Int()
	ok = ok && rank >= 0 && (!a.sizeKnown || rank < size)
	a.rankKnown = a.want(ok, dp.Key("rank"), RuleDPRank, "an integer in 0..dp.size-1")
	a.rank = rank
}

func (a *artifact) name(key string, rule Rule) string {
	n := a.Root.Key(key)
	s, ok := n.Text()
	a.want(ok && s != "", n, rule, "a non-empty string")
	return s
}

// checkMergedDP judges the dp block of a merged artifact: ranks lists the whole run, source_ranks those whose files were
// merged (fewer than all when the run spans several workers).
func (a *artifact) checkMergedDP(dp doc.Node) {
	size, ok := dp.Key("global_size").Int()
	a.sizeKnown = a.want(ok && size >= 1 && size <= maxDPSize, dp.Key("global_size"), RuleMergedDP, "an integer >= 1")
	if !a.sizeKnown {
		return
	}
	a.size = size
	a.want(isRankRange(dp.Key("ranks"), size), dp.Key("ranks"), RuleMergedDP, "the ranks 0..%d in order", size-1)
	sources, ok := a.sourceRanks()
	if !a.want(ok, dp.Key("source_ranks"), RuleMergedDP, "different ranks of 0..%d", size-1) {
		return
	}
	managed, ok := dp.Key("managed_size").Int()
	a.want(ok && managed == int64(len(sources)), dp.Key("managed_size"), RuleMergedDP, "%d, the number of source_ranks", len(sources))
}

// sourceRanks are the ranks whose files a merged artifact was made of.
func (a *artifact) sourceRanks() ([]int64, bool) {
	node := a.Root.Key("dp").Key("source_ranks")
	ranks, ok := ints(node)
	if !ok || len(ranks) == 0 {
		return nil, false
	}
	seen := map[int64]bool{}
	for _, r := range ranks {
		if r < 0 || r >= a.size || seen[r] {
			return nil, false
		}
		seen[r] = true
	}
	return ranks, true
}

// ints reads an array of integers.
func ints(n doc.Node) ([]int64, bool) {
	items, ok := n.Array()
	if !ok {
		return nil, false
	}
	out := make([]int64, len(items))
	for i, v := range items {
		if out[i], ok = doc.Int(v); !ok {
			return nil, false
		}
	}
	return out, true
}

// isRankRange says whether n is the array 0, 1, ..., size-1.
func isRankRange(n doc.Node, size int64) bool {
	ranks, ok := ints(n)
	if !ok || int64(len(ranks)) != size {
		return false
	}
	for i, r := range ranks {
		if r != int64(i) {
			return false
		}
	}
	return true
}

// checkSameRun compares the rank files given together (merge: differing run_id, grid_digest, dp size, status, coverage,
// protocol). What follows from a difference already reported for a file is not reported again.
func checkSameRun(ranks []*artifact) {
	if len(ranks) == 0 {
		return
	}
	first := ranks[0]
	for _, a := range ranks[1:] {
		if a.runID != "" && first.runID != "" && a.runID != first.runID {
			a.fail(a.Root.Key("run_id"), RuleRunID, "%q as in %s: check one run at a time", first.runID, first.Path)
		}
		if a.gridDigest != "" && first.gridDigest != "" && a.gridDigest != first.gridDigest {
			a.fail(a.Root.Key("grid_digest"), RuleGridDigest, "%q as in %s", first.gridDigest, first.Path)
		}
		if a.sizeKnown && first.sizeKnown && a.size != first.size {
			a.fail(a.Root.Key("dp").Key("size"), RuleDPSize, "%d as in %s", first.size, first.Path)
		}
		switch {
		case a.status != "" && first.status != "" && a.status != first.status:
			a.fail(a.Root.Key("status"), RuleStatusMismatch, "%q as in %s", first.status, first.Path)
		case !doc.Equal(a.Root.Key("coverage").Value(), first.Root.Key("coverage").Value()):
			a.fail(a.Root.Key("coverage"), RuleCoverageMismatch, "%s as in %s", first.Root.Key("coverage").Show(), first.Path)
		}
		a.checkSameProtocol(first)
	}
	checkRankSet(ranks)
}

// checkRankSet reports ranks that are there twice, and those that are not.
func checkRankSet(ranks []*artifact) {
	byRank := map[int64]*artifact{}
	allKnown := true
	for _, a := range ranks {
		if !a.rankKnown {
			allKnown = false
			continue
		}
		if other := byRank[a.rank]; other != nil {
			a.fail(a.Root.Key("dp").Key("rank"), RuleDuplicateRank, "another rank than %s", other.Path)
			continue
		}
		byRank[a.rank] = a
	}
	first := ranks[0]
	if !first.sizeKnown || !allKnown {
		return
	}
	if missing := missingRanks(byRank, first.size); len(missing) > 0 {
		first.note(first.Root.Key("dp").Key("size"), RuleMissingRank, showRanks(missing)+" without a file",
			"the files of all %d ranks, unless another worker of the run has the rest", first.size)
	}
}

func missingRanks(have map[int64]*artifact, size int64) []int64 {
	var missing []int64
	for r := range size {
		if have[r] == nil {
			missing = append(missing, r)
		}
	}
	return missing
}

// showRanks lists ranks for a person, "ranks 1, 2, 5..7".
func showRanks(ranks []int64) string {
	return countOf(len(ranks), "rank", "ranks") + " " + ranges(slices.Sorted(slices.Values(ranks)))
}
