package benchmark

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/google/renameio/v2"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// ErrRefused is what Merge returns when the rank files do not make one run; the report says why.
var ErrRefused = errors.New("merge refused")

// Merge makes one merged artifact of the rank files of a run. output is the path that the artifact will have, which it
// records. A merge is refused when a verification of the rank files finds an error, or when a file is no rank artifact. The
// rank files may be those of one of several workers of a run, that is a range of the ranks without gaps; the groups hold
// every rank in any case.
func Merge(files []*File, output string) (*doc.Object, Report, error) {
	v := newVerification(files)
	v.run()
	for _, f := range files {
		if f.Kind != KindRank && f.Kind != KindUnknown {
			c := checker{file: f.Path, out: &v.out}
			c.failFound(f.Root.Key("artifact_type"), RuleArtifactType, "a "+string(f.Kind), "a rank artifact, which is what a merge takes")
		}
	}
	ranks := slices.SortedStableFunc(slices.Values(v.ranks), func(a, b *artifact) int { return cmp.Compare(a.rank, b.rank) })
	for i := 1; i < len(ranks); i++ {
		if gap := ranks[i].rank - ranks[i-1].rank; gap > 1 && v.out.errors == 0 {
			ranks[i].failFound(ranks[i].Root.Key("dp").Key("rank"), RuleMissingRank, fmt.Sprintf("rank %d after rank %d", ranks[i].rank, ranks[i-1].rank),
				"the files of the ranks between them")
		}
	}
	if len(ranks) == 0 {
		v.out.add(Finding{"", "$", RuleMissingRank, SeverityError, "no rank files", "the rank files of a run"})
	}
	report := v.out.report()
	if !report.Valid {
		return nil, report, fmt.Errorf("%w: %s", ErrRefused, report.Summary())
	}
	return merge(ranks, output), report, nil
}

// merge builds the merged artifact of verified ranks: a copy of the first, with what belongs to one rank replaced by what
// describes all.
func merge(ranks []*artifact, output string) *doc.Object {
	first := ranks[0]
	root, _ := first.Root.Object()
	m := doc.Clone(root).(*doc.Object)
	size := first.size
	var all, sources, files []any
	for r := range size {
		all = append(all, doc.Number(r))
	}
	for _, a := range ranks {
		sources, files = append(sources, doc.Number(a.rank)), append(files, a.Path)
	}
	m.Set("artifact_type", string(KindMerged))
	m.Set("dp", doc.NewObject("ranks", all, "source_ranks", sources, "managed_size", doc.Number(len(ranks)), "global_size", doc.Number(size)))
	m.Set("rank_files", files)
	m.Set("merged_output_path", output)
	if engine := mergeEngines(ranks); engine != nil {
		m.Set("engine", engine)
		m.Set("worker_probe_path", SidecarPath(output))
	}
	m.Set("results", flatResults(ranks))
	if first.hasExecution {
		m.Delete("warmup_evidence")
		m.Set("rank_warmup_evidence", mergeWarmup(ranks, size))
	}
	m.Set("timing", mergeTiming(ranks))
	coverage := doc.NewObject()
	for _, key := range []string{"expected_points", "completed_points", "skipped_points"} {
		n, _ := first.Root.Key("coverage").Key(key).Int()
		coverage.Set(key, doc.Number(n*size))
	}
	m.Set("coverage", coverage)
	return m
}

// mergeEngines is one copy of the engine block, of the first rank whose capture succeeded, with the degraded ranks listed;
// nil when no rank has a block.
func mergeEngines(ranks []*artifact) *doc.Object {
	var source doc.Node
	found := false
	degraded := doc.NewObject()
	captured := false
	for _, a := range ranks {
		_, isObject := a.engine().Object()
		captured = captured || isObject
		failure := engineError(a.engine())
		if failure != "" {
			degraded.Set(strconv.FormatInt(a.rank, 10), failure)
		} else if !found {
			source, found = a.engine(), true
		}
	}
	if !captured {
		return nil
	}
	if !found {
		source = ranks[0].engine()
	}
	engine, ok := doc.Clone(source.Value()).(*doc.Object)
	if !ok {
		engine = doc.NewObject()
	}
	if parallel, ok := object(engine, "parallel"); ok {
		parallel.Set("data_parallel_rank", nil)
	}
	if degraded.Len() > 0 {
		engine.Set("capture_errors", degraded)
	}
	if probe := source.Key("worker_probe"); probe.Present() {
		// An older version wrote each rank's view of the probe into its block; the run's view is computed from the replies.
		failure, _ := probe.Key("error").Text()
		all := make([]int64, ranks[0].size)
		for r := range all {
			all[r] = int64(r)
		}
		ApplyProbe(engine, Probe(recordedReplies(probe.Key("responses")), failure, scopeOf(source, all)).Result())
	}
	return engine
}

