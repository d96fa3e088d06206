package benchmark

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Resolutions of a worker probe (Worker Probe Coverage). A failed or skipped probe has a text of its own instead, which
// starts with one of the two prefixes.
const (
	ResolutionComplete   = "worker_probe"
	ResolutionPartial    = "worker_probe_partial"
	ResolutionMixed      = "worker_probe_mixed"
	ResolutionUnobserved = "worker_probe_unobserved"

	failedPrefix  = "probe_failed: "
	skippedPrefix = "probe_skipped: "
	// noValidReplies is the failure of a probe whose every reply is malformed, or that got none.
	noValidReplies = failedPrefix + "no valid worker probe responses"
)

// Fields of the probe that its replies and its results share.
const (
	probeScope          = "post_collection_collective_rpc"
	coverageScope       = "artifact_workers"
	representativeScope = "representative_worker"
)

// ProbeScope is the workers that a probe result describes.
type ProbeScope struct {
	Ranks        []int64 // data-parallel ranks; nil when unknown
	TP, PCP, PP  int64   // sizes of tensor, prefill-context and pipeline parallelism; meaningful when SizesKnown
	SizesKnown   bool
	HasAttention bool // the engine block has an attention sub-block, so the result has summaries of it
}

// workersPerRank is the number of model workers of one data-parallel rank.
func (s ProbeScope) workersPerRank() int64 { return s.TP * s.PCP * s.PP }

// scopeOf reads the parallel sizes of an engine block.
func scopeOf(engine doc.Node, ranks []int64) ProbeScope {
	s := ProbeScope{Ranks: ranks, SizesKnown: true}
	p := engine.Key("parallel")
	for key, size := range map[string]*int64{
		"tensor_parallel_size": &s.TP, "prefill_context_parallel_size": &s.PCP, "pipeline_parallel_size": &s.PP,
	} {
		v, ok := p.Key(key).Int()
		s.SizesKnown = s.SizesKnown && ok && v >= 1 && v <= maxDPSize
		*size = v
	}
	_, s.HasAttention = engine.Key("attention").Object()
	return s
}

// ProbeResult is what the replies of a worker probe show of the workers in a scope.
type ProbeResult struct {
	Scope         ProbeScope
	Replies       []Reply // every reply, with the issues it has in this scope
	Observed      []*doc.Object
	MissingRanks  []int64 // nil when the ranks are unknown
	Complete      bool
	Disagreements []string
	Failure       string // why the probe as a whole has no result, "" otherwise
	Resolution    string

	Backend             any // the one attention backend over all observed layers, or nil
	MLAPrefillBackend   any // the one prefill backend, or nil
	AttentionResolution string
}

// Probe recomputes a probe result from the replies (Worker Probe Coverage). A failure of the probe as a whole is passed in;
// one that follows from the replies is found.
func Probe(replies []Reply, failure string, scope ProbeScope) ProbeResult {
	if failure == "" && !slices.ContainsFunc(replies, func(r Reply) bool { return len(r.Issues) == 0 }) {
		failure = noValidReplies
	}
	r := ProbeResult{Scope: scope, Failure: failure}
	r.observe(replies)
	r.cover()
	r.Disagreements = disagreements(r.Observed)
	switch {
	case failure != "":
		r.Resolution = failure
	case len(r.Observed) == 0:
		r.Resolution = ResolutionUnobserved
	case len(r.Disagreements) > 0:
		r.Resolution = ResolutionMixed
	case r.Complete:
		r.Resolution = ResolutionComplete
	default:
		r.Resolution = ResolutionPartial
	}
	r.summarizeAttention()
	return r
}

// observe finds the valid replies in scope. The replies are copied: their issues depend on the scope.
func (r *ProbeResult) observe(replies []Reply) {
	slots := map[worker][]int{}
	inScope := make([]bool, len(replies))
	for i, reply := range replies {
		reply.Issues = slices.Clone(reply.Issues)
		r.Replies = append(r.Replies, reply)
		if len(reply.Issues) > 0 {
			continue
		}
		at := doc.Root(reply.Response)
		rank, _ := at.Key("dp_rank").Int()
		if r.Scope.Ranks != nil && !slices.Contains(r.Scope.Ranks, rank) {
			continue
		}
		inScope[i] = true
		if !r.Scope.SizesKnown {
			continue
		}
		slot, ok := r.Scope.slot(at)
		if !ok {
			r.Replies[i].Issues = append(r.Replies[i].Issues, issueTopology)
			continue
		}
		slots[slot] = append(slots[slot], i)
	}
	for _, same := range slots {
		for _, i := range same {
			if len(same) > 1 {
				r.Replies[i].Issues = append(r.Replies[i].Issues, issueDuplicateSlot)
			}
		}
	}
	for i, reply := range r.Replies {
		if inScope[i] && len(reply.Issues) == 0 {
			r.Observed = append(r.Observed, reply.Response.(*doc.Object))
		}
	}
}

func (r *ProbeResult) cover() {
	seen := map[int64]bool{}
	failedLayers := false
	for _, o := range r.Observed {
		rank, _ := doc.Root(o).Key("dp_rank").Int()
		seen[rank] = true
		failedLayers = failedLayers || truthy(doc.Root(o).Key("capture_errors"))
	}
	if r.Scope.Ranks == nil {
		return
	}
	r.MissingRanks = []int64{}
	for _, rank := range slices.Sorted(slices.Values(r.Scope.Ranks)) {
		if !seen[rank] {
			r.MissingRanks = append(r.MissingRanks, rank)
		}
	}
	// An issue of any reply spoils completeness, also one of another rank: it could have been the missing worker's.
	r.Complete = r.Scope.SizesKnown && int64(len(r.Observed)) == int64(len(r.Scope.Ranks))*r.Scope.workersPerRank() &&
		!failedLayers && !slices.ContainsFunc(r.Replies, func(p Reply) bool { return len(p.Issues) > 0 })
}

