package benchmark

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// sidecar is a worker-probe sidecar and, when it was given, the merged artifact it belongs to.
type sidecar struct {
	*File
	checker
	merged *artifact
}

// checkSidecar judges a sidecar: its own form, that it belongs to the merged artifact, and that every claim in it follows
// from the replies it keeps (Worker Probe Sidecar, Worker Probe Coverage).
func (s *sidecar) check() {
	schema := s.Root.Key("schema")
	if name, _ := schema.Text(); !s.want(name == sidecarSchema, schema, RuleSidecar, "%q", sidecarSchema) {
		return
	}
	version, ok := s.Root.Key("schema_version").Int()
	s.want(ok && version == blockSchemaVersion, s.Root.Key("schema_version"), RuleSidecar, "%d", blockSchemaVersion)
	runID := s.Root.Key("run_id")
	id, ok := runID.Text()
	s.want(ok && id != "", runID, RuleSidecar, "a non-empty string")
	for _, key := range []string{"merged", "ranks"} {
		_, ok := s.Root.Key(key).Object()
		s.want(ok, s.Root.Key(key), RuleSidecar, "an object")
	}
	if s.merged == nil {
		s.note(s.Root, RuleSidecarAlone, "a sidecar alone", "its merged artifact too, without which its coverage cannot be recomputed")
		return
	}
	if id != "" && s.merged.runID != "" && id != s.merged.runID {
		s.fail(runID, RuleSidecarRunID, "%q, the run of %s: the sidecar is of another run", s.merged.runID, s.merged.Path)
		return
	}
	s.checkResults()
}

func (s *sidecar) checkResults() {
	engine := s.merged.engine()
	if _, ok := engine.Object(); !s.want(ok, s.Root, RuleSidecar, "none: %s has no engine block", s.merged.Path) {
		return
	}
	all, ok := ints(s.merged.Root.Key("dp").Key("ranks"))
	if !ok {
		return // reported as merged_dp
	}
	merged := s.Root.Key("merged")
	s.checkResult(merged, scopeOf(engine, all))
	sources, ok := s.merged.sourceRanks()
	if !ok {
		return
	}
	files := s.Root.Key("rank_files")
	list, ok := files.Array()
	s.want(ok && len(list) == len(sources), files, RuleSidecarRanks, "the %d rank files of %s", len(sources), s.merged.Path)
	ranks, _ := s.Root.Key("ranks").Object()
	for i, r := range sources {
		key := strconv.FormatInt(r, 10)
		at := s.Root.Key("ranks").Key(key)
		if !s.want(at.Present(), at, RuleSidecarRanks, "the result of rank %s", key) {
			continue
		}
		if i < len(list) {
			s.want(doc.Equal(at.Key("rank_file").Value(), list[i]), at.Key("rank_file"), RuleSidecarRanks, "%s as in rank_files", doc.Show(list[i]))
		}
		s.checkResult(at, scopeOf(engine, []int64{r}))
		s.checkSameReplies(at, merged)
	}
	if ranks != nil {
		for key := range ranks.All() {
			r, err := strconv.ParseInt(key, 10, 64)
			s.want(err == nil && slices.Contains(sources, r), s.Root.Key("ranks").Key(key), RuleSidecarRanks, "only ranks that were merged: %s", ranges(slices.Sorted(slices.Values(sources))))
		}
	}
}

// checkSameReplies: every result preserves every returned reply, so all results hold the same ones.
func (s *sidecar) checkSameReplies(result, merged doc.Node) {
	mine, theirs := result.Key("worker_probe").Key("responses"), merged.Key("worker_probe").Key("responses")
	if !mine.Present() || !theirs.Present() {
		return
	}
	a, b := mine.Items(), theirs.Items()
	if len(a) != len(b) {
		s.failFound(mine, RuleProbeResponses, doc.Show(doc.Number(len(a)))+" replies", "the %d replies of the merged result", len(b))
		return
	}
	for i := range a {
		if !doc.Equal(a[i].Key("response").Value(), b[i].Key("response").Value()) {
			s.fail(a[i].Key("response"), RuleProbeResponses, "%s as in the merged result", b[i].Key("response").Show())
		}
	}
}

// checkEmbeddedProbe judges probe results inside an engine block, where older versions wrote them.
func (a *artifact) checkEmbeddedProbe(engine doc.Node) {
	var ranks []int64
	if a.Kind == KindMerged {
		ranks, _ = ints(a.Root.Key("dp").Key("ranks"))
	} else if a.rankKnown {
		ranks = []int64{a.rank}
	}
	a.checkResult(engine, scopeOf(engine, ranks))
}

// checkResult recomputes one probe result from its replies and compares part by part.
func (c *checker) checkResult(n doc.Node, scope ProbeScope) {
	probe := n.Key("worker_probe")
	if !probe.Present() {
		c.note(probe, RuleProbeEvidence, "no replies", "the replies, without which the result cannot be recomputed")
		c.checkClaim(n)
		return
	}
	version, ok := probe.Key("schema_version").Int()
	c.want(ok && version == blockSchemaVersion, probe.Key("schema_version"), RuleProbeResponses, "%d", blockSchemaVersion)
	name, _ := probe.Key("scope").Text()
	c.want(name == probeScope, probe.Key("scope"), RuleProbeResponses, "%q", probeScope)
	_, ok = probe.Key("responses").Array()
	if !c.want(ok, probe.Key("responses"), RuleProbeResponses, "an array of replies") {
		return
	}
	replies := recordedReplies(probe.Key("responses"))
	result := Probe(replies, c.recordedFailure(probe.Key("error"), replies), scope)
	c.compareProbe(n, probe, result)
	c.noteIncomplete(n, result)
}