// flatResults lays the groups out rank by rank, in order of benchmark id. How the KV cache was seeded is known for ranks
// whose file is there.
func flatResults(ranks []*artifact) []any {
	type rankPoint struct{ rank, id int64 }
	regimes := map[rankPoint]any{}
	for _, a := range ranks {
		for _, r := range a.Root.Key("results").Items() {
			id, _ := r.Key("point").Key("benchmark_id").Int()
			if regime := r.Key("kv_seed_regime"); regime.Present() {
				regimes[rankPoint{a.rank, id}] = regime.Value()
			}
		}
	}
	out := []any{}
	for _, g := range sortedGroups(ranks[0].Root) {
		id, _ := g.Key("benchmark_id").Int()
		for _, r := range g.Key("rank_results").Items() {
			rank, _ := r.Key("dp_rank").Int()
			point := doc.Clone(g.Key("point").Value()).(*doc.Object)
			point.Set("dp_rank", doc.Number(rank))
			entry := doc.NewObject("point", point, "fpms", doc.Clone(r.Key("fpms").Value()))
			if regime, ok := regimes[rankPoint{rank, id}]; ok {
				entry.Set("kv_seed_regime", regime)
			}
			out = append(out, entry)
		}
	}
	return out
}

// sortedGroups are the iteration groups in order of benchmark id.
func sortedGroups(root doc.Node) []doc.Node {
	return slices.SortedStableFunc(slices.Values(root.Key("iteration_groups").Items()), func(a, b doc.Node) int {
		x, _ := a.Key("benchmark_id").Int()
		y, _ := b.Key("benchmark_id").Int()
		return cmp.Compare(x, y)
	})
}

// mergeWarmup keeps every rank's warm-up evidence; a rank whose file was not merged has explicitly none.
func mergeWarmup(ranks []*artifact, size int64) *doc.Object {
	out := doc.NewObject()
	for r := range size {
		out.Set(strconv.FormatInt(r, 10), doc.NewObject("status", evidenceUnavailable, "records", []any{}, "reason", "rank_artifact_not_loaded"))
	}
	for _, a := range ranks {
		out.Set(strconv.FormatInt(a.rank, 10), doc.Clone(a.Root.Key("warmup_evidence").Value()))
	}
	return out
}

// mergeTiming is the timing of the slowest rank, and how long each rank took.
func mergeTiming(ranks []*artifact) *doc.Object {
	slowest, longest := ranks[0], -1.0
	elapsed := doc.NewObject()
	for _, a := range ranks {
		at := a.Root.Key("timing").Key("benchmark_elapsed_seconds")
		elapsed.Set(strconv.FormatInt(a.rank, 10), at.Value())
		if s, _ := at.Float(); s > longest {
			slowest, longest = a, s
		}
	}
	timing := doc.Clone(slowest.Root.Key("timing").Value()).(*doc.Object)
	sum := 0.0
	for _, g := range ranks[0].Root.Key("iteration_groups").Items() {
		w, _ := g.Key("wall_time").Float()
		sum += w
	}
	timing.Set("measured_iteration_seconds", doc.Number(sum))
	timing.Set("rank_benchmark_elapsed_seconds", elapsed)
	return timing
}

// ErrOverInput is what WriteMerged returns when the output is one of the inputs.
var ErrOverInput = errors.New("the output is one of the inputs")

// WriteMerged writes a merged artifact at once or not at all, never over one of the inputs.
func WriteMerged(output string, merged *doc.Object, inputs []*File) error {
	if at, err := os.Stat(output); err == nil {
		if !at.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", output)
		}
		for _, in := range inputs {
			if info, err := os.Stat(in.Path); err == nil && os.SameFile(at, info) {
				return fmt.Errorf("%s: %w; choose another output", output, ErrOverInput)
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := renameio.NewPendingFile(output, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer t.Cleanup() //nolint:errcheck // after CloseAtomicallyReplace there is nothing left to clean up
	if err := doc.Write(t, merged); err != nil {
		return err
	}
	return t.CloseAtomicallyReplace()
}
