package benchmark

import (
	"strconv"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Placeholders that stay in the artifacts of a complete engine capture (Engine Provenance): what the workers resolved is in
// the sidecar only.
const (
	resolutionPending = "pending_worker_probe"
	graphPending      = "pre_resolution"
)

// missingEngine is what the merged artifact records for a rank without an engine block.
const missingEngine = "missing engine block"

func (a *artifact) engine() doc.Node { return a.Root.Key("engine") }

// engineError says why a rank's engine block takes no part in the comparison, "" when it does.
func engineError(engine doc.Node) string {
	if _, ok := engine.Object(); !ok {
		return missingEngine
	}
	failed := engine.Key("capture_error")
	if !failed.Present() {
		return ""
	}
	if s, ok := failed.Text(); ok {
		return s
	}
	return failed.Show()
}

// engineIdentity is the part of an engine block that all ranks of a run share: all but the rank's own number and what is
// recorded after the run (Engine Provenance, last item).
func engineIdentity(engine *doc.Object) *doc.Object {
	id := doc.Clone(engine).(*doc.Object)
	for _, key := range []string{"resolved", "resolved_scope", "resolution", "worker_probe"} {
		id.Delete(key)
	}
	if attention, ok := object(id, "attention"); ok {
		for _, key := range []string{"backend_resolved", "mla_prefill_backend_resolved", "resolution"} {
			attention.Delete(key)
		}
	}
	if parallel, ok := object(id, "parallel"); ok {
		parallel.Delete("data_parallel_rank")
	}
	return id
}

func object(o *doc.Object, key string) (*doc.Object, bool) {
	v, _ := o.Get(key)
	child, ok := v.(*doc.Object)
	return child, ok
}

// checkEngine judges the engine block of one artifact.
func (a *artifact) checkEngine() {
	e := a.engine()
	if e.IsNone() {
		if a.Kind == KindMerged {
			a.note(e, RuleEngineAbsent, "no engine block", "an engine block; without one nothing says what was measured")
		}
		return
	}
	if _, ok := e.Object(); !a.want(ok, e, RuleEngine, "an object") {
		return
	}
	for _, key := range []string{"attention", "kv_cache", "quantization", "scheduler", "model", "parallel", "speculative", "graph", "versions"} {
		_, ok := e.Key(key).Object()
		a.want(ok || e.Key(key).IsNone(), e.Key(key), RuleEngine, "an object or null")
	}
	a.checkEngineRank(e)
	if failed := e.Key("capture_error"); failed.Present() {
		a.note(failed, RuleEngineDegraded, failed.Show(), "a complete engine capture")
		return
	}
	if graph := e.Key("graph").Key("resolution"); graph.Present() {
		a.wantText(graph, RuleEngine, graphPending)
	}
	if probe := e.Key("worker_probe"); probe.Present() {
		a.checkEmbeddedProbe(e)
		return
	}
	if merged, _ := e.Object(); a.Kind == KindMerged && merged.Len() == 1 && e.Key("capture_errors").Present() {
		return // no rank captured its engine
	}
	a.wantText(e.Key("resolution"), RuleEngine, resolutionPending)
	a.want(e.Key("resolved").IsNone(), e.Key("resolved"), RuleEngine, "null: the worker probe's results are in the sidecar")
	if attention := e.Key("attention"); !attention.IsNone() {
		a.wantText(attention.Key("resolution"), RuleEngine, resolutionPending)
		for _, key := range []string{"backend_resolved", "mla_prefill_backend_resolved"} {
			a.want(attention.Key(key).IsNone(), attention.Key(key), RuleEngine, "null: the worker probe's results are in the sidecar")
		}
	}
}

func (a *artifact) checkEngineRank(e doc.Node) {
	at := e.Key("parallel").Key("data_parallel_rank")
	if a.Kind == KindMerged {
		a.want(at.IsNone(), at, RuleMergedEngine, "null: the block describes every rank")
		errs, ok := e.Key("capture_errors").Object()
		if !a.want(ok || e.Key("capture_errors").IsNone(), e.Key("capture_errors"), RuleMergedEngine, "an object by rank") || !ok {
			return
		}
		for key := range errs.All() {
			rank, err := strconv.ParseInt(key, 10, 64)
			a.want(err == nil && rank >= 0 && (!a.sizeKnown || rank < a.size), e.Key("capture_errors").Key(key), RuleMergedEngine, "ranks of the run as keys")
			a.note(e.Key("capture_errors").Key(key), RuleEngineDegraded, e.Key("capture_errors").Key(key).Show(), "a complete engine capture on rank %s", key)
		}
		return
	}
	// A dense model's engines all believe to be rank 0 in some versions, so a difference is no error.
	if rank, ok := at.Int(); ok && a.rankKnown && rank != a.rank {
		a.note(at, RuleEngineRank, at.Show(), "%d as dp.rank", a.rank)
	}
}

// checkSameEngine compares the engine blocks of the ranks of a run.
func checkSameEngine(ranks []*artifact) {
	if len(ranks) == 0 {
		return
	}
	var ref *artifact
	anyEngine := false
	for _, a := range ranks {
		_, ok := a.engine().Object()
		anyEngine = anyEngine || ok
		if ref == nil && engineError(a.engine()) == "" {
			ref = a
		}
	}
	if !anyEngine {
		ranks[0].note(ranks[0].engine(), RuleEngineAbsent, "no engine block", "an engine block; without one nothing says what was measured")
		return
	}
	for _, a := range ranks {
		mine, ok := a.engine().Object()
		if !ok {
			a.note(a.engine(), RuleEngineDegraded, missingEngine, "an engine block as other ranks have one")
			continue
		}
		if ref == nil || a == ref || engineError(a.engine()) != "" {
			continue
		}
		theirs, _ := ref.engine().Object()
		left, right := doc.Root(engineIdentity(mine)), doc.Root(engineIdentity(theirs))
		if !doc.Equal(left.Value(), right.Value()) {
			at, other := firstDifference(doc.Root(doc.NewObject("engine", left.Value())), doc.Root(doc.NewObject("engine", right.Value())))
			a.fail(at, RuleEngineIdentity, "%s as in %s: the ranks of a run share one engine configuration", other.Show(), ref.Path)
		}
	}
}