// recordedFailure is the failure that a result records, as far as one can take its word: a failed or skipped RPC leaves
// nothing else behind.
func (c *checker) recordedFailure(n doc.Node, replies []Reply) string {
	if n.IsNone() {
		return ""
	}
	s, ok := n.Text()
	if !c.want(ok && isFailure(s), n, RuleProbeError, "null, %q... or %q...", failedPrefix, skippedPrefix) {
		return ""
	}
	anyValid := slices.ContainsFunc(replies, func(r Reply) bool { return len(r.Issues) == 0 })
	if !c.want(s != noValidReplies || !anyValid, n, RuleProbeError, "null: there are valid replies") {
		return ""
	}
	return s
}

func (c *checker) compareProbe(n, probe doc.Node, want ProbeResult) {
	computed := doc.Root(want.Result())
	compare := func(at, should doc.Node, rule Rule) {
		if !doc.Equal(at.Value(), should.Value()) {
			place, other := firstDifference(at, should)
			c.fail(place, rule, "%s, recomputed from the replies", other.Show())
		}
	}
	wp := computed.Key("worker_probe")
	for i, entry := range probe.Key("responses").Items() {
		compare(entry.Key("rpc_index"), wp.Key("responses").At(i).Key("rpc_index"), RuleProbeResponses)
		compare(entry.Key("issues"), wp.Key("responses").At(i).Key("issues"), RuleProbeIssues)
	}
	cov, wantCov := probe.Key("coverage"), wp.Key("coverage")
	compare(cov.Key("observed_workers"), wantCov.Key("observed_workers"), RuleProbeObserved)
	for _, key := range []string{"scope", "expected_dp_ranks", "expected_workers_per_dp", "missing_dp_ranks", "complete"} {
		compare(cov.Key(key), wantCov.Key(key), RuleProbeCoverage)
	}
	compare(probe.Key("disagreements"), wp.Key("disagreements"), RuleProbeDisagree)
	if probe.Key("error").IsNone() {
		compare(probe.Key("error"), wp.Key("error"), RuleProbeError)
	}
	compare(n.Key("resolution"), computed.Key("resolution"), RuleProbeResolution)
	compare(n.Key("resolved"), computed.Key("resolved"), RuleProbeResolved)
	compare(n.Key("resolved_scope"), computed.Key("resolved_scope"), RuleProbeResolved)
	if want.Scope.HasAttention {
		for _, key := range []string{"backend_resolved", "mla_prefill_backend_resolved", "resolution"} {
			compare(n.Key("attention").Key(key), computed.Key("attention").Key(key), RuleProbeAttention)
		}
	}
}

// checkClaim judges a result without replies by what its own fields rule out.
func (c *checker) checkClaim(n doc.Node) {
	if at := n.Key("resolution"); at.Present() {
		s, _ := at.Text()
		known := []string{ResolutionComplete, ResolutionPartial, ResolutionMixed, ResolutionUnobserved}
		c.want(slices.Contains(known, s) || isFailure(s), at, RuleProbeResolution, "a resolution of a worker probe")
	}
	reply, scope := n.Key("resolved"), n.Key("resolved_scope")
	if !reply.Present() || !scope.Present() {
		return
	}
	s, _ := scope.Text()
	c.want(reply.IsNull() && scope.IsNull() || !reply.IsNull() && s == representativeScope, scope, RuleProbeResolved,
		"%q with a reply, null without one", representativeScope)
}

func (c *checker) noteIncomplete(n doc.Node, r ProbeResult) {
	at := n.Key("worker_probe").Key("coverage")
	switch {
	case r.Resolution == ResolutionMixed:
		c.note(at, RuleProbeIncomplete, "workers that disagree on "+doc.Show(texts(r.Disagreements)), "one configuration on all workers")
	case r.Failure != "":
		c.note(at, RuleProbeIncomplete, doc.Show(r.Failure), "replies of all workers")
	case !r.Complete && len(r.MissingRanks) > 0:
		c.note(at, RuleProbeIncomplete, "no valid reply of "+showRanks(r.MissingRanks), "replies of all workers; what is missing shows neither agreement nor disagreement")
	case !r.Complete:
		c.note(at, RuleProbeIncomplete, doc.Show(doc.Number(len(r.Observed)))+" valid replies", "replies of all workers, without issues")
	}
}

// belongsTo says whether the sidecar is the one of a merged artifact, by name.
func (s *sidecar) belongsTo(m *artifact) bool {
	if filepath.Clean(s.Path) == filepath.Clean(SidecarPath(m.Path)) {
		return true
	}
	path, _ := s.Root.Key("merged_output_path").Text()
	return path != "" && filepath.Base(path) == filepath.Base(m.Path) && filepath.Dir(s.Path) == filepath.Dir(m.Path)
}