// disagreements names the settings in which observed workers differ. A layer counts only where several workers saw it:
// pipeline stages own different layers.
func disagreements(observed []*doc.Object) []string {
	out := []string{}
	layers := map[string]string{}
	layersDiffer := false
	for _, o := range observed {
		backends, _ := object(o, "attention_backends")
		for layer, name := range backends.All() {
			s, _ := name.(string)
			if other, ok := layers[layer]; ok && other != s {
				layersDiffer = true
			}
			layers[layer] = s
		}
	}
	if layersDiffer {
		out = append(out, "attention_backends")
	}
	for _, field := range []string{"mla_prefill_backend", "cudagraph_mode_resolved", "cudagraph_capture_sizes_resolved"} {
		var first any
		for _, o := range observed {
			v, _ := o.Get(field)
			if v == nil {
				continue
			}
			if first != nil && !doc.Equal(first, v) {
				out = append(out, field)
				break
			}
			first = v
		}
	}
	return out
}

func (r *ProbeResult) summarizeAttention() {
	var names []any
	var prefill []any
	add := func(set []any, v any) []any {
		if slices.ContainsFunc(set, func(x any) bool { return doc.Equal(x, v) }) {
			return set
		}
		return append(set, v)
	}
	for _, o := range r.Observed {
		backends, _ := object(o, "attention_backends")
		for _, name := range backends.All() {
			names = add(names, name)
		}
		// A worker without an MLA backend counts here, unlike in the disagreements: one name and one null give null.
		v, _ := o.Get("mla_prefill_backend")
		prefill = add(prefill, v)
	}
	if len(names) == 1 {
		r.Backend = names[0]
	}
	if len(prefill) == 1 {
		r.MLAPrefillBackend = prefill[0]
	}
	r.AttentionResolution = r.Resolution
	if len(names) > 1 {
		r.AttentionResolution = ResolutionMixed
	}
}

// resolved is the representative reply and its label, nil and nil without one.
func (r ProbeResult) resolved() (reply, scope any) {
	if len(r.Observed) == 0 {
		return nil, nil
	}
	return doc.Clone(r.Observed[0]), representativeScope
}

// WorkerProbe renders the worker_probe block of the result.
func (r ProbeResult) WorkerProbe() *doc.Object {
	responses := []any{}
	for i, reply := range r.Replies {
		responses = append(responses, doc.NewObject("rpc_index", doc.Number(i), "response", reply.Response, "issues", texts(reply.Issues)))
	}
	var failure any
	if r.Failure != "" {
		failure = r.Failure
	}
	return doc.NewObject("schema_version", doc.Number(blockSchemaVersion), "scope", probeScope, "responses", responses,
		"coverage", r.coverage(), "disagreements", texts(r.Disagreements), "error", failure)
}

func (r ProbeResult) coverage() *doc.Object {
	var perRank any
	if r.Scope.SizesKnown {
		perRank = doc.Number(r.Scope.workersPerRank())
	}
	observed := []any{}
	for _, o := range r.Observed {
		w := doc.NewObject()
		for _, key := range []string{"dp_rank", "worker_rank", "tp_rank", "pp_rank", "pcp_rank"} {
			v, _ := o.Get(key)
			w.Set(key, v)
		}
		observed = append(observed, w)
	}
	return doc.NewObject("scope", coverageScope, "expected_dp_ranks", numbers(r.Scope.Ranks), "expected_workers_per_dp", perRank,
		"observed_workers", observed, "missing_dp_ranks", numbers(r.MissingRanks), "complete", r.Complete)
}

// Result renders the probe result as the sidecar holds it.
func (r ProbeResult) Result() *doc.Object {
	reply, scope := r.resolved()
	o := doc.NewObject("resolved", reply, "resolved_scope", scope, "resolution", r.Resolution, "worker_probe", r.WorkerProbe())
	if r.Scope.HasAttention {
		o.Set("attention", doc.NewObject("backend_resolved", r.Backend, "mla_prefill_backend_resolved", r.MLAPrefillBackend,
			"resolution", r.AttentionResolution))
	}
	return o
}

// ApplyProbe puts a probe result into an engine block, as Dynamo's get_perf_metrics endpoint serves it: the result's fields
// replace the placeholders.
func ApplyProbe(engine, result *doc.Object) {
	for _, key := range []string{"resolved", "resolved_scope", "resolution", "worker_probe"} {
		if v, ok := result.Get(key); ok {
			engine.Set(key, doc.Clone(v))
		}
	}
	attention, ok := object(engine, "attention")
	summary, has := object(result, "attention")
	if !ok || !has {
		return
	}
	for key, v := range summary.All() {
		attention.Set(key, doc.Clone(v))
	}
}

// numbers renders ranks, null when they are unknown.
func numbers(list []int64) any {
	if list == nil {
		return nil
	}
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = doc.Number(v)
	}
	return out
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// truthy is what the producer's language counts as true.
func truthy(n doc.Node) bool {
	switch v := n.Value().(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f, ok := doc.Float(v)
		return !ok || f != 0
	case []any:
		return len(v) > 0
	case *doc.Object:
		return v.Len() > 0
	}
	return true
}

// isFailure says whether a text is a probe's failure or skip reason.
func isFailure(s string) bool {
	return strings.HasPrefix(s, failedPrefix) || strings.HasPrefix(s, skippedPrefix)
}
